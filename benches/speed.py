"""Speed of gradient generation, side by side in one process.

    python benches/speed.py [--json FILE] [--rounds 5] [--limit SECONDS] [--no-reference]
                            [FAMILY[:SIZE] ...]

For each family of bench_nets.py (the list PLAN below by default) it times, as
medians of CPU time over several rounds taken in turn:

    floor      what protobuf alone costs a caller who holds messages: serialize
               every forward operator, parse the gradient net, list its operators
    messages   ctrlgrad.GradientRegistry.GetBackwardPass(list(net.op), ys)
    read       the same, and every entry of the gradient map read once
    bytes      ctrlgrad.backward_bytes(net_bytes, ys)
    reference  caffe2.python.core.GradientRegistry.GetBackwardPass, where Caffe2
               is installed in the same Python; else, and with --no-reference,
               left blank (it is quadratic in places: a size that takes us a
               second can take it an hour)

in microseconds per forward operator (nested ones counted), and the ratios that
the bars are stated in. A ratio can be compared between machines, a time cannot.
A family whose one call takes longer than --limit (20 s) is run once.
"""

import argparse
import gc
import json
import statistics
import sys
import time

import bench_nets

PLAN = [
    "chain:1000",
    "chain:10000",
    "chain:100000",
    "inplace:10000",
    "overwrite:10000",
    "mlp_shared:10000",
    "fanout:10000",
    "sparse:10000",
    "many_ys:10000",
    "resnet:10000",
    "long_names:10000",
    "if_many:1000",
    "if_shared:1000",
    "if_nested:16",
    "if_wide:1000",
    "do_wide:1000",
    "do_params:1000",
    "do_nested:32",
    "while:1000",
    "while_state:1000",
    "while_many:100",
    "wide_concat:1000",
    "wide_concat:10000",
    "wide_split:10000",
    "dlrm:1000",
    "dlrm:10000",
    "big_args_off:1000000",
    "big_args_on:1000000",
    "big_args_copied:1000000",
]


def reference():
    try:
        from caffe2.python import core

        return core.GradientRegistry
    except Exception:
        return None


def timed(call, *args):
    start = time.process_time()
    result = call(*args)
    return time.process_time() - start, result


def repeated(call, times):
    return [call() for _ in range(times)]


def measure(ways, rounds, limit):
    """name -> median seconds; the ways are called in turn, round by round."""
    times = {name: [] for name in ways}
    slow = set()
    for name, call in ways.items():  # warm-up, and how long it takes
        took, _ = timed(call)
        times[name].append(took)
        if took > limit:
            slow.add(name)
    for name in ways:
        if name not in slow:
            times[name].clear()
    for _ in range(rounds):
        for name, call in ways.items():
            if name not in slow:
                gc.collect()
                repeat = 1
                took, _ = timed(call)
                if took < 0.1:  # a first call tidies up what the way before has left in the heap
                    took, _ = timed(call)
                while took * repeat < 0.01 and repeat < 64:  # short calls: several at once
                    repeat *= 4
                if repeat > 1:
                    took = timed(repeated, call, repeat)[0] / repeat
                times[name].append(took)
    return {name: statistics.median(values) for name, values in times.items()}


def one(family, size, rounds, limit, with_reference=True):
    import ctrlgrad

    refer = reference() if with_reference else None
    pb = ctrlgrad.caffe2_pb2
    case = bench_nets.build(pb, family, size)
    net, ys = case.net, case.ys
    data = net.SerializeToString()
    answer, _ = ctrlgrad.backward_bytes(data, ys)
    operators = list(net.op)
    net_class = type(net)

    def floor():
        for op in operators:
            op.SerializeToString()
        return list(net_class.FromString(answer).op)

    def messages():
        return ctrlgrad.GradientRegistry.GetBackwardPass(operators, ys)

    def read():
        ops, grads = messages()
        return ops, list(grads.items())

    ways = {
        "floor": floor,
        "messages": messages,
        "read": read,
        "bytes": lambda: ctrlgrad.backward_bytes(data, ys),
    }
    if refer is not None:
        from caffe2.proto import caffe2_pb2

        theirs = list(bench_nets.build(caffe2_pb2, family, size).net.op)
        ways["reference"] = lambda: refer.GetBackwardPass(theirs, ys)
    try:
        floor()
    except Exception:
        del ways["floor"]
    seconds = measure(ways, rounds, limit)
    row = {
        "family": family,
        "size": size,
        "ops": case.ops,
        "bytes_in": len(data),
        "bytes_out": len(answer),
    }
    row.update({name: 1e6 * value / case.ops for name, value in seconds.items()})
    if "floor" in row:
        row["messages/floor"] = row["messages"] / row["floor"]
    if "reference" in row:
        for way in ("messages", "read", "bytes"):
            row["reference/" + way] = row["reference"] / row[way]
    return row


COLUMNS = [
    "floor",
    "messages",
    "read",
    "bytes",
    "reference",
    "messages/floor",
    "reference/messages",
    "reference/read",
    "reference/bytes",
]


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("plan", nargs="*")
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--limit", type=float, default=20.0)
    parse.add_argument("--json")
    parse.add_argument("--no-reference", action="store_true")
    args = parse.parse_args()
    import google.protobuf
    from google.protobuf.internal import api_implementation

    print(
        "Python %s, protobuf %s (%s), microseconds per forward operator"
        % (sys.version.split()[0], google.protobuf.__version__, api_implementation.Type())
    )
    print("%-24s %9s " % ("family:size", "ops") + " ".join("%18s" % c for c in COLUMNS))
    rows = []
    for entry in args.plan or PLAN:
        family, _, size = entry.partition(":")
        row = one(family, int(size or 1000), args.rounds, args.limit, not args.no_reference)
        rows.append(row)
        print(
            "%-24s %9d " % (entry, row["ops"])
            + " ".join("%18s" % ("%.3f" % row[c] if c in row else "") for c in COLUMNS),
            flush=True,
        )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
