"""Bytes of nets, without protobuf: also those that protobuf would not write."""


def varint(value):
    """A number as protobuf writes it; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def tag(number, kind):
    return varint(number << 3 | kind)


def field(number, value):
    """A field that holds bytes, a text or a number."""
    if isinstance(value, int):
        return tag(number, 0) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return tag(number, 2) + varint(len(value)) + value


def group(number, content=b""):
    return tag(number, 3) + content + tag(number, 4)


def op(op_type, inputs=(), outputs=(), *args):
    """An OperatorDef: names as bytes or text, arguments serialized."""
    names = [field(1, name) for name in inputs] + [field(2, name) for name in outputs]
    return b"".join([*names, field(4, op_type), *(field(5, arg) for arg in args)])


def net(*ops):
    return b"".join(field(2, each) for each in ops)


def net_arg(name, value):
    return field(1, name) + field(8, value)


def names_arg(name, values):
    return field(1, name) + b"".join(field(7, value) for value in values)


def ints_arg(name, values):
    return field(1, name) + b"".join(field(6, value) for value in values)


def do(body, inputs, outputs, workspace="ws"):
    """A Do whose inner blobs have the names of the outer ones."""
    return op("Do", [*inputs, workspace], [*outputs, workspace], *do_args(body, inputs, outputs))


def do_args(body, inputs, outputs):
    names = list(dict.fromkeys([*inputs, *outputs]))
    index = [[*inputs, *outputs].index(name) for name in names]
    return (
        net_arg("net", body),
        names_arg("inner_blobs", names),
        ints_arg("outer_blobs_idx", index),
    )


def nested(depth, shells, innermost):
    """A net in a net in a net...: `depth` shells, from the inside outwards one after the other.

    It is put together in one go: to copy every level would take a time that grows with the square
    of the depth.
    """
    parts, size = [innermost], len(innermost)
    for level in range(depth):
        head = shells[level % len(shells)](size)
        parts.append(head)
        size += len(head)
    return b"".join(reversed(parts))


def shell(op_type, inputs, outputs, arg_name, args=(), before=()):
    """For `nested`: a net whose last operator holds the inner net as an argument of that name."""
    rest = op(op_type, inputs, outputs, *args)
    arg_head = field(1, arg_name)

    def head(size):
        arg = prefix(8, size)
        arg_size = len(arg_head) + len(arg) + size
        op_head = rest + prefix(5, arg_size) + arg_head + arg
        return net(*before) + prefix(2, len(op_head) + size) + op_head

    return head


def prefix(number, size):
    """What stands before the bytes of a field of that size."""
    return tag(number, 2) + varint(size)
