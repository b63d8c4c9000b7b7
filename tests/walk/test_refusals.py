"""Refusals: each class of error with an input that raises it, its text, and bad input at large."""

import subprocess
import sys
import time

import ctrlgrad
import play
import pytest
import wire
from ctrlgrad import GradientRegistry, GradientSlice, backward, backward_bytes, errors
from nets import do, if_, mlp, net, op
from places import scope

# Net operators that are refused: (error, base, operators, ys, index, operator type, blob).
REFUSED = [
    ("BindingsError", AssertionError, [op("Do", "x ws", "y ws", net=net())], "y", 0, "Do", None),
    (
        "ConflictError",
        RuntimeError,
        [op("Sum", "x", "b"), op("Sin", "x", "c"), op("Sum", "b c", "y")],
        {"y": "x_grad"},
        0,
        "Sum",
        "x",
    ),
    ("ControlFlowError", AssertionError, [op("If", "c x", "y")], "y", 0, "If", None),
    ("ControlFlowError", AssertionError, [op("While", "c y", "y")], "y", 0, "While", None),
    (
        "ForbiddenError",
        ctrlgrad.NoGradientError,
        [op("Accuracy", "x l", "y")],
        "y",
        0,
        "Accuracy",
        None,
    ),
    (
        "InexpressibleError",
        RuntimeError,
        [op("If", "c x", "h", then_net=net()), op("Gather", "h i", "y")],
        "y",
        0,
        "If",
        "h",
    ),
    (
        "MixedGradientsError",
        RuntimeError,
        [op("Gather", "t i", "h"), op("Sum", "t h", "y")],
        "y",
        0,
        "Gather",
        "t",
    ),
    (
        "NoGradientError",
        Exception,
        [op("Sin", "x", "h"), op("NoSuch", "h", "y")],
        "y",
        1,
        "NoSuch",
        None,
    ),
    (
        "OrphanError",
        ValueError,
        [op("StopGradient", "x", "h"), op("Sin", "x", "y")],
        "y",
        0,
        "StopGradient",
        "h",
    ),
    (
        "OverwriteError",
        RuntimeError,
        [op("Tanh", "w", "x_grad"), op("Sin", "x", "h"), op("Mul", "x_grad h", "y")],
        "y",
        0,
        "Tanh",
        "x_grad",
    ),
    ("RefusedError", ctrlgrad.NoGradientError, [op("Cast", "x", "y", to=1)], "y", 0, "Cast", None),
    ("SchemaError", Exception, [op("FC", "x", "y")], "y", 0, "FC", None),
    ("SchemaError", Exception, [op("Relu", "x", "y z")], "y", 0, "Relu", None),
    (
        "ScopeError",
        RuntimeError,
        [
            if_(
                "c",
                "x",
                "y",
                net(op("Sin", "x", "h"), op("Sin", "h", "y")),
                net(op("Sin", "x", "y")),
            )
        ],
        "y",
        0,
        "If",
        "h",
    ),
    (
        "UnimplementedError",
        ctrlgrad.NoGradientError,
        [op("Floor", "x", "y")],
        "y",
        0,
        "Floor",
        None,
    ),
    ("VersionError", RuntimeError, [op("Sin", "x", "y"), op("Sin", "w", "x")], "y", 0, "Sin", "x"),
]
each_refused = pytest.mark.parametrize(
    ("name", "base", "ops", "ys", "index", "op_type", "blob"),
    REFUSED,
    ids=["%s-%s" % (case[0], case[5]) for case in REFUSED],
)


def blobs(ops):
    return [name for name in play.read_from_outside(net(*ops)) if name not in ("c", "ws")]


def raised(forward, ys, **more):
    """The error; the same from messages and from bytes."""
    ys = [ys] if isinstance(ys, str) else ys
    with pytest.raises(ctrlgrad.CtrlgradError) as caught:
        backward(forward, ys, **more)
    with pytest.raises(type(caught.value)) as again:
        backward_bytes(forward.SerializeToString(), ys, **more)
    assert str(again.value) == str(caught.value)
    assert again.value.__dict__ == caught.value.__dict__
    return caught.value


