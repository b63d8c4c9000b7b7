"""All figures with their bars and goals, as a table.

    python benches/report.py [--json FILE] [--from FILE]

Takes ten minutes beside Caffe2; without it the lines against Caffe2 are left out. `--json` keeps
the figures, `--from` shows figures that were kept.
"""

import argparse
import json

import bars
import memory
import scaling
import speed


def entries():
    """The nets that lines of speed.py speak of, in order."""
    lines = [*bars.MESSAGES, *bars.BYTES]
    return list(dict.fromkeys(line.key.split()[0] for line in lines))


def measured():
    """key of a line -> figure."""
    found = {}
    keys = [line.key for line in [*bars.MESSAGES, *bars.BYTES]]
    for entry in entries():
        family, _, size = entry.partition(":")
        # Caffe2 takes minutes for some of these; what takes long is asked once.
        beside = any(key.startswith(entry + " reference/") for key in keys)
        row = speed.one(family, int(size), 5, 5.0, with_reference=beside)
        found.update({"%s %s" % (entry, column): row[column] for column in row})
        print(entry, {k: round(v, 3) for k, v in row.items() if k in speed.COLUMNS}, flush=True)
    return {**found, **memory.figures(), **scaling.figures()}


def table(found):
    """The lines as Markdown."""
    rows = ["| what | bar | goal | reached | |", "| --- | ---: | ---: | ---: | --- |"]
    for line in [*bars.MESSAGES, *bars.BYTES, *bars.MEMORY, *bars.GROWTH]:
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
    parse.add_argument("--json")
    parse.add_argument("--from", dest="kept")
    args = parse.parse_args()
    if args.kept:
        with open(args.kept, encoding="utf-8") as file:
            found = json.load(file)
    else:
        found = {k: v for k, v in measured().items() if isinstance(v, (int, float))}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
    print(table(found))


if __name__ == "__main__":
    main()
