"""The wire format: fields in any order, twice, in pieces, unknown; as protobuf reads them."""

import itertools
import random

import ctrlgrad
import pytest
import wire
from ctrlgrad import backward, backward_bytes, caffe2_pb2
from nets import do, if_, net, op

NetDef = caffe2_pb2.NetDef
OperatorDef = caffe2_pb2.OperatorDef


def same(data, ys=("y",)):
    """The bytes are answered as what protobuf reads from them. Gives the gradient operators."""
    ys = list(ys) if isinstance(ys, tuple) else ys
    parsed = NetDef.FromString(data)
    ours, theirs = backward_bytes(data, ys), backward_bytes(parsed.SerializeToString(), ys)
    assert ours[1] == theirs[1]
    ops = list(NetDef.FromString(ours[0]).op)
    assert ops == list(NetDef.FromString(theirs[0]).op)
    assert ops == backward(parsed, ys).ops
    return ops


def fields(message):
    """The fields of a serialized message, each with its tag."""
    found = []
    while message:
        first, rest = number(message)
        kind = first & 7
        if kind == 0:
            _, behind = number(rest)
        elif kind == 2:
            size, behind = number(rest)
            behind = behind[size:]
        else:
            behind = rest[{1: 8, 5: 4}[kind] :]
        found.append(message[: len(message) - len(behind)])
        message = behind
    return found


def number(data):
    value = shift = at = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, data[at:]


def shuffled(message, seed):
    """The fields in another order; those of one number keep theirs, for they are a list."""
    parts = fields(message)
    kinds = [part[0] for part in parts]
    random.Random(seed).shuffle(kinds)
    queues = {kind: iter([part for part in parts if part[0] == kind]) for kind in set(kinds)}
    return b"".join(next(queues[kind]) for kind in kinds)


SCALE = wire.op("Scale", ["x"], ["y"], wire.field(1, "scale") + b"\x15\x00\x00\x00\x40")
BODY = wire.net(wire.op("Mul", ["x", "w"], ["h"]), wire.op("Sin", ["h"], ["y"]))
DO = wire.do(BODY, ["x", "w"], ["y"])
IF = wire.op("If", ["c", "x", "w", "y"], ["y"], wire.net_arg("then_net", BODY))

# ----------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("forward", [SCALE, DO], ids=["Scale", "Do"])
def test_fields_in_any_order(forward, seed):
    reordered = wire.net(shuffled(forward, seed))
    assert backward_bytes(reordered, ["y"])[1] == backward_bytes(wire.net(forward), ["y"])[1]
    same(reordered)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_arguments_in_any_order(order):
    args = wire.do_args(BODY, ["x", "w"], ["y"])
    data = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], *(args[k] for k in order)))
    assert same(data) == same(wire.net(DO))


def test_the_name_of_an_argument_may_come_last():
    arg = wire.field(8, BODY) + wire.field(1, "then_net")
    assert same(wire.net(wire.op("If", ["c", "x", "w", "h"], ["y", "h"], arg)))


def test_inputs_and_outputs_between_each_other():
    mixed = wire.field(2, "y") + wire.field(1, "a") + wire.field(4, "Mul") + wire.field(1, "b")
    [_, gradient] = same(wire.net(mixed))
    assert gradient.input == ["y_autogen_grad", "a", "b"]


def test_fields_of_the_net_between_its_operators():
    first, second = wire.op("Sin", ["x"], ["h"]), wire.op("Tanh", ["h"], ["y"])
    data = wire.field(2, first) + wire.field(1, "name") + wire.field(7, "x") + wire.field(2, second)
    assert len(same(data)) == 3


# ----------------------------------------------------------------------------------- duplicates


def test_the_last_type_counts():
    [_, gradient] = same(wire.net(wire.field(4, "Sin") + wire.op("Tanh", ["x"], ["y"])))
    assert gradient.type == "TanhGradient"


@pytest.mark.parametrize("last", ["", "MKLDNN"])
def test_the_last_engine_counts(last):
    doubled = wire.op("Sin", ["x"], ["y"]) + wire.field(7, "CUDNN") + wire.field(7, last)
    [_, gradient] = same(wire.net(doubled))
    assert gradient.engine == last


