"""ctrlgrad under Caffe2: `install()` lets Caffe2's own interface give ctrlgrad's gradients.

What is put in place, under `caffe2.python.core` and `caffe2.python.control_ops_grad`, and in every
loaded module that has imported such a name from there, under that name:

- the class `IR`; the functions `gen_do_gradient`, `gen_if_gradient`, `gen_while_gradient`,
  `get_ssa`, `get_undefined_blobs`, `get_output_producers`, `get_op_ids_in_path`;
- the methods `GetBackwardPass` and `GetGradientForOp` of `core.GradientRegistry`. The class stays
  the one that it was, and so does its dict of registered makers, in which the functions for Do, If
  and While are replaced.

The answers are made of Caffe2's classes. Importing this module does not import Caffe2.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from . import _core, _messages, ir
from ._gradient_map import GradientMap
from ._host import NATIVE, OURS, Host, Maker, Scope
from .blobs import Gradient, gradients_to_core, targets_to_core
from .errors import CtrlgradError, MissingPackageError
from .gradients import Operator, Targets, of_operators, one_operator

__all__ = ["install", "installed", "is_installed", "uninstall"]

CORE = "caffe2.python.core"
CONTROL_OPS_GRAD = "caffe2.python.control_ops_grad"


RIGHT_ALONE = frozenset(("MatMul", "Sqr"))
"""Types of which the makers of torch 1.10.2 are wrong even where nothing is peculiar, so that ours
differ on purpose. Source: the golden cases op/wrong/MatMul and op/maker/Sqr."""


class Caffe2(Host):
    """Caffe2 as the host: its classes, its registries, its scopes."""

    has_first = True

    def __init__(self, core: Any, scope: Any) -> None:
        super().__init__()
        self.registry = core.GradientRegistry.gradient_registry_
        self.blob_reference = core.BlobReference
        self.gradient_slice = core.GradientSlice
        self.op_ssa = core.OpSSA
        self.grad_gen_meta = core.GradGenMeta
        self.sparse_grad_gen_meta = core.SparseGradGenMeta
        self._is_operator = core.IsOperator
        self._cpp = core.C
        self._scope = scope
        self._first: dict[str, bool] = {}

    def makers(self) -> dict[str, Maker]:
        """The makers registered with Caffe2, and those registered with ctrlgrad."""
        return {**OURS.makers(), **super().makers()}

    def scope(self) -> Scope:
        """Caffe2's scopes in this thread."""
        name = self._scope.CurrentNameScope() or ""
        device = self._scope.CurrentDeviceScope()
        if device is None:
            return (name, None) if name else None
        return name, device.SerializeToString()

    def in_scope(self, y: object) -> bool:
        """Caffe2 names the ones of a target in the scope. That of a name in full is a mistake."""
        return isinstance(y, self.blob_reference)

    def operator_class(self, messages: list[Any]) -> Any:
        """Caffe2's class, whatever class the question has."""
        return _messages.default_class("OperatorDef")

    def is_bare(self, op: Any) -> bool:
        """Not where a maker in C++ goes first, which may read it all."""
        known = self._first.get(op.type)
        return not (self.goes_first(op.type, op.SerializeToString()) if known is None else known)

    # ------------------------------------------------ makers of the installed Caffe2, in C++

    def goes_first(self, op_type: str, wire: bytes) -> bool:
        """Whether the C++ registry knows the type, and knows it otherwise than the core's table.

        A type that the registry does not have stays ours.
        """
        if not self._is_operator(op_type):
            return False  # and none to remember: its library may still be loaded
        first = self._first.get(op_type)
        if first is None:
            first = op_type not in RIGHT_ALONE and self._differs(op_type, wire)
            self._first[op_type] = first
        return first

    def _differs(self, op_type: str, wire: bytes) -> bool:
        """Both are asked about an operator like this one that has no peculiarities: blobs of its
        own, none of them twice, and a gradient for each of its outputs."""
        op = _messages.from_bytes(_messages.default_class("OperatorDef"), wire)
        g_output: list[Gradient] = ["gy%d" % at for at in range(len(op.output))]
        # Some types must work in place.
        inputs = {blob: "x%d" % at for at, blob in reversed(list(enumerate(op.input)))}
        op.output[:] = [inputs.get(blob, "y%d" % at) for at, blob in enumerate(op.output)]
        op.input[:] = ["x%d" % at for at in range(len(op.input))]
        try:
            theirs = self._ask_cpp(op, g_output)
        except Exception as error:
            # A type that is not there at all, or is known to both as one that refuses.
            return "Has(" not in str(error) and _core.has_gradient(op_type) == "unknown"
        try:
            ours = one_operator(OURS, _core.operator_gradient, op, g_output)
        except CtrlgradError:
            return True
        cls = _messages.default_class("OperatorDef")
        return _messages.messages_from_bytes(cls, theirs[0]) != ours[0] or theirs[1] != ours[1]

    def _ask_cpp(self, op: Any, g_output: list[Gradient]) -> tuple[list[bytes], list[Gradient]]:
        """The answer of the C++ registry; what it raises is a plain RuntimeError.

        Not by way of `core.GradientRegistry`, which takes a name of two letters for a pair.
        """
        given = []
        for gradient in g_output:
            wrapped = self._cpp.GradientWrapper()
            if isinstance(gradient, tuple):
                wrapped.indices, wrapped.values = gradient
            elif gradient is not None:
                wrapped.dense = gradient
            given.append(wrapped)
        ops, g_input = self._cpp.get_gradient_defs(op.SerializeToString(), given)
        return list(ops), [
            (wrapped.indices, wrapped.values) if wrapped.is_sparse() else wrapped.dense or None
            for wrapped in g_input
        ]

    def ask_first(self, op: Any, g_output: list[Any]) -> tuple[list[bytes], list[Gradient]] | None:
        """The answer of the C++ registry, for types that go first."""
        if not self._first.get(op.type):
            return None
        return self._ask_cpp(op, gradients_to_core(g_output))


