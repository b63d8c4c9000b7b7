"""The models that are trained, as Caffe2's own builders make them.

A model is a function under `@model` that returns a `Model`. Shapes are small: a step takes
milliseconds. Targets are random and few, so that every model can learn them by heart.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import numpy as np
from caffe2.python import brew, core, gru_cell, model_helper, rnn_cell
from caffe2.python.models.resnet import ResNetBuilder
from caffe2.python.models.seq2seq import seq2seq_util
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from caffe2.python.net_builder import NetBuilder, ops


@dataclass
class Model:
    """init: fills the parameters. net: the forward pass, up to a blob called loss. batches: what is
    fed, step by step in turn. helper: the model helper that has made the net, if one has."""

    init: core.Net
    net: core.Net
    params: list[str]
    batches: list[dict[str, np.ndarray]]
    helper: Any = None


@dataclass
class Recipe:
    """build: makes the model. rate: of learning. seed, spread: of the numbers that parameters start
    with. kinks: whether the loss has some (Relu, MaxPool). fault: a pattern for what is wrong with
    the reference's gradients; None where they are right."""

    build: Callable[[], Model]
    control_flow: str = ""
    rate: float = 0.1
    seed: int = 9
    spread: float = 0.5
    kinks: bool = False
    fault: Optional[str] = None


MODELS: dict[str, Recipe] = {}


def model(control_flow: str = "", **options):
    def register(build: Callable[[], Model]) -> Callable[[], Model]:
        MODELS[build.__name__] = Recipe(build, control_flow, **options)
        return build

    return register


# --------------------------------------------------------------------------- inputs


@dataclass
class Draw:
    """Random inputs: the same in every process."""

    rng: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(11))

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def ints(self, below: int, *shape: int) -> np.ndarray:
        return self.rng.randint(0, below, shape).astype(np.int32)

    def bits(self, *shape: int) -> np.ndarray:
        return self.ints(2, *shape).astype(np.float32)


def several(batch: Callable[[Draw, int], dict[str, np.ndarray]], count: int = 2):
    """So many batches."""
    draw = Draw()
    return [batch(draw, number) for number in range(count)]


def of_helper(helper, batches) -> Model:
    return Model(helper.param_init_net, helper.net, list(map(str, helper.params)), batches, helper)


# ----------------------------------------------------------------- no control flow


@model(kinks=True)
def mlp():
    m = model_helper.ModelHelper(name="mlp")
    h = brew.fc(m, "x", "h", 6, 8)
    h = brew.relu(m, h, h)
    h = brew.tanh(m, brew.fc(m, h, "h2", 8, 8), "a2")
    m.net.SoftmaxWithLoss([brew.fc(m, h, "logits", 8, 3), "label"], ["softmax", "loss"])
    return of_helper(m, several(lambda d, _: {"x": d.floats(5, 6), "label": d.ints(3, 5)}))


@model(kinks=True)
def convnet():
    m = model_helper.ModelHelper(name="convnet", arg_scope={"order": "NCHW"})
    h = brew.relu(m, brew.conv(m, "x", "c1", 2, 4, kernel=3, pad=1), "r1")
    h = brew.max_pool(m, h, "p1", kernel=2, stride=2)
    h = brew.lrn(m, h, "n1", size=3, alpha=0.1, beta=0.5)
    left = brew.prelu(m, brew.conv(m, h, "c2", 4, 3, kernel=1), "r2")
    right = brew.average_pool(m, h, "p2", kernel=3, stride=1, pad=1)
    h = brew.concat(m, [left, right], "both")
    m.net.SoftmaxWithLoss([brew.fc(m, h, "logits", 7 * 9, 3), "label"], ["softmax", "loss"])
    return of_helper(m, several(lambda d, _: {"x": d.floats(3, 2, 6, 6), "label": d.ints(3, 3)}))


