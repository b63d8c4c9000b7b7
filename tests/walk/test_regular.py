"""The shorter way of regular operators gives what the general way gives, byte for byte.

Makers that say they go first, and then have nothing to say, send every operator the general way.
"""

import functools
import pathlib

import bench_nets
import canonical
import ctrlgrad
import pytest
from ctrlgrad import _core, blobs

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


class NothingToSay:
    types = frozenset()

    def __init__(self):
        self.asked = 0

    def goes_first(self, op_type, wire):
        return True

    def ask(self, wire, g_output, path):
        self.asked += 1


def answer(net, ys, makers=None):
    grads = {}
    try:
        ops = _core.backward(net, blobs.targets_to_core(ys, lambda y: False), grads, makers, None)
    except ctrlgrad.CtrlgradError as error:
        return type(error), str(error)
    return ops, list(grads.items())


@functools.cache
def golden(file):
    cases = canonical.load(str(GOLDEN / (file + ".jsonl")))
    return {case["name"]: case for case in cases if case["kind"] == "net"}


@pytest.mark.parametrize("file", ["nets", "control_flow", "models", "reports"])
def test_golden_nets(file):
    asked = 0
    for name, case in golden(file).items():
        net = canonical.forward_net(case, ctrlgrad.caffe2_pb2.NetDef).SerializeToString()
        makers = NothingToSay()
        assert answer(net, case["ys"]) == answer(net, case["ys"], makers), name
        asked += makers.asked
    assert asked > 10


@pytest.mark.parametrize("family", bench_nets.FAMILIES)
def test_families(family):
    case = bench_nets.build(ctrlgrad.caffe2_pb2, family, 12)
    net, makers = case.net.SerializeToString(), NothingToSay()
    assert answer(net, case.ys) == answer(net, case.ys, makers)
    assert makers.asked