# ------------------------------------------------------------------- what is put in place


class IR(ir.IR):
    """`ctrlgrad.IR` with Caffe2's classes, scopes and makers."""


def GetBackwardPass(
    cls: Any, operators: Iterable[Any], ys: Targets, ys_generate_gradient: bool = False
) -> tuple[list[Any], GradientMap]:
    """`ctrlgrad.GradientRegistry.GetBackwardPass` with Caffe2's classes, scopes and makers."""
    host = _host()
    messages = _messages.operators_of(operators)
    return of_operators(host, messages, targets_to_core(ys, host.in_scope))


def GetGradientForOp(
    cls: Any, op: Operator, g_output: Iterable[Any]
) -> tuple[list[Operator], list[Any]]:
    """`ctrlgrad.GradientRegistry.GetGradientForOp` with Caffe2's classes, scopes and makers."""
    return one_operator(_host(), _core.operator_gradient, op, g_output)


def gen_do_gradient(op: Operator, g_output: Iterable[Any]) -> tuple[list[Operator], list[Any]]:
    """`ctrlgrad.gen_do_gradient` with Caffe2's classes, scopes and makers."""
    return one_operator(_host(), partial(_core.control_gradient, "Do"), op, g_output)


def gen_if_gradient(op: Operator, g_output: Iterable[Any]) -> tuple[list[Operator], list[Any]]:
    """`ctrlgrad.gen_if_gradient` with Caffe2's classes, scopes and makers."""
    return one_operator(_host(), partial(_core.control_gradient, "If"), op, g_output)


def gen_while_gradient(op: Operator, g_output: Iterable[Any]) -> tuple[list[Operator], list[Any]]:
    """`ctrlgrad.gen_while_gradient` with Caffe2's classes, scopes and makers."""
    return one_operator(_host(), partial(_core.control_gradient, "While"), op, g_output)


def get_ssa(net: Any, blob_versions: dict[str, int] | None = None) -> tuple[Any, dict[str, int]]:
    """`ctrlgrad.get_ssa`."""
    return ir.get_ssa(net, blob_versions)


def get_undefined_blobs(ssa: Any) -> set[str]:
    """`ctrlgrad.get_undefined_blobs`."""
    return ir.get_undefined_blobs(ssa)


def get_output_producers(ssa: Any) -> dict[tuple[str, int], int]:
    """`ctrlgrad.get_output_producers`."""
    return ir.get_output_producers(ssa)


def get_op_ids_in_path(
    ssa: Any, blob_versions: dict[str, int], inputs: Iterable[Any], outputs: Iterable[Any]
) -> list[int]:
    """`ctrlgrad.get_op_ids_in_path`."""
    return ir.get_op_ids_in_path(ssa, blob_versions, inputs, outputs)


NATIVE.update((gen_do_gradient, gen_if_gradient, gen_while_gradient))

# Objects that stand nowhere else, so that those that have been put somewhere are told from what a
# user has imported from ctrlgrad.
NAMES: dict[str, Any] = {
    thing.__name__: thing
    for thing in (
        IR,
        gen_do_gradient,
        gen_if_gradient,
        gen_while_gradient,
        get_ssa,
        get_undefined_blobs,
        get_output_producers,
        get_op_ids_in_path,
    )
}
METHODS = {
    "GetBackwardPass": classmethod(GetBackwardPass),
    "GetGradientForOp": classmethod(GetGradientForOp),
}
CONTROL = {"Do": gen_do_gradient, "If": gen_if_gradient, "While": gen_while_gradient}


# --------------------------------------------------------------------- putting it in place

_lock = threading.RLock()
_caffe2: Caffe2 | None = None