@model(kinks=True)
def resnet():
    m = model_helper.ModelHelper(name="resnet", arg_scope={"order": "NCHW"})
    brew.conv(m, "x", "conv1", 2, 4, kernel=3, pad=1, no_bias=True)
    brew.relu(m, brew.spatial_bn(m, "conv1", "bn1", 4, is_test=False), "bn1")
    blocks = ResNetBuilder(m, "bn1", no_bias=True, is_test=False)
    blocks.add_simple_block(4, 4)
    blocks.add_simple_block(4, 6, down_sampling=True)
    blocks.add_bottleneck(6, 4, 8)
    brew.average_pool(m, blocks.prev_blob, "pooled", kernel=2, stride=1)
    m.net.SoftmaxWithLoss([brew.fc(m, "pooled", "logits", 8, 3), "label"], ["softmax", "loss"])
    return of_helper(m, several(lambda d, _: {"x": d.floats(3, 2, 4, 4), "label": d.ints(3, 3)}))


def squared_loss(net, predicted, target) -> None:
    net.AveragedLoss(net.SquaredL2Distance([predicted, target], "distance"), "loss")


def sequence(d: Draw) -> dict[str, np.ndarray]:
    """Four time steps of three sequences of different lengths."""
    return {
        "x": d.floats(4, 3, 5),
        "lengths": np.array([4, 3, 4], np.int32),
        "target": d.floats(12, 2),
        **{state: d.floats(1, 3, 6) for state in ("h0", "c0", "h1", "c1")},
    }


def recurrent(make, states=("h0", "c0"), width=6, **options) -> Model:
    """states: what the states start with, so many as the cell has."""
    m = model_helper.ModelHelper(name="recurrent")
    x, lengths, *first = m.net.AddExternalInput("x", "lengths", *states)
    result = make(m, x, lengths, first, 5, width, scope="rnn", **options)
    flat, _ = m.net.Reshape(result[0], ["flat", "old_shape"], shape=[-1, 6])
    squared_loss(m.net, brew.fc(m, flat, "predicted", 6, 2), "target")
    return of_helper(m, several(lambda d, _: sequence(d)))


@model()
def lstm():
    return recurrent(rnn_cell.LSTM, memory_optimization=True, forget_bias=1.0)


@model()
def lstm_of_two_layers():
    return recurrent(rnn_cell.LSTM, ("h0", "c0", "h1", "c1"), [6, 6])


@model()
def gru():
    return recurrent(gru_cell.GRU, ["h0"])


@model()
def layer_norm_milstm():
    return recurrent(rnn_cell.LayerNormMILSTM)


@model()
def lstm_unrolled():
    return recurrent(rnn_cell.LSTM, static_rnn_unroll_size=4)


def seq2seq(attention_type: str) -> Model:
    """An encoder and a decoder with attention; both look words up in one table."""
    m = Seq2SeqModelHelper()
    source, source_lengths, shifted, target_lengths = m.net.AddExternalInput(
        "source", "source_lengths", "shifted", "target_lengths"
    )
    words, size = 9, 5
    table = seq2seq_util.build_embeddings(m, words, size, "embeddings", False)
    outputs, weighted, hidden, cells, units = seq2seq_util.build_embedding_encoder(
        m,
        {"encoder_layer_configs": [{"num_units": 4}], "use_bidirectional_encoder": True},
        1,
        source,
        source_lengths,
        words,
        table,
        size,
        use_attention=True,
    )
    decoded, width = seq2seq_util.build_embedding_decoder(
        m,
        [{"num_units": 6}],
        shifted,
        target_lengths,
        source_lengths,
        outputs,
        weighted,
        hidden,
        cells,
        units,
        words,
        table,
        size,
        attention_type,
        forward_only=False,
    )
    logits = seq2seq_util.output_projection(m, decoded, width, words, None)
    m.net.SoftmaxWithLoss([logits, "target", "weights"], ["softmax", "loss"])
    lengths = np.array([3, 2], np.int32)
    batches = several(
        lambda d, _: {
            "source": d.ints(words, 4, 2),
            "source_lengths": np.array([4, 3], np.int32),
            "shifted": d.ints(words, 3, 2),
            "target_lengths": lengths,
            "target": d.ints(words, 6),
            "weights": (np.arange(3)[:, None] < lengths).astype(np.float32).ravel(),
        }
    )
    return of_helper(m, batches)


