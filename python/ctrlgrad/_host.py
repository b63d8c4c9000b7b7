"""For whom an answer is made: whose classes it has, whose makers are asked, whose scopes count.

There are two hosts: this package by itself (`OURS`), and the Caffe2 that `ctrlgrad.install`
was called for (`ctrlgrad.caffe2`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, NamedTuple, Optional

from . import _messages
from .blobs import BlobReference, Gradient, GradientSlice, references

Maker = Callable[..., Any]
Scope = Optional[tuple[str, Optional[bytes]]]
"""(name scope with its slash at the end, or an empty text; device option in wire form, or None)."""

NATIVE: set[Maker] = set()
"""Functions that stand in a registry for makers of the core. Any other one is a user's."""


class OpSSA(NamedTuple):
    """An operator, and the version of each blob that it reads and writes."""

    op: Any
    in_versions: dict[str, int]
    out_versions: dict[str, int]


class GradGenMeta(NamedTuple):
    """Who gives a dense gradient: an operator's output, or None and 0 if it was passed in."""

    grad_op: Any
    idx: int | None
    gradient: str
    device_option: Any


class SparseGradGenMeta(NamedTuple):
    """Who gives the two parts of a sparse gradient."""

    grad_op_indices: Any
    idx_indices: int
    grad_op_values: Any
    idx_values: int
    gradient: GradientSlice
    device_option: Any


class Host:
    """This package by itself. Caffe2 as a host is a subclass."""

    blob_reference: Any = BlobReference
    gradient_slice: Any = GradientSlice
    op_ssa: Any = OpSSA
    grad_gen_meta: Any = GradGenMeta
    sparse_grad_gen_meta: Any = SparseGradGenMeta
    has_first = False
    """Whether `goes_first` is worth a question."""

    def __init__(self) -> None:
        self.registry: dict[str, Maker] = {}

    def makers(self) -> dict[str, Maker]:
        """The makers written in Python, by operator type; those of the core are left out."""
        return {op_type: maker for op_type, maker in self.registry.items() if maker not in NATIVE}

    def goes_first(self, op_type: str, wire: bytes) -> bool:
        """Whether the host has a maker of the type that is asked before the core's."""
        return False

    def ask_first(self, op: Any, g_output: list[Any]) -> tuple[list[bytes], list[Gradient]] | None:
        """The answer of such a maker; None if there is none. RuntimeError if it refuses."""
        return None

    def scope(self) -> Scope:
        """The scopes that are open; None if there are none."""
        return None

    def in_scope(self, y: object) -> bool:
        """Whether the ones that a target starts with are named in the name scope."""
        return False

    def wires(self, operators: list[Any]) -> list[bytes]:
        """The operators of a forward net in wire form, as the core takes them."""
        return _messages.forward_to_bytes(operators, self.is_bare)

    def is_bare(self, op: Any) -> bool:
        """Whether nobody looks at what an operator of a silent type has in its arguments.

        Makers written in Python get the caller's own operators.
        """
        return True

    def operator_class(self, messages: list[Any]) -> Any:
        """The class that answers have for these operators."""
        return type(messages[0]) if messages else _messages.default_class("OperatorDef")

    def gradient(self, gradient: Gradient) -> Any:
        """A gradient of the core, as makers written in Python and `GetGradientForOp` have it."""
        return self.gradient_slice(*gradient) if isinstance(gradient, tuple) else gradient

    def references(self, names: Iterable[str]) -> list[Any]:
        """Names of the core as blob references."""
        return list(map(self.blob_reference, names))

    def gradients(self, gradients: Iterable[Any]) -> list[Any]:
        """Gradients of the core, texts and pairs of texts, as maps of gradients have them.

        What is no text and no pair is one of these already, and stays.
        """
        found = list(gradients)
        if set(map(type, found)) == {str}:
            return self.references(found)
        dense = iter(self.references([each for each in found if type(each) is str]))
        return [
            next(dense)
            if type(each) is str
            else self.gradient_slice(*self.references(each))
            if type(each) is tuple
            else each
            for each in found
        ]


class _Ours(Host):
    def references(self, names: Iterable[str]) -> list[Any]:
        return references(names)


OURS = _Ours()
