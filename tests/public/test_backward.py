"""backward and backward_bytes: what goes in, what comes out, `no_grad` and `wrt`."""

import random

import ctrlgrad
import pytest
from ctrlgrad import BlobReference, GradientSlice, backward, backward_bytes, caffe2_pb2
from nets import if_, mlp, net, op, types


def operators(data):
    return list(caffe2_pb2.NetDef.FromString(data).op)


# --------------------------------------------------------------------------- forms of questions


def test_only_the_gradient_operators_come_back():
    answer = backward(mlp(), ["loss"])
    assert types(answer.ops) == [
        "ConstantFill",
        "AveragedLossGradient",
        "SquaredL2DistanceGradient",
        "FCGradient",
        "ReluGradient",
        "FCGradient",
    ]
    assert answer.grads["w1"] == "w1_grad"
    assert set(answer.grads) >= {"loss", "x", "w1", "b1", "w2", "b2", "h", "a", "p"}
    assert "gradients of" in repr(answer)


def test_messages_and_bytes_give_the_same():
    forward = mlp()
    data = forward.SerializeToString()
    ops_bytes, grads = backward_bytes(data, ["loss"])
    for given in (forward, data, bytearray(data), memoryview(data)):
        answer = backward(given, ["loss"])
        assert answer.ops_bytes == ops_bytes
        assert answer.grads == grads
        assert list(answer.ops) == operators(ops_bytes)
        assert answer.ops is answer.ops
    assert backward_bytes(bytearray(data), ["loss"])[0] == ops_bytes
    assert backward_bytes(memoryview(data), ["loss"])[0] == ops_bytes


def test_question_is_not_changed():
    forward = mlp()
    before = forward.SerializeToString()
    ys = {"loss": None}
    backward(forward, ys)
    ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, ys)
    assert forward.SerializeToString() == before
    assert ys == {"loss": None}


class Named:
    def __str__(self):
        return "loss"


@pytest.mark.parametrize("name", ["loss", b"loss", BlobReference("loss"), Named()])
def test_any_name_for_a_target(name):
    expected = backward(mlp(), ["loss"])
    for ys in ([name], {name: None}, [name, "loss"]):
        answer = backward(mlp(), ys)
        assert answer.ops == expected.ops
        assert answer.grads == expected.grads


@pytest.mark.parametrize("given", ["g", b"g", BlobReference("g")])
def test_given_gradients(given):
    answer = backward(net(op("Relu", "x", "y")), {"y": given})
    assert types(answer.ops) == ["ReluGradient"]
    assert list(answer.ops[0].input) == ["y", "g"]
    assert answer.grads == {"y": "g", "x": "x_grad"}


@pytest.mark.parametrize("given", [GradientSlice("i", "v"), ("i", "v"), [b"i", BlobReference("v")]])
def test_given_sparse_gradients(given):
    answer = backward(net(op("Copy", "x", "y"), op("Gather", "t at", "z")), {"t": given})
    assert answer.grads == {"t": ("i", "v")}
    with pytest.raises(ctrlgrad.CtrlgradError, match="sparse"):
        backward(net(op("Relu", "x", "y")), {"y": given})


@pytest.mark.parametrize("ys", ["loss", ("loss",), {"loss"}, None, 3, iter(["loss"])])
def test_targets_are_a_list_or_a_dict(ys):
    for ask in (backward, lambda n, ys: ctrlgrad.GradientRegistry.GetBackwardPass(n.op, ys)):
        with pytest.raises(TypeError) as caught:
            ask(mlp(), ys)
        assert isinstance(caught.value, ctrlgrad.UsageError)


@pytest.mark.parametrize(
    "ys", [{"loss": ("a", "b", "c")}, {"loss": ()}, {"loss": None, b"loss": "g"}]
)
def test_targets_that_mean_nothing(ys):
    with pytest.raises(ctrlgrad.ArgumentError):
        backward(mlp(), ys)


def test_no_targets_and_no_operators():
    assert backward(mlp(), []).ops == []
    assert backward(mlp(), {}).grads == {}
    assert backward(net(), []).ops == []
    assert backward_bytes(b"", []) == (b"", {})
    assert ctrlgrad.GradientRegistry.GetBackwardPass([], []) == ([], {})


