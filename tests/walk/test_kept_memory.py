"""A thread keeps memory from answer to answer, and nothing else.

A new thread has none. What it answers is what a thread answers that has answered anything before.
"""

import random
import threading

import bench_nets
import ctrlgrad
import pytest
from nets import net, op


def nets():
    """(bytes, targets), small and not so small, with answers and with refusals."""
    proto = ctrlgrad.caffe2_pb2
    for family in bench_nets.FAMILIES:
        for size in (1, 7, 40):
            case = bench_nets.build(proto, family, size)
            yield case.net.SerializeToString(), case.ys
    case = bench_nets.build(proto, "chain", 20_000)
    yield case.net.SerializeToString(), case.ys
    yield b"\xff", ["y"]
    for broken in (
        net(op("Relu", "x", "y"), op("NoSuchType", "y", "z")),
        net(op("Relu", "x", "y"), op("FC", "y w", "z")),
        net(op("Sigmoid", "x", "y"), op("Sigmoid", "y", "y"), op("Tanh", "x", "x")),
        net(op("Do", "x ws", "y ws"), op("Relu", "y", "z")),
    ):
        yield broken.SerializeToString(), ["z"] if broken.op[-1].output[0] == "z" else ["y", "x"]


def answer(wire, ys):
    try:
        return ctrlgrad.backward_bytes(wire, ys)
    except ctrlgrad.CtrlgradError as error:
        return type(error), str(error)


def elsewhere(wire, ys):
    found = []
    thread = threading.Thread(target=lambda: found.append(answer(wire, ys)))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("seed", range(3))
def test_what_was_before_changes_nothing(seed):
    cases = [(case, elsewhere(*case)) for case in nets()]
    random.Random(seed).shuffle(cases)
    for case, alone in cases:
        assert answer(*case) == alone
