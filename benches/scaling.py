"""How the time of a call grows with the net, from bytes to bytes.

    python benches/scaling.py

CPU time, medians. An exponent is the slope between a small and a large net, in logarithms; nets
that grow in depth are measured by the bytes of the answer.
"""

import gc
import math
import os
import statistics
import subprocess
import sys
import time

import bench_nets

DEEP = ("if_nested", "do_nested")
WIDE = (
    "wide_concat",
    "wide_split",
    "dlrm",
    "do_wide",
    "do_params",
    "if_wide",
    "if_shared_wide",
    "while",
    "while_state",
)


def call(family, size, rounds):
    """(seconds, forward operators, bytes of the answer)."""
    import ctrlgrad

    case = bench_nets.build(ctrlgrad.caffe2_pb2, family, size)
    data, ys, count = case.net.SerializeToString(), case.ys, case.ops
    del case
    seconds = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        ops, _ = ctrlgrad.backward_bytes(data, ys)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), count, len(ops)


def sizes(family):
    if family in DEEP:
        return 8, 64
    return (100_000, 1_000_000) if family.startswith("big_args") else (1000, 100_000)


def exponents():
    """family -> (exponent, seconds at full size)."""
    found = {}
    for family in bench_nets.FAMILIES:
        small, large = sizes(family)
        (early, _, few), (late, _, many) = call(family, small, 31), call(family, large, 5)
        growth = late / early
        if family in DEEP:
            exponent = 1 + math.log(growth / (many / few)) / math.log(large / small)
        else:
            exponent = math.log(growth) / math.log(large / small)
        found[family] = exponent, late
        print("%-18s %6.2f %9.4f s at %d" % (family, exponent, late, large), flush=True)
    return found


def figures():
    """key of bars.GROWTH -> figure."""
    grown = exponents()
    found = {
        "largest exponent of a family": max(exponent for exponent, _ in grown.values()),
        "slowest family at full size, s": max(seconds for _, seconds in grown.values()),
    }
    each = {}
    for family in ("chain", *WIDE):
        seconds, count, _ = call(family, 30_000, 5)
        each[family] = seconds / count
    found["wide families over chain, at most"] = max(each.values()) / each["chain"]
    (few, few_ops, _), (many, many_ops, _) = call("chain", 10_000, 9), call("chain", 10**6, 2)
    found["chain:1000000 over chain:10000, each operator"] = (many / many_ops) / (few / few_ops)
    for family in DEEP:
        (low, _, short), (high, _, long) = call(family, 4, 41), call(family, 64, 15)
        ratio = (high / long) / (low / short)
        found["%s: time a byte, depth 64 over 4" % family] = ratio
    found["while_many: last of eleven calls over the first"] = statistics.median(
        in_new_process("last_over_first") for _ in range(5)
    )
    return found


def last_over_first():
    """The time of the last calls of eleven in one process over that of the first one."""
    import ctrlgrad

    # What the first call of a process finds cold would hide that later ones are slower.
    call("if_many", 300, 5)
    case = bench_nets.build(ctrlgrad.caffe2_pb2, "while_many", 300)
    data, times = case.net.SerializeToString(), []
    for _ in range(11):
        start = time.process_time()
        ctrlgrad.backward_bytes(data, case.ys)
        times.append(time.process_time() - start)
    return statistics.median(times[-3:]) / times[0]


def in_new_process(function):
    """What a function of this file answers in a process of its own."""
    code = "import scaling; print(scaling.%s())" % function
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, stdout=subprocess.PIPE, check=True, text=True
    )
    return float(done.stdout)


if __name__ == "__main__":
    for key, value in figures().items():
        print("%-50s %8.2f" % (key, value))
