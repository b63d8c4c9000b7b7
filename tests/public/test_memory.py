"""A process that asks again and again does not grow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"

PROGRAM = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import ctrlgrad
from ctrlgrad import GradientRegistry, caffe2_pb2
from nets import if_, mlp, net, op
from places import scope, while_

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

@GradientRegistry.RegisterGradient("Mine")
def mine(forward, g_output):
    return op("Mine", g_output, "x_grad"), ["x_grad"]

forward = net(
    op("Mine", "x", "x2"),
    if_("c", "x2", "y", net(op("Relu", "x2", "y")), net(op("Sigmoid", "x2", "y"))),
    scope(),
    while_(net(op("Tanh", "s", "s")), "s", "s"),
    *mlp().op,
)
data = forward.SerializeToString()
broken = net(op("Relu", "x y z", "r"))

def once():
    ops, grads = GradientRegistry.GetBackwardPass(forward.op, ["y", "s", "loss"])
    assert len(ops) > 8 and len(dict(grads)) > 8
    ctrlgrad.backward(forward, ["y", "loss"], wrt=["x2"]).ops
    ctrlgrad.backward_bytes(data, ["y", "s"])
    ir = ctrlgrad.IR(forward.op)
    ir.GetBackwardPass(["loss"])
    ir.gradient_generators
    try:
        GradientRegistry.GetBackwardPass(broken.op, ["r"])
    except ctrlgrad.SchemaError:
        pass

for _ in range(10):
    once()
    resident()
before = resident()
for _ in range(990):
    once()
print(resident() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux for the memory")
def test_a_thousand_calls_leave_nothing_behind():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SUPPORT)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert ran.returncode == 0, ran.stderr
    # A hundred bytes that one call left behind would come to as much.
    assert int(ran.stdout) < 100_000