def check(error, name, base, path, op_type, blob):
    assert type(error).__name__ == name
    assert isinstance(error, base)
    assert (error.path, error.op_type, error.blob) == (path, op_type, blob)
    assert error.op_index == path[-1]
    assert len(str(error)) < 2000
    assert "/".join(map(str, path)) in str(error)
    assert op_type in str(error)
    assert blob is None or blob in str(error)
    assert error.hint in str(error)


@each_refused
def test_each_class(name, base, ops, ys, index, op_type, blob):
    check(raised(net(*ops), ys), name, base, (index,), op_type, blob)


@each_refused
def test_each_class_behind_other_operators(name, base, ops, ys, index, op_type, blob):
    before = [op("Sin", "p%d" % k, "q%d" % k) for k in range(5)]
    check(raised(net(*before, *ops), ys), name, base, (5 + index,), op_type, blob)


@each_refused
def test_each_class_in_a_do(name, base, ops, ys, index, op_type, blob):
    if isinstance(ys, dict):
        pytest.skip("a Do gives the gradient another name")
    inside = do(net(*ops), [*blobs(ops), "c"], ys)
    check(raised(net(scope(), inside), ys), name, base, (1, index), op_type, blob)


@each_refused
def test_each_class_in_a_branch(name, base, ops, ys, index, op_type, blob):
    if isinstance(ys, dict):
        pytest.skip("the gradient has another name in the other branch")
    written = list(dict.fromkeys(name for each in ops for name in each.output))
    listed = ["y", "ws"] if name in ("ScopeError", "OrphanError") else ["y", "ws", *written]
    flow = if_("cond", [*blobs(ops), "ws", *written], listed, net(*ops))
    check(raised(net(op("Sin", "p", "q"), flow), ys), name, base, (1, index), op_type, blob)


@each_refused
def test_each_class_deep_inside(name, base, ops, ys, index, op_type, blob):
    if isinstance(ys, dict):
        pytest.skip("a Do gives the gradient another name")
    body, path = net(*ops), (index,)
    for _ in range(7):
        body, path = net(scope(), do(body, [*blobs(ops), "c"], ys)), (1, *path)
    check(raised(body, ys), name, base, path, op_type, blob)


@each_refused
def test_each_has_a_hint(name, base, ops, ys, index, op_type, blob):
    error = raised(net(*ops), ys)
    assert error.hint
    assert str(error).endswith(error.hint)


def on_gpu(each, number=0):
    each.device_option.device_type = 1
    each.device_option.device_id = number
    return each


def test_devices():
    error = raised(
        net(op("Sin", "x", "a"), on_gpu(op("Tanh", "x", "b")), op("Sum", "a b", "y")), "y"
    )
    check(error, "DeviceError", RuntimeError, (0,), "Sin", "x")


def register(function, op_type="Mine"):
    GradientRegistry.RegisterGradient(op_type)(function)


def test_gradient_count():
    register(lambda forward, g_output: ([], ["a", "b", "c"]))
    error = raised(net(op("Sin", "p", "q"), op("Mine", "x", "y")), "y")
    check(error, "GradientCountError", IndexError, (1,), "Mine", None)


def test_sparse_devices():
    def table(forward, g_output):
        made = [on_gpu(op("One", "", "v"), 0), on_gpu(op("Two", "", "i"), 1)]
        return made, [GradientSlice("i", "v")]

    register(table)
    error = raised(net(op("Mine", "x", "y")), "y")
    check(error, "SparseDeviceError", AssertionError, (0,), "Mine", "v")
    assert isinstance(error, RuntimeError)


def test_a_registered_function_reads_what_nobody_knows():
    register(lambda forward, g_output: (op("MineGradient", "stranger", "x_grad"), ["x_grad"]))
    check(
        raised(net(op("Mine", "x", "y")), "y"), "ScopeError", RuntimeError, (0,), "Mine", "stranger"
    )