def test_the_last_number_counts():
    arg = wire.field(1, "axis") + wire.field(3, 0) + wire.field(3, 1)
    ops = same(wire.net(wire.op("Split", ["x"], ["p", "q"], arg)), ("p", "q"))
    assert [arg.i for each in ops for arg in each.arg if arg.name == "axis"] == [1]


def test_the_last_name_of_an_argument_counts():
    arg = wire.field(1, "wrong") + wire.field(8, BODY) + wire.field(1, "then_net")
    assert same(wire.net(wire.op("If", ["c", "x", "w", "h"], ["y", "h"], arg)))


def test_a_name_twice_on_the_net_inside():
    body = wire.field(1, "first") + BODY + wire.field(1, "second")
    [_, gradient] = same(wire.net(wire.do(body, ["x", "w"], ["y"])))
    assert [arg.n.name for arg in gradient.arg if arg.HasField("n")] == ["second_grad"]


@pytest.mark.parametrize("cut", range(4))
def test_a_nested_net_in_pieces(cut):
    """The occurrences of a message field are merged, wherever they stand."""
    parts = [wire.field(1, "body"), *fields(BODY), wire.field(7, "x")]
    one, other = b"".join(parts[:cut]), b"".join(parts[cut:])
    arg = wire.field(8, one) + wire.field(1, "net") + wire.field(8, other)
    _, *bindings = wire.do_args(b"", ["x", "w"], ["y"])
    data = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], arg, *bindings))
    assert same(data) == same(wire.net(wire.do(b"".join(parts), ["x", "w"], ["y"])))


@pytest.mark.parametrize("at", range(1, 5))
def test_a_net_in_pieces_inside_one_in_pieces(at):
    inner = fields(BODY)
    deep = wire.field(1, "then_net") + b"".join(wire.field(8, part) for part in inner)
    branch = wire.net(wire.op("If", ["c", "x", "w", "h"], ["y", "h"], deep))
    outer = [wire.field(1, "n%d" % k) for k in range(at)] + [branch]
    arg = wire.field(1, "then_net") + b"".join(wire.field(8, part) for part in outer)
    same(wire.net(wire.op("If", ["d", "c", "x", "w", "h"], ["y", "h"], arg)))


def test_many_pieces_take_no_longer_than_their_bytes():
    pieces = wire.field(8, b"") * 400_000
    arg = wire.field(1, "net") + pieces + wire.field(8, BODY)
    _, *bindings = wire.do_args(b"", ["x", "w"], ["y"])
    data = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], arg, *bindings))
    assert len(ctrlgrad.backward_bytes(data, ["y"])[1]) == 3


def test_nets_in_pieces_many_levels_deep_are_refused():
    """To put them together, each level copies all that lies inside."""
    body, padding = BODY, wire.field(1, "n" * 100_000)
    for _ in range(1500):
        arg = wire.field(8, b"") + wire.field(1, "net") + wire.field(8, body)
        _, *bindings = wire.do_args(b"", ["x", "w"], ["y"])
        body = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], arg, *bindings)) + padding
        padding = b""
    with pytest.raises(ctrlgrad.TooDeepError, match="pieces"):
        ctrlgrad.backward_bytes(body, ["y"])


def test_a_device_option_in_pieces():
    """Numbers: the last one counts. Lists: they are joined."""
    one = wire.field(1, 1) + wire.field(2, 3) + wire.field(6, "first")
    other = wire.field(2, 4) + wire.field(6, "second")
    forward = wire.op("Sin", ["x"], ["y"]) + wire.field(6, one) + wire.field(6, other)
    [_, gradient] = same(wire.net(forward))
    device = gradient.device_option
    assert (device.device_type, device.device_id) == (1, 4)
    assert list(device.extra_info) == ["first", "second"]


