"""The same question has the same bytes for an answer: everywhere, always, for everybody at once."""

import hashlib
import os
import subprocess
import sys
import threading

import pytest
from ctrlgrad import GradientRegistry, backward, backward_bytes
from nets import if_, mlp, net, op
from places import PLACES, scope, while_

OPS = [op("Mul", "x w", "h"), op("Sin", "x", "k"), op("Add", "h k", "y")]


def loop(k=""):
    made = while_(net(op("Add", ["y" + k, "w"], ["y" + k])), ["y" + k, "w"], ["y" + k], ws="ws" + k)
    return [scope("ws" + k), made]


def questions():
    """(net, targets) of many kinds."""
    found = [(place(OPS, "x w", "y"), ["y"]) for place in PLACES.values()]
    branch = net(*(op("Sin", "x%d" % k, "y%d" % k) for k in range(9)), name="t")
    inputs, outputs = ["x%d" % k for k in range(9)], ["y%d" % k for k in range(9)]
    found.append((net(if_("c", inputs + outputs, outputs, branch)), outputs))
    tables = [op("Gather", "t%d i%d" % (k % 3, k), "r%d" % k) for k in range(9)]
    found.append((net(*tables, op("Sum", ["r%d" % k for k in range(9)], "y")), ["y"]))
    found.append((net(*loop(), *loop("2"), op("Sum", "y y2", "z")), ["z"]))
    found.append((mlp(), {"loss": None, "p": "p_given"}))
    return [(forward.SerializeToString(), ys) for forward, ys in found]


def digest():
    """Of all answers, maps in their order."""
    answers = [(ops, list(grads.items())) for ops, grads in map(answer, questions())]
    return hashlib.sha256(repr(answers).encode()).hexdigest()


def answer(question):
    return backward_bytes(*question)


def in_another_process(seed, code="print(digest())"):
    here = os.path.dirname(os.path.abspath(__file__))
    path = [here, os.path.join(here, os.pardir, "support"), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-c", "from test_determinism import *; " + code],
        env=dict(os.environ, PYTHONHASHSEED=str(seed), PYTHONPATH=os.pathsep.join(path)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("seed", [0, 1, 4242])
def test_every_process_and_hash_seed(seed):
    assert in_another_process(seed) == digest()


def test_after_other_answers():
    """Also with each one asked first and last, and after errors."""
    first = digest()
    for question in questions():
        answer(question)
        with pytest.raises(ValueError, match="nowhere"):
            backward_bytes(question[0], ["nowhere"])
    assert digest() == first
    assert (
        in_another_process(
            0, "questions()[::-1]; [answer(q) for q in questions()[::-1]]; print(digest())"
        )
        == first
    )


def test_conditions_of_loops_are_numbered_anew():
    forward = net(*loop(), *loop("2"), op("Sum", "y y2", "z"))
    for _ in range(3):
        conditions = [
            each.output[0] for each in backward(forward, ["z"]).ops if each.type == "HasScope"
        ]
        assert conditions == ["gradient_loop_cond_net/cond", "gradient_loop_cond_net_1/cond"]


def test_conditions_of_nested_loops_are_numbered_anew():
    inner = net(*loop())
    turn = while_(inner, "y w more turns one zero", "y")
    forward = net(scope(), turn).SerializeToString()
    first = backward_bytes(forward, {"y": "gy"})
    assert b"gradient_loop_cond_net_1/cond" in first[0]
    assert b"gradient_loop_cond_net_2" not in first[0]
    assert backward_bytes(forward, {"y": "gy"}) == first


def test_operators_answered_alone_are_numbered_anew():
    [_, forward] = loop()
    answers = [ctrl(forward) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


def ctrl(forward):
    ops, g_input = GradientRegistry.GetGradientForOp(forward, ["gy", None, None, None])
    return [each.SerializeToString() for each in ops], g_input


def test_threads():
    asked = questions()
    expected = [answer(question) for question in asked]
    wrong, start = [], threading.Barrier(8)

    def work(offset):
        start.wait()
        for turn in range(40):
            at = (turn + offset) % len(asked)
            if answer(asked[at]) != expected[at]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_with_a_large_net():
    """Large enough to be answered without the interpreter's lock."""
    chain = [op("Sin", "x%d" % k, "x%d" % (k + 1)) for k in range(5_000)]
    data = net(*chain).SerializeToString()
    expected = backward_bytes(data, ["x5000"])
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(backward_bytes(data, ["x5000"])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert all(each == expected for each in got)


def test_threads_with_registered_functions():
    def mine(forward, g_output):
        return [op("MineGradient", [*forward.input, *g_output], "x_grad")], ["x_grad"]

    GradientRegistry.RegisterGradient("Mine")(mine)
    data = net(op("Mine", "x", "h"), op("Sin", "h", "y")).SerializeToString()
    expected = backward_bytes(data, ["y"])
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(backward_bytes(data, ["y"]))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 8
