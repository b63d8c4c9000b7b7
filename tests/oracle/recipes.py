"""What an operator needs to run: a recipe for each of about 120 operator types.

A recipe is a generator. It yields the blobs that it wants, one an input, and is
sent the array that was found or made for each, so that later wishes can depend
on earlier arrays. It returns the number of outputs and the arguments:

    def fully_connected(rng):
        x = yield Want(rank=2)
        yield Want(shape=(2, x.shape[1]))
        yield Want(shape=(2,))
        return 1, {}
"""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Callable, Optional

import numpy as np

Recipe = Callable[[random.Random], Generator["Want", np.ndarray, tuple[int, dict]]]

RECIPES: dict[str, Recipe] = {}

# Outputs that have no gradient, or one that the maker ignores: nothing may use them.
UNSEEN = {
    "SoftmaxWithLoss": {0},
    "LayerNorm": {1, 2},
    "InstanceNorm": {1, 2},
    "TopK": {1},
    "Concat": {1},
    "Reshape": {1},
}

# Operators whose gradient operators are wrong for some values, whoever asks for them.
PICKY = {
    "Max",
    "Min",
    "ReduceFrontMax",
    "ReduceBackMax",
    "RowwiseMax",
    "ColwiseMax",
    "ReduceMax",
    "ReduceMin",
    "MaxPool",
    "LengthsMax",
    "TopK",
    "LabelCrossEntropy",
    "CrossEntropy",
}

FLOAT, DOUBLE = 1, 13


def sign_lost(kind: str, inputs: Sequence[str], outputs: Sequence[str], args: dict) -> bool:
    """Whether the gradient is computed from a power that does not tell the sign of its base."""
    return kind == "Pow" and outputs[0] in inputs and args.get("exponent") in (2.0, 3.0)


def unfit(kind: str, inputs: Sequence[np.ndarray]) -> bool:
    """Whether these are such values: elements that compete and are equal (each gets the
    whole gradient), or no probabilities. Max and Min compare their inputs."""
    if kind in ("Max", "Min"):
        return any((a == b).any() for a, b in combinations(inputs, 2))
    if kind in ("LabelCrossEntropy", "CrossEntropy"):
        return float(inputs[0].min()) < 0.02
    return kind in PICKY and np.unique(inputs[0]).size < inputs[0].size


@dataclass
class Want:
    """A blob that an operator asks for: floats within limits, or exactly `exact`.

    `constant`: the operator has no gradient for this input by design, so it gets
    a blob of its own, which is never moved. `leaf`: rather a blob that no operator
    makes; the gradient of a looked-up table is sparse, which few operators take.
    """

    rank: Optional[int] = None
    shape: Optional[Sequence[int]] = None
    low: float = -4.0
    high: float = 4.0
    exact: Optional[np.ndarray] = None
    constant: bool = False
    leaf: bool = False
    dtypes: tuple[type, ...] = (np.float32,)

    def fits(self, array: np.ndarray) -> bool:
        if self.exact is not None:
            return (
                array.dtype == self.exact.dtype
                and array.shape == self.exact.shape
                and bool((array == self.exact).all())
            )
        return (
            array.dtype in self.dtypes
            and array.size > 0
            and (self.rank is None or array.ndim == self.rank)
            and (self.shape is None or array.shape == tuple(self.shape))
            and float(array.min()) > self.low
            and float(array.max()) < self.high
        )

    def make(self, rng: random.Random) -> np.ndarray:
        if self.exact is not None:
            return self.exact
        shape = self.shape
        if shape is None:
            shape = {
                0: (),
                1: (3,),
                2: rng.choice([(2, 3), (2, 2), (3, 2)]),
                3: (2, 2, 2),
                4: (1, 2, 2, 2),
            }[self.rank or rng.choice([1, 1, 2])]
        size = int(np.prod(shape))
        low, high = max(self.low, -1.5), min(self.high, 1.5)
        if low < 0 < high:  # stay away from zero, where many slopes jump
            sign = [rng.choice([1, 1, -1]) for _ in range(size)]
            flat = [s * rng.uniform(0.2, high if s > 0 else -low) for s in sign]
        else:
            room = (high - low) / 10
            flat = [rng.uniform(low + room, high - room) for _ in range(size)]
        return np.array([round(v, 3) for v in flat], np.float32).reshape(shape)


