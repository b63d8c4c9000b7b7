"""Which message class to use, and how messages come from bytes.

The rules, and what they protect from:

- The answer has the class of the question. Messages are told by the full name of their
  type, never with `isinstance`: a program can hold several classes for one Caffe2 message,
  and messages of one must never be put among those of another. (protobuf 4.21 to 6.33
  appends *empty* messages without an error when that is tried.)
- Where there is no question to take a class from, Caffe2's classes are used if Caffe2 has
  been imported, else those of `ctrlgrad.caffe2_pb2`.
- Those are made on first use, in a descriptor pool of their own: Caffe2's `caffe2_pb2` can
  be imported before or after, and the default pool never hears of them.
"""

from __future__ import annotations

import copyreg
import gc
import sys
import threading
from functools import lru_cache
from operator import methodcaller
from typing import Any, Callable

from . import _core
from .blobs import listed
from .errors import ArgumentError, MalformedError, MissingPackageError, TooDeepError, UsageError

NET = "caffe2.NetDef"
OPERATOR = "caffe2.OperatorDef"
MODULE = "ctrlgrad.caffe2_pb2"

SILENT = frozenset(op_type for op_type, answer in _core.makers() if answer == "none")
"""Operator types that silently have no gradient. Fills are among them, which hold whole tensors."""

_lock = threading.RLock()
_own: dict[str, Any] | None = None


def missing_protobuf(purpose: str, error: ImportError) -> MissingPackageError:
    """The error for something that needs the protobuf package where there is none."""
    return MissingPackageError(
        "%s needs the package protobuf (3.20 or newer), which cannot be imported (%s). Install "
        "it with: pip install protobuf. ctrlgrad.backward_bytes works without it."
        % (purpose, error)
    )


# ------------------------------------------------------------------------------ classes


def own_names() -> dict[str, Any]:
    """Everything that `ctrlgrad.caffe2_pb2` offers, by name; made once.

    Raises MissingPackageError where protobuf is not installed.
    """
    global _own
    if _own is None:
        with _lock:
            if _own is None:
                _own = _make_names()
    return _own


def _make_names() -> dict[str, Any]:
    try:
        from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
    except ImportError as error:
        raise missing_protobuf("ctrlgrad.caffe2_pb2", error) from error
    from ._schema import FILE

    pool, get_class = pool_of(FILE)
    file = pool.FindFileByName("caffe2/proto/caffe2.proto")
    names: dict[str, Any] = {"DESCRIPTOR": file}
    for name, descriptor in file.message_types_by_name.items():
        names[name] = _named(get_class(descriptor), name, get_class)
    for name, enum in file.enum_types_by_name.items():
        names[name] = EnumTypeWrapper(enum)
        for value in enum.values:
            names[value.name] = value.number
            # caffe2.python adds these to Caffe2's module: CPU, CUDA, ...
            if value.name.startswith("PROTO_"):
                names[value.name[len("PROTO_") :]] = value.number
    return names


def pool_of(file: bytes) -> tuple[Any, Any]:
    """(a new pool that holds one serialized file, the function from descriptor to class)."""
    from google.protobuf import descriptor_pool, message_factory

    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file)
    factory: Any = message_factory
    if hasattr(factory, "GetMessageClass"):
        return pool, factory.GetMessageClass
    return pool, factory.MessageFactory(pool).GetPrototype


def _named(cls: Any, name: str, get_class: Any) -> Any:
    """The class with a name under which pickle finds it, and so its nested classes."""
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

    cls.__module__ = MODULE
    cls.__qualname__ = name
    for nested in cls.DESCRIPTOR.nested_types:
        inner = _named(get_class(nested), "%s.%s" % (name, nested.name), get_class)
        # The compiled backends look nested names up by themselves.
        if getattr(cls, nested.name, None) is not inner:
            setattr(cls, nested.name, inner)
        # protobuf looks for a pickled nested message in the default pool.
        copyreg.pickle(inner, _reduce_nested)
    for enum in cls.DESCRIPTOR.enum_types:
        if not hasattr(cls, enum.name):
            setattr(cls, enum.name, EnumTypeWrapper(enum))
    return cls


