"""The Rust core: from bytes to bytes. Names that are not UTF-8 stand as surrogate escapes."""

from collections.abc import Iterable
from typing import Any, Literal, overload

from ._host import Scope
from .blobs import CoreTargets, Gradient
from .gradients import Makers

__all__ = [
    "DEPTH_LIMIT",
    "__version__",
    "backward",
    "build_info",
    "control_gradient",
    "get_ssa",
    "has_gradient",
    "makers",
    "may_lack_fields",
    "operator_gradient",
    "outline",
    "trace",
    "versions",
]

_Name = str | bytes

DEPTH_LIMIT: int
__version__: str

_Gradients = dict[Any, Any]

@overload
def backward(
    net: bytes,
    ys: CoreTargets,
    grads: _Gradients,
    makers: Makers | None,
    scope: Scope,
    *,
    known: bool = False,
    no_grad: list[str] | None = None,
    wrt: list[str] | None = None,
) -> bytes:
    """The gradient operators, as a serialized NetDef with nothing else in it.

    grads: is given the gradients of blobs, as names or pairs of names."""

@overload
def backward(
    net: list[bytes],
    ys: CoreTargets,
    grads: _Gradients,
    makers: Makers | None,
    scope: Scope,
    *,
    known: bool = False,
    no_grad: list[str] | None = None,
    wrt: list[str] | None = None,
) -> list[bytes]:
    """From operators; theirs come in such nets, one behind the other, none of them very long."""

def operator_gradient(
    op: bytes, g_output: list[Gradient], *, makers: Makers | None, scope: Scope
) -> tuple[list[bytes], list[Gradient]]: ...
def control_gradient(
    kind: Literal["Do", "If", "While"],
    op: bytes,
    g_output: list[Gradient],
    *,
    makers: Makers | None,
    scope: Scope,
) -> tuple[list[bytes], list[Gradient]]: ...
def outline(
    op_type: _Name,
    inputs: Iterable[_Name],
    outputs: Iterable[_Name],
    arguments: Iterable[_Name],
    device: bytes | None,
) -> bytes:
    """The wire form of an operator that no gradient is made from: the arguments are there, each
    with its name and nothing else."""

def may_lack_fields(ops: list[bytes]) -> list[int]:
    """Which of these operators hold something that has required fields. Most hold nothing such."""

def versions(ops: list[bytes]) -> list[tuple[list[int], list[int]]]:
    """For each operator the version of each input and of each output.

    A blob starts at version 0, whether it is read or written first. OrphanError for a
    StopGradient whose output nothing reads."""

_DenseEntry = tuple[Literal["dense"], int | None, int, str, int | None]
_SparseEntry = tuple[
    Literal["sparse"], int | None, int, int | None, int, tuple[str, str], int | None
]

def trace(
    ops: list[bytes],
    ys: CoreTargets,
    *,
    makers: Makers | None,
    scope: Scope,
) -> tuple[
    list[bytes],
    dict[str, str | tuple[str, str]],
    dict[str, int],
    list[tuple[str, int, list[_DenseEntry | _SparseEntry]]],
]:
    """`backward`, with what the walk knew: blob -> version that its gradient speaks of, and for
    each (blob, version) who gives its gradient, in order:

    ("dense", gradient operator, its output, gradient, forward operator)
    ("sparse", gradient operator of the indices, its output, of the values, its output,
     (indices, values), forward operator)

    Gradient operators are indices into the answer, None where the gradient was passed in or
    through; forward operators are indices into `ops`, None for the ones of a target."""

def get_ssa(
    net: bytes, blob_versions: dict[str, int]
) -> tuple[
    list[tuple[list[tuple[str, int]], list[tuple[str, int]]]],
    dict[str, int],
]:
    """(for each operator its inputs and its outputs as (blob, version), last versions).

    A blob starts at version 0, or where `blob_versions` has it, and each write adds one."""

def has_gradient(op_type: str) -> str: ...
def makers() -> list[tuple[str, str]]: ...
def build_info() -> dict[str, str]: ...
