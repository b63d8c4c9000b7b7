"""Writes docs/performance.svg, the table in docs/performance.md and the one in README.md.

All from docs/performance.json.

    .venv/bin/python scripts/make_performance.py [--check]

`make performance` measures first. With --check nothing is written: it fails if what is there is not
what the figures give.
"""

import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))
import report  # noqa: E402

FIGURES = ROOT / "docs" / "performance.json"
PICTURE = ROOT / "docs" / "performance.svg"
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- %s: made by scripts/make_performance.py -->\n", "<!-- %s: end -->\n"

# Microseconds for each forward operator, by size; measured once, on a machine of like speed. Peers
# make the backward graph of the same chain of FC and Relu; their own forward pass is not counted.
CHAIN = {
    "Caffe2 1.10.2": {100: 46, 1000: 46, 10_000: 62, 100_000: 87},
    "onnxruntime 1.19.2": {100: 36, 1000: 54, 10_000: 127, 30_000: 217, 100_000: 539},
    "TensorFlow 2.21": {100: 782, 1000: 765, 10_000: 829, 30_000: 839},
    "JAX 0.12": {100: 881, 1000: 997, 10_000: 1173, 30_000: 1155},
    "tinygrad 0.14": {100: 417, 1000: 521, 10_000: 1500},
    "PyTorch 2.13 make_fx": {100: 2020, 1000: 2760, 10_000: 3670},
}
WHILE = {"Caffe2 1.10.2": {100: 103, 1000: 183, 10_000: 1058, 30_000: 2994}}

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 440, 380, 52, 44, 138, 40
COLOURS = {"Caffe2": "#d1495b", "ctrlgrad": "#00798c"}
STYLE = """<style>
text { font: 12px sans-serif; fill: #333 } .title { font-weight: bold; font-size: 13px }
.grid { stroke: #8884; } .curve { fill: none; stroke-width: 2 } .peer { stroke-width: 1.3 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }
</style>"""


def ours(found, family, column):
    """size -> microseconds for each operator."""
    entries = [key.split() for key in found]
    sizes = {
        int(entry[0].partition(":")[2])
        for entry in entries
        if entry[0].startswith(family + ":") and entry[-1] == column
    }
    return {size: found["%s:%d %s" % (family, size, column)] for size in sorted(sizes - {10})}


