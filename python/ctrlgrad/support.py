"""What is known of each operator type."""

from __future__ import annotations

from . import _core
from .caffe2 import is_installed

__all__ = ["build_info", "has_gradient", "supported_operators"]


def has_gradient(op_type: str) -> str:
    """Whether operators of this type have a gradient.

    "maker": they have one (Do, If and While too). "none": they stop the walk without an error,
    their inputs get no gradient. "forbidden": to ask for one is an error. "unimplemented": the
    gradient exists in theory, and asking for it is an error. "unknown": no such type is known.

    Makers that are registered from Python are not looked at. Source: the gradient registry of
    torch 1.10.2 with its Detectron operators, and the sources of operators it was built without.
    """
    return _core.has_gradient(op_type)


def supported_operators() -> dict[str, str]:
    """Operator type -> the word of `has_gradient` for it, for each type that is known."""
    return dict(_core.makers())


def build_info() -> dict[str, str]:
    """What this ctrlgrad is.

    version, profile ("release" or "debug"), target (processor and system), reference (whose
    answers it gives where they are right), installed ("no", or under which Caffe2 it has been
    put by `install()`).
    """
    info = _core.build_info()
    info["installed"] = "no"
    if is_installed():
        from importlib import metadata

        try:
            info["installed"] = "under Caffe2 of torch %s" % metadata.version("torch")
        except metadata.PackageNotFoundError:
            info["installed"] = "under a Caffe2 that came without torch"
    return info
