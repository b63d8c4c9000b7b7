"""Messages with more nested nets than protobuf parses.

protobuf follows 100 levels of messages, which is 33 nets. Messages that are built in memory may
go deeper. So here every net is parsed alone, with the nets inside it as bytes, and then filled
in where it belongs.
"""

from __future__ import annotations

import threading
from typing import Any

from . import _messages

_lock = threading.Lock()
_flat: Any = None


def parse(cls: Any, wire: bytes) -> Any:
    """The NetDef or OperatorDef of class `cls` with that wire form; raises what protobuf raises."""
    flat = _flat_net()
    if _messages.full_name(cls) == _messages.NET:
        net = cls()
        _fill(net, flat.FromString(wire))
        return net
    net = _messages.net_class(cls)()
    shell = flat()
    shell.op.add().MergeFromString(wire)
    _fill(net, shell)
    return net.op[0]


def _fill(net: Any, flat_net: Any) -> None:
    waiting = [(net, flat_net)]
    while waiting:
        target, source = waiting.pop()
        nested = []
        for at, owner in enumerate([source, *source.op]):
            for number, arg in enumerate(owner.arg):
                if arg.n or arg.nets:
                    nested.append((at, number, list(arg.n), list(arg.nets)))
                    arg.ClearField("n")
                    arg.ClearField("nets")
        target.MergeFromString(source.SerializeToString())
        owners = [target, *target.op]
        for at, number, occurrences, nets in nested:
            arg = owners[at].arg[number]
            if occurrences:
                # The occurrences of a field that is not repeated are merged: their bytes, joined.
                arg.n.SetInParent()
                waiting.append((arg.n, type(source).FromString(b"".join(occurrences))))
            for each in nets:
                waiting.append((arg.nets.add(), type(source).FromString(each)))


def _flat_net() -> Any:
    """A NetDef class whose arguments hold nets as bytes. The wire form is the same."""
    global _flat
    with _lock:
        if _flat is None:
            from google.protobuf import descriptor_pb2

            from ._schema import FILE

            file = descriptor_pb2.FileDescriptorProto.FromString(FILE)
            [argument] = [message for message in file.message_type if message.name == "Argument"]
            for field in argument.field:
                if field.name in ("n", "nets"):
                    field.type = field.TYPE_BYTES
                    field.label = field.LABEL_REPEATED
                    field.ClearField("type_name")
            pool, get_class = _messages.pool_of(file.SerializeToString())
            _flat = get_class(pool.FindMessageTypeByName(_messages.NET))
        return _flat
