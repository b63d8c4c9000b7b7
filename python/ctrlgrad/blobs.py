"""Names of blobs and of gradients, as values.

A name is a `str` everywhere. Names are bytes in a protobuf and need not be UTF-8: what does
not decode stands as surrogate escapes (PEP 383), on the way in and on the way out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Callable, NamedTuple, Optional, Union

from .errors import ArgumentError, UsageError

__all__ = ["BlobReference", "GradientSlice"]


class _NoNameError(UsageError, RuntimeError):
    """A name was to be made longer by something that is no name."""


class BlobReference:
    """The name of a blob, with the net that it came from.

    It equals its text, as `str` and as UTF-8 `bytes`, and has the hash of the `str`: a
    mapping with references as keys is read with plain names. `net` is any object that makes
    operators by attribute (`net.Relu(inputs)`), as `caffe2.python.core.Net` does.

    Source: `caffe2.python.core.BlobReference` of torch 1.10.2.
    """

    # Backward passes make these by the ten thousand: only the name has a place of its own, all
    # else waits in a __dict__ that is not there before it is needed.
    __slots__ = ("__dict__", "__weakref__", "_name")

    _from_net: Any
    _name: str

    def __init__(self, name: object, net: Any = None) -> None:
        """A reference to the blob called `name`: a `str`, `bytes`, or what has it as text."""
        self._name = name if type(name) is str else text_of(name)
        if net is not None:
            self._from_net = net

    @property
    def meta(self) -> dict[Any, Any]:
        """A place for whatever a user wants to remember with the reference."""
        kept: dict[Any, Any] = self.__dict__.setdefault("_meta", {})
        return kept

    @meta.setter
    def meta(self, value: dict[Any, Any]) -> None:
        self.__dict__["_meta"] = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._name,), self.__dict__ or None

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._name == other
        if isinstance(other, BlobReference):
            return self._name == other._name
        if isinstance(other, bytes):
            return self._name == text_of(other)
        # Caffe2's class of the same name.
        return type(other).__name__ == "BlobReference" and self._name == str(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return 'BlobReference("%s")' % self._name

    def __add__(self, other: str) -> BlobReference:
        if not isinstance(other, str):
            raise _NoNameError("only a str can be appended to a BlobReference")
        return BlobReference(self._name + other, self.Net())

    def __radd__(self, other: str) -> BlobReference:
        if not isinstance(other, str):
            raise _NoNameError("a BlobReference can only be appended to a str")
        return BlobReference(other + self._name, self.Net())

    def Net(self) -> Any:
        """The net that the reference was made with, or None."""
        return self.__dict__.get("_from_net")

    def GetNameScope(self) -> str:
        """The name up to its last slash, with the slash."""
        return self._name[: self._name.rfind("/") + 1]

    def GetUnscopedName(self) -> str:
        """The name behind its last slash."""
        return self._name[self._name.rfind("/") + 1 :]

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """`reference.Relu(...)` is `net.Relu([reference], ...)`, for any operator type."""
        net = self.Net()
        if net is None or op_type.startswith("_"):
            raise AttributeError(
                "BlobReference has no attribute %r (operators can be made by attribute only "
                "if the reference was made with a net)" % op_type
            )

        def make(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            if inputs is None:
                more: list[Any] = []
            elif isinstance(inputs, (str, bytes)) or type(inputs).__name__ == "BlobReference":
                more = [inputs]
            else:
                more = list(inputs)
            return getattr(net, op_type)([self, *more], *args, **kwargs)

        return make


def references(names: Iterable[str]) -> list[BlobReference]:
    """References to many blobs, each name a plain `str`: past `__init__`, twice as fast."""
    names = list(names)
    made = list(map(object.__new__, repeat(BlobReference, len(names))))
    for reference, name in zip(made, names):
        reference._name = name
    return made


Name = Union[str, BlobReference]


class GradientSlice(NamedTuple):
    """A sparse gradient: the blob of the row numbers, and the blob of the rows.

    Source: `caffe2.python.core.GradientSlice` of torch 1.10.2, a tuple as well.
    """

    indices: Name
    values: Name


Gradient = Optional[Union[str, tuple[str, str]]]
"""A gradient as the core has it: none, the name of a dense one, or (indices, values)."""

Target = tuple[str, Gradient, bool]
"""A target as the core takes it: its name, its given gradient, and whether the ones that it starts
with without one are named in the name scope."""

CoreTargets = Union[list[Target], tuple[bytes, Optional[bytes]]]
"""Targets as the core takes them; or, where there is nothing special about them, two texts with all
names and all gradients (nothing for none), a zero byte between each two."""

GradientName = Union[BlobReference, GradientSlice]
"""A gradient in a map of gradients: the name of a dense one, or a sparse one."""


def text_of(name: object) -> str:
    """The name as a plain `str`. Takes `str`, `bytes`, or any object whose text is a name.

    Raises ArgumentError for a text that stands for no bytes (a lone surrogate).
    """
    if type(name) is str and name.isascii():
        return name
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    text = str(name)
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ArgumentError("%r is no name: %s" % (text[:80], error)) from error
    return text


def to_core(gradient: object) -> Gradient:
    """A gradient as the core takes it: None, a name, or (indices, values).

    Raises ArgumentError for a tuple or list that is no pair.
    """
    if gradient is None:
        return None
    if isinstance(gradient, (tuple, list)):
        if len(gradient) != 2:
            raise ArgumentError(
                "a sparse gradient is a pair (indices, values), and this one has %d entries: "
                "pass a GradientSlice" % len(gradient)
            )
        return text_of(gradient[0]), text_of(gradient[1])
    return text_of(gradient)


def gradients_to_core(gradients: object) -> list[Gradient]:
    """The gradients of an operator's outputs or inputs, as the core takes them.

    Raises UsageError if they are no list.
    """
    return [to_core(gradient) for gradient in listed(gradients, "the gradients")]


def targets_to_core(ys: object, in_scope: Callable[[object], bool] | None = None) -> list[Target]:
    """`ys` as the core takes it, in order.

    in_scope: tells of a target what `Target` says; None if none is.

    Raises UsageError, a TypeError as in Caffe2, if `ys` is neither list nor dict.
    """
    in_scope = in_scope or _nowhere
    if isinstance(ys, list):
        scopes = {text_of(y): in_scope(y) for y in ys}
        return [(name, None, scoped) for name, scoped in scopes.items()]
    if isinstance(ys, dict):
        targets = [(text_of(y), to_core(gradient), in_scope(y)) for y, gradient in ys.items()]
        if len({name for name, _, _ in targets}) != len(ys):
            raise ArgumentError("ys names a blob twice, as keys of different types")
        return targets
    raise UsageError(
        "ys must be a list of names, or a dict from names to their gradients (None: all ones), "
        "not %s" % type(ys).__name__
    )


def _nowhere(_: object) -> bool:
    return False


MANY = 8
"""Fewer targets are not worth being put together."""


def plain_targets(ys: object) -> CoreTargets:
    """`ys` for a caller without name scopes: many in two texts if it can be, by loops in C only.

    Raises what `targets_to_core` raises.
    """
    if not isinstance(ys, (list, dict)) or len(ys) < MANY or set(map(type, ys)) != {str}:
        return targets_to_core(ys)
    given: list[Any] = list(ys.values()) if isinstance(ys, dict) else []
    if not set(map(type, given)) <= {str, type(None)} or "" in given:
        return targets_to_core(ys)
    names, gradients = "\0".join(ys), "\0".join([gradient or "" for gradient in given])
    if not (names.isascii() and gradients.isascii()):
        return targets_to_core(ys)
    if names.count("\0") != len(ys) - 1 or gradients.count("\0") != max(len(given) - 1, 0):
        return targets_to_core(ys)
    return names.encode(), gradients.encode() if given else None


def names_to_core(names: object, what: str) -> list[str]:
    """A collection of names as a list of `str`. `what` is how the caller knows it.

    Raises UsageError if it is a single name or no collection.
    """
    return [text_of(name) for name in listed(names, what)]


def listed(values: Any, what: str) -> list[Any]:
    """The values as a list. Raises UsageError if they are one name, or not iterable."""
    # The repeated fields of some protobuf backends have no __iter__ and can be iterated even so.
    try:
        found = None if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        found = None
    if found is None:
        raise UsageError("%s must be a list, not %s" % (what, type(values).__name__))
    return found
