"""Counts the instructions of a call under callgrind, and compares them with those recorded.

    python benches/count.py [--record]

Time is noisy, a count is not: the same program takes the same number of instructions, within a
thousandth (the seed of the hash tables differs). So a change that costs a few percent shows. Each
net is run with one call and with three; half of the difference is a call without what starting a
process costs, and with what calls keep for the next one.

It fails if a call takes 3 % more instructions than benches/counts.json says, or if a net of ten
times the size takes more than ten times as many, as far as counts.json and MOST_GROWTH allow.
Another compiler, or another C library, makes other counts: growth alone is compared then.

Needs valgrind, cargo, and a ctrlgrad that Python can import. `--record` writes counts.json.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import write_nets

RECORDED = pathlib.Path(__file__).with_name("counts.json")
FAMILIES = ["chain", "do_wide", "while", "if_shared"]
SIZES = [1_000, 10_000]
TOLERANCE = 1.03
# From one size to the next: ten times, and a little for caches that are not presized.
MOST_GROWTH = 11.5


def made_with():
    """What counts depend on, beside the code."""
    rustc = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
    return {
        "rustc": rustc.stdout.strip(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "machine": platform.machine(),
    }


def build():
    """The path of the program that only calls."""
    command = ["cargo", "bench", "--bench", "calls", "--no-run", "--message-format", "json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = map(json.loads, told.splitlines())
    return next(m["executable"] for m in messages if m.get("target", {}).get("name") == "calls")


def instructions(program, net, calls):
    """How many instructions the whole process takes."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [program, str(net), str(calls)]
    told = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr
    return int(told.rpartition("Collected : ")[2].split()[0])


def count(families=FAMILIES, sizes=SIZES):
    """family -> {size: instructions of one call}"""
    import ctrlgrad.caffe2_pb2 as pb

    program = build()
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in families:
            for size in sizes:
                net = write_nets.write(pb, folder, "%s:%d" % (family, size))
                once, thrice = (instructions(program, net, calls) for calls in (1, 3))
                counts.setdefault(family, {})[str(size)] = (thrice - once) // 2
    return counts


def growth(counts):
    """What the larger net takes over what the smaller one does."""
    small, large = counts.values()
    return large / small


def complaints(counts, recorded, same_tools):
    """What is worse than it was, in words."""
    found = []
    for family, by_size in counts.items():
        before = recorded[family]
        for size, value in by_size.items():
            if same_tools and value > before[size] * TOLERANCE:
                more = 100 * (value / before[size] - 1)
                found.append("%s:%s takes %.1f %% more than recorded" % (family, size, more))
        most = min(MOST_GROWTH, growth(before) * TOLERANCE)
        if growth(by_size) > most:
            told = (family, growth(by_size), most)
            found.append("%s grows by %.2f from size to size, %.2f is allowed" % told)
    return found


def show(counts, recorded):
    columns = ("", "size", "instructions", "recorded", "ratio", "growth")
    print("%-12s %8s %14s %14s %8s %8s" % columns)
    for family, by_size in counts.items():
        for size, value in by_size.items():
            before = recorded.get(family, {}).get(size)
            told = ("%14d %8.3f" % (before, value / before)) if before else "%14s %8s" % ("-", "-")
            last = "%8.2f" % growth(by_size) if size == list(by_size)[-1] else ""
            print("%-12s %8s %14d %s %s" % (family, size, value, told, last))


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--record", action="store_true", help="write counts.json")
    record = parse.parse_args().record
    tools, counts = made_with(), count()
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    show(counts, known.get("instructions", {}))
    if record:
        text = json.dumps({"made_with": tools, "instructions": counts}, indent=1)
        RECORDED.write_text(text + "\n")
        return 0
    same_tools = tools == known["made_with"]
    if not same_tools:
        print("\nNOT COMPARED, but for their growth: the recorded counts were made with others of")
        for name, now in tools.items():
            print("  %-8s now %s, recorded %s" % (name, now, known["made_with"][name]))
    found = complaints(counts, known["instructions"], same_tools)
    print("\n".join(["", *found]) if found else "\nas it should be")
    if found:
        print("If that is meant: make bench-count RECORD=1")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
