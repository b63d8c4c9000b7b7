"""Gradient makers that the user registers from Python."""

import ctrlgrad
import pytest
from ctrlgrad import GradientRegistry, GradientSlice, caffe2_pb2
from nets import do, if_, net, op, types

PASS = GradientRegistry.GetBackwardPass


def mine(forward, g_output):
    made = op(
        "MineGradient", [*forward.input, *g_output], [name + "_grad" for name in forward.input]
    )
    return made, [name + "_grad" for name in forward.input]


def register(function=mine, op_type="Mine"):
    return GradientRegistry.RegisterGradient(op_type)(function)


def test_registry_holds_the_control_flow():
    assert GradientRegistry.gradient_registry_ == {
        "Do": ctrlgrad.gen_do_gradient,
        "If": ctrlgrad.gen_if_gradient,
        "While": ctrlgrad.gen_while_gradient,
    }


def test_decorator_returns_the_function():
    assert register() is mine
    assert GradientRegistry.gradient_registry_["Mine"] is mine


def test_is_asked_where_there_is_no_maker():
    with pytest.raises(ctrlgrad.NoGradientError):
        GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])
    register()
    ops, g_input = GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])
    assert types(ops) == ["MineGradient"]
    assert g_input == ["x_grad"]
    ops, grads = PASS(net(op("Mine", "x", "y"), op("Relu", "y", "z")).op, ["z"])
    assert types(ops) == ["ConstantFill", "ReluGradient", "MineGradient"]
    assert grads["x"] == "x_grad"
    data = net(op("Mine", "x", "y")).SerializeToString()
    assert ctrlgrad.backward_bytes(data, ["y"])[1]["x"] == "x_grad"
    assert ctrlgrad.backward(data, ["y"]).grads["x"] == "x_grad"


def test_own_makers_come_first():
    register(op_type="Relu")
    assert types(GradientRegistry.GetGradientForOp(op("Relu", "x", "y"), ["g"])[0]) == [
        "ReluGradient"
    ]


def test_is_asked_where_the_maker_refuses():
    def dense_relu(forward, g_output):
        assert g_output == [GradientSlice("i", "v")]
        assert type(g_output[0]) is GradientSlice
        return [], [None]

    with pytest.raises(ctrlgrad.CtrlgradError):
        GradientRegistry.GetGradientForOp(op("Relu", "x", "y"), [GradientSlice("i", "v")])
    register(dense_relu, "Relu")
    assert GradientRegistry.GetGradientForOp(op("Relu", "x", "y"), [("i", "v")]) == ([], [None])


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (lambda made: None, 0),
        (lambda made: [], 0),
        (lambda made: made, 1),
        (lambda made: [made], 1),
        (lambda made: (made,), 1),
        (lambda made: net(made).op, 1),
    ],
)
def test_forms_of_answers(answer, count):
    register(lambda forward, g_output: (answer(mine(forward, g_output)[0]), ["x_grad"]))
    ops, g_input = GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])
    assert len(ops) == count
    assert g_input == ["x_grad"]


@pytest.mark.parametrize(
    "gradient", [None, "g1", ctrlgrad.BlobReference("g1"), GradientSlice("i", "v")]
)
def test_kinds_of_input_gradients(gradient):
    made = op("MineGradient", "g", "g1 i v")
    register(lambda forward, g_output: (made, [gradient]))
    _, g_input = GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])
    assert g_input == [gradient]


@pytest.mark.parametrize(
    "answer",
    [None, "x", ([],), ([], None), (["x"], []), ([net()], []), ([], "x_grad"), ([], [("a",)])],
)
def test_answers_that_are_none(answer):
    register(lambda forward, g_output: answer)
    with pytest.raises(ctrlgrad.CtrlgradError):
        GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])


def test_asked_alone_it_may_read_what_the_net_around_it_provides():
    register(lambda forward, g_output: (op("MineGradient", "elsewhere", "x_grad"), ["x_grad"]))
    forward = op("Mine", "x", "y")
    ops, _ = GradientRegistry.GetGradientForOp(forward, ["g"])
    assert list(ops[0].input) == ["elsewhere"]
    with pytest.raises(ctrlgrad.ScopeError):
        GradientRegistry.GetBackwardPass([forward], {"y": "g"})


def test_what_it_raises_comes_through():
    class Own(BaseException):
        pass

    raised = Own("x")

    def fails(forward, g_output):
        raise raised

    register(fails)
    for ask in (
        lambda: GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"]),
        lambda: PASS([op("Mine", "x", "y")], ["y"]),
        lambda: PASS([in_do(op("Mine", "x", "y"))], ["y"]),
        lambda: ctrlgrad.backward(net(op("Mine", "x", "y")), ["y"]),
    ):
        with pytest.raises(Own) as caught:
            ask()
        assert caught.value is raised


def in_do(*ops):
    return do(net(*ops), "x", "y")


def test_is_asked_from_inside_nested_nets():
    asked = []

    def note(forward, g_output):
        asked.append((forward, g_output))
        return mine(forward, g_output)

    register(note)
    branch = net(in_do(op("Mine", "x", "y")))
    given = if_("c", "x ws", "y ws", branch, net(op("Relu", "x", "y")))
    ops, grads = PASS([given], ["y"])
    assert grads["x"] == "x_grad"
    [(forward, _)] = asked
    assert type(forward) is caffe2_pb2.OperatorDef
    assert forward == op("Mine", "x", "y")
    assert b"MineGradient" in ops[-1].SerializeToString()


def test_is_given_the_callers_own_operator():
    asked = []

    def note(forward, g_output):
        asked.append(forward)
        return mine(forward, g_output)

    register(note)
    given = [op("Relu", "x", "y"), op("Mine", "y", "z")]
    PASS(given, ["z"])
    GradientRegistry.GetGradientForOp(given[1], ["g"])
    ctrlgrad.IR(given).GetBackwardPass(["z"])
    assert [each is given[1] for each in asked] == [True] * 3


def test_answers_of_another_class_are_turned_into_that_of_the_question():
    from ctrlgrad import _messages
    from ctrlgrad._schema import FILE

    pool, get_class = _messages.pool_of(FILE)
    other = get_class(pool.FindMessageTypeByName("caffe2.OperatorDef"))

    def foreign(forward, g_output):
        made, g_input = mine(forward, g_output)
        return other.FromString(made.SerializeToString()), g_input

    register(foreign)
    [made], _ = GradientRegistry.GetGradientForOp(op("Mine", "x", "y"), ["g"])
    assert type(made) is caffe2_pb2.OperatorDef


def test_control_flow_can_be_replaced():
    """A function of the user's for Do, If or While is asked instead of ours."""
    asked = []

    def wrapped(forward, g_output):
        asked.append(forward.type)
        return ctrlgrad.gen_do_gradient(forward, g_output)

    branch = net(in_do(op("Relu", "x", "y")))
    given = [if_("c", "x ws", "y ws", branch, net(op("Relu", "x", "y")))]
    expected = PASS(given, ["y"])
    register(wrapped, "Do")
    assert PASS(given, ["y"]) == expected
    assert asked == ["Do"]


def test_control_flow_stays_where_the_registry_is_emptied():
    GradientRegistry.gradient_registry_.clear()
    assert len(PASS([in_do(op("Relu", "x", "y"))], {"y": "g"})[0]) == 1