@model(spread=1.0)
def seq2seq_regular_attention():
    return seq2seq("regular")


@model(spread=1.0)
def seq2seq_recurrent_attention():
    return seq2seq("recurrent")


def cross_entropy(net, logits) -> None:
    net.AveragedLoss(net.SigmoidCrossEntropyWithLogits([logits, "label"], "entropy"), "loss")


@model(rate=0.5, kinks=True)
def sparse_ranking():
    """Bags of features, plain and weighted, and a single look-up; two of them in one table."""
    m = model_helper.ModelHelper(name="ranking")
    for name in ("shared", "own"):
        m.params.append(m.param_init_net.UniformFill([], name, shape=[10, 4]))
    bag = m.net.SparseLengthsSum(["shared", "ids", "lengths"], "bag")
    weighted = m.net.SparseLengthsWeightedSum(["own", "weights", "ids", "lengths"], "weighted")
    single = m.net.Gather(["shared", "id"], "single")
    joined = brew.concat(m, [bag, weighted, single], "joined")
    h = brew.relu(m, brew.fc(m, joined, "h", 12, 6), "h")
    cross_entropy(m.net, brew.fc(m, h, "logits", 6, 1))
    return of_helper(
        m,
        several(
            lambda d, _: {
                "ids": d.ints(10, 9),
                "weights": d.floats(9),
                "lengths": np.array([3, 0, 4, 2], np.int32),
                "id": d.ints(10, 4),
                "label": d.bits(4, 1),
            }
        ),
    )


@model(rate=0.3, kinks=True)
def dlrm():
    """A recommendation model: tables, a dense part, the dot products of all pairs."""
    m = model_helper.ModelHelper(name="dlrm")
    tables = 3
    dense = brew.relu(m, brew.fc(m, "dense", "bottom", 5, 4), "bottom")
    vectors = [dense]
    for k in range(tables):
        m.params.append(m.param_init_net.UniformFill([], "table_%d" % k, shape=[8, 4]))
        names = ["%s_%d" % (name, k) for name in ("table", "ids", "lengths")]
        vectors.append(m.net.SparseLengthsSum(names, "bag_%d" % k))
    wide = brew.concat(m, vectors, "wide")
    stacked, _ = m.net.Reshape(wide, ["stacked", "old_shape"], shape=[-1, tables + 1, 4])
    products = m.net.BatchMatMul([stacked, stacked], "products", trans_b=1)
    pairs = m.net.BatchGather([m.net.Flatten(products, "flat"), "pairs"], "chosen")
    top = brew.concat(m, [dense, pairs], "top")
    h = brew.relu(m, brew.fc(m, top, "h", 4 + 6, 5), "h")
    cross_entropy(m.net, brew.fc(m, h, "logits", 5, 1))

    def batch(d, _):
        feeds = {"dense": d.floats(4, 5), "label": d.bits(4, 1)}
        feeds["pairs"] = np.flatnonzero(np.tri(tables + 1, k=-1)).astype(np.int32)
        for k in range(tables):
            feeds["ids_%d" % k] = d.ints(8, 6)
            feeds["lengths_%d" % k] = np.array([2, 1, 0, 3], np.int32)
        return feeds

    return of_helper(m, several(batch))


# --------------------------------------------------------------------- control flow


def parameters(**shapes) -> core.Net:
    init = core.Net("init")
    for name, shape in shapes.items():
        init.UniformFill([], name, shape=list(shape), min=-0.5, max=0.5)
    return init


