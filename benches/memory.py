"""Memory of a call: the most that is resident during it, less what was resident before.

    python benches/memory.py

Each figure comes from a fresh process that has answered a small net before. Needs Linux.
"""

import json
import os
import subprocess
import sys
import tempfile

import bench_nets
import ctrlgrad

CALL = """
import json, sys
import ctrlgrad, ctrlgrad.caffe2_pb2 as pb

def resident(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024

way, small, large = sys.argv[1], *map(json.loads, sys.stdin)

def question(case):
    with open(case["path"], "rb") as file:
        data = file.read()
    if way == "bytes":
        return lambda: ctrlgrad.backward_bytes(data, case["ys"])
    ops = list(pb.NetDef.FromString(data).op)
    return lambda: ctrlgrad.GradientRegistry.GetBackwardPass(ops, case["ys"])
"""

PEAK = """
question(small)()
ask = question(large)
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")
start = resident("VmRSS")
answer = ask()
peak = resident("VmHWM") - start
texts = 0
if way == "bytes":
    texts = len(answer[0]) + sum(len(str(k)) + len(str(v)) for k, v in answer[1].items())
print(json.dumps([peak, texts]))
"""

GROWTH = """
ask = question(large)
after = []
for call in range(1000):
    ask()
    if call in (9, 999):
        after.append(resident("VmRSS"))
print(json.dumps(after[1] - after[0]))
"""


def run(code, family, size, way):
    """What the code prints in a process of its own, and the forward operators of the net."""
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for name, count in (("chain", 10), (family, size)):
            case = bench_nets.build(ctrlgrad.caffe2_pb2, name, count)
            path = os.path.join(folder, "%s-%d" % (name, count))
            with open(path, "wb") as file:
                file.write(case.net.SerializeToString())
            cases.append(json.dumps({"path": path, "ys": case.ys}))
        done = subprocess.run(
            [sys.executable, "-c", CALL + code, way],
            input="\n".join(cases).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(done.stdout), case.ops


def figures():
    """key of bars.MEMORY -> figure."""
    found = {}
    for way in ("bytes", "messages"):
        (megabytes, _), ops = run(PEAK, "chain", 100_000, way)
        found["chain:100000 %s, KB an operator" % way] = 1024 * megabytes / ops
    for family, size in (("long_names", 100_000), ("big_args_copied", 1_000_000)):
        (megabytes, texts), _ = run(PEAK, family, size, "bytes")
        found["%s:%d bytes, over its answer" % (family, size)] = megabytes * 2**20 / texts
    growths = [run(GROWTH, "while", 20, way)[0] for way in ("bytes", "messages")]
    found["growth over calls 10 to 1000, MB"] = max(growths)
    return found


if __name__ == "__main__":
    for key, value in figures().items():
        print("%-50s %8.2f" % (key, value))
