"""Writes python/ctrlgrad/_schema.py and caffe2_pb2.pyi from an installed Caffe2.

    python3.9 scripts/make_schema.py      (with torch==1.10.2 'protobuf<3.21')

Both hold facts about `caffe2.proto` only: names, numbers and types of fields.
"""

import base64
import pathlib
import textwrap

from caffe2.proto import caffe2_pb2
from google.protobuf.descriptor import FieldDescriptor

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python" / "ctrlgrad"

SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "int",
    FieldDescriptor.CPPTYPE_UINT32: "int",
    FieldDescriptor.CPPTYPE_UINT64: "int",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_ENUM: "int",
}

HEAD = '''"""Types of the message classes. Made by scripts/make_schema.py."""

from collections.abc import Iterable
from typing import ClassVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor
'''


def schema(data: bytes) -> str:
    text = base64.b64encode(data).decode("ascii")
    return "\n".join(
        [
            '"""The schema of Caffe2\'s messages. Made by scripts/make_schema.py."""',
            "",
            "import base64",
            "",
            "# The serialized FileDescriptorProto of caffe2/proto/caffe2.proto, torch 1.10.2.",
            "FILE = base64.b64decode(",
            '    """',
            *textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    "),
            '    """',
            ")",
            "",
        ]
    )


def local(message) -> str:
    """The name of a message class as Python writes it: `TensorProto.Segment`."""
    return message.full_name[len("caffe2.") :]


def scalar(field) -> str:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "bytes" if field.type == FieldDescriptor.TYPE_BYTES else "str"
    return SCALARS[field.cpp_type]


def enum_lines(enum, indent: str) -> list:
    kind = "ClassVar[%s]" if indent else "%s"
    lines = [indent + "%s: %s" % (enum.name, kind % "EnumTypeWrapper")]
    for value in enum.values:
        lines.append(indent + "%s: %s" % (value.name, kind % "int"))
        if value.name.startswith("PROTO_"):
            lines.append(indent + "%s: %s" % (value.name[len("PROTO_") :], kind % "int"))
    return lines


def message_lines(message, indent: str = "") -> list:
    inner = indent + "    "
    lines = ["", indent + "class %s(Message):" % message.name]
    for enum in message.enum_types:
        lines += enum_lines(enum, inner)
    for nested in message.nested_types:
        lines += message_lines(nested, inner)
    arguments = []
    for field in message.fields:
        composite = field.message_type is not None
        kind = local(field.message_type) if composite else scalar(field)
        if field.label == FieldDescriptor.LABEL_REPEATED:
            container = (
                "RepeatedCompositeFieldContainer" if composite else "RepeatedScalarFieldContainer"
            )
            lines += [
                inner + "@property",
                inner + "def %s(self) -> %s[%s]: ..." % (field.name, container, kind),
            ]
            kind = "Iterable[%s]" % kind
        elif composite:
            lines += [inner + "@property", inner + "def %s(self) -> %s: ..." % (field.name, kind)]
        else:
            lines.append(inner + "%s: %s" % (field.name, kind))
        arguments.append(inner + "    %s: %s | None = ...," % (field.name, kind))
    lines += [inner + "def __init__(", inner + "    self,", inner + "    *,"]
    return lines + arguments + [inner + ") -> None: ..."]


def stub(file) -> str:
    lines = [HEAD]
    for enum in file.enum_types_by_name.values():
        lines += enum_lines(enum, "")
    for message in file.message_types_by_name.values():
        lines += message_lines(message)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (PACKAGE / "_schema.py").write_text(schema(caffe2_pb2.DESCRIPTOR.serialized_pb))
    (PACKAGE / "caffe2_pb2.pyi").write_text(stub(caffe2_pb2.DESCRIPTOR))