def ints(*values, dtype=np.int32) -> Want:
    return Want(exact=np.array(values, dtype))


def recipe(*types: str):
    def register(function: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(types, function))
        return function

    return register


def drawn(rng: random.Random, args: dict) -> dict:
    """Each argument whose value is a list of choices gets one of them."""
    return {k: rng.choice(v) if isinstance(v, list) else v for k, v in args.items()}


def unary(types: str, outputs: int = 1, args: Optional[dict] = None, **want) -> None:
    def one(rng):
        yield Want(**want)
        return outputs, drawn(rng, args or {})

    recipe(*types.split())(one)


def alike(
    types: str, counts: list[int], args: Optional[dict] = None, low=-4.0, high=4.0, rank=None
) -> None:
    """Inputs of one shape."""

    def several(rng):
        first = yield Want(rank=rank, low=low, high=high)
        for _ in range(rng.choice(counts) - 1):
            yield Want(shape=first.shape, low=low, high=high)
        return 1, drawn(rng, args or {})

    recipe(*types.split())(several)


# ------------------------------------------------------------- element by element

unary(
    "Sigmoid Tanh Sin Cos Softplus Softsign Swish Gelu Erf Atan Relu LeakyRelu Elu Selu "
    "Negative Abs Copy Alias EnsureDense NanCheck AveragedLoss StopGradient"
)
unary("ConstantFill", args={"value": 0.25})
unary("Exp Sqr Cube Sinh Cosh", low=-2, high=2)
unary("Tan Asin Acos", low=-0.8, high=0.8)
unary("Sqrt Log Log1p Rsqrt Reciprocal", low=0.2)
unary("Logit", low=0.05, high=0.95, rank=1)  # of a scalar, its gradient operator crashes
unary("Cbrt", low=0.1)
unary("Scale", args={"scale": [0.5, -1.0, 2.0, 3.0]})
unary("Clip", args={"min": [-0.9], "max": [0.7]})
unary("HardSigmoid ReluN", args={"n": 1.3})
unary("ThresholdedRelu", args={"alpha": 0.5})
unary("Dropout", args={"is_test": 1, "ratio": 0.5})
unary("ZeroGradient", outputs=0)
alike("Add Sub Mul", [2])
alike("Div", [2], low=0.2)
alike("Sum", [1, 2, 2, 3])
alike("Max Min Mean", [1, 2, 3])


@recipe("Pow")
def power_of_blobs(rng):
    base = yield Want(low=0.2, high=3)
    if rng.random() < 0.2:
        yield Want(shape=base.shape, low=-2, high=2)
        return 1, {}
    return 1, {"exponent": rng.choice([0.5, 1.5, 2.0, 3.0, -1.0])}


@recipe("Add", "Sub", "Mul")
def broadcast(rng):
    first = yield Want()
    if first.ndim == 2 and rng.random() < 0.3:
        yield Want(shape=first.shape[1:])
        return 1, rng.choice([{}, {"broadcast": 1}])
    yield Want(shape=first.shape)
    return 1, {}


@recipe("Cast")
def cast(rng):
    x = yield Want(dtypes=(np.float32, np.float64))  # a double can only be cast back
    to, back = (FLOAT, DOUBLE) if x.dtype == np.float64 else (DOUBLE, FLOAT)
    return 1, {"to": to, "from_type": back}


@recipe("PRelu")
def prelu(rng):
    x = yield Want(rank=2)
    yield Want(shape=(x.shape[1],))
    return 1, {}