def _reduce_nested(message: Any) -> tuple[Any, ...]:
    return type(message), (), message.__getstate__()


def default_class(name: str) -> Any:
    """The class of that name for messages that answer no message: Caffe2's, if it is there."""
    caffe2 = sys.modules.get("caffe2.proto.caffe2_pb2")
    # While Caffe2 is being imported its module is there before its classes are.
    cls = getattr(caffe2, name, None)
    return own_names()[name] if cls is None else cls


def _full_name(cls: Any) -> str | None:
    name = getattr(getattr(cls, "DESCRIPTOR", None), "full_name", None)
    return name if isinstance(name, str) and hasattr(cls, "SerializeToString") else None


full_name: Callable[[Any], str | None] = lru_cache(_full_name)
"""The full protobuf name of a message class; None for any other type."""


def check_class(cls: type, wanted: str) -> None:
    """Raises UsageError unless `cls` is a message class of that full name."""
    found = full_name(cls)
    if found == wanted:
        return
    hint = ""
    if found == NET:
        hint = "; pass the operators of the net: net.op"
    elif found == OPERATOR:
        hint = "; put the operator into a NetDef" if wanted == NET else "; put it into a list"
    raise UsageError(
        "expected a %s (messages of any protobuf class with that name are taken), not %s%s"
        % (wanted, found or "%s.%s" % (cls.__module__, cls.__qualname__), hint)
    )


def operator_class(net_class: Any) -> Any:
    """The class of a net's operators."""
    return net_class.DESCRIPTOR.fields_by_name["op"].message_type._concrete_class


@lru_cache
def net_class(operator_class: Any) -> Any:
    """The class of the nets that an operator's arguments hold."""
    argument = operator_class.DESCRIPTOR.fields_by_name["arg"].message_type
    return argument.fields_by_name["n"].message_type._concrete_class


# ----------------------------------------------------------------------------- to bytes


def all_to_bytes(messages: list[Any]) -> list[bytes]:
    """The wire form of each message.

    Raises MalformedError if a required field is missing, TooDeepError if the protobuf in pure
    Python is not able to write so many nested nets.
    """
    return _written(messages, methodcaller("SerializeToString"))


def forward_to_bytes(operators: list[Any], is_bare: Callable[[Any], bool]) -> list[bytes]:
    """The wire form of each operator of a forward net; the errors are those of `all_to_bytes`.

    No gradient is made from what a silent operator holds, which may be megabytes of weights. So
    those for which `is_bare` has no objection go without it.
    """
    classes: set[Any] = set(map(type, operators))
    # protobuf spends a sixth to a quarter of the time on looking for fields that are missing.
    write: Callable[[Any], bytes]
    if len(classes) == 1:
        write = classes.pop().SerializePartialToString
    else:
        write = methodcaller("SerializePartialToString")
    if SILENT.isdisjoint([op.type for op in operators]):
        wires = _written(operators, write)
    else:
        wires = _written(
            operators,
            lambda op: _outline(op) if op.type in SILENT and op.arg and is_bare(op) else write(op),
        )
    if suspects := _core.may_lack_fields(wires):
        # protobuf itself says what is missing.
        all_to_bytes([operators[at] for at in suspects if not operators[at].IsInitialized()])
    return wires


def _written(messages: list[Any], write: Callable[[Any], bytes]) -> list[bytes]:
    try:
        return list(map(write, messages))
    except RecursionError as error:
        raise TooDeepError(
            "the installed protobuf cannot serialize so many nested nets (it is the one in pure "
            "Python, which takes about 160): use a compiled protobuf, or pass bytes"
        ) from error
    except Exception as error:
        # To name protobuf's own exception would import protobuf where it is not needed.
        if type(error).__name__ != "EncodeError" and not isinstance(error, ValueError):
            raise
        raise MalformedError("a message cannot be serialized: %s" % error) from error