def _host() -> Caffe2:
    """The Caffe2 of this process, imported if need be. Raises MissingPackageError."""
    global _caffe2
    if _caffe2 is None:
        try:
            core, scope = map(importlib.import_module, (CORE, "caffe2.python.scope"))
        # Caffe2 leaves the process where it cannot load its extension.
        except (Exception, SystemExit) as error:
            raise MissingPackageError(
                "ctrlgrad.install needs Caffe2, which cannot be imported (%s: %s). It comes with "
                "torch 1.10.2 for CPython 3.9, and does not work with protobuf 3.21 or newer. "
                'Install both with: pip install "torch==1.10.2" "ctrlgrad[caffe2]"'
                % (type(error).__name__, error)
            ) from error
        with _lock:
            if _caffe2 is None:
                _caffe2 = IR._host = Caffe2(core, scope)
    return _caffe2


class _Place:
    """A name that is replaced: in a module, in a class, or in the dict of registered makers."""

    def __init__(self, holder: Any, name: str, before: Any, now: Any) -> None:
        self._holder, self._name, self._before, self._now = holder, name, before, now

    def put(self) -> None:
        self._set(self._now)

    def take_away(self) -> None:
        """Puts back what was there, unless somebody has put a third thing there."""
        if self._get() is self._now:
            self._set(self._before)

    def _get(self) -> Any:
        if isinstance(self._holder, dict):
            return self._holder.get(self._name)
        return vars(self._holder).get(self._name)

    def _set(self, thing: Any) -> None:
        if isinstance(self._holder, dict):
            self._holder[self._name] = thing
        else:
            setattr(self._holder, self._name, thing)


class _Installation:
    """Everything that has been replaced."""

    def __init__(self) -> None:
        homes = [importlib.import_module(name) for name in (CORE, CONTROL_OPS_GRAD)]
        self._before: dict[str, list[Any]] = {
            name: [vars(home)[name] for home in homes if name in vars(home)] for name in NAMES
        }
        registry = homes[0].GradientRegistry
        makers = registry.gradient_registry_
        self._places = [
            *(
                _Place(home, name, vars(home)[name], NAMES[name])
                for home in homes
                for name in NAMES
                if name in vars(home)
            ),
            *(_Place(registry, name, vars(registry)[name], METHODS[name]) for name in METHODS),
            # What a user has registered for Do, If or While stays.
            *(
                _Place(makers, op_type, makers[op_type], CONTROL[op_type])
                for op_type in CONTROL
                if getattr(makers.get(op_type), "__module__", None) == CONTROL_OPS_GRAD
            ),
            *(
                _Place(module, name, thing, NAMES[name])
                for module, name, thing in _imported()
                if any(thing is before for before in self._before[name])
            ),
        ]
        for place in self._places:
            place.put()

    def undo(self) -> None:
        for place in self._places:
            place.take_away()
        for module, name, thing in _imported():
            if thing is NAMES[name]:
                setattr(module, name, self._before[name][0])


def _imported() -> Iterator[tuple[ModuleType, str, Any]]:
    """What the loaded modules, but for this package's, have under the names that are replaced."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.partition(".")[0] != "ctrlgrad":
            for name in NAMES:
                if name in module.__dict__:
                    yield module, name, module.__dict__[name]


_installation: _Installation | None = None
_lasting = False  # put in place by install(), not by installed() alone
_contexts = 0
_epoch = 0  # counts the calls of uninstall(), behind which contexts that were open have no say


def _update() -> None:
    """Puts in place or takes away, as it is wanted now."""
    global _installation
    wanted = _lasting or _contexts > 0
    if wanted and _installation is None:
        _installation = _Installation()
    elif not wanted and _installation is not None:
        _installation.undo()
        _installation = None


def install() -> None:
    """From now on, Caffe2's interface gives ctrlgrad's gradients. Calling it again does nothing.

    `net.AddGradientOperators`, `model.AddGradientOperators`, recurrent nets, `gradient_checker`
    and whatever else asks `caffe2.python.core` for gradients is served. Caffe2 is imported if it
    has not been. Raises MissingPackageError, an ImportError, where that is not possible.
    """
    global _lasting
    _host()
    with _lock:
        _lasting = True
        _update()


def uninstall() -> None:
    """Caffe2 gives its own gradients again: every replaced name is the object that it was.

    Does nothing if ctrlgrad is not installed. It also ends what `installed()` has put in place.
    """
    global _lasting, _contexts, _epoch
    with _lock:
        _lasting, _contexts, _epoch = False, 0, _epoch + 1
        _update()


@contextmanager
def installed() -> Iterator[None]:
    """`with ctrlgrad.installed():` is `install()`, and `uninstall()` at its end.

    It can be nested, and used by several threads: Caffe2 gives its own gradients again when the
    last one has ended, unless `install()` was called. All threads see it.
    """
    global _contexts
    _host()
    with _lock:
        epoch = _epoch
        _contexts += 1
        _update()
    try:
        yield
    finally:
        with _lock:
            if epoch == _epoch:
                _contexts -= 1
                _update()


def is_installed() -> bool:
    """Whether Caffe2's interface gives ctrlgrad's gradients."""
    return _installation is not None
