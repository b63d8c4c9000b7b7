"""Random forward nets that run: plain operators, Do, If and While, with feeds.

Everything that is drawn comes from one seed, so that a net can be named by two
numbers: `generate(seed, index)`. Operators are run one by one while they are
written, on the values that their inputs have by then. So shapes fit, and domains
are kept, without a second description of what operators do.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from .choices import Numbers
from .recipes import PICKY, RECIPES, UNSEEN, Want, sign_lost, unfit
from .surroundings import NOWHERE, Surroundings, draw_surroundings

Ys = Union[list[str], dict[str, Any]]
Feeds = dict[str, np.ndarray]


def words(text: str) -> list[str]:
    return text.split()


# Drawn more often than the rest: they rewire gradients, or their makers are special.
PLUMBING = words("""
    Sum Sum Sum Copy Add Mul Mul Sub Sigmoid Sigmoid Tanh Relu Split Concat Sqr Sqrt Pow Gather
    SparseLengthsSum Scale EnsureDense Negative Alias Reshape StopGradient""")
CLOSING = words("""
    Sigmoid Sigmoid Tanh Relu Exp Sum1 Sum1 Sum2 Sum2 Copy Scale Scale Negative Mul Add Add Sub
    Sqr Sqrt Softmax EnsureDense Alias""")
TAME = 60.0
DEPTH = 3


@dataclass
class Case:
    """A question with everything that is needed to judge an answer by its numbers.

    With a builder, each side builds the net from the choices; `net` is then the net without what
    depends on gradients.
    """

    net: bytes
    ys: Ys
    runs: list[Feeds]
    constants: list[str] = field(default_factory=list)
    name: str = ""
    elements: int = 0  # how many of each blob are compared with differences; all without a limit
    surroundings: Surroundings = NOWHERE
    builder: str = ""
    choices: Numbers = ()

    def forward(self, pb=caffe2_pb2):
        return pb.NetDef.FromString(self.net)


class Unlucky(Exception):  # noqa: N818 - expected, all the time
    """What was drawn does not run; draw something else."""


def operator(pb, kind: str, inputs: Sequence[str], outputs: Sequence[str], args: dict):
    op = pb.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        arg = op.arg.add(name=name)
        if isinstance(value, int):
            arg.i = value
        elif isinstance(value, float):
            arg.f = value
        elif isinstance(value, str):
            arg.s = value.encode()
        elif isinstance(value, tuple) and value and isinstance(value[0], str):
            arg.strings.extend(v.encode() for v in value)
        elif isinstance(value, tuple):
            arg.ints.extend(value)
        else:
            arg.n.CopyFrom(value)
    return op


class World:
    """What all nets of one question share: chance, feeds and names."""

    def __init__(self, rng: random.Random, pb):
        self.rng, self.pb = rng, pb
        self.feeds: Feeds = {}
        self.constants: list[str] = []
        self.conditions: list[str] = []
        self.turns: list[str] = []
        self.aliased: set = set()
        self.names: set = set()

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self, stem: Optional[str] = None) -> str:
        """A name that no blob of any net has."""
        rng = self.rng
        while True:
            if stem:
                name = stem if stem not in self.names else "%s_%d" % (stem, rng.randrange(100))
            elif self.names and self.chance(0.04):
                other = rng.choice(sorted(self.names))
                name = (
                    rng.choice(
                        [
                            "%s_grad",
                            "_%s_grad_autosplit_0",
                            "%s_autogen_grad",
                            "%s_grad_values",
                            "%s_grad_indices",
                        ]
                    )
                    % other
                )
            elif self.chance(0.5):
                name = rng.choice("abcdefghklmnopqstuvwxyz")
            else:
                name = rng.choice("abhkxyz") + rng.choice("0123456789")
            if name not in self.names:
                self.names.add(name)
                return name

    def run(self, op, values: Feeds) -> list[Any]:
        """The outputs of one operator."""
        workspace.ResetWorkspace()
        for blob in op.input:
            workspace.FeedBlob(blob, values[blob])
        try:
            workspace.RunOperatorOnce(op)
            out = [workspace.FetchBlob(blob) for blob in op.output]
        except Exception as error:
            raise Unlucky(op.type) from error
        for array in out:
            if array.dtype.kind != "f":
                continue
            if not (np.abs(array) < TAME).all() or np.isin(np.abs(array), (0, 1)).all():
                raise Unlucky(op.type)  # too large; or 0 and 1, where wrong powers look right
        return out


class Draft:
    """One net that is being written. `isolated`: the net of a Do, which sees only
    what is bound; the net of a branch shares the workspace of the net around it."""

    def __init__(self, world: World, parent: Optional["Draft"] = None, isolated: bool = False):
        self.world, self.parent, self.isolated = world, parent, isolated
        self.depth: int = parent.depth + isolated if parent else 0
        self.ops: list[Any] = []
        self.values: Feeds = dict(parent.values) if parent and not isolated else {}
        self.bound: dict[str, str] = {}  # inner name -> outer name
        self.first_reads: dict[str, None] = {}
        self.written: dict[str, None] = {}
        self.hidden: Feeds = dict(parent.hidden) if parent and not isolated else {}  # constants

    # ------------------------------------------------------------------- blobs

    def floats(self, shape=None) -> list[str]:
        return [
            n
            for n, a in self.values.items()
            if a.dtype == np.float32 and a.size and (shape is None or a.shape == tuple(shape))
        ]

    def feed(self, array: np.ndarray, constant=False, stem=None) -> str:
        """A new external blob of the whole net, as it is called here."""
        if self.parent is None:
            name = self.world.name(stem)
            self.world.feeds[name] = array
            if constant:
                self.world.constants.append(name)
        else:
            name = self.parent.feed(array, constant, stem)
            if self.isolated:
                return self.bind(name, array, constant)
        (self.hidden if constant else self.values)[name] = array
        return name

    def bind(self, outer: str, array: np.ndarray, constant=False) -> str:
        for inner, bound in self.bound.items():
            if bound == outer:
                return inner
        inner = outer
        if inner in self.values or inner in self.bound or self.world.chance(0.25):
            inner = self.world.name()
        self.bound[inner] = outer
        (self.hidden if constant else self.values)[inner] = array
        return inner

    def choose(self, want: Want) -> tuple[str, np.ndarray]:
        world = self.world
        if want.constant:
            array = want.make(world.rng)
            return self.feed(array, constant=True), array
        leaf = want.leaf and world.chance(0.85)
        here = [
            n for n, a in self.values.items() if want.fits(a) and not (leaf and n in self.written)
        ]
        if self.isolated and (not here or world.chance(0.35)):
            taken = set(self.bound.values())
            outer = [
                n
                for n, a in self.parent.values.items()
                if want.fits(a) and n not in taken and not (leaf and n in self.parent.written)
            ]
            if outer and world.chance(0.9):
                name = world.rng.choice(outer)
                return self.bind(name, self.parent.values[name]), self.parent.values[name]
        if here and not world.chance(0.12):
            at = min(world.rng.randrange(len(here)), world.rng.randrange(len(here)))
            name = here[len(here) - 1 - at]  # the latest ones more often
            return name, self.values[name]
        array = want.make(world.rng)
        return self.feed(array), array

    def outermost(self, name: str) -> tuple[int, str]:
        """The draft that owns a blob, and its name there."""
        if self.parent is None or (self.isolated and name not in self.bound):
            return id(self), name
        return self.parent.outermost(self.bound.get(name, name))

    def outside(self, name: str) -> Optional[np.ndarray]:
        """The value in the net around this one."""
        outer = self.bound.get(name) if self.isolated else name
        return self.parent.values.get(outer) if self.parent and outer else None

    def may_write(self, name: str) -> bool:
        """Not where memory is shared: Alias makes two names for one tensor."""
        return self.outermost(name) not in self.world.aliased

    # --------------------------------------------------------------- operators

    def emit(self, op, outputs: Sequence[Any]) -> None:
        for blob in op.input:
            if blob not in self.written:
                self.first_reads[blob] = None
        for blob, array in zip(op.output, outputs):
            self.written[blob] = None
            if array is not None:
                self.values.pop(blob, None)  # the latest comes last
                self.values[blob] = array
        self.ops.append(op)

    def write(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], given=None, **args):
        """An operator on blobs that are known; with `given` values it is not run."""
        op = operator(self.world.pb, kind, inputs, outputs, args)
        values = {**self.hidden, **self.values}
        out = self.world.run(op, values) if given is None else given
        for blob, array in zip(outputs, out):
            outside = self.outside(blob)
            if outside is not None and array is not None and outside.shape != array.shape:
                raise Unlucky("%s would have two shapes" % blob)  # if this net runs, or if not
        if kind == "Alias":
            self.world.aliased.update(self.outermost(n) for n in (inputs[0], outputs[0]))
        if kind in PICKY and (
            self.parent or unfit(kind, [values[n] for n in dict.fromkeys(inputs)])
        ):
            raise Unlucky(kind)
        if sign_lost(kind, inputs, outputs, args):
            raise Unlucky(kind)
        unseen = UNSEEN.get(kind, set())
        self.emit(op, [None if i in unseen else a for i, a in enumerate(out)])
        for i in unseen.intersection(range(len(outputs))):
            self.values.pop(outputs[i], None)

    def draw(self) -> None:
        """One more plain operator."""
        world, rng = self.world, self.world.rng
        for _ in range(8):
            kind = rng.choice(PLUMBING) if world.chance(0.5) else rng.choice(sorted(RECIPES))
            recipe = RECIPES[kind](rng)
            want = next(recipe)
            if not any(map(want.fits, self.values.values())) and world.chance(0.8):
                continue  # rather go on with what there is
            if kind == "Alias" and (self.depth or world.chance(0.7)):
                continue
            inputs, arrays = [], []
            try:
                while True:
                    name, array = self.choose(want)
                    inputs.append(name)
                    arrays.append(array)
                    want = recipe.send(array)
            except StopIteration as done:
                count, args = done.value
            for wild in (world.chance(0.15), False):
                outputs = self.outputs(kind, inputs, count, wild)
                try:
                    self.write(kind, inputs, outputs, **args)
                except Unlucky:
                    continue
                if kind == "StopGradient" and world.chance(0.9):  # which must have a reader
                    self.write(rng.choice(["Sum", "Tanh", "Scale"]), outputs, [world.name()])
                return

    def outputs(self, kind: str, inputs: list[str], count: int, wild: bool) -> list[str]:
        """New names; or one that is an input, or one that is there already."""
        world = self.world
        names = [world.name() for _ in range(count)]
        if wild and count and kind != "Alias":
            old = [
                n
                for n in (inputs if world.chance(0.65) else self.floats())
                if n in self.values and self.may_write(n)
            ]
            if old:
                names[0] = world.rng.choice(old)
        return names

    def close(self, name: str, shape: tuple[int, ...]) -> None:
        """Ends on a blob of this name and shape."""
        world, rng = self.world, self.world.rng
        if not self.may_write(name):
            raise Unlucky(name)
        want = Want(shape=shape)
        for _ in range(8):
            if len(shape) and shape[0] and world.chance(0.12):
                rows = Want(exact=np.array([rng.randrange(3) for _ in range(shape[0])], np.int32))
                table = self.choose(Want(shape=(3, *shape[1:]), leaf=True))[0]
                inputs, kind, args = [table, self.choose(rows)[0]], "Gather", {}
            else:
                kind, args = rng.choice(CLOSING), {}
                two = kind in ("Sum2", "Mul", "Add", "Sub")
                inputs = [self.choose(want)[0] for _ in range(2 if two else 1)]
                if name in self.values and self.values[name].shape == shape and world.chance(0.5):
                    inputs[0] = name
                if kind == "Scale":
                    args["scale"] = rng.choice([0.5, -1.0, 2.0])
                if kind == "Alias" and (self.depth or name in inputs):
                    continue
            try:
                self.write(kind.rstrip("12"), inputs, [name], **args)
            except Unlucky:
                continue
            if self.values[name].shape == shape:
                return
        raise Unlucky(name)


def fill(draft: Draft, steps: int, control: float) -> None:
    """Some operators, among them nets in nets."""
    from . import control_flow

    for _ in range(steps):
        if draft.depth < DEPTH and draft.world.chance(control / (1 + draft.depth)):
            control_flow.add(draft)
        else:
            draft.draw()


# ------------------------------------------------------------------- the question


def choose_ys(draft: Draft) -> Ys:
    world, rng = draft.world, draft.world.rng
    made = [n for n in draft.floats() if n in draft.written]
    if not made:
        raise Unlucky("nothing to differentiate")
    count = rng.choice([1, 1, 1, 2, 2, 3])
    ys = [made[-1]] if world.chance(0.8) else [rng.choice(made)]
    while len(ys) < count:
        ys.append(rng.choice(made if world.chance(0.9) else draft.floats()))
    ys = list(dict.fromkeys(ys))
    rng.shuffle(ys)
    if world.chance(0.3):
        return ys
    given: dict[str, Any] = {}
    for y in ys:
        rows = draft.values[y].ndim > 0 and draft.values[y].shape[0] > 0
        same = [
            n
            for n in given
            if isinstance(given[n], str) and draft.values[n].shape == draft.values[y].shape
        ]
        if same and world.chance(0.3):
            given[y] = given[rng.choice(same)]
        elif rows and world.chance(0.04):
            given[y] = ["%s_in_indices" % y, "%s_in_values" % y]
        else:
            free = [
                n
                for n in (
                    "%s_in" % y,
                    "%s_in" % y,
                    "%s_in" % y,
                    "%s_grad" % y,
                    "%s_grad" % y,
                    "%s_grad" % rng.choice(sorted(world.names)),
                    "g%d" % rng.randrange(10) if world.chance(0.2) else "%s_in" % y,
                )
                if n not in world.names and n not in given.values()
            ]
            given[y] = rng.choice(free) if free and world.chance(0.7) else None
    return given


def draw_runs(world: World) -> list[Feeds]:
    """Up to three conditions in all combinations, each loop from no turn to three."""
    conditions = [name for name in world.conditions if name in world.feeds]
    ways = list(itertools.product([True, False], repeat=min(len(conditions), 3)))
    count = max(len(ways), 3 if world.turns else 1)
    runs = []
    for i in range(count):
        feeds = dict(world.feeds)
        for k, name in enumerate(conditions):
            on = ways[i % len(ways)][k] if k < 3 else world.chance(0.5)
            if feeds[name].dtype == bool:
                feeds[name] = np.array(on)
            elif not on:
                feeds[name] = np.full_like(feeds[name], -feeds[name])
        for k, name in enumerate(n for n in world.turns if n in feeds):
            feeds[name] = np.array([(2 - i + k) % 4], np.int32)
        runs.append(feeds)
    return runs


def without_nodes(net):
    """As it can be run: the names of nodes are for those who distribute a net."""
    for op in net.op:
        op.device_option.ClearField("node_name")
        for arg in op.arg:
            if arg.HasField("n"):
                without_nodes(arg.n)
    return net


def runs_forward(case: Case) -> bool:
    """Whether the net runs for all feeds, with all ys there, moderate, and of one shape
    where they share a gradient."""
    for feeds in case.runs:
        workspace.ResetWorkspace()
        for name, value in feeds.items():
            workspace.FeedBlob(name, value)
        try:
            workspace.RunNetOnce(without_nodes(case.forward()))
            values = {y: workspace.FetchBlob(y) for y in case.ys}
            if not all((np.abs(value) < TAME).all() for value in values.values()):
                return False
        except Exception:
            return False
        shapes: dict[str, tuple[int, ...]] = {}
        for y, given in case.ys.items() if isinstance(case.ys, dict) else ():
            if shapes.setdefault(str(given or y), values[y].shape) != values[y].shape:
                return False
    return True


def decorate(world: World, ops: Sequence[Any], named: bool, placed: bool) -> None:
    """What a gradient operator inherits from its operator, or must not."""
    for op in ops:
        if named:
            op.name = "%s_%d" % (op.type.lower(), world.rng.randrange(100))
            op.debug_info = "made at random"
        if placed:
            op.device_option.extra_info.append("part:1")
        for arg in op.arg:
            if arg.HasField("n"):
                decorate(world, arg.n.op, named, placed)


def used(net, feeds: Feeds) -> Feeds:
    """The feeds that a net reads before it writes them."""
    read, written = set(), set()
    for op in net.op:
        read.update(n for n in op.input if n not in written)
        written.update(op.output)
    return {n: v for n, v in feeds.items() if n in read}


def attempt(rng: random.Random, pb) -> Case:
    world = World(rng, pb)
    draft = Draft(world)
    for _ in range(rng.choice([1, 2, 3])):
        draft.feed(Want(rank=rng.choice([1, 1, 2])).make(rng))
    steps = rng.choice([2, 3, 4, 5, 6, 8]) if rng.random() < 0.9 else rng.randint(10, 22)
    fill(draft, steps, rng.choice([0, 0, 0.15, 0.4]))
    net = pb.NetDef(name="forward", op=draft.ops)
    decorate(world, net.op, named=world.chance(0.1), placed=world.chance(0.05))
    world.feeds = used(net, world.feeds)
    case = Case(net.SerializeToString(), choose_ys(draft), draw_runs(world), world.constants)
    if not runs_forward(case):
        raise Unlucky("the whole net")
    return case


def generate(seed: int, index: int, pb=caffe2_pb2) -> Case:
    """Net number `index` of this seed."""
    rng = random.Random("%d/%d" % (seed, index))
    while True:
        try:
            case = attempt(rng, pb)
        except Unlucky:
            continue
        case.name = "%d/%d" % (seed, index)
        # by a chance of its own: the nets are those that they would be without
        case.surroundings = draw_surroundings(random.Random("scopes/" + case.name), 0.1)
        return case