def _outline(op: Any) -> bytes:
    """The wire form of an operator as it would be if its arguments had names and nothing else."""
    device = op.device_option.SerializeToString() if op.HasField("device_option") else None
    return _core.outline(op.type, op.input, op.output, [arg.name for arg in op.arg], device)


def net_to_bytes(net: object) -> bytes:
    """A NetDef message, or the bytes of one, as bytes. Raises UsageError for anything else."""
    if isinstance(net, bytes):
        return net
    if isinstance(net, (bytearray, memoryview)):
        return bytes(net)
    check_class(type(net), NET)
    return all_to_bytes([net])[0]


def operators_of(operators: Any) -> list[Any]:
    """A list or repeated field of operators, as a list.

    Raises UsageError if it is neither, or holds anything but operators.
    """
    if full_name(type(operators)) is not None:
        check_class(type(operators), OPERATOR + " list")
    messages = listed(operators, "the operators")
    for cls in dict.fromkeys(map(type, messages)):
        check_class(cls, OPERATOR)
    return messages


# --------------------------------------------------------------------------- from bytes


def from_bytes(cls: Any, wire: bytes) -> Any:
    """The message of class `cls` with that wire form.

    protobuf parses 33 nested nets and no more, while messages that are built in memory can
    go deeper, and their gradients with them. So what it refuses to parse at once is put
    together net by net. Raises MalformedError for what is no such message, TooDeepError for
    what even so does not fit into the installed protobuf, ArgumentError for names that it
    cannot hold.
    """
    try:
        return cls.FromString(wire)
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from error
    except Exception as error:
        if not _may_be_depth(error):
            raise
        from . import _deep

        try:
            return _deep.parse(cls, wire)
        except UnicodeDecodeError as inner:
            raise _not_utf8(inner) from inner
        except RecursionError as inner:
            raise TooDeepError(
                "the message has more nested nets than the installed protobuf can hold: use a "
                "compiled protobuf, or ctrlgrad.backward_bytes"
            ) from inner
        except Exception as inner:
            if not _may_be_depth(inner):
                raise
            raise MalformedError(
                "these bytes are no %s: %s" % (full_name(cls), str(error) or type(error).__name__)
            ) from error


def _may_be_depth(error: Exception) -> bool:
    # protobuf 3.20 warns of some garbage where later versions refuse it; where warnings are
    # errors, that comes out as a SystemError.
    if isinstance(error, (RecursionError, SystemError)):
        return True
    return type(error).__name__ == "DecodeError"


def _not_utf8(error: UnicodeDecodeError) -> ArgumentError:
    return ArgumentError(
        "a name in the message is not UTF-8, and the installed protobuf (the one in pure Python) "
        "cannot hold it (%s): use a compiled protobuf, or ctrlgrad.backward_bytes" % error
    )


def messages_from_bytes(cls: Any, wires: list[bytes]) -> list[Any]:
    """A message of class `cls` for each wire form; the errors are those of `from_bytes`."""
    return [from_bytes(cls, wire) for wire in wires]


def operators_from_bytes(cls: Any, pieces: list[bytes]) -> list[Any]:
    """The operators, of class `cls`, of nets in wire form; the errors are those of `from_bytes`.

    A net is parsed in as little as a third of the time that its operators take one by one. Each
    is taken out of `pieces` and let go as soon as its operators are there.
    """
    net = net_class(cls)
    if len(pieces) == 1:
        return list(from_bytes(net, pieces.pop()).op)
    pieces.reverse()
    operators: list[Any] = []
    with CollectorHeld():
        while pieces:
            operators.extend(from_bytes(net, pieces.pop()).op)
    return operators


class CollectorHeld:
    """Holds the garbage collector off while many objects are made that all live on.

    It would look at them again and again, and find nothing: a sixth of the time. If it is off
    already, it stays so.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *raised: object) -> None:
        if self._was_on:
            gc.enable()