@recipe("WeightedSum")
def weighted_sum(rng):
    learn = rng.random() < 0.5
    first = yield Want()
    yield Want(shape=(1,), constant=not learn)
    for _ in range(rng.choice([0, 1, 1, 2])):
        yield Want(shape=first.shape)
        yield Want(shape=(1,), constant=not learn)
    return 1, {"grad_on_w": 1} if learn else {}


@recipe("ElementwiseLinear")
def elementwise_linear(rng):
    x = yield Want(rank=2)
    yield Want(shape=x.shape[1:])
    yield Want(shape=x.shape[1:])
    return 1, {}


@recipe("RowMul")
def row_mul(rng):
    x = yield Want(rank=2)
    yield Want(shape=x.shape[:1])
    return 1, {}


# ------------------------------------------------------------------- linear algebra


@recipe("FC")
def fully_connected(rng):
    x = yield Want(rank=2)
    n = rng.choice([x.shape[1], 2, 3])
    yield Want(shape=(n, x.shape[1]))
    yield Want(shape=(n,))
    return 1, {}


@recipe("FCTransposed")
def fully_connected_transposed(rng):
    x = yield Want(rank=2)
    n = rng.choice([x.shape[1], 2])
    yield Want(shape=(x.shape[1], n))
    yield Want(shape=(n,))
    return 1, {}


@recipe("MatMul")
def mat_mul(rng):
    a = yield Want(rank=2)
    trans_a, trans_b = rng.choice([0, 0, 1]), rng.choice([0, 0, 1])
    inner = a.shape[0] if trans_a else a.shape[1]
    yield Want(shape=(2, inner) if trans_b else (inner, 2))
    return 1, {k: v for k, v in (("trans_a", trans_a), ("trans_b", trans_b)) if v}


@recipe("BatchMatMul")
def batch_mat_mul(rng):
    a = yield Want(rank=3)
    yield Want(shape=(a.shape[0], a.shape[2], 2))
    return 1, {}


alike("DotProduct CosineSimilarity SquaredL2Distance L1Distance", [2], rank=2)


# -------------------------------------------------------------------------- shapes


@recipe("Reshape")
def reshape(rng):
    yield Want(rank=rng.choice([1, 2]))  # the way back to a scalar is closed
    return 2, {"shape": rng.choice([(-1,), (1, -1), (-1, 1)])}


unary("Flatten FlattenToVec", rank=2)
unary("ExpandDims", args={"dims": [(0,), (1,)]}, rank=1)
unary("PrependDim", args={"dim_size": [1]}, rank=2)
unary("Transpose", args={"axes": [(1, 0)]}, rank=2)
unary("Tile", args={"tiles": [1, 2], "axis": [0]})
unary("PadImage", args={"pad_t": [0, 1], "pad_l": [1], "mode": ["constant", "reflect"]}, rank=4)
unary("NCHW2NHWC NHWC2NCHW", rank=4)
unary("ChannelShuffle", args={"group": 2, "kernel": 1}, rank=4)
unary("ResizeNearest", args={"width_scale": 2.0, "height_scale": 2.0}, rank=4)
unary("SpaceToBatch", args={"block_size": 2}, rank=4)


@recipe("Expand")
def expand(rng):
    yield Want(shape=(3,))
    yield ints(2, 3, dtype=np.int64)
    return 1, {}


@recipe("Squeeze")
def squeeze(rng):
    yield Want(shape=(1, rng.choice([2, 3])))
    return 1, {"dims": (0,)}


@recipe("Slice")
def slice_rows(rng):
    x = yield Want()
    if x.ndim == 1:
        return 1, {"starts": (1,), "ends": (-1,)}
    return 1, {"starts": (0,) * x.ndim, "ends": (-1,) * (x.ndim - 1) + (2,)}


