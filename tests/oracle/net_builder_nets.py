"""Random nets from `NetBuilder`: branches and loops inside each other, over shared parameters."""

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from caffe2.python import core
from caffe2.python.net_builder import NetBuilder, ops

from .built import Built, Materials, builder

SHAPE = (2, 3)
DEPTH = 3
UNARY = ("Sigmoid", "Tanh", "Copy", "Negative", "Softmax", "Scale", "Sqr", "Relu")
BINARY = ("Add", "Mul", "Sub")
UPDATES = ("Sigmoid", "Tanh", "Negative", "Relu")
NEVER_IN_PLACE = ("Copy", "Softmax")


@dataclass
class Room:
    """The blobs that a block sees. What it makes is gone behind it, what it overwrites is not."""

    around: Optional["Room"] = None
    own: list[core.BlobReference] = field(default_factory=list)
    turns: list[list[core.BlobReference]] = field(default_factory=list)  # counters and limits

    def __post_init__(self) -> None:
        self.depth: int = self.around.depth + 1 if self.around else 0
        self.turns = self.turns + (self.around.turns if self.around else [])

    def blobs(self) -> list[core.BlobReference]:
        return self.own[::-1] + (self.around.blobs() if self.around else [])

    def made(self, blob: core.BlobReference) -> None:
        if blob in self.own:
            self.own.remove(blob)
        if blob not in self.blobs():
            self.own.append(blob)


class Work:
    """A net in the making."""

    def __init__(self, materials: Materials):
        self.draw = materials.choices
        self.named = 0
        floats = materials.floats
        self.inputs = [floats("x%d" % i, *SHAPE) for i in range(3)]
        self.layers = [[floats("w%d" % i, 3, 3), floats("b%d" % i, 3)] for i in range(2)]
        self.tables = [floats("table%d" % i, 3, 3) for i in range(2)]
        self.rows = [
            materials.feed("rows%d" % i, np.array(rows, np.int32))
            for i, rows in enumerate(([0, 2], [1, 1]))
        ]
        self.conditions = [materials.condition("cond%d" % i) for i in range(2)]
        self.limits = [materials.count("n%d" % i) for i in range(2)]

    def read(self, room: Room) -> core.BlobReference:
        """A late blob more often than an early one."""
        blobs = room.blobs()
        return blobs[min(self.draw.below(len(blobs)), self.draw.below(len(blobs)))]

    def place(self, room: Room) -> list[Any]:
        """Where an operator writes: to a blob that Caffe2 names, one that we name, an old one."""
        where = self.draw.pick(["unnamed"] * 6 + ["named"] * 6 + ["old"])
        if where == "old":
            return [self.read(room)]
        self.named += 1
        return ["h%d" % self.named] if where == "named" else []

    def fill(self, room: Room, most: int, target: Optional[core.BlobReference] = None) -> None:
        """At least one operator; in a block, one that changes something outside of it."""
        if target:
            self.update(room, target)
        else:
            self.plain(room, [])
        for _ in self.draw.more(most):
            kind = self.draw.pick(["plain"] * 6 + ["if", "if", "while", "while"])
            if kind == "plain" or room.depth == DEPTH:
                self.plain(room, self.place(room))
            elif kind == "if":
                self.branches(room)
            else:
                self.loop(room)

    def prepare(self, room: Room) -> core.BlobReference:
        """What a block is to change: mostly a value that nobody has read yet, for most gradients
        of those who have would need the old one."""
        if self.draw.chance(10):
            return self.read(room)
        copy = ops.Copy(self.read(room))
        room.made(copy)
        return copy

    def update(self, room: Room, blob: core.BlobReference) -> None:
        """Mostly by an operator whose gradient does without the value before."""
        if self.draw.chance(15):
            self.plain(room, [blob])
        elif self.draw.chance(50):
            getattr(ops, self.draw.pick(UPDATES))(blob, blob)
        else:
            op_type = self.draw.pick(["Add", "Sub", "Sum"])
            others = [other for other in room.blobs() if other != blob]
            getattr(ops, op_type)([blob, self.draw.pick(others)], blob)

    def plain(self, room: Room, out: list[Any]) -> None:
        draw = self.draw
        kind = draw.pick(["one", "two", "layer", "sum", "look-up", "stop"])
        first = self.read(room)
        if kind == "one":
            op_type = draw.pick(UNARY)
            if op_type in NEVER_IN_PLACE and out == [first]:
                out = []
            args = {"scale": draw.pick([0.5, 2.0, -1.0])} if op_type == "Scale" else {}
            made = getattr(ops, op_type)(first, *out, **args)
        elif kind == "two":
            made = getattr(ops, draw.pick(BINARY))([first, self.read(room)], *out)
        elif kind == "layer":
            made = ops.FC([first, *draw.pick(self.layers)], *(out if out != [first] else []))
        elif kind == "sum":
            summands = [first] + [self.read(room) for _ in draw.more(3)]
            others = [blob for blob in summands if blob not in out]
            made = ops.Sum((out if len(others) < len(summands) else []) + others, *out)
        elif kind == "stop":
            made = ops.Add([ops.StopGradient(first), self.read(room)], *out)
        else:
            found = ops.Gather([draw.pick(self.tables), draw.pick(self.rows)])
            made = ops.Add([first, found], *out)
        room.made(made)

    def branches(self, room: Room) -> None:
        target = self.prepare(room)
        if room.turns and self.draw.chance(40):
            cond = ops.LT(self.draw.pick(room.turns))
        else:
            cond = self.draw.pick(self.conditions)
        with ops.IfNet(cond):
            self.fill(Room(room), 3, target)
        if self.draw.chance(60):
            with ops.Else():
                self.fill(Room(room), 3, target)

    def loop(self, room: Room) -> None:
        target = self.prepare(room)
        count, one = ops.Const([0], dtype=np.int32), ops.Const([1], dtype=np.int32)
        limit = self.draw.pick(self.limits)
        with ops.WhileNet():
            with ops.Condition():
                ops.Add([count, one], [count])
                ops.LE([count, limit])
            self.fill(Room(room, turns=[[count, limit]]), 3, target)


@builder
def net_builder(materials: Materials) -> Built:
    work = Work(materials)
    room = Room(own=work.inputs[::-1])
    with NetBuilder(_use_control_ops=True, initial_scope=list(materials.feeds)) as made:
        work.fill(room, 8)
    [net] = made.get()
    return Built(net, materials.targets(net, room.own), net.AddGradientOperators)
