"""The exceptions of ctrlgrad.

`CtrlgradError` is the base of all of them. Each class also derives from the class that
Caffe2 raises in the same situation, so an `except` clause written for Caffe2 goes on
catching. Where Caffe2 raises a bare `Exception`, `CtrlgradError` itself is enough.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "BindingsError",
    "ConflictError",
    "ControlFlowError",
    "CtrlgradError",
    "DeviceError",
    "ForbiddenError",
    "GradientCountError",
    "InexpressibleError",
    "InternalError",
    "MalformedError",
    "MissingPackageError",
    "MixedGradientsError",
    "NoGradientError",
    "OrphanError",
    "OverwriteError",
    "RefusedError",
    "SchemaError",
    "ScopeError",
    "SparseDeviceError",
    "TooDeepError",
    "UnimplementedError",
    "UnknownBlobError",
    "UsageError",
    "VersionError",
]

TEXT_LIMIT = 2000


class CtrlgradError(Exception):
    """The base of all exceptions of ctrlgrad.

    The text says what is wrong, where, and what to do about it, in fewer than 2,000
    characters. What a program may want to know stands in attributes:

    path: operator indices from the outermost net inwards; empty if no operator is meant.
    op_index: the last of them, the operator's index in its own net; None without a path.
    op_type: the type of that operator, or None.
    blob: the blob that is meant, or None.
    versions: (the version that is needed, the version that is there), or None.
    hint: what to do about it, or None.
    """

    def __init__(
        self,
        text: str = "",
        *,
        path: tuple[int, ...] = (),
        op_type: str | None = None,
        blob: str | None = None,
        versions: tuple[int, int] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(shortened(text, TEXT_LIMIT - 1))
        self.path = tuple(path)
        self.op_type = op_type
        self.blob = blob
        self.versions = versions
        self.hint = hint

    @property
    def op_index(self) -> int | None:
        """The operator's index in its own net, or None."""
        return self.path[-1] if self.path else None

    def __str__(self) -> str:
        # KeyError, a base of one subclass, would print the repr of its argument.
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        # `path` is named because ImportError, a base of one subclass, keeps an attribute of
        # that name outside the __dict__.
        state = dict(self.__dict__, path=self.path)
        return type(self), self.args, state


class MalformedError(CtrlgradError, ValueError):
    """The bytes or the text are no net or operator."""


class TooDeepError(CtrlgradError, RecursionError):
    """Nets are nested deeper than ctrlgrad, or the installed protobuf, goes."""


class NoGradientError(CtrlgradError):
    """Nothing knows the gradient of this operator type."""


class ForbiddenError(NoGradientError):
    """The operator type is known to have no gradient, and to ask for one is an error."""


class RefusedError(NoGradientError):
    """The maker does not take the operator as it is, or a gradient of its output as it is."""


class UnimplementedError(NoGradientError):
    """The operator has a gradient in theory that nobody has written."""


class SchemaError(CtrlgradError):
    """An operator has more or fewer inputs or outputs than its type takes."""


class VersionError(CtrlgradError, RuntimeError):
    """A gradient speaks of another version of a blob than the operator wrote."""


class OverwriteError(CtrlgradError, RuntimeError):
    """A gradient operator needs a value that a later operator has overwritten."""


class ScopeError(CtrlgradError, RuntimeError):
    """A gradient operator reads a blob that its forward operator does not know."""


class OrphanError(CtrlgradError, ValueError):
    """Nothing reads what a StopGradient writes."""


class BindingsError(CtrlgradError, AssertionError):
    """The blob bindings of a Do do not fit its inputs, its outputs or its net."""


class ControlFlowError(CtrlgradError, AssertionError):
    """A Do, If or While is not built as its gradient needs it."""


class InexpressibleError(ControlFlowError, RuntimeError):
    """The gradient of a Do, If or While cannot be expressed with the operators there are."""


class DeviceError(CtrlgradError, RuntimeError):
    """Gradients that must be added up are on different devices."""


class GradientCountError(CtrlgradError, IndexError):
    """A registered gradient maker gives more gradients than the operator has inputs."""


class SparseDeviceError(DeviceError, AssertionError):
    """The indices and the values of a sparse gradient are on different devices."""


class MixedGradientsError(CtrlgradError, RuntimeError):
    """Dense and sparse gradients of one blob meet."""


class ConflictError(CtrlgradError, RuntimeError):
    """Two different gradients would have one name."""


class UnknownBlobError(CtrlgradError, ValueError, KeyError):
    """A name stands nowhere in the net."""


class ArgumentError(CtrlgradError, ValueError):
    """A value that was passed in is not usable, though its type is."""


class UsageError(CtrlgradError, TypeError):
    """Something of another type was expected."""


class MissingPackageError(CtrlgradError, ImportError):  # type: ignore[misc]  # both have a path
    """What was asked for needs a package that is not installed, or not in a usable version."""


class InternalError(CtrlgradError, RuntimeError):
    """A defect of ctrlgrad itself. Please report it."""


KINDS: dict[str, type[CtrlgradError]] = {
    "malformed": MalformedError,
    "too_deep": TooDeepError,
    "no_maker": NoGradientError,
    "forbidden": ForbiddenError,
    "refused": RefusedError,
    "unimplemented": UnimplementedError,
    "schema": SchemaError,
    "version": VersionError,
    "overwritten": OverwriteError,
    "out_of_scope": ScopeError,
    "orphan": OrphanError,
    "bindings": BindingsError,
    "control": ControlFlowError,
    "inexpressible": InexpressibleError,
    "devices": DeviceError,
    "gradient_count": GradientCountError,
    "sparse_devices": SparseDeviceError,
    "mixed": MixedGradientsError,
    "conflict": ConflictError,
    "unknown_blob": UnknownBlobError,
    "argument": ArgumentError,
    "internal": InternalError,
}


def build(
    kind: str,
    text: str,
    path: tuple[int, ...] = (),
    op_type: str | None = None,
    blob: str | None = None,
    versions: tuple[int, int] | None = None,
    hint: str | None = None,
) -> CtrlgradError:
    """The exception for an error of the core, to be raised by the core.

    kind: a key of `KINDS`; a kind that is not there is a defect, and becomes InternalError.
    text: the whole text, with place and hint.
    """
    return KINDS.get(kind, InternalError)(
        text, path=tuple(path), op_type=op_type, blob=blob, versions=versions, hint=hint
    )


def shortened(text: str, limit: int) -> str:
    """The text, shortened in its middle if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    head = (limit - 3) * 2 // 3
    return text[:head] + "..." + text[len(text) - (limit - 3 - head) :]
