"""What it costs to have ctrlgrad installed under Caffe2.

    python tests/drop_in/cost.py

Prints medians of CPU time, and as ratios what does not depend on the machine.
"""

import json
import statistics
import subprocess
import sys
import time

import ctrlgrad
from caffe2.python import core

OPERATORS = 10000
ROUNDS = 7

START = """
import json, time
before = time.process_time()
from caffe2.python import core, workspace
caffe2 = time.process_time()
import ctrlgrad
ctrlgrad.install()
print(json.dumps([caffe2 - before, time.process_time() - caffe2]))
"""


def chain(operators):
    """A net of layers one behind the other, and its last blob."""
    net = core.Net("chain")
    blob = "x"
    for at in range(operators // 2):
        hidden = net.FC([blob, "w%d" % at, "b%d" % at], "h%d" % at)
        blob = net.Relu(hidden, "x%d" % at)
    return net, blob


def spent(function, *arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def backward_pass(operators=OPERATORS, rounds=ROUNDS):
    """Medians of seconds: {"installed": `net.AddGradientOperators` with ctrlgrad installed,
    "ctrlgrad": its GetBackwardPass on the same operators, "around": what AddGradientOperators
    does beside, asked with an answer that is there already}."""
    original, blob = chain(operators)
    ops = list(original.Proto().op)
    ask = ctrlgrad.GradientRegistry.GetBackwardPass
    registry = core.GradientRegistry

    def around(net):
        answer = ask(ops, [blob])
        asked = vars(registry)["GetBackwardPass"]
        registry.GetBackwardPass = classmethod(lambda cls, operators, ys: answer)
        try:
            return spent(net.AddGradientOperators, [blob])
        finally:
            registry.GetBackwardPass = asked

    # One behind the other in each round, so that a slow moment meets all of them.
    seconds = {"installed": [], "ctrlgrad": [], "around": []}
    with ctrlgrad.installed():
        for _ in range(rounds):
            net = original.Clone("installed")
            seconds["installed"].append(spent(net.AddGradientOperators, [blob]))
            assert len(net.Proto().op) > 2 * len(ops)
            seconds["ctrlgrad"].append(spent(ask, ops, [blob]))
            seconds["around"].append(around(original.Clone("around")))
    return {name: statistics.median(found) for name, found in seconds.items()}


def start(rounds=ROUNDS):
    """Medians of seconds: (import of Caffe2, import of ctrlgrad and install() behind it)."""
    found = [
        json.loads(subprocess.run([sys.executable, "-c", START], stdout=-1, check=True).stdout)
        for _ in range(rounds)
    ]
    return tuple(map(statistics.median, zip(*found)))


def main():
    seconds = backward_pass()
    for name, figure in seconds.items():
        print("%-9s %7.1f ms" % (name, figure * 1e3))
    expected = seconds["ctrlgrad"] + seconds["around"]
    print("installed / (ctrlgrad + around) = %.2f" % (seconds["installed"] / expected))
    caffe2, added = start()
    print("import of Caffe2 %.0f ms, ctrlgrad adds %.1f ms" % (caffe2 * 1e3, added * 1e3))


if __name__ == "__main__":
    main()
