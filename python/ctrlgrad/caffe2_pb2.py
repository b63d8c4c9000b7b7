"""Message classes with the Caffe2 schema: `NetDef`, `OperatorDef`, `Argument`, ...

They are used like those of `caffe2.proto.caffe2_pb2`, and need no Caffe2: the schema is that
of torch 1.10.2. They live in a descriptor pool of their own and are made when one is first
asked for, so importing this module costs nothing and imports no protobuf. Without the
protobuf package asking for one raises `ctrlgrad.MissingPackageError`.
"""

from __future__ import annotations

from typing import Any

from . import _messages


def __getattr__(name: str) -> Any:
    # What the import system and inspection ask any module for must not need protobuf.
    if not name.startswith("__"):
        try:
            value = _messages.own_names()[name]
        except KeyError:
            pass
        else:
            globals()[name] = value
            return value
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_messages.own_names()} - {"annotations", "Any", "List"})