def test_device_options_in_pieces_are_compared_as_wholes():
    def on(*parts):
        return b"".join(wire.field(6, part) for part in parts)

    kind, id_ = wire.field(1, 1), wire.field(2, 3)
    ops = [
        wire.op("Sin", ["x"], ["a"]) + on(kind, id_),
        wire.op("Tanh", ["x"], ["b"]) + on(id_ + kind),
        wire.op("Mul", ["a", "b"], ["y"]) + on(id_, kind),
    ]
    assert same(wire.net(*ops))[-1].device_option.device_id == 3


@pytest.mark.parametrize("name", ["inner_blobs", "outer_blobs_idx"])
def test_an_argument_twice_is_not_merged(name):
    """`arg` is a list: two of one name are two."""
    args = [*wire.do_args(BODY, ["x", "w"], ["y"])]
    again = wire.names_arg(name, [])
    data = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], *args, again))
    with pytest.raises(AssertionError, match=name):
        backward_bytes(data, ["y"])


# --------------------------------------------------------------------------------- packed numbers


@pytest.mark.parametrize("pieces", [[3], [1, 2], [0, 3], [2, 0, 1], [1, 1, 1]])
@pytest.mark.parametrize("packed", [True, False])
def test_numbers_packed_and_not(pieces, packed):
    numbers, parts = iter([0, 1, 2]), b""
    for size in pieces:
        part = [next(numbers) for _ in range(size)]
        if packed:
            parts += wire.field(6, b"".join(map(wire.varint, part)))
        else:
            parts += b"".join(wire.field(6, value) for value in part)
    index = wire.field(1, "outer_blobs_idx") + parts
    body, names, _ = wire.do_args(BODY, ["x", "w"], ["y"])
    data = wire.net(wire.op("Do", ["x", "w", "ws"], ["y", "ws"], body, names, index))
    assert same(data) == same(wire.net(DO))


@pytest.mark.parametrize("size", range(2, 11))
def test_numbers_with_more_bytes_than_they_need(size):
    def long(value):
        short = wire.varint(value)
        return bytes(byte | 128 for byte in short) + b"\x80" * (size - len(short) - 1) + b"\x00"

    index = wire.field(1, "outer_blobs_idx") + b"".join(b"\x30" + long(k) for k in range(3))
    body, names, _ = wire.do_args(BODY, ["x", "w"], ["y"])
    forward = wire.op("Do", ["x", "w", "ws"], ["y", "ws"], body, names, index)
    assert same(wire.net(forward)) == same(wire.net(DO))


# -------------------------------------------------------------------------------- unknown fields

UNKNOWN = [
    wire.field(999, 7),
    wire.field(999, b"seven"),
    wire.tag(999, 5) + b"\x01\x02\x03\x04",
    wire.tag(999, 1) + b"\x01\x02\x03\x04\x05\x06\x07\x08",
    wire.group(999, wire.field(1, "in a group")),
]
each_unknown = pytest.mark.parametrize(
    "unknown", UNKNOWN, ids=["varint", "bytes", "32", "64", "group"]
)


@each_unknown
def test_unknown_fields_of_a_net_and_of_operators_change_nothing(unknown):
    forward = wire.op("Sin", ["x"], ["y"])
    plain = backward_bytes(wire.net(forward), ["y"])
    assert backward_bytes(unknown + wire.net(forward) + unknown, ["y"]) == plain
    assert backward_bytes(wire.net(unknown + forward), ["y"]) == plain
    assert backward_bytes(wire.net(forward + unknown), ["y"]) == plain


@each_unknown
def test_unknown_fields_of_an_argument_are_copied(unknown):
    data = wire.net(wire.op("Sin", ["x"], ["y"], wire.field(1, "note") + unknown))
    assert unknown in backward_bytes(data, ["y"])[0]
    same(data)


@each_unknown
def test_unknown_fields_of_a_device_option_are_copied(unknown):
    data = wire.net(wire.op("Sin", ["x"], ["y"]) + wire.field(6, wire.field(1, 1) + unknown))
    assert unknown in backward_bytes(data, ["y"])[0]
    same(data)


