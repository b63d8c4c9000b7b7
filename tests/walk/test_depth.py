"""Nets inside nets: as deep as anybody goes and deeper, in a time that grows with the answer."""

import threading
import time

import ctrlgrad
import pytest
import wire
from ctrlgrad import DEPTH_LIMIT, backward, backward_bytes
from wire import do_args, nested, shell

RELU = wire.net(wire.op("Relu", ["x"], ["y"]))
UPDATE = wire.net(wire.op("Relu", ["y"], ["y"]))
SCOPE = wire.op("CreateScope", [], ["ws"])


def do_shell(inputs, outputs, before=(SCOPE,)):
    _, *bindings = do_args(b"", inputs, outputs)
    return shell("Do", [*inputs, "ws"], [*outputs, "ws"], "net", bindings, before)


def if_shell(branch, inputs, outputs, *others):
    return shell("If", ["c", *inputs], outputs, branch, others)


def while_shell():
    return shell("While", ["c", "y", "ws"], ["y", "ws"], "loop_net", before=(SCOPE,))


OTHER = wire.net_arg("else_net", wire.net(wire.op("Tanh", ["x"], ["y"])))
TURN = do_shell(["c", "y"], ["y"], before=())

KINDS = {
    "Do": (["x", "y"], [do_shell(["x"], ["y"])], RELU),
    "Do in place": (["y"], [do_shell(["y"], ["y"])], UPDATE),
    "then": (["x", "y"], [if_shell("then_net", ["x", "y"], ["y"])], RELU),
    "then without y": (["x", "y"], [if_shell("then_net", ["x"], ["y"])], RELU),
    "else": (
        ["x", "y"],
        [if_shell("else_net", ["x", "y"], ["y"], wire.net_arg("then_net", b""))],
        RELU,
    ),
    "then and else": (["x", "y"], [if_shell("then_net", ["x"], ["y"], OTHER)], RELU),
    "If and Do": (
        ["x", "y"],
        [
            do_shell(["c", "x", "y"], ["y"], before=()),
            shell("If", ["c", "x", "y", "ws"], ["y", "ws"], "then_net", before=(SCOPE,)),
        ],
        RELU,
    ),
    "While": (["y"], [TURN, while_shell()], UPDATE),
}

each_kind = pytest.mark.parametrize(("blobs", "shells", "innermost"), KINDS.values(), ids=KINDS)


@each_kind
@pytest.mark.parametrize("levels", [1, 30, 500])
def test_nested_nets_are_answered(blobs, shells, innermost, levels):
    ops, grads = backward_bytes(nested(levels * len(shells), shells, innermost), {"y": "gy"})
    assert ops
    assert grads[blobs[0]]


@each_kind
def test_a_thousand_nested_nets(blobs, shells, innermost):
    _, grads = backward_bytes(nested(1000, shells, innermost), ["y"])
    assert set(grads) >= set(blobs)


@each_kind
def test_the_time_grows_with_the_answer(blobs, shells, innermost):
    def per_byte(levels):
        net = nested(levels * len(shells), shells, innermost)
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            ops, _ = backward_bytes(net, {"y": "gy"})
            best = min(best, time.process_time() - start)
        return (best + 20e-6) / len(ops)

    assert per_byte(64) < 6 * per_byte(8)


@each_kind
def test_too_deep_is_refused(blobs, shells, innermost):
    with pytest.raises(RecursionError) as caught:
        backward_bytes(nested(DEPTH_LIMIT + 2, shells, innermost), {"y": "gy"})
    assert isinstance(caught.value, ctrlgrad.TooDeepError)
    assert len(caught.value.path) >= DEPTH_LIMIT
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("kind", ["Do", "then", "While"])
def test_a_hundred_thousand_nested_nets(kind):
    _, shells, innermost = KINDS[kind]
    net = nested(100_000, shells, innermost)
    start = time.process_time()
    with pytest.raises(ctrlgrad.TooDeepError):
        backward_bytes(net, ["y"])
    assert time.process_time() - start < 5


@pytest.mark.parametrize("kind", ["Do", "then", "While"])
def test_depth_beside_the_path_does_not_matter(kind):
    _, shells, innermost = KINDS[kind]
    beside = nested(20_000, shells, innermost)
    ops, grads = backward_bytes(wire.net(wire.op("Relu", ["p"], ["q"])) + beside, {"q": "gq"})
    assert grads == {"q": "gq", "p": "p_grad"}
    assert len(ops) < 100


@pytest.mark.parametrize(
    ("kind", "levels"), [("If and Do", 45), ("Do", 198), ("then and else", 90)]
)
def test_both_interfaces_give_the_same(kind, levels):
    _, shells, innermost = KINDS[kind]
    data = nested(levels * len(shells), shells, innermost)
    ops, grads = backward_bytes(data, {"y": "gy"})
    answer = backward(data, {"y": "gy"})
    assert answer.grads == grads
    assert b"".join(wire.field(2, each.SerializeToString()) for each in answer.ops) == ops


def test_a_small_stack_is_enough():
    """What lets go of nets inside nets must not recurse on the stack of the thread."""
    net = nested(4000, [if_shell("then_net", ["x", "y"], ["y"])], RELU)
    answers = []
    threading.stack_size(128 * 1024)
    try:
        thread = threading.Thread(target=lambda: answers.append(backward_bytes(net, ["y"])))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    assert len(answers) == 1


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Mean"])
def test_a_blob_that_one_operator_reads_often(op_type):
    def seconds(width):
        net = wire.net(wire.op(op_type, ["x"] * width, ["y"]))
        best = []
        for _ in range(3):
            start = time.process_time()
            backward_bytes(net, ["y"])
            best.append(time.process_time() - start)
        return min(best)

    assert seconds(40_000) < 20 * max(seconds(5_000), 1e-3)