def layers(count: int) -> dict[str, tuple[int, ...]]:
    """The shapes of w1, b1, w2, b2, ..."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k in range(1, count + 1):
        shapes.update({"w%d" % k: (4, 4), "b%d" % k: (4,)})
    return shapes


def control(body: Callable[[], None], batch, **shapes) -> Model:
    """A net that `body` writes with `ops`, with parameters of these shapes."""
    batches = several(batch, 4)
    with NetBuilder(_use_control_ops=True, initial_scope=[*shapes, *batches[0]]) as builder:
        body()
    [net] = builder.get()
    return Model(parameters(**shapes), net, list(shapes), batches)


def regression(d: Draw, number: int) -> dict[str, np.ndarray]:
    """Two conditions, of which four batches show each combination; turns of a loop, none among
    them."""
    return {
        "x": d.floats(5, 4),
        "target": d.floats(5, 4),
        "first": np.array(number % 2 == 0),
        "second": np.array(number % 4 < 2),
        "turns": np.array([2, 1, 0, 3][number], np.int64),
    }


@model("If")
def experts():
    """One of two experts, each with its own parameters, as the condition says."""

    def body():
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            ops.FC(["x", "w1", "b1"], y)
        with ops.Else():
            ops.FC([ops.Tanh("x"), "w2", "b2"], y)
        squared_loss(ops, y, "target")

    return control(body, regression, **layers(2))


@model("If", fault="Reusage of outer blob name y_grad")
def update_in_if():
    """The one branch adds to what is there; without it, it stays."""

    def body():
        y = ops.FC(["x", "w1", "b1"], "y")
        with ops.IfNet("first"):
            ops.Add([y, ops.FC([ops.Tanh("x"), "w2", "b2"])], y)
        squared_loss(ops, y, "target")

    return control(body, regression, **layers(2))


@model("If")
def tied_across_if():
    """One weight before the If, in both branches, and behind it."""

    def body():
        h = ops.Tanh(ops.FC(["x", "w", "b1"]), "h")
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            ops.FC([h, "w", "b2"], y)
        with ops.Else():
            ops.FC([ops.Sigmoid(h), "w", "b3"], y)
        squared_loss(ops, ops.FC([ops.Tanh(y), "w", "b4"]), "target")

    return control(body, regression, w=(4, 4), b1=(4,), b2=(4,), b3=(4,), b4=(4,))


@model("If", fault="no gradient for w2, b2")
def stochastic_depth():
    """A block that only some batches go through; the If itself computes nothing."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        block = ops.FC([ops.Tanh(h), "w2", "b2"], "block")
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            ops.Sum([h, block], y)
        with ops.Else():
            ops.Copy(h, y)
        squared_loss(ops, y, "target")

    return control(body, regression, **layers(2))


@model("If in If")
def if_in_if():
    def body():
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            with ops.IfNet("second"):
                ops.FC(["x", "w1", "b1"], y)
            with ops.Else():
                ops.FC(["x", "w2", "b2"], y)
        with ops.Else():
            h = ops.Tanh(ops.FC(["x", "w1", "b1"]))
            with ops.IfNet("second"):
                ops.FC([h, "w3", "b3"], y)
            with ops.Else():
                ops.FC([h, "w2", "b2"], y)
        squared_loss(ops, y, "target")

    return control(body, regression, **layers(3))


def visible(m, *more: str) -> set[str]:
    """The blobs that belong to the net around a branch or loop."""
    return m.net.UsedBlobNames() | set(map(str, m.params)) | set(more)


@model("If, by brew", kinks=True)
def heads():
    """A recurrent body; the condition says which of two heads is trained on it."""
    m = model_helper.ModelHelper(name="heads")
    result = rnn_cell.LSTM(m, "x", "lengths", ["h0", "c0"], 5, 6, scope="rnn")
    flat, _ = m.net.Reshape(result[0], ["flat", "old_shape"], shape=[-1, 6])
    y = m.net.ConstantFill([], "y", shape=[12, 2], value=0.0)
    branches = []
    for name in ("head_1", "head_2"):
        branch = model_helper.ModelHelper(name=name, param_model=m)
        hidden = brew.relu(branch, brew.fc(branch, flat, name + "_h", 6, 5), name + "_a")
        branch.net.Copy(brew.fc(branch, hidden, name + "_y", 5, 2), y)
        branches.append(branch)
    brew.cond(m, "first", visible(m, "first"), *branches)
    squared_loss(m.net, y, "target")
    return of_helper(m, several(lambda d, n: {**sequence(d), "first": np.array(n == 0)}))