@pytest.mark.parametrize("answer", [None, 3, [], ([],), ([], [], [])])
def test_a_registered_function_answers_something_else(answer):
    register(lambda forward, g_output: answer)
    error = raised(net(op("Mine", "x", "y")), "y")
    assert isinstance(error, ctrlgrad.UsageError)
    assert isinstance(error, TypeError)
    assert (error.path, error.op_type) == ((0,), "Mine")


def test_what_a_registered_function_raises_comes_through():
    class OwnError(Exception):
        pass

    def fails(forward, g_output):
        raise OwnError("as it is")

    register(fails)
    with pytest.raises(OwnError, match=r"^as it is$"):
        backward(net(op("Mine", "x", "y")), ["y"])


def test_names_that_stand_nowhere():
    for ys, more in [(["lost"], {}), (["loss"], {"wrt": ["w3"]}), (["loss"], {"no_grad": ["hh"]})]:
        error = raised(mlp(), ys, **more)
        assert isinstance(error, ctrlgrad.UnknownBlobError)
        assert isinstance(error, (ValueError, KeyError))
        assert error.path == ()
        assert error.op_index is None
        assert error.blob in {"lost", "w3", "hh"}


@pytest.mark.parametrize(
    ("name", "near"),
    [("lost", "loss"), ("W1", "w1"), ("w1 ", "w1"), ("p_", "p"), ("layer/w2", "w2")],
)
def test_near_names(name, near):
    error = raised(mlp(), [name])
    if near != "w2":
        assert '"%s"' % near in error.hint


def test_arguments():
    error = raised(mlp(), {"loss": None, b"loss": "g"})
    assert type(error) is ctrlgrad.ArgumentError
    assert isinstance(error, ValueError)
    error = raised(mlp(), ["loss"], no_grad=["loss"])
    assert (type(error), error.blob) == (ctrlgrad.ArgumentError, "loss")


def test_usage():
    with pytest.raises(TypeError) as caught:
        backward(object(), ["y"])
    assert type(caught.value) is ctrlgrad.UsageError