def test_unknown_target():
    """The functions of ours refuse it, with near names; Caffe2's interface takes it."""
    with pytest.raises(ctrlgrad.UnknownBlobError, match="loss") as caught:
        backward(mlp(), ["lost"])
    assert isinstance(caught.value, ValueError)
    assert caught.value.blob == "lost"
    with pytest.raises(ctrlgrad.UnknownBlobError):
        backward_bytes(mlp().SerializeToString(), {"lost": "g"})
    ops, grads = ctrlgrad.GradientRegistry.GetBackwardPass(mlp().op, ["outside"])
    assert grads == {"outside": "outside_autogen_grad"}
    assert types(ops) == ["ConstantFill"]
    ops, grads = ctrlgrad.GradientRegistry.GetBackwardPass([], ["outside"])
    assert types(ops) == ["ConstantFill"]


@pytest.mark.parametrize("data", [b"\x0a", b"garbage", b"\xff" * 9, b"name: 'net'\nop { }\n"])
def test_bytes_that_are_no_net(data):
    for ask in (backward, backward_bytes):
        with pytest.raises(ctrlgrad.MalformedError) as caught:
            ask(data, ["y"])
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_truncated_bytes(cut):
    data = mlp().SerializeToString()[:-cut]
    try:
        backward_bytes(data, ["h"])
    except ctrlgrad.CtrlgradError as error:
        assert len(str(error)) < 2000


def test_error_tells_the_place():
    forward = net(op("Relu", "x", "h"), op("NoSuchOperator", "h", "y"), op("Relu", "y", "z"))
    with pytest.raises(ctrlgrad.NoGradientError, match="NoSuchOperator") as caught:
        backward(forward, ["z"])
    error = caught.value
    assert (error.path, error.op_index, error.op_type) == ((1,), 1, "NoSuchOperator")
    assert len(str(error)) < 2000


def test_error_tells_the_place_in_nested_nets():
    then_net = net(op("Relu", "x", "h"), op("NoSuchOperator", "h", "y"))
    forward = net(op("Relu", "w", "x"), if_("c", "x", "y", then_net, net(op("Relu", "x", "y"))))
    with pytest.raises(ctrlgrad.NoGradientError) as caught:
        backward(forward, ["y"])
    assert caught.value.path == (1, 1)


def test_names_without_end_do_not_make_texts_without_end():
    long = "x" * 100_000
    forward = net(op("NoSuchOperator", long, "y" + long))
    with pytest.raises(ctrlgrad.CtrlgradError) as caught:
        backward(forward, ["y" + long])
    assert len(str(caught.value)) < 2000


# ------------------------------------------------------------------------------------- no_grad


def test_no_grad_stops_the_walk():
    answer = backward(mlp(), ["loss"], no_grad=["a"])
    assert types(answer.ops)[-1] == "FCGradient"
    assert len(answer.ops) == 4
    assert {"a", "h", "x", "w1", "b1"}.isdisjoint(answer.grads)
    assert {"w2", "b2", "p"} <= set(answer.grads)


def test_operator_goes_on_with_its_other_inputs():
    answer = backward(mlp(), ["loss"], no_grad=["x"])
    assert types(answer.ops)[-1] == "FCGradient"
    assert "x" not in answer.grads
    assert answer.grads["w1"] == "w1_grad"


def test_no_grad_is_stop_gradient_before_each_reader():
    plain = net(
        op("Relu", "x", "h"), op("Sigmoid", "h", "a"), op("Tanh", "h", "b"), op("Add", "a b", "y")
    )
    answer = backward(plain, ["y"], no_grad=["a"])
    assert set(answer.grads) == {"y", "b", "h", "x"}
    assert "SigmoidGradient" not in types(answer.ops)
    assert "TanhGradient" in types(answer.ops)


@pytest.mark.parametrize(
    "more",
    [
        {"no_grad": ["loss"]},
        {"no_grad": ["nowhere"]},
        {"wrt": ["nowhere"]},
        {"no_grad": [b"w1", "w_1"]},
    ],
)
def test_names_that_make_no_sense(more):
    with pytest.raises(ValueError, match=r"loss|nowhere|w_1") as caught:
        backward(mlp(), ["loss"], **more)
    assert isinstance(caught.value, ctrlgrad.CtrlgradError)


@pytest.mark.parametrize(
    "more", [{"no_grad": "w1"}, {"wrt": "w1"}, {"wrt": b"w1"}, {"no_grad": None}]
)
def test_one_name_is_no_list_of_names(more):
    with pytest.raises(TypeError, match=r"no_grad|wrt"):
        backward(mlp(), ["loss"], **more)


