"""Nets in files: binary (`.pb`) and protobuf's text format (`.pbtxt`)."""

from __future__ import annotations

import os
import re
import warnings
from typing import TYPE_CHECKING, Any, Union

from . import _messages
from .errors import MalformedError
from .gradients import MessageLike

if TYPE_CHECKING:
    from .caffe2_pb2 import NetDef

__all__ = ["load", "save"]

Path = Union[str, "os.PathLike[str]"]

TEXT_ENDINGS = (".pbtxt", ".prototxt", ".txt")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def load(path: Path) -> NetDef:
    """The net in a file.

    What the file holds decides how it is read. Only where that leaves it open does its ending:
    `.pbtxt`, `.prototxt` and `.txt` mean text.

    Returns a NetDef of Caffe2's class if Caffe2 has been imported, else of
    `ctrlgrad.caffe2_pb2`. Raises MalformedError, a ValueError, if the file holds no net;
    OSError if it cannot be read; MissingPackageError without protobuf.
    """
    cls = _messages.default_class("NetDef")
    with open(path, "rb") as file:
        data = file.read()
    # A binary net has an operator, and so its key, which is a control character; text has none.
    # Without operators a net in one format can look like the other.
    ways = [_from_text, _from_binary]
    if _CONTROL.search(data) or (not data.strip() and not _is_text(path)):
        ways.reverse()
    try:
        return ways[0](cls, data, path)
    except MalformedError as error:
        try:
            return ways[1](cls, data, path)
        except MalformedError:
            raise error from None


def save(net: bytes | MessageLike, path: Path) -> None:
    """Writes a net to a file: as text if it ends like text, else binary.

    net: a NetDef message of any class, or the bytes of one (`BackwardPass.ops_bytes`, say).
    Raises UsageError if it is neither, MissingPackageError where text is asked for without
    protobuf, and OSError if the file cannot be written.
    """
    data = _messages.net_to_bytes(net)
    if _is_text(path):
        message = _messages.from_bytes(_messages.default_class("NetDef"), data)
        data = _text_format().MessageToString(message).encode("utf-8")
    with open(path, "wb") as file:
        file.write(data)


def _is_text(path: Path) -> bool:
    return os.fspath(path).lower().endswith(TEXT_ENDINGS)


def _text_format() -> Any:
    try:
        from google.protobuf import text_format
    except ImportError as error:
        raise _messages.missing_protobuf("a net as text", error) from error
    return text_format


def _from_binary(cls: Any, data: bytes, path: Path) -> NetDef:
    try:
        with warnings.catch_warnings():
            # What protobuf 3.20 warns of is a file that it has read in part.
            warnings.simplefilter("error", RuntimeWarning)
            net: NetDef = _messages.from_bytes(cls, data)
    except MalformedError as error:
        raise MalformedError("%s: %s" % (os.fspath(path), error)) from error
    return net


def _from_text(cls: Any, data: bytes, path: Path) -> NetDef:
    text_format = _text_format()
    net: NetDef = cls()
    try:
        text_format.Parse(data, net)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(
            "%s: no net in protobuf's text format: %s" % (os.fspath(path), error)
        ) from error
    return net