@recipe("Concat")
def concat(rng):
    first = yield Want()
    for _ in range(rng.choice([0, 1, 1, 2])):
        yield Want(shape=first.shape)
    return 2, rng.choice([{"axis": 0}, {"axis": first.ndim - 1}, {"axis": 0, "add_axis": 1}])


@recipe("Split")
def split(rng):
    x = yield Want(rank=rng.choice([1, 2]))
    axis = rng.choice(range(x.ndim))
    n = x.shape[axis]
    if n == 3 and rng.random() < 0.5:
        return 2, {"axis": axis, "split": (1, 2)}
    return n, {"axis": axis}


@recipe("TopK")
def top_k(rng):
    yield Want(rank=rng.choice([1, 2]))
    return 2, {"k": 2}


# ---------------------------------------------------------------------- reductions

unary(
    "ReduceFrontSum ReduceFrontMean ReduceFrontMax ReduceBackSum ReduceBackMean ReduceBackMax",
    rank=2,
)
unary("RowwiseMax ColwiseMax", rank=3)
unary(
    "ReduceL1 ReduceL2 ReduceMax ReduceMin", args={"axes": [(0,), (1,)], "keepdims": [0, 1]}, rank=2
)
unary("ReduceSum ReduceMean", args={"axes": [(0,)], "keepdims": [0, 1]})
unary("SumElements", args={"average": [0, 1]})
unary("LpNorm", args={"p": [1, 2]})
unary("Moments", outputs=2, args={"axes": [(0,)]}, rank=2)


# ------------------------------------------------------ normalization and neighbours

unary("Softmax", rank=2)
unary("Normalize", rank=2)
unary("MakeTwoClass", rank=1, low=0.05, high=0.95)
unary("LRN", args={"size": 3, "alpha": 0.1, "beta": 0.75}, rank=4)
unary("MaxPool AveragePool LpPool", args={"kernel": 2, "stride": 1}, rank=4)


@recipe("LayerNorm")
def layer_norm(rng):
    x = yield Want(rank=2)
    if rng.random() < 0.4:
        yield Want(shape=x.shape[1:])
        yield Want(shape=x.shape[1:])
        return 3, {"axis": 1, "epsilon": 0.1, "elementwise_affine": 1}
    return 3, {"axis": 1, "epsilon": 0.1}


@recipe("Conv")
def convolution(rng):
    x = yield Want(rank=4)
    channels = x.shape[1]
    kernel = rng.choice([1, 2])
    yield Want(shape=(2, channels, kernel, kernel))
    if rng.random() < 0.6:
        yield Want(shape=(2,))
    return 1, {"kernel": kernel, "pad": kernel - 1}


@recipe("InstanceNorm")
def instance_norm(rng):
    x = yield Want(rank=4)
    yield Want(shape=(x.shape[1],))
    yield Want(shape=(x.shape[1],))
    return rng.choice([1, 3]), {"epsilon": 0.1}


@recipe("AffineChannel")
def affine_channel(rng):
    x = yield Want(rank=4)
    yield Want(shape=(x.shape[1],))
    yield Want(shape=(x.shape[1],))
    return 1, {"is_learnable": 1}


# -------------------------------------------------------------------------- losses