# ----------------------------------------------------------------------------------------- wrt


def test_wrt_leaves_out_what_it_does_not_need():
    answer = backward(mlp(), ["loss"], wrt=["w2"])
    assert types(answer.ops) == [
        "ConstantFill",
        "AveragedLossGradient",
        "SquaredL2DistanceGradient",
        "FCGradient",
    ]
    assert answer.grads == {"w2": "w2_grad"}
    assert answer.grads == backward(mlp(), ["loss"], wrt=(each for each in [b"w2"])).grads


def test_wrt_a_blob_that_no_target_depends_on():
    forward = net(op("Relu", "x", "y"), op("Relu", "u", "v"))
    answer = backward(forward, ["y"], wrt=["u"])
    assert (answer.ops, answer.grads) == ([], {})
    assert backward(forward, ["y"], wrt=[]).ops == []
    assert backward(forward, ["y"], wrt=["x", "u"]).grads == {"x": "x_grad"}


def test_no_grad_comes_before_wrt():
    answer = backward(mlp(), ["loss"], no_grad=["a"], wrt=["w1", "w2"])
    assert answer.grads == {"w2": "w2_grad"}


def test_wrt_keeps_a_gradient_if_whole():
    forward = net(
        if_("c", "x w", "y", net(op("Mul", "x w", "y")), net(op("Add", "x w", "y"))),
    )
    full = backward(forward, ["y"])
    part = backward(forward, ["y"], wrt=["w"])
    assert part.grads == {"w": full.grads["w"]}
    assert part.ops == full.ops


OPERATORS = {"Relu": 1, "Tanh": 1, "Sigmoid": 1, "Add": 2, "Mul": 2, "Sum": 3, "FC": 3, "Copy": 1}


def random_net(seed):
    """Operators over a few blobs, in place at times, that only read what is there."""
    chance = random.Random(seed)
    blobs = ["x0", "x1", "x2"]
    ops = []
    for number in range(chance.randint(1, 14)):
        op_type = chance.choice(sorted(OPERATORS))
        inputs = [chance.choice(blobs) for _ in range(OPERATORS[op_type])]
        output = inputs[0] if op_type == "Relu" and chance.random() < 0.2 else "h%d" % number
        ops.append(op(op_type, inputs, [output]))
        blobs.append(output)
    known = {name for each in ops for name in [*each.input, *each.output]}
    return net(*ops), sorted(known), chance


@pytest.mark.parametrize("seed", range(150))
def test_every_wrt_answer_is_a_part_of_the_full_one(seed):
    forward, blobs, chance = random_net(seed)
    ys = [forward.op[-1].output[0]]
    try:
        full = backward(forward, ys)
    except ctrlgrad.CtrlgradError:
        pytest.skip("the net has no backward pass")
    wrt = chance.sample(blobs, chance.randint(1, 2))
    part = backward(forward, ys, wrt=wrt)
    assert part.grads == {blob: full.grads[blob] for blob in full.grads if blob in wrt}
    assert list(part.grads) == [blob for blob in full.grads if blob in wrt]
    rest = iter(full.ops)
    assert all(any(each == other for other in rest) for each in part.ops)
    needed = {name for gradient in part.grads.values() for name in [gradient]}
    written = {name for each in part.ops for name in each.output}
    assert needed <= written | {"y_grad"}
    everything = backward(forward, ys, wrt=list(full.grads))
    assert everything.grads == full.grads


@pytest.mark.parametrize("seed", range(60))
def test_no_grad_answers_as_stop_gradient_does(seed):
    """Blobs behind the stopped one are as they were; those before it lose what came through it."""
    forward, blobs, chance = random_net(seed)
    y = forward.op[-1].output[0]
    stopped = chance.choice(blobs)
    try:
        full = backward(forward, [y])
    except ctrlgrad.CtrlgradError:
        pytest.skip("the net has no backward pass")
    if stopped == y:
        with pytest.raises(ValueError, match=y):
            backward(forward, [y], no_grad=[stopped])
        return
    answer = backward(forward, [y], no_grad=[stopped])
    assert stopped not in answer.grads
    assert set(answer.grads) <= set(full.grads)
    for each in answer.ops:
        assert each.output