@each_unknown
@pytest.mark.parametrize("place", ["operator", "net", "argument", "bindings"])
@pytest.mark.parametrize("kind", ["Do", "If", "While"])
def test_unknown_fields_of_a_flow(kind, place, unknown):
    """Caffe2 copies the operator and its net and fills them anew; the arguments it makes itself."""
    at = {
        "operator": (unknown, b"", b""),
        "net": (b"", unknown, b""),
        "argument": (b"", b"", unknown),
    }
    on_op, on_net, on_arg = at.get(place, (b"", b"", b""))
    extra = [wire.field(1, "own") + unknown] if place == "bindings" else []
    if kind == "Do":
        _, *bindings = wire.do_args(b"", ["x"], ["y"])
        arg = wire.net_arg("net", on_net + wire.net(wire.op("Sin", ["x"], ["y"]))) + on_arg
        forward = wire.op("Do", ["x", "ws"], ["y", "ws"], arg, *bindings, *extra) + on_op
    elif kind == "If":
        arg = wire.net_arg("then_net", on_net + wire.net(wire.op("Sin", ["x"], ["y"]))) + on_arg
        forward = wire.op("If", ["c", "x", "y"], ["y"], arg, *extra) + on_op
    else:
        turn = wire.net(wire.do(wire.net(wire.op("Sigmoid", ["y"], ["y"])), ["y"], ["y"]))
        arg = wire.net_arg("loop_net", on_net + turn) + on_arg
        forward = wire.op("While", ["c", "y", "ws"], ["y", "ws"], arg, *extra) + on_op
    data = wire.net(forward)
    ops, _ = backward_bytes(data, {"y": "gy"})
    if place in ("operator", "net"):
        assert unknown in ops
    same(data, {"y": "gy"})


@each_unknown
def test_unknown_fields_deep_inside(unknown):
    inner = wire.net(wire.op("Sin", ["x"], ["y"], wire.field(1, "note") + unknown))
    for _ in range(5):
        inner = wire.net(wire.op("CreateScope", [], ["ws"]), wire.do(inner, ["x"], ["y"]))
    assert unknown in backward_bytes(inner, ["y"])[0]
    same(inner)


def test_a_known_field_with_another_wire_type_is_unknown():
    odd = wire.tag(1, 5) + b"\x01\x02\x03\x04"
    data = wire.net(wire.op("Sin", ["x"], ["y"], wire.field(1, "note") + odd))
    assert odd in backward_bytes(data, ["y"])[0]
    same(data)


# ------------------------------------------------------------------------------ what is handed on


def test_arguments_are_copied_byte_for_byte():
    """Also such as protobuf would write in another way."""
    arg = (
        wire.field(6, wire.varint(5))
        + wire.field(6, 7)
        + wire.field(1, "ints")
        + wire.field(3, 1) * 2
    )
    data = wire.net(wire.op("Sin", ["x"], ["y"], arg))
    assert arg in backward_bytes(data, ["y"])[0]
    same(data)


def test_large_arguments():
    arg = wire.field(1, "big") + wire.field(4, b"\x80" * 3_000_000)
    ops, _ = backward_bytes(wire.net(wire.op("Sin", ["x"], ["y"], arg)), ["y"])
    assert arg in ops


@pytest.mark.parametrize("kind", ["Do", "If"])
def test_the_answer_is_what_protobuf_would_write(kind):
    body = net(op("Mul", "x w", "h"), op("Sin", "h", "y"), name="body")
    forward = net(do(body, "x w", "y") if kind == "Do" else if_("c", "x w h", "y h", body))
    ops, _ = backward_bytes(forward.SerializeToString(), ["y"])
    assert NetDef.FromString(ops).SerializeToString() == ops


def test_field_numbers_are_those_of_the_schema():
    numbers = {
        (wire.net, "op"): 2,
        (wire.op, "type"): 4,
        (wire.op, "arg"): 5,
        (wire.op, "device_option"): 6,
        (wire.op, "engine"): 7,
    }
    for (level, name), at in numbers.items():
        message = NetDef if level is wire.net else OperatorDef
        assert message.DESCRIPTOR.fields_by_name[name].number == at
    assert caffe2_pb2.Argument.DESCRIPTOR.fields_by_name["n"].number == 8
