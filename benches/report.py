"""All figures with their bars and goals, as a table.

    python benches/report.py [--upb PYTHON] [--json FILE] [--from FILE]

Takes ten minutes beside Caffe2; without it the lines against Caffe2 are left out. `--upb` names a
Python in whose environment protobuf is upb, for the lines that speak of that. `--json` keeps the
figures, `--from` shows figures that were kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import bars
import memory
import scaling
import speed

HERE = os.path.dirname(os.path.abspath(__file__))
BASED = list(
    dict.fromkeys(line.key.split()[0] for line in bars.BYTES if line.key.endswith("scan + intern"))
)


def entries():
    """The nets that lines of speed.py speak of, in order."""
    lines = [*bars.MESSAGES, *bars.BYTES]
    return list(dict.fromkeys(line.key.split()[0] for line in lines))


def measured(upb):
    """key of a line -> figure."""
    found = {}
    keys = [line.key for line in [*bars.MESSAGES, *bars.BYTES]]
    for entry in entries():
        # Caffe2 takes minutes for some of these; what takes long is asked once.
        beside = any(key.startswith(entry + " reference/") for key in keys)
        row = alone(sys.executable, entry, beside)
        found.update({"%s %s" % (entry, column): row[column] for column in row})
        print(entry, {k: round(v, 3) for k, v in row.items() if k in speed.COLUMNS}, flush=True)
    for entry, costs in stages(BASED).items():
        found.update({"%s stage %s" % (entry, stage): cost for stage, cost in costs.items()})
        base = costs["scan + intern alone"]
        found[entry + " bytes without a dict over scan + intern"] = costs["whole call"] / base
        found[entry + " bytes over scan + intern"] = 1000 * found[entry + " bytes"] / base
    if upb:
        found.update(with_upb(upb))
    return {**found, **memory.figures(), **scaling.figures()}


def alone(python, entry, beside):
    """The figures of one net, from a process of its own: what others have left in memory counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "row.json")
        command = [python, os.path.join(HERE, "speed.py"), "--limit", "5", "--json", path, entry]
        printed(command if beside else [*command, "--no-reference"])
        with open(path, encoding="utf-8") as file:
            [row] = json.load(file)
    return row


def printed(command, cwd=None):
    """What a command prints."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def stages(nets):
    """net -> stage -> nanoseconds for each operator, by the benchmark in Rust."""
    with tempfile.TemporaryDirectory() as folder:
        writer = [sys.executable, os.path.join(HERE, "write_nets.py"), folder, *nets]
        bench = ["cargo", "bench", "--quiet", "--bench", "stages", "--", "--json"]
        shown = printed([*bench, *printed(writer).split()], cwd=HERE)
    costs = [net["stages"] for net in json.loads(shown)]
    return {
        entry: {stage: cost["ns"] for stage, cost in stages.items()}
        for entry, stages in zip(nets, costs)
    }


def with_upb(python):
    """key of bars.UPB -> figure, measured in the environment of another Python."""
    backend = "from google.protobuf.internal import api_implementation as a; print(a.Type())"
    found = printed([python, "-c", backend]).strip()
    if found != "upb":
        print("%s has protobuf with the backend %s, not upb" % (python, found))
        return {}
    row = alone(python, "chain:10000", beside=False)
    return {line.key: row[line.key.split()[-1]] for line in bars.UPB}


def table(found):
    """The lines as Markdown."""
    rows = ["| what | bar | goal | reached | |", "| --- | ---: | ---: | ---: | --- |"]
    for line in bars.ALL:
        if line.key not in found:
            continue
        value = found[line.key]
        verdict = "missed"
        if line.met(value, line.bar):
            verdict = "goal" if line.met(value, line.goal) else "bar"
        rows.append(
            "| %s | %g | %g | %s | %s |" % (line.key, line.bar, line.goal, shown(value), verdict)
        )
    return "\n".join(rows)


def shown(value):
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--upb", metavar="PYTHON")
    parse.add_argument("--json")
    parse.add_argument("--from", dest="kept")
    args = parse.parse_args()
    if args.kept:
        with open(args.kept, encoding="utf-8") as file:
            found = json.load(file)
    else:
        found = {k: v for k, v in measured(args.upb).items() if isinstance(v, (int, float))}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
    print(table(found))


if __name__ == "__main__":
    main()
