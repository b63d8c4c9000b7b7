"""Nets that Caffe2's own builders make: `NetBuilder`, `ModelHelper` with brew, recurrent nets.

Their gradients are asked for where users ask for them, by `AddGradientOperators`. A recurrent net
asks for that of its step while it is being built. So a question of this kind is no net but the
choices from which one is built; each side builds its own.
"""

import contextlib
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, Optional

import numpy as np
from caffe2.python import core, workspace

from .choices import Choices
from .generate import Case, Unlucky, draw_runs, runs_forward, used, without_nodes
from .surroundings import Surroundings, draw_surroundings

ELEMENTS = 4


class Materials:
    """What a builder works with: choices, and the blobs that are fed."""

    def __init__(self, choices: Choices, forward_only: bool = False):
        self.choices, self.forward_only = choices, forward_only
        self.chance = choices.chance
        self.feeds: dict[str, np.ndarray] = {}
        self.conditions: list[str] = []
        self.turns: list[str] = []
        self.seed = choices.below(1000)

    def feed(self, name: str, array: np.ndarray) -> core.BlobReference:
        blob = core.ScopedBlobReference(name)
        self.feeds[str(blob)] = array
        return blob

    def floats(self, name: str, *shape: int) -> core.BlobReference:
        return self.feed(name, self.values(name, shape))

    def values(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Different ones by name, the same ones in each build; never close to zero."""
        rng = np.random.RandomState(zlib.crc32(name.encode()) ^ self.seed)
        signs = rng.choice([1, 1, -1], shape)
        return (signs * rng.uniform(0.3, 1.3, shape)).astype(np.float32)

    def condition(self, name: str) -> core.BlobReference:
        blob = self.feed(name, np.array(True))
        self.conditions.append(str(blob))
        return blob

    def count(self, name: str) -> core.BlobReference:
        """How often a loop turns."""
        blob = self.feed(name, np.array([2], np.int32))
        self.turns.append(str(blob))
        return blob

    def targets(self, net: core.Net, blobs: list[core.BlobReference]) -> Any:
        """The last blob that the net makes, or a few; with ones or with given gradients."""
        draw = self.choices
        made = {blob for op in net.Proto().op for blob in op.output}
        latest = [blob for blob in reversed(blobs) if str(blob) in made]
        ys = [latest[0]] + [draw.pick(latest) for _ in draw.more(2)]
        ys = list(dict.fromkeys(ys))
        given = draw.pick(["ones", "ones", "dict", "in", "grad"])
        if given == "ones":
            return ys
        return {y: None if given == "dict" else "%s_%s" % (y, given) for y in ys}


@dataclass
class Built:
    """A net, what to differentiate, and the net that initializes its parameters."""

    net: core.Net
    ys: Any
    add_gradients: Callable[[Any], dict]
    parameters: Optional[core.Net] = None


Builder = Callable[[Materials], Built]
BUILDERS: dict[str, Builder] = {}


def builder(function: Builder) -> Builder:
    BUILDERS[function.__name__] = function
    return function


@contextlib.contextmanager
def unused_names() -> Iterator[None]:
    """As in a fresh process: else the names in a net depend on the nets that were made before."""
    before, core.Net._net_names_used = core.Net._net_names_used, set()
    try:
        yield
    finally:
        core.Net._net_names_used = before


def build(case: Case) -> Built:
    """The net of a question, built anew."""
    return BUILDERS[case.builder](Materials(Choices(case.choices)))


def built_case(name: str, choices: Choices, surroundings: Surroundings) -> Case:
    """The question that comes of some choices. Its net is built without gradients: the truth must
    not depend on them."""
    materials = Materials(choices, forward_only=True)
    with unused_names(), surroundings.entered():
        built = BUILDERS[name](materials)
    net = built.net.Proto()
    if built.parameters:
        materials.feeds.update(initial(materials, built.parameters))
    materials.feeds = used(net, materials.feeds)
    ys = (
        {str(y): None if g is None else str(g) for y, g in built.ys.items()}
        if isinstance(built.ys, dict)
        else [str(y) for y in built.ys]
    )
    case = Case(
        net.SerializeToString(),
        ys,
        draw_runs(materials),
        elements=ELEMENTS,
        surroundings=surroundings,
        builder=name,
        choices=tuple(choices.taken),
    )
    if not runs_forward(case):
        raise Unlucky(name)
    return case


def initial(materials: Materials, parameters: core.Net) -> dict[str, np.ndarray]:
    """Values for parameters; those that Caffe2 would draw have only their shapes from it."""
    workspace.ResetWorkspace()
    net = without_nodes(parameters.Proto())
    workspace.RunNetOnce(net)
    found = {}
    for op in net.op:
        for blob in op.output:
            value = workspace.FetchBlob(blob)
            if value.dtype == np.float32:
                value = materials.values(blob, value.shape)
            found[blob] = value
    return found


def rebuilt(case: Case) -> Optional[Case]:
    """The question that comes of its choices and its surroundings now, if they make one."""
    try:
        new = built_case(case.builder, Choices(case.choices), case.surroundings)
    except Unlucky:
        return None
    new.choices = new.choices[: len(case.choices)]  # behind them each was the first option
    new.name = case.name
    return new


def generate_built(name: str, seed: int, index: int) -> Case:
    """Net number `index` of this seed, if it is to be of this kind."""
    rng = random.Random("%s/%d/%d" % (name, seed, index))
    while True:
        surroundings = draw_surroundings(rng, 0.25)
        try:
            case = built_case(name, Choices(rng=rng), surroundings)
        except Unlucky:
            continue
        case.name = "%d/%d" % (seed, index)
        return case