def bags(d: Draw) -> dict[str, np.ndarray]:
    return {"ids": d.ints(6, 8), "lengths": np.array([2, 1, 0, 3, 2], np.int32)}


@model("If, look-up inside", rate=0.5, fault="non-existing input blob: GradientSlice")
def lookup_in_if():
    """A feature that only some batches have."""

    def body():
        features = ops.ConstantFill([], "features", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            ops.SparseLengthsSum(["table", "ids", "lengths"], features)
        squared_loss(ops, ops.FC([features, "w", "b"]), "target")

    def batch(d, number):
        return {**regression(d, number), **bags(d)}

    return control(body, batch, table=(6, 4), w=(4, 4), b=(4,))


@model("If, look-up inside", rate=0.5, fault="Reusage of outer blob name features_grad")
def table_shared_with_if():
    """The same table is looked up before the If and in one of its branches."""

    def body():
        features = ops.Gather(["table", "id"], "features")
        with ops.IfNet("first"):
            more = ops.SparseLengthsSum(["table", "ids", "lengths"])
            ops.Add([features, ops.FC([more, "w1", "b1"])], features)
        squared_loss(ops, ops.FC([features, "w2", "b2"]), "target")

    def batch(d, number):
        return {**regression(d, number), **bags(d), "id": d.ints(6, 5)}

    return control(body, batch, table=(6, 4), **layers(2))


@model("If, look-up inside", rate=0.3, fault="a mix of sparse and dense gradients is not supported")
def table_shared_by_branches():
    """One table, looked up before the If and in another way in each branch."""

    def body():
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        row = ops.Gather(["table", "id"])
        with ops.IfNet("first"):
            ops.FC([ops.Gather(["table", "other_id"]), "w1", "b1"], y)
        with ops.Else():
            bag = ops.SparseLengthsSum(["table", "ids", "lengths"])
            ops.FC([bag, "w2", "b2"], y)
        squared_loss(ops, ops.Add([ops.Tanh(y), row]), "target")

    def batch(d, number):
        ids = {"id": d.ints(6, 5), "other_id": d.ints(6, 5), **bags(d)}
        return {**regression(d, number), **ids}

    return control(body, batch, table=(6, 4), **layers(2))


@contextlib.contextmanager
def turns():
    """The body of a loop with as many turns as the batch says; gives the number of the turn."""
    i = ops.Const(0)
    with ops.WhileNet():
        with ops.Condition():
            ops.Add([i, ops.Const(1)], [i])
            ops.LE([i, "turns"])
        yield i


@model("While")
def loop_without_parameters():
    """The loop works on what a layer before it has made, as often as the batch says."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns():
            ops.Scale(ops.Tanh(h), h, scale=1.5)
        k = ops.FC([ops.Sigmoid("x"), "w2", "b2"])
        squared_loss(ops, ops.Sum([h, k]), "target")

    return control(body, regression, **layers(2))


def recurrent_loop(read: Callable[[Any], Any]) -> Model:
    """h is tanh(h) times a weight, turn by turn: a recurrent net."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns():
            ops.FC([ops.Tanh(h), "w2", "b2"], h)
        squared_loss(ops, read(h), "target")

    return control(body, regression, **layers(3))


@model("While", fault="Reusage of outer blob name h_grad")
def recurrent_while():
    return recurrent_loop(lambda h: ops.FC([ops.Tanh(h), "w3", "b3"]))


@model("While", fault="step 0, w2")
def recurrent_while_into_sum():
    return recurrent_loop(lambda h: ops.Sum([h, ops.FC(["x", "w3", "b3"])]))


@model("While", fault="Reusage of outer blob name h_grad")
def tied_across_while():
    """One weight before the loop, in every turn, and behind it."""

    def body():
        h = ops.FC(["x", "w", "b1"], "h")
        with turns():
            ops.FC([ops.Tanh(h), "w", "b2"], h)
        squared_loss(ops, ops.FC([ops.Tanh(h), "w", "b3"]), "target")

    return control(body, regression, w=(4, 4), b1=(4,), b2=(4,), b3=(4,))


@model("While", fault="Reusage of outer blob name [ch]_grad")
def lstm_by_while():
    """Two states, each of which a turn computes from what it first puts aside of both."""

    def body():
        h, c = ops.FC(["x", "w1", "b1"], "h"), ops.FC(["x", "w2", "b2"], "c")
        with turns():
            old_h, old_c = ops.Scale(h, scale=1.0), ops.Scale(c, scale=1.0)
            forget = ops.Sigmoid(ops.FC([old_h, "w3", "b3"]))
            new = ops.Tanh(ops.FC([old_h, "w4", "b4"]))
            ops.Add([ops.Mul([forget, old_c]), new], c)
            ops.Mul([forget, ops.Tanh(new)], h)
        squared_loss(ops, ops.FC([ops.Add([h, c]), "w5", "b5"]), "target")

    return control(body, regression, **layers(5))


@model("While in While", fault="Reusage of outer blob name h_grad")
def while_in_while():
    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns():
            with turns():
                ops.FC([ops.Tanh(h), "w2", "b2"], h)
            ops.FC([ops.Sigmoid(h), "w3", "b3"], h)
        squared_loss(ops, ops.FC([ops.Tanh(h), "w3", "b3"]), "target")

    return control(body, regression, **layers(3))


@model("While, by brew", fault="Reusage of outer blob name h_grad")
def while_by_brew():
    m = model_helper.ModelHelper(name="outer")
    h = brew.fc(m, "x", "h", 4, 4)
    m.net.GivenTensorInt64Fill([], "i", shape=[], values=[0])
    m.net.GivenTensorInt64Fill([], "one", shape=[], values=[1])
    m.net.ConstantFill([], "more", shape=[], value=False, dtype=core.DataType.BOOL)
    turn = model_helper.ModelHelper(name="turn", param_model=m)
    brew.fc(turn, brew.tanh(turn, h, "a"), "p", 4, 4)
    turn.net.Scale("p", h, scale=0.9)
    test = model_helper.ModelHelper(name="test")
    test.net.Add(["i", "one"], "i")
    test.net.LE(["i", "turns"], "more")
    brew.loop(m, "more", visible(m, "turns"), turn, test)
    squared_loss(m.net, brew.fc(m, h, "predicted", 4, 4), "target")
    return of_helper(m, several(regression))


@model("If in While", fault="Reusage of outer blob name h_grad")
def if_in_while():
    """The first turn works with other parameters than the later ones."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns() as i:
            a = ops.Tanh(h)
            with ops.IfNet(ops.LE([i, ops.Const(1)])):
                ops.FC([a, "w2", "b2"], h)
            with ops.Else():
                ops.FC([a, "w3", "b3"], h)
        squared_loss(ops, ops.FC([ops.Tanh(h), "w4", "b4"]), "target")

    return control(body, regression, **layers(4))


@model("If in While")
def if_in_while_without_parameters():
    """The first turn works in another way than the later ones."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns() as i:
            a = ops.Tanh(h)
            with ops.IfNet(ops.LE([i, ops.Const(1)])):
                ops.Scale(a, h, scale=1.5)
            with ops.Else():
                ops.Sigmoid(a, h)
        k = ops.FC([ops.Sigmoid("x"), "w2", "b2"])
        squared_loss(ops, ops.Sum([h, k]), "target")

    return control(body, regression, **layers(2))


@model("While in If", fault="Reusage of outer blob name k_grad")
def while_in_if():
    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        y = ops.ConstantFill([], "y", shape=[5, 4], value=0.0)
        with ops.IfNet("first"):
            k = ops.FC([ops.Tanh(h), "w2", "b2"], "k")
            with turns():
                ops.FC([ops.Tanh(k), "w2", "b2"], k)
            ops.FC([ops.Tanh(k), "w3", "b3"], y)
        with ops.Else():
            ops.FC([ops.Tanh(h), "w3", "b3"], y)
        squared_loss(ops, y, "target")

    return control(body, regression, **layers(3))


@model("While, look-up inside", rate=0.5, fault="Reusage of outer blob name h_grad")
def lookup_in_while():
    """Every turn adds a row of the table to the state."""

    def body():
        h = ops.FC(["x", "w1", "b1"], "h")
        with turns():
            row = ops.Gather(["table", "id"])
            ops.Add([ops.Tanh(h), row], h)
        squared_loss(ops, ops.FC([ops.Tanh(h), "w2", "b2"]), "target")

    def batch(d, number):
        return {**regression(d, number), "id": d.ints(6, 5)}

    return control(body, batch, table=(6, 4), **layers(2))


def do(net, body, inputs: list[str], outputs: list[str]) -> None:
    """A Do with the same names inside and outside. Caffe2 has no builder for a Do alone."""
    scope = net.CreateScope([], [net.NextName("scope")])
    names = list(dict.fromkeys(inputs + outputs))
    net.Do(
        [*inputs, scope],
        [*outputs, scope],
        net=body.Proto(),
        inner_blobs=names,
        outer_blobs_idx=[(inputs + outputs).index(name) for name in names],
    )


@model("Do")
def tied_across_do():
    """One weight before, inside and behind a Do."""
    batches = several(regression)
    net, inner = core.Net("outer"), core.Net("inner")
    net.Tanh(net.FC(["x", "w", "b1"], "p"), "h")
    inner.Tanh(inner.FC(["h", "w", "b2"], "p"), "a")
    inner.FC(["a", "w", "b3"], "y")
    do(net, inner, ["h", "w", "b2", "b3"], ["y"])
    squared_loss(net, net.FC(["y", "w", "b1"], "predicted"), "target")
    shapes = {"w": (4, 4), "b1": (4,), "b2": (4,), "b3": (4,)}
    return Model(parameters(**shapes), net, list(shapes), batches)


@model("Do in Do")
def do_in_do():
    batches = several(regression)
    net, inner, innermost = core.Net("outer"), core.Net("inner"), core.Net("innermost")
    innermost.Tanh(innermost.FC(["x", "w1", "b1"], "p"), "h")
    do(inner, innermost, ["x", "w1", "b1"], ["h"])
    inner.FC([inner.Sigmoid("h", "s"), "w2", "b2"], "y")
    do(net, inner, ["x", "w1", "b1", "w2", "b2"], ["y"])
    squared_loss(net, net.FC(["y", "w1", "b2"], "predicted"), "target")
    return Model(parameters(**layers(2)), net, list(layers(2)), batches)


@model("Do, look-up inside", rate=0.5, fault="a mix of sparse and dense gradients is not supported")
def lookup_in_do():
    """A table that is looked up before a Do and inside."""
    batches = several(lambda d, number: {**regression(d, number), "id": d.ints(6, 5)})
    net, inner = core.Net("outer"), core.Net("inner")
    net.Gather(["table", "id"], "row")
    inner.Gather(["table", "id"], "same_row")
    inner.FC([inner.Tanh("same_row", "a"), "w", "b"], "y")
    do(net, inner, ["table", "id", "w", "b"], ["y"])
    squared_loss(net, net.Sum(["y", "row"], "predicted"), "target")
    shapes = {"table": (6, 4), "w": (4, 4), "b": (4,)}
    return Model(parameters(**shapes), net, list(shapes), batches)