def panel(title, curves, sizes, times):
    """One panel: curves on logarithmic axes, their names at their ends."""

    def at(value, ends, start, stop):
        low, high = map(math.log, ends)
        return start + (math.log(value) - low) / (high - low) * (stop - start)

    def x(size):
        return at(size, sizes, LEFT, WIDTH - RIGHT)

    def y(time):
        return at(time, times, HEIGHT - BOTTOM, TOP)

    parts = ['<text class="title" x="%d" y="20">%s</text>' % (LEFT, title)]
    for power in range(round(math.log10(sizes[0])), round(math.log10(sizes[1])) + 1):
        parts.append(line("grid", [(x(10**power), TOP), (x(10**power), HEIGHT - BOTTOM)]))
        parts.append(text(x(10**power), HEIGHT - BOTTOM + 16, "10^%d" % power, "middle"))
    for power in range(math.ceil(math.log10(times[0])), round(math.log10(times[1])) + 1):
        parts.append(line("grid", [(LEFT, y(10**power)), (WIDTH - RIGHT, y(10**power))]))
        parts.append(text(LEFT - 6, y(10**power) + 4, "%g" % 10**power, "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "operators", "middle"))
    ends = []
    for name, points in curves.items():
        shown = [(x(size), y(time)) for size, time in sorted(points.items())]
        parts.append(line("curve" if colour(name) else "curve peer", shown, colour(name)))
        ends.append([shown[-1][1], shown[-1][0], name])
    last = -math.inf
    for height, right, name in sorted(ends):
        last = max(height, last + 14)
        parts.append(text(right + 6, last + 4, name, "start", colour(name)))
    return parts


def colour(name):
    return COLOURS.get(name.replace(",", "").split()[0])


def line(kind, points, stroke=None):
    path = "M" + "L".join("%.1f %.1f" % point for point in points)
    return '<path class="%s" d="%s" stroke="%s"/>' % (kind, path, stroke or "#8889")


def text(x, y, words, anchor, fill=None):
    style = ' style="fill:%s"' % fill if fill else ""
    return '<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' % (x, y, anchor, style, words)


def picture(found):
    """The SVG."""
    chain = {
        **CHAIN,
        "ctrlgrad, messages": ours(found, "chain", "messages"),
        "ctrlgrad, bytes": ours(found, "chain", "bytes"),
    }
    loop = {
        **WHILE,
        "ctrlgrad, messages": ours(found, "while", "messages"),
        "ctrlgrad, bytes": ours(found, "while", "bytes"),
    }
    left = panel("FC and Relu in a chain: µs an operator", chain, (100, 100_000), (0.3, 10_000))
    right = panel("One While: µs an operator inside", loop, (100, 100_000), (0.3, 10_000))
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">'
    head = [head % (2 * WIDTH, HEIGHT), "<title>Time to make a backward pass</title>", STYLE]
    moved = ['<g transform="translate(%d 0)">' % WIDTH, *right, "</g>"]
    return "\n".join([*head, *left, *moved, "</svg>", ""])


# What the README shows.
NETS = {
    "chain:10000": "10,000 operators in a chain",
    "resnet:10000": "10,000, a residual network",
    "mlp_shared:10000": "10,000, one weight for all layers",
    "dlrm:10000": "10,000, embeddings and interactions",
    "if_many:1000": "1,000 Ifs, 8 operators each",
    "if_wide:10000": "an If with 20,000 blobs in it",
    "while:10000": "a While with 10,000 operators in it",
}


def few_lines(found):
    """The table of the README."""
    rows = ["| net | Caffe2 | messages | bytes |", "| --- | ---: | ---: | ---: |"]
    for key, net in NETS.items():
        cells = [report.shown(found[key + " reference"])]
        for way in ("messages", "bytes"):
            times = found["%s reference/%s" % (key, way)]
            cells.append("%s (%.0f times)" % (report.shown(found["%s %s" % (key, way)]), times))
        rows.append("| %s | %s |" % (net, " | ".join(cells)))
    return "\n".join(rows)


# The net whose call the page takes apart, and what is to be said of the stages.
TAKEN_APART = "chain:10000"
STAGES = {
    "scan": "the wire format is read in place, nothing is copied",
    "intern": "a name is hashed once, whatever is made of it later",
    "versions": "",
    "walk": "regular operators take a way of their own",
    "verify": "the answer is played through by its final names",
    "emit": "from the last byte to the first: lengths are known when they are written",
    "names": "what the dict is made of",
    "rest": "",
}


def stages(found):
    """The table of the stages of a call."""
    costs = {stage: found["%s stage %s" % (TAKEN_APART, stage)] for stage in STAGES}
    rows = ["| stage | ns | |", "| --- | ---: | --- |"]
    rows += ["| %s | %.0f | %s |" % (stage, costs[stage], words) for stage, words in STAGES.items()]
    python = 1000 * found[TAKEN_APART + " bytes"] - found[TAKEN_APART + " stage whole call"]
    words = "two texts for each entry, two entries for each operator"
    rows.append("| the dict in Python | %.0f | %s |" % (python, words))
    return "\n".join(rows)


def with_table(page, name, table):
    """A page with the table between two marks made anew."""
    begin, end = BEGIN % name, END % name
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + "\n" + table + "\n\n" + end + after


def pages(found):
    """path -> what is to stand there."""
    page, readme = PAGE.read_text(encoding="utf-8"), README.read_text(encoding="utf-8")
    page = with_table(with_table(page, "stages", stages(found)), "figures", report.table(found))
    return {
        PICTURE: picture(found),
        PAGE: page,
        README: with_table(readme, "figures", few_lines(found)),
    }


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--check", action="store_true")
    check = parse.parse_args().check
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    stale = False
    for path, content in pages(found).items():
        if not check:
            path.write_text(content, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != content:
            print("%s is not what the figures give: run %s" % (path.relative_to(ROOT), __file__))
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
