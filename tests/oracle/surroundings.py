"""The name scope and the device scope in which a question is asked."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from caffe2.proto import caffe2_pb2
from caffe2.python import core


@dataclass(frozen=True)
class Surroundings:
    """Nothing is set without a name, a node or a note. The device is always a CPU.

    In a scope it matters whether the targets are texts or the references that a net gives; where
    the net is built, they are references.
    """

    name: str = ""
    node: str = ""
    note: str = ""
    texts: bool = False

    def __bool__(self) -> bool:
        return bool(self.name or self.node or self.note)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as scopes:
            if self.name:
                scopes.enter_context(core.NameScope(self.name))
            if self.node or self.note:
                device = core.DeviceOption(
                    caffe2_pb2.CPU,
                    node_name=self.node or None,
                    extra_info=[self.note] if self.note else None,
                )
                scopes.enter_context(core.DeviceScope(device))
            yield


NOWHERE = Surroundings()


def draw_surroundings(rng: random.Random, share: float) -> Surroundings:
    if rng.random() >= share:
        return NOWHERE
    return Surroundings(
        name=rng.choice(["", "tower", "outer/inner", "a"]),
        node=rng.choice(["", "", "node:1"]),
        note=rng.choice(["", "part:1", "part:2"]),
        texts=rng.random() < 0.2,
    )
