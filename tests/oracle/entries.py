"""The ways in which a backward pass is asked for, and what must be the same in all of them.

`GradientRegistry.GetBackwardPass` of either package is asked with operators. What `install` puts
under Caffe2 is asked as Caffe2's users do it, by `AddGradientOperators`.
"""

import contextlib
import importlib
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import canonical
from caffe2.proto import caffe2_pb2
from caffe2.python import core

from .built import build, unused_names
from .generate import Case
from .surroundings import NOWHERE, Surroundings

# What answers for the reference must be this one: a replaced one would agree with itself.
REFERENCE = core.GradientRegistry.__dict__["GetBackwardPass"]


@dataclass
class Answer:
    """Gradient operators and the map; or the error: its classes and its text."""

    ops: list[bytes] = field(default_factory=list)
    grads: dict[str, Any] = field(default_factory=dict)
    error: Optional[tuple[list[str], str]] = None
    forward: bytes = b""  # where gradients are a part of the forward net as well
    foreign: list[str] = field(default_factory=list)  # what is not of Caffe2's classes

    def messages(self):
        return [caffe2_pb2.OperatorDef.FromString(op) for op in self.ops]

    def forward_net(self):
        return caffe2_pb2.NetDef.FromString(self.forward) if self.forward else None

    def same(self, other: "Answer") -> bool:
        """Up to the order that the reference leaves to chance."""
        return (
            not self.error
            and not other.error
            and self.grads == other.grads
            and (self.ops == other.ops or plain(self.messages()) == plain(other.messages()))
            and (self.forward == other.forward or self.plain_forward() == other.plain_forward())
        )

    def plain_forward(self):
        net = self.forward_net()
        return plain(net.op) if net else []


plain = canonical.canonical


def plain_gradient(value):
    if isinstance(value, (tuple, list)):
        return [str(v) for v in value]
    return str(value)


def targets_of(package: Any, case: Case):
    name = core.BlobReference if case.surroundings and not case.surroundings.texts else str
    if not isinstance(case.ys, dict):
        return [name(y) for y in case.ys]
    return {
        name(y): package.GradientSlice(*g) if isinstance(g, list) else g for y, g in case.ys.items()
    }


# ------------------------------------------------------------------------ the ways in


def ask(subject: str, case: Case) -> Answer:
    """The answer of `ctrlgrad`, or of the reference (`caffe2`)."""
    if case.builder:
        return answered(subject, case, built)
    if case.surroundings:
        return answered(subject, case, added)
    return answered(subject, case, direct)


def answered(subject: str, case: Case, way: Callable[[str, Case], Answer]) -> Answer:
    if subject == "caffe2" and core.GradientRegistry.__dict__["GetBackwardPass"] is not REFERENCE:
        raise AssertionError("the reference is not itself any more")
    try:
        with unused_names():
            return way(subject, case)
    except BaseException as error:
        return Answer(error=([c.__name__ for c in type(error).__mro__], str(error)))


def direct(subject: str, case: Case) -> Answer:
    """The package's own function."""
    package = core if subject == "caffe2" else importlib.import_module(subject)
    ops, grads = package.GradientRegistry.GetBackwardPass(
        case.forward().op, targets_of(package, case)
    )
    return answer(ops, grads)


def replaced(subject: str, case: Case) -> Answer:
    """Caffe2's function, with the package in its place."""
    with entered(subject, case.surroundings):
        ops, grads = core.GradientRegistry.GetBackwardPass(
            case.forward().op, targets_of(core, case)
        )
    return answer(ops, grads, foreign(ops, grads))


def added(subject: str, case: Case) -> Answer:
    """A net of Caffe2 that gets its gradient operators."""
    with entered(subject, case.surroundings):
        net = core.Net(case.forward())
        return extended(net, targets_of(core, case), net.AddGradientOperators)


def built(subject: str, case: Case) -> Answer:
    """A net that is built, with gradients all along."""
    with entered(subject, case.surroundings):
        made = build(case)
        return extended(made.net, made.ys, made.add_gradients)


@contextlib.contextmanager
def entered(subject: str, surroundings: Surroundings):
    with contextlib.ExitStack() as stack:
        if subject != "caffe2":
            stack.enter_context(importlib.import_module(subject).installed())
        stack.enter_context(surroundings.entered())
        yield


def extended(net: core.Net, ys: Any, add_gradients: Callable[[Any], Any]) -> Answer:
    forward = net.Proto().SerializeToString()
    count = len(net.Proto().op)
    grads = add_gradients(ys)
    ops = net.Proto().op[count:]
    return answer(ops, grads, foreign(ops, grads), forward)


def answer(ops, grads, foreign=(), forward: bytes = b"") -> Answer:
    return Answer(
        [op.SerializeToString() for op in ops],
        {str(k): plain_gradient(v) for k, v in grads.items() if v is not None},
        None,
        forward,
        list(foreign),
    )


# ------------------------------------------------------------------- what must be so


def foreign(ops, grads) -> list[str]:
    """What is not of the class that the reference gives."""
    found = [type(op) for op in ops if type(op) is not caffe2_pb2.OperatorDef]
    found += [type(blob) for blob in grads if type(blob) is not core.BlobReference]
    for gradient in grads.values():
        if type(gradient) is core.GradientSlice:
            found += [type(part) for part in gradient if type(part) is not core.BlobReference]
        elif type(gradient) is not core.BlobReference:
            found.append(type(gradient))
    return sorted({"%s.%s" % (cls.__module__, cls.__name__) for cls in found})


def disagreement(case: Case) -> str:
    """What differs between ctrlgrad's own function and what it puts under Caffe2. A net that is
    built is asked for as it comes out of the builder."""
    with entered("ctrlgrad", NOWHERE):  # once, for it goes through all loaded modules
        if case.builder:
            made = answered("ctrlgrad", case, built)
            if made.foreign:
                return "builder: of other classes: %s" % ", ".join(made.foreign)
            case = Case(made.forward or case.net, case.ys, [])
        else:
            case = Case(case.net, case.ys, [])
        wanted = answered("ctrlgrad", case, direct)
        for way in (replaced, added):
            got = answered("ctrlgrad", case, way)
            got.forward = b""
            if got.foreign:
                return "%s: of other classes: %s" % (way.__name__, ", ".join(got.foreign))
            if got.error != wanted.error:
                return "%s: %s instead of %s" % (way.__name__, got.error, wanted.error)
            if not got.error and not got.same(wanted):
                return "%s: another answer" % way.__name__
    return ""
