"""Operators without a gradient may hold a lot, weights for example, and all of it stays there."""

import tracemalloc

import ctrlgrad
import pytest
from ctrlgrad import GradientRegistry, caffe2_pb2
from nets import do, net, op
from places import PLACES

PASS = GradientRegistry.GetBackwardPass
VALUES = 100_000


def filled(*outputs, op_type="GivenTensorFill", inputs="", values=VALUES):
    fill = op(op_type, inputs, [*outputs], shape=[values])
    fill.arg.add(name="values").floats.extend([1.5] * values)
    return fill


def layer():
    return op("FC", "x w b", "y")


def peak_of(call):
    """(the answer, the bytes that Python had at once while it was made)."""
    call()
    tracemalloc.start()
    try:
        answer = call()
        return answer, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("weights", ["w", "elsewhere"])
def test_what_a_fill_holds_is_not_read(weights):
    operators = [filled(weights), layer()]
    whole = net(*operators).SerializeToString()
    (ops, grads), peak = peak_of(lambda: PASS(operators, ["y"]))
    assert peak < len(whole) / 10
    ops_bytes, found = ctrlgrad.backward_bytes(whole, ["y"])
    assert ops == list(caffe2_pb2.NetDef.FromString(ops_bytes).op)
    assert grads == found and grads["w"] == "w_grad"


def test_nor_by_ir():
    operators = [filled("w"), layer()]

    def trace():
        ir = ctrlgrad.IR(operators)
        ir.GetBackwardPass(["y"])
        return ir

    ir, peak = peak_of(trace)
    assert peak < operators[0].ByteSize() / 10
    assert ir.ssa[0].op is operators[0]
    assert ir.ssa[0].out_versions == {"w": 0}
    assert [made.gradient for made in ir.gradient_generators["w"][0]] == ["w_grad"]


def test_what_a_layer_holds_is_copied():
    fc = layer()
    fc.arg.add(name="note").floats.extend([1.5] * VALUES)
    ops, _ = PASS([fc], {"y": "g"})
    assert list(ops[0].arg) == list(fc.arg)


def test_fills_in_nested_nets_are_read_as_in_bytes():
    forward = do(net(filled("w", values=10), layer()), "x b", "y w")
    ops, grads = PASS([forward], {"y": "g"})
    answer = ctrlgrad.backward(net(forward).SerializeToString(), {"y": "g"})
    assert ops == answer.ops
    assert grads == answer.grads


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (op("GivenTensorFill", "", "w", shape=[3]), "argument values is missing"),
        (filled("w", "w2", values=3), "2 outputs"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_broken_fill_is_told_as_ever(fill, says, whole):
    forward = net(fill, layer())
    with pytest.raises(ctrlgrad.SchemaError, match=says) as caught:
        ctrlgrad.backward(forward, ["y"]) if whole else PASS(forward.op, ["y"])
    assert (caught.value.path, caught.value.op_type) == ((0,), "GivenTensorFill")


def test_a_maker_in_python_gets_the_whole_operator():
    asked = []

    @GradientRegistry.RegisterGradient("GivenTensorFill")
    def mine(forward, g_output):
        asked.append(forward)
        return None, []

    # The schema does not have it, so it is asked of Python.
    fill = filled("w", "w2", values=3)
    PASS([fill, layer()], ["y"])
    assert asked[0] is fill


def test_a_copy_that_it_needs_has_its_device():
    @GradientRegistry.RegisterGradient("GivenTensorFill")
    def overwriting(forward, g_output):
        return op("Mine", g_output[:1], g_output[:1]), []

    fill = filled("w", "unused", values=3)
    fill.device_option.device_type = 1
    # A Sum hands one gradient to both of its inputs, and Relu is still to read it.
    operators = [op("Relu", "u", "v"), fill, op("Sum", "w v", "y")]
    ops, _ = PASS(operators, {"y": "g"})
    copies = [made for made in ops if made.type == "Copy"]
    assert [copy.device_option.device_type for copy in copies] == [1]


def test_names_that_are_not_utf8():
    wire = filled("w", values=3).SerializeToString().replace(b"\x12\x01w", b"\x12\x01\xff")
    try:
        fill = caffe2_pb2.OperatorDef.FromString(wire)
        fc = caffe2_pb2.OperatorDef.FromString(b"\x0a\x01x\x0a\x01\xff\x0a\x01b\x12\x01y\x22\x02FC")
    except UnicodeDecodeError:
        pytest.skip("the protobuf in pure Python has no such names")
    _, grads = PASS([fill, fc], {"y": "g"})
    assert grads["\udcff"] == "\udcff_grad"
    assert ctrlgrad.IR([fill, fc]).ssa[0].out_versions == {"\udcff": 0}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("values", [1000, 50_000])
def test_what_is_lent_to_an_answer_is_what_is_written_into_one(place, values):
    layers = [op("Tanh", "x", "h"), op("Relu", "h", "y")]
    for number, layer in enumerate(layers):
        layer.arg.add(name="ints").ints.extend(range(number, values))
        layer.arg.add(name="texts").strings.extend([b"text"] * values)
        layer.arg.add(name="small", i=number)
        layer.engine = "E" * values
    forward = PLACES[place](layers, "x", "y")
    # Operators that are handed over one by one have nothing to lend from.
    (ops, grads) = PASS(forward.op, ["y"])
    ops_bytes, found = ctrlgrad.backward_bytes(forward.SerializeToString(), ["y"])
    assert ops == list(caffe2_pb2.NetDef.FromString(ops_bytes).op)
    assert grads == found and "x" in found
    assert len(ops_bytes) > 8 * values