def test_a_missing_package():
    code = """
import sys
sys.modules["google.protobuf"] = None
import ctrlgrad
try:
    ctrlgrad.caffe2_pb2.NetDef()
except ctrlgrad.MissingPackageError as error:
    assert isinstance(error, ImportError)
    assert "pip install" in str(error)
    assert error.path == ()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Classes that the tests above raise, and the two that no input of this file can.
RAISED = {case[0] for case in REFUSED} | {
    "ArgumentError",
    "DeviceError",
    "GradientCountError",
    "MalformedError",
    "MissingPackageError",
    "SparseDeviceError",
    "TooDeepError",
    "UnknownBlobError",
    "UsageError",
}


def test_no_class_is_left_out():
    assert set(errors.__all__) - RAISED == {"CtrlgradError", "InternalError"}


# ------------------------------------------------------------------------ the hint is worth it


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        (
            [op("Gather", "t i", "h"), op("Sum", "t h", "y")],
            [op("EnsureDense", "t", "t2"), op("Gather", "t2 i", "h"), op("Sum", "t h", "y")],
        ),
        (
            [op("Gather", "t i", "h"), op("Sum", "t h", "y")],
            [op("Gather", "t i", "h"), op("Gather", "t h", "y")],
        ),
        (
            [op("Sin", "x", "h"), op("Sin", "w", "x"), op("Mul", "h x", "y")],
            [op("Sin", "x", "h"), op("Sin", "w", "x2"), op("Mul", "h x2", "y")],
        ),
        ([op("Accuracy", "x l", "y")], [op("Accuracy", "x l", "y"), op("StopGradient", "y", "y")]),
        ([op("NoSuch", "x", "y")], [op("NoSuch", "x", "y"), op("StopGradient", "y", "y")]),
        ([op("Floor", "x", "y")], [op("Floor", "x", "y"), op("StopGradient", "y", "y")]),
        (
            [op("StopGradient", "x", "h"), op("Sin", "x", "y")],
            [op("StopGradient", "x", "x"), op("Sin", "x", "y")],
        ),
        (
            [op("StopGradient", "x", "h"), op("Sin", "x", "y")],
            [op("StopGradient", "x", "h"), op("Sin", "h", "y")],
        ),
        (
            [op("If", "c x", "h", then_net=net()), op("Gather", "h i", "y")],
            [
                op("If", "c x h", "h", then_net=net()),
                op("EnsureDense", "h", "d"),
                op("Gather", "d i", "y"),
            ],
        ),
    ],
)
def test_what_the_hint_says_helps(broken, mended):
    raised(net(*broken), "y")
    backward(net(*mended), ["y"])


def test_the_hint_for_dense_and_sparse_names_the_look_up():
    """An EnsureDense makes a sparse gradient dense, so it belongs before the look-up."""
    error = raised(net(op("Gather", "t i", "h"), op("Sum", "t h", "y")), "y")
    assert "before the dense user" not in error.hint


# ------------------------------------------------------------------------------- size of texts

LONG = "n" * 50_000


@each_refused
def test_names_of_any_length(name, base, ops, ys, index, op_type, blob):
    """All blobs get names of 100,000 characters."""

    def long(text):
        return LONG + text + LONG

    renamed = []
    for each in ops:
        copy = type(each).FromString(each.SerializeToString())
        if any(arg.HasField("n") for arg in each.arg):
            pytest.skip("names inside as well")
        for names in (copy.input, copy.output):
            names[:] = [long(text) for text in names]
        renamed.append(copy)
    ys = (
        {long(k): v and v.replace("x_grad", long("x") + "_grad") for k, v in ys.items()}
        if isinstance(ys, dict)
        else [long(ys)]
    )
    try:
        error = raised(net(*renamed), ys)
    except pytest.fail.Exception:
        assert blob == "x_grad"  # the clash is gone with the names
        return
    assert type(error).__name__ == name
    assert len(str(error)) < 2000
    assert blob is None or error.blob == long(blob)


def test_types_of_any_length():
    error = raised(net(op(LONG, "x", "y")), "y")
    assert len(str(error)) < 2000
    assert error.op_type == LONG


def test_an_error_in_a_net_of_ten_thousand_operators():
    chain = [op("Sin", "x%d" % k, "x%d" % (k + 1)) for k in range(10_000)]
    chain[7_000].type = "NoSuch"
    data = net(*chain).SerializeToString()
    start = time.process_time()
    with pytest.raises(ctrlgrad.NoGradientError) as caught:
        backward_bytes(data, ["x10000"])
    assert time.process_time() - start < 1
    assert caught.value.path == (7_000,)
    assert len(str(caught.value)) < 500


def test_an_unknown_name_in_a_net_of_many_names():
    data = net(
        *(op("Sin", "layer_%06d" % k, "layer_%06d" % (k + 1)) for k in range(10_000))
    ).SerializeToString()
    start = time.process_time()
    with pytest.raises(ctrlgrad.UnknownBlobError) as caught:
        backward_bytes(data, ["layer_01000"])
    assert time.process_time() - start < 2
    assert caught.value.hint.count("layer_") == 3


def test_an_unknown_name_of_any_length():
    start = time.process_time()
    error = raised(mlp(), LONG)
    assert time.process_time() - start < 1
    assert len(str(error)) < 2000


# ------------------------------------------------------------------------- names that are bytes

ODD = [
    b"\xff",
    b"\xc3(",
    b"\x80x",
    b"a\xffb",
    b"\x00",
    b"",
    b"\xed\xa0\x80",
    "ü".encode(),
    b"x\n\"'",
]


@pytest.mark.parametrize("name", ODD)
def test_names_need_not_be_utf_8(name):
    text = name.decode("utf-8", "surrogateescape")
    ops, grads = backward_bytes(wire.net(wire.op("Sin", [name], ["y"])), ["y"])
    assert grads[text] == text + "_grad"
    assert name + b"_grad" in ops
    behind = wire.net(wire.op("Sin", ["x"], [name]))
    for ys in ({text: text + "_g"}, {name: name + b"_g"}):
        assert backward_bytes(behind, ys)[1] == {text: text + "_g", "x": "x_grad"}


@pytest.mark.parametrize("name", ODD)
def test_errors_with_such_names(name):
    text = name.decode("utf-8", "surrogateescape")
    with pytest.raises(ctrlgrad.VersionError) as caught:
        backward_bytes(
            wire.net(wire.op("Sin", [name], ["y"]), wire.op("Sin", ["w"], [name])), ["y"]
        )
    assert caught.value.blob == text
    assert str(caught.value).encode("utf-8")
    with pytest.raises(ctrlgrad.NoGradientError) as caught:
        backward_bytes(wire.net(wire.op(b"Op" + name, ["x"], ["y"])), ["y"])
    assert caught.value.op_type == "Op" + text
    assert str(caught.value).encode("utf-8")


# ------------------------------------------------------------------------------------ bad bytes

SMALL = wire.net(
    wire.op("FC", ["x", "w", "b"], ["h"]),
    wire.op("CreateScope", [], ["ws"]),
    wire.do(wire.net(wire.op("Sin", ["h"], ["y"])), ["h"], ["y"]),
)


def clear(data, ys=("y",)):
    """An answer, or a clear error; quickly."""
    start = time.process_time()
    try:
        backward_bytes(data, list(ys))
    except ctrlgrad.CtrlgradError as error:
        assert len(str(error)) < 2000
        assert type(error) is not ctrlgrad.InternalError, error
        return type(error)
    finally:
        assert time.process_time() - start < 2
    return None


def test_the_small_net_is_right():
    assert backward_bytes(SMALL, ["y"])[1]["w"] == "w_grad"


@pytest.mark.parametrize("length", range(len(SMALL)))
def test_truncated_at_every_length(length):
    assert clear(SMALL[:length])


@pytest.mark.parametrize("at", range(len(SMALL)))
def test_one_byte_is_another(at):
    for other in (0, 1, 0x7F, 0x80, 0xFF, SMALL[at] ^ 1, SMALL[at] ^ 8):
        clear(SMALL[:at] + bytes([other]) + SMALL[at + 1 :])


@pytest.mark.parametrize("at", range(0, len(SMALL), 3))
def test_bytes_that_are_missing_or_too_many(at):
    for data in (SMALL[:at] + SMALL[at + 1 :], SMALL[:at] + b"\x0a" + SMALL[at:], SMALL[at:]):
        clear(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\xff" * 100,
        b"\x0a",
        b"\x12\x05",
        b"\x80" * 11,
        b"name: 'net'\nop { type: 'Relu' }\n",
        b"#!/usr/bin/env python\nimport os\n" * 50,
        "ein Text über Netze\n".encode() * 20,
        b"\x1f\x8b\x08\x00" + b"\x00" * 30,
        b"PK\x03\x04" + b"\x00" * 30,
        bytes(range(256)),
        b"\x0b",
        b"\x0c",
        b"\x0b\x14",
        b"\x0f",
        b"\x12" + wire.varint(1 << 63),
        b"\x12" + wire.varint((1 << 64) - 1),
        b"\x12" + wire.varint(1 << 31),
        wire.tag((1 << 29) - 1, 2) + b"\x00",
        wire.varint(1 << 35) + b"\x00",
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_is_no_net(data):
    assert clear(data) in (ctrlgrad.MalformedError, ctrlgrad.UnknownBlobError)


@pytest.mark.parametrize("inside", ["net", "operator", "argument", "nested"])
def test_garbage_at_any_level(inside):
    rubbish = b"\x0a\xff\xff\xff\x0f"
    data = {
        "net": SMALL + rubbish,
        "operator": SMALL + wire.field(2, rubbish),
        "argument": SMALL + wire.net(wire.op("Sin", ["y"], ["z"], rubbish)),
        "nested": wire.net(wire.do(rubbish, ["x"], ["y"])),
    }[inside]
    assert clear(data, ["z" if inside == "argument" else "y"]) is ctrlgrad.MalformedError


def test_a_bad_operator_is_named():
    with pytest.raises(ctrlgrad.MalformedError) as caught:
        backward_bytes(SMALL + wire.field(2, b"\x0a\x05ab"), ["y"])
    assert caught.value.path == (3,)


def test_groups():
    """Nothing in the schema is one; protobuf keeps them as unknown fields."""
    odd = wire.group(99, wire.field(1, 5) + wire.group(7))
    assert backward_bytes(SMALL + odd, ["y"]) == backward_bytes(SMALL, ["y"])
    assert backward_bytes(odd + SMALL, ["y"]) == backward_bytes(SMALL, ["y"])
    for broken in (wire.tag(99, 3), wire.tag(99, 4), wire.tag(99, 3) + wire.tag(98, 4)):
        assert clear(SMALL + broken) is ctrlgrad.MalformedError
    deep = wire.tag(99, 3) * 100_000 + wire.tag(99, 4) * 100_000
    assert clear(SMALL + deep) is ctrlgrad.MalformedError


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 2000])
@pytest.mark.parametrize("kind", [0, 1, 2, 5])
def test_wrong_wire_types(number, kind):
    """A field with another wire type than its schema says is an unknown one."""
    value = {0: b"\x05", 1: b"\x00" * 8, 2: b"\x00", 5: b"\x00" * 4}[kind]
    odd = wire.tag(number, kind) + value
    clear(SMALL + odd)
    clear(wire.net(wire.op("Sin", ["x"], ["y"]) + odd))
    clear(wire.net(wire.op("Sin", ["x"], ["y"], odd)))
    if kind != 2:
        assert clear(SMALL + odd) is None


@pytest.mark.parametrize("value", [1 << 31, 1 << 32, (1 << 64) - 1, -1, 1 << 62])
def test_huge_numbers(value):
    index = wire.field(1, "outer_blobs_idx") + wire.field(6, 0) + wire.field(6, value)
    names = wire.names_arg("inner_blobs", ["x", "y"])
    body = wire.net_arg("net", wire.net(wire.op("Sin", ["x"], ["y"])))
    forward = wire.op("Do", ["x", "ws"], ["y", "ws"], body, names, index)
    assert clear(wire.net(forward)) is ctrlgrad.BindingsError


def test_no_operators():
    assert backward_bytes(b"", []) == (b"", {})
    assert clear(b"") is ctrlgrad.UnknownBlobError
    assert clear(wire.field(1, "net")) is ctrlgrad.UnknownBlobError


@pytest.mark.parametrize("ys", [["y", "y"], ["y"] * 1000])
def test_a_target_twice(ys):
    data = net(op("Sin", "x", "y")).SerializeToString()
    assert backward_bytes(data, ys) == backward_bytes(data, ["y"])


def test_an_operator_without_type():
    error = raised(net(op("", "x", "y")), "y")
    assert type(error) is ctrlgrad.NoGradientError
    assert (error.path, error.op_type) == ((0,), "")
    assert backward(net(op("", "p", "q"), op("Sin", "x", "y")), ["y"]).grads["x"] == "x_grad"
    assert raised(net(type(op("Sin"))()), "y").blob == "y"


def test_an_unknown_operator_beside_the_path():
    answer = backward(
        net(op("NoSuch", "p", "q"), op("Sin", "x", "y"), op("NoSuch", "y", "z")), ["y"]
    )
    assert answer.grads == {"y": "y_autogen_grad", "x": "x_grad"}


@pytest.mark.parametrize("count", [1_000, 20_000])
def test_wide_operators(count):
    names = ["x%d" % k for k in range(count)]
    _, grads = backward_bytes(wire.net(wire.op("Sum", names, ["y"])), {"y": "g"})
    assert len(grads) == count + 1
    assert clear(wire.net(wire.op("Sin", names, ["y"]))) is ctrlgrad.SchemaError
    assert clear(wire.net(wire.op("Sum", ["x"] * count, ["y"]))) is None