@recipe("SigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(rng):
    x = yield Want(rank=2)
    yield Want(exact=(np.arange(x.size).reshape(x.shape) % 2).astype(np.float32), constant=True)
    return 1, {}


@recipe("LabelCrossEntropy")
def label_cross_entropy(rng):
    x = yield Want(rank=2, low=0.05)
    yield ints(*[rng.randrange(x.shape[1]) for _ in range(len(x))])
    return 1, {}


@recipe("CrossEntropy")
def cross_entropy(rng):
    x = yield Want(rank=2, low=0.05)
    yield Want(exact=np.full(x.shape, 0.5, np.float32), constant=True)
    return 1, {}


@recipe("SoftmaxWithLoss")
def softmax_with_loss(rng):
    x = yield Want(rank=2)
    yield ints(*[rng.randrange(x.shape[1]) for _ in range(len(x))])
    return 2, {}


@recipe("MarginRankingCriterion")
def margin_ranking(rng):
    x = yield Want(rank=1)
    yield Want(shape=x.shape)
    yield ints(*[rng.choice([-1, 1]) for _ in x])
    return 1, {"margin": 0.3}


# ------------------------------------------------------------- rows, sparse gradients


def row_numbers(rng, table, count) -> Want:
    return ints(*[rng.randrange(len(table)) for _ in range(count)])


def lengths_of(rng, count) -> Want:
    first = rng.randint(1, count)
    return ints(first, count - first)


@recipe("Gather")
def gather(rng):
    table = yield Want(rank=rng.choice([1, 2]), leaf=True)
    yield row_numbers(rng, table, rng.choice([2, 3]))
    return 1, {} if rng.random() < 0.8 else {"dense_gradient": 1}


@recipe("SparseLengthsSum", "SparseLengthsMean")
def sparse_lengths(rng):
    table = yield Want(rank=2, leaf=True)
    count = rng.choice([2, 3])
    rows = yield row_numbers(rng, table, count)
    yield lengths_of(rng, len(rows))
    return 1, {}


@recipe("SparseLengthsWeightedSum")
def sparse_lengths_weighted(rng):
    table = yield Want(rank=2, leaf=True)
    count = rng.choice([2, 3])
    learn = rng.random() < 0.5
    yield Want(shape=(count,), constant=not learn)
    yield row_numbers(rng, table, count)
    yield lengths_of(rng, count)
    return 1, {"grad_on_weights": 1} if learn else {}


@recipe("LengthsSum", "LengthsMean", "LengthsMax")
def lengths(rng):
    x = yield Want(rank=2)
    yield lengths_of(rng, len(x))
    return 1, {}


@recipe("LengthsTile")
def lengths_tile(rng):
    x = yield Want(rank=rng.choice([1, 2]))
    yield ints(*[rng.choice([1, 2]) for _ in range(len(x))])
    return 1, {}


@recipe("SortedSegmentSum", "SortedSegmentMean", "UnsortedSegmentSum")
def segments(rng):
    x = yield Want(rank=rng.choice([1, 2]))
    yield ints(*([0] + [1] * (len(x) - 1)))
    return 1, {}


@recipe("SparseSortedSegmentSum", "SparseUnsortedSegmentSum")
def sparse_segments(rng):
    table = yield Want(rank=2, leaf=True)
    count = rng.choice([2, 3])
    yield row_numbers(rng, table, count)
    yield ints(*([0] + [1] * (count - 1)))
    return 1, {}


@recipe("SparseToDense")
def scatter(rng):
    rows = yield ints(*rng.choice([(0, 2), (2, 1), (1, 1)]))
    values = yield Want(shape=rng.choice([(len(rows),), (len(rows), 2)]))
    yield Want(shape=(3, *values.shape[1:]))
    return 1, {}


@recipe("BatchGather")
def batch_gather(rng):
    x = yield Want(rank=2)
    yield ints(*[rng.randrange(x.shape[1]) for _ in range(2)])
    return 1, {}


@recipe("BooleanMask")
def boolean_mask(rng):
    x = yield Want(rank=1)  # with rows, its gradient operator is wrong
    yield Want(exact=np.array([True] + [rng.random() < 0.6 for _ in range(len(x) - 1)]))
    return 1, {}


@recipe("ReversePackedSegs")
def reverse_packed(rng):
    x = yield Want(rank=3)
    yield ints(*[rng.randint(1, x.shape[0]) for _ in range(x.shape[1])])
    return 1, {}


@recipe("PackSegments")
def pack(rng):
    yield ints(2, 1)
    yield Want(shape=(3, 2))
    return 1, {}
