"""The map from blobs to their gradients that comes back from a backward pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ._host import Host
from ._messages import CollectorHeld
from .blobs import GradientName, Name

_lock = threading.RLock()


class GradientMap(dict[Name, GradientName]):
    """Blob -> gradient: a dict whose references are made when somebody looks at them.

    Keys are `BlobReference`s, values are `BlobReference`s or `GradientSlice`s; both are found, and
    equal, under their text. Until they are looked at, the dict inside holds what the core gave,
    plain texts and pairs: what reads a dict past its methods, in C, finds those, which are equal.
    Copies, pickles and unions are plain dicts.
    """

    __slots__ = ("_host",)

    # Whose references are still to be made; None once all are there.
    _host: Host | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._host = None

    def _settled(self) -> dict[Name, GradientName]:
        """The dict, with all references made."""
        if self._host is not None:
            # Between clearing and filling no other thread may look: until all references are there,
            # every method takes the lock.
            with _lock:
                if self._host is not None:
                    with CollectorHeld():
                        blobs = self._host.references(map(str, super().keys()))
                        made = dict(zip(blobs, self._host.gradients(super().values())))
                    super().clear()
                    super().update(made)
                    self._host = None
        return self

    # ------------------------------------------------------------------------------ one entry

    def __getitem__(self, blob: Any) -> Any:
        if self._host is None:
            return super().__getitem__(blob)
        with _lock:
            found = super().__getitem__(blob)
            if self._host is None or type(found) not in (str, tuple):
                return found
            # The reference stays the one that it is.
            [made] = self._host.gradients([found])
            super().__setitem__(blob, made)
            return made

    def get(self, blob: Any, default: Any = None) -> Any:
        try:
            return self[blob]
        except KeyError:
            return default

    def __contains__(self, blob: Any) -> bool:
        if self._host is None:
            return super().__contains__(blob)
        with _lock:
            return super().__contains__(blob)

    def __len__(self) -> int:
        if self._host is None:
            return super().__len__()
        with _lock:
            return super().__len__()

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._settled(), other)

    def __ne__(self, other: object) -> bool:
        return dict.__ne__(self._settled(), other)

    __hash__ = None

    # ------------------------------------------------------------------------------ all entries

    def __iter__(self) -> Iterator[Name]:
        return dict.__iter__(self._settled())

    def __reversed__(self) -> Iterator[Name]:
        return dict.__reversed__(self._settled())

    def keys(self) -> Any:
        return dict.keys(self._settled())

    def values(self) -> Any:
        return dict.values(self._settled())

    def items(self) -> Any:
        return dict.items(self._settled())

    def __repr__(self) -> str:
        return dict.__repr__(self._settled())

    def copy(self) -> dict[Name, GradientName]:
        return dict.copy(self._settled())

    def __or__(self, other: Any) -> Any:
        return dict(self).__or__(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | dict(self) if isinstance(other, dict) else NotImplemented

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    # ------------------------------------------------------------------------------ changes

    def __setitem__(self, blob: Any, gradient: Any) -> None:
        dict.__setitem__(self._settled(), blob, gradient)

    def __delitem__(self, blob: Any) -> None:
        dict.__delitem__(self._settled(), blob)

    def __ior__(self, other: Any) -> Any:
        return dict.__ior__(self._settled(), other)

    def setdefault(self, blob: Any, default: Any = None) -> Any:
        return dict.setdefault(self._settled(), blob, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        dict.update(self._settled(), *args, **kwargs)

    def pop(self, *args: Any) -> Any:
        return dict.pop(self._settled(), *args)

    def popitem(self) -> tuple[Name, GradientName]:
        return dict.popitem(self._settled())

    def clear(self) -> None:
        dict.clear(self._settled())


def empty_map(host: Host) -> GradientMap:
    """A map for the core to fill. The one place where lazy maps are made."""
    grads = GradientMap.__new__(GradientMap)
    grads._host = host
    return grads
