"""Writes docs/differences.md: every kind of net where ctrlgrad does not answer as Caffe2 does.

    python scripts/make_differences.py [--check]
    python3.9 scripts/make_differences.py --ask-caffe2

What Caffe2 gives comes from the golden cases (tests/golden) that carry `reference_is_wrong`, and
from docs/differences.json, which puts those cases in order and holds further nets. What ctrlgrad
gives is asked of the installed ctrlgrad, each time. The same sources give the same text. Needs
protobuf, but no Caffe2.

`--check` writes nothing; its exit status is 1 if the file is not up to date. `--ask-caffe2` asks
Caffe2 again about the further nets, runs both answers beside finite differences, and writes what
came out to docs/differences.json. It needs the environment of `make test-reference`.
"""

import argparse
import json
import pathlib
import re
import sys
import textwrap

import ctrlgrad

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "differences.json"
TARGET = ROOT / "docs" / "differences.md"
sys.path.insert(0, str(ROOT / "tests" / "support"))

import asking  # noqa: E402
import canonical  # noqa: E402

SUMS = "is_auto_gen_sum_ops:1"
INNER_GRADIENT = "/_DO_OPERATOR_INNER_GRAD_"
INNER_COPY = "/_DO_OPERATOR_INNER_GRAD_COPY_"
HIDDEN_ARGUMENTS = {"inner_blobs", "outer_blobs_idx", "saved_fwd_blobs"}


# --------------------------------------------------------------- nets as text


def lines_of(ops, indent=0):
    """Operators in the notation of the document, one a line; those of nested nets further in."""
    return [line for op in ops for line in op_lines(op, indent)]


def op_lines(op, indent):
    pad = " " * indent
    line = "%s%s(%s) -> (%s)" % (pad, op.type, names(op.input), names(op.output))
    lines = []
    for arg in op.arg:
        if arg.HasField("n"):
            head = "%s  [%s]%s" % (pad, arg.name, net_note(op, arg.n))
            lines += [head, *lines_of(arg.n.op, indent + 4)]
        elif arg.name not in HIDDEN_ARGUMENTS:
            line += " {%s = %s}" % (arg.name, argument(arg))
    return [line + device(op), *lines]


def names(blobs):
    return ", ".join(short(blob) for blob in blobs)


def short(blob):
    """The names that the inside of a Do has for gradients are long and say little."""
    return str(blob).replace(INNER_COPY, "/OUT").replace(INNER_GRADIENT, "/IN")


def net_note(op, net):
    """What the operators do not say: the bindings of a Do, and a name that is not there."""
    notes = []
    if not net.name:
        notes.append("without a name")
    bound = [short(inner) + " = " + outer for inner, outer in bindings(op) if inner != outer]
    if bound:
        notes.append(", ".join(bound))
    return " " + "; ".join(notes) if notes else ""


def bindings(op):
    args = {arg.name: arg for arg in op.arg}
    if op.type != "Do" or not {"inner_blobs", "outer_blobs_idx"} <= set(args):
        return []
    outer = [*op.input[:-1], *op.output[:-1]]
    inner = [name.decode() for name in args["inner_blobs"].strings]
    return [(name, outer[at]) for name, at in zip(inner, args["outer_blobs_idx"].ints)]


def argument(arg):
    for kind in ("f", "i", "s"):
        if arg.HasField(kind):
            return number(getattr(arg, kind)) if kind != "s" else arg.s.decode()
    values = [number(v) for v in [*arg.floats, *arg.ints]] + [s.decode() for s in arg.strings]
    return "[%s]" % ", ".join(values)


def number(value):
    return "%d" % value if isinstance(value, int) else "%.4g" % value


def device(op):
    option = op.device_option
    extra = [text for text in option.extra_info if text != SUMS]
    notes = ["device %d of type %d" % (option.device_id, option.device_type)]
    return " {%s}" % ", ".join(notes + extra) if option.device_type or extra else ""


OPERATOR = re.compile(r"( *)(\w+)\((.*?)\) -> \((.*?)\)((?: \{.*?\})*)$")
NET = re.compile(r"( *)\[(\w+)\]$")


def net_from(lines, proto):
    """The net that such lines mean. A Do binds its blobs under their outer names."""
    net = proto.NetDef(name="net")
    stack = [(0, net)]
    op = None
    for line in lines:
        found = NET.match(line)
        if found:
            indent = len(found.group(1))
            while stack[-1][0] > indent:
                stack.pop()
            op = stack[-1][1].op[-1]
            inner = op.arg.add(name=found.group(2)).n
            inner.name = "body_%d" % lines.index(line)
            stack.append((indent + 2, inner))
            if op.type == "Do":
                bind(op)
            continue
        indent, op_type, inputs, outputs, args = OPERATOR.match(line).groups()
        while stack[-1][0] > len(indent):
            stack.pop()
        op = stack[-1][1].op.add(type=op_type)
        op.input.extend(filter(None, inputs.split(", ")))
        op.output.extend(filter(None, outputs.split(", ")))
        for name, value in re.findall(r"\{(\w+) = (.*?)\}", args):
            set_argument(op.arg.add(name=name), value)
    return net


def bind(op):
    outer = [*op.input[:-1], *op.output[:-1]]
    inner = list(dict.fromkeys(outer))
    op.arg.add(name="inner_blobs").strings.extend(name.encode() for name in inner)
    op.arg.add(name="outer_blobs_idx").ints.extend(outer.index(name) for name in inner)


def set_argument(arg, value):
    if value.startswith("["):
        arg.ints.extend(int(item) for item in value[1:-1].split(", "))
    elif re.fullmatch(r"-?\d+", value):
        arg.i = int(value)
    else:
        arg.f = float(value)


# --------------------------------------------------------------- questions and answers


def question_lines(case, proto):
    if case["kind"] == "net":
        lines = lines_of(canonical.forward_net(case, proto.NetDef).op)
        ys = case["ys"]
        ys = ys if isinstance(ys, dict) else dict.fromkeys(ys)
    else:
        op = canonical.parse_text(case["op"], proto.OperatorDef)
        lines = lines_of([op])
        pairs = zip(op.output, case["g_output"])
        ys = {output: given for output, given in pairs if given is not None}
    if "scope" in case:
        lines.insert(0, "(in name scope %s)" % case["scope"]["name"])
    return [*lines, "ys  " + ", ".join(target(y, given) for y, given in ys.items())]


def target(y, given):
    return y if given is None else "%s: %s" % (y, gradient(given))


def gradient(value):
    return "(%s)" % names(value) if isinstance(value, (list, tuple)) else short(value)


def answer_lines(case, ops, grads, proto):
    """Gradient operators, and the gradients of the blobs that come into the net."""
    if case["kind"] == "net":
        forward = canonical.forward_net(case, proto.NetDef).op
        grads = {str(blob): value for blob, value in grads.items()}
    else:
        forward = [canonical.parse_text(case["op"], proto.OperatorDef)]
        grads = dict(zip(forward[0].input, grads))
    # In the order of the net: the map's own is not the same in each process of Caffe2.
    first, made = {}, set()
    for op in forward:
        first.update((blob, None) for blob in op.input if blob not in made)
        made.update(op.output)
    found = [target(b, canonical.gradient(grads[b])) for b in first if grads.get(b) is not None]
    return [*lines_of(ops), "gradients  " + (", ".join(found) or "none")]


def recorded_lines(case, answer, proto):
    if "error" in answer:
        return ["%s: %s" % (answer["error"]["type"], answer["error"].get("about", ""))]
    ops = canonical.expected_ops(case, answer, proto.OperatorDef, proto.NetDef)
    return answer_lines(case, ops, answer.get("grads", answer.get("g_input")), proto)


def our_lines(case, proto):
    ops, grads = asking.ask(case, proto)
    if isinstance(ops, BaseException):
        return wrapped("%s: %s" % (type(ops).__name__, ops))
    return answer_lines(case, ops, grads, proto)


def wrapped(text):
    return textwrap.wrap(text, 96, subsequent_indent="    ", break_on_hyphens=False)


# --------------------------------------------------------------- numbers

FOUND = re.compile(r"run (\d+): (?:(\S+): gradient (none|\[.*?\]), by differences (\[.*?\])|(.*))$")


def evidence(case):
    """What shows that the reference's answer is wrong, one line each."""
    lines = []
    for text in case.get("evidence") or []:
        found = FOUND.match(text)
        if not found:
            lines.append(rounded(text))
            continue
        run, blob, theirs, right, other = found.groups()
        if other is not None:
            lines.append(feed_note(case, int(run)) + rounded(other))
        else:
            lines.append(
                "%s`%s`: Caffe2's gradient %s, by differences %s"
                % (feed_note(case, int(run)), blob, rounded(theirs), rounded(right))
            )
    if not lines and case.get("numbers"):
        for blob, (_, _, values) in case["numbers"][0]["grads"].items():
            lines.append("%s`%s`: by differences %s" % (feed_note(case, 0), blob, numbers(values)))
    return lines


def feed_note(case, run):
    """Which way the control flow goes, where there is more than one run."""
    runs = case.get("numbers") or []
    if len(runs) < 2:
        return ""
    decides = [
        "%s = %s" % (blob, ", ".join(str(v).lower() for v in values))
        for blob, (kind, shape, values) in runs[run]["feed"].items()
        if kind == "bool" or (kind.startswith("int") and len(values) == 1)
    ]
    return "with %s: " % ", ".join(decides) if decides else ""


def rounded(text):
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: "%.4g" % float(found.group(0)), text)


def numbers(values):
    return "[%s]" % ", ".join("%.4g" % value for value in values)


# --------------------------------------------------------------- the document

HEAD = """\
<!-- Written by scripts/make_differences.py: change that, or docs/differences.json. -->
# Where ctrlgrad does not answer as Caffe2 does

The reference is Caffe2 as it is in the package torch 1.10.2. Where its answer is right, ctrlgrad
gives the same one. Where it is wrong, ctrlgrad gives the right one, or an error where the
operators that exist cannot express one. This page lists every kind that is known: %(kinds)d
kinds, shown by %(golden)d recorded cases and %(further)d further nets. In the last %(strict)d of
them it is ctrlgrad that could do better: it refuses what it need not. There is no switch to get
the wrong answers back.

That an answer is wrong was measured: Caffe2 itself ran the net and the gradient operators, and
the gradients were compared with central differences ("by differences"). Where there are numbers,
and ctrlgrad answers, its operators were run in the same way and gave the numbers by differences.

How to read the nets:

- `Type(in) -> (out)` is an operator, `{name = value}` one of its arguments, `[name]` a net among
  its arguments. A pair `(i, v)` is a sparse gradient: row indices and rows.
- `ys` are the blobs that are differentiated. `y: g` means that the caller gives the gradient of
  `y` in the blob `g`; without that it starts with ones.
- A Do binds inner blobs to outer ones of the same name; other bindings stand behind `[net]`, as
  `inner = outer`. `y/IN` and `x/OUT` stand for the long names that the gradient of a Do has for
  the gradients that come in and go out.
- `gradients` is the part of the map that speaks of the blobs that come into the net.

To see a case whole, look for its name in [tests/golden](../tests/golden/FORMAT.md).
"""


def golden_cases():
    """name -> case, for those where the reference is wrong."""
    found = {}
    for path in sorted((ROOT / "tests" / "golden").glob("*.jsonl")):
        for case in canonical.load(str(path)):
            if case.get("reference_is_wrong"):
                found[case["name"]] = case
    return found


def document(source=None):
    """The whole text."""
    source = source or json.loads(SOURCE.read_text(encoding="utf-8"))
    golden = golden_cases()
    listed = [name for part in source["sections"] for kind in part["kinds"]
              for name in kind.get("cases", [])]  # fmt: skip
    doubled = sorted({name for name in listed if listed.count(name) > 1})
    strange = sorted(set(listed) - set(golden))
    missing = sorted(set(golden) - set(listed))
    if doubled or strange or missing:
        raise SystemExit(
            "docs/differences.json: each case with reference_is_wrong must stand in just one kind\n"
            "  not in any kind: %s\n  in several: %s\n  no such case: %s"
            % (", ".join(missing) or "-", ", ".join(doubled) or "-", ", ".join(strange) or "-")
        )
    kinds = [kind for part in source["sections"] for kind in part["kinds"]]
    further = sum(1 for kind in kinds if "net" in kind)
    out = [HEAD % {
        "kinds": len(kinds),
        "golden": len(listed),
        "further": further,
        "strict": len(source["sections"][-1]["kinds"]),
    }]  # fmt: skip
    for part in source["sections"]:
        out.append("- [%s](#%s)" % (part["title"], anchor(part["title"])))
        for kind in part["kinds"]:
            out.append("  - [%s](#%s)" % (kind["title"], anchor(kind["title"])))
    last = source["kernels"]
    out += ["- [%s](#%s)" % (last["title"], anchor(last["title"])), ""]
    for part in source["sections"]:
        out += ["## " + part["title"], ""]
        if part.get("about"):
            out += [filled(part["about"]), ""]
        for kind in part["kinds"]:
            out += section(kind, golden)
    out += ["## " + last["title"], "", filled(last["about"]), ""]
    out += ["- " + line for line in last["list"]]
    return "\n".join(out) + "\n"


def filled(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(kind, golden):
    proto = ctrlgrad.caffe2_pb2
    out = ["### " + kind["title"], ""]
    if "net" in kind:
        case = as_case(kind, proto)
        reference = kind["reference"]
        why = kind["why"]
    else:
        case = golden[kind["cases"][0]]
        reference = recorded_lines(case, case["reference"], proto)
        why = kind.get("why") or case["reference_is_wrong"]
    out += [filled(why), "", *block(question_lines(case, proto))]
    out += ["Caffe2:", "", *block(reference)]
    if "scope" in case:
        # Without Caffe2 there is no scope to be in.
        out += ["Right, and to come with `ctrlgrad.install()`:", ""]
        out += block(recorded_lines(case, case["expect"], proto))
    else:
        out += ["ctrlgrad:", "", *block(our_lines(case, proto))]
    shown = kind["numbers"] if "net" in kind else evidence(case)
    if shown:
        out += ["Measured:", "", *("- " + line for line in shown), ""]
    others = kind.get("cases", [])[1:] if "net" not in kind else kind.get("cases", [])
    label = "Recorded as" if "net" in kind else "Recorded as `%s`; also" % case["name"]
    if others:
        out += [label + ":", ""]
        out += ["- `%s`: %s" % (name, about(golden[name])) for name in others] + [""]
    elif "net" not in kind:
        out += ["Recorded as `%s`." % case["name"], ""]
    return out


def about(case):
    """The first sentence of what a case is for."""
    text = case["about"].split(" Source of the situation")[0]
    return re.split(r"(?<=\w)\. ", text)[0].rstrip(".")


def block(lines):
    return ["```text", *lines, "```", ""]


def as_case(kind, proto):
    net = net_from(kind["net"], proto)
    from google.protobuf import text_format

    return {"kind": "net", "name": kind["title"], "ys": kind["ys"],
            "net": text_format.MessageToString(net)}  # fmt: skip


# --------------------------------------------------------------- asking Caffe2


def ask_caffe2():
    """Puts what Caffe2 gives, and the numbers, into the further nets."""
    sys.path.insert(0, str(ROOT))
    import numpy as np
    from caffe2.proto import caffe2_pb2

    from tests.oracle import judge
    from tests.oracle.generate import Case

    source = json.loads(SOURCE.read_text(encoding="utf-8"))
    referee, bad = judge.Referee(), 0
    for part in source["sections"]:
        for kind in part["kinds"]:
            if "net" not in kind:
                continue
            net = net_from(kind["net"], caffe2_pb2)
            runs = [
                {blob: np.array(flat, dtype).reshape(shape)
                 for blob, (dtype, shape, flat) in feeds.items()}
                for feeds in kind["runs"]
            ]  # fmt: skip
            case = Case(net.SerializeToString(), kind["ys"], runs)
            golden = as_case(kind, caffe2_pb2)
            truth = referee.call(judge.truths, case)
            verdicts = []
            for subject in ("caffe2", "ctrlgrad"):
                answer = referee.call(judge.ask, subject, case)
                if answer.error:
                    verdicts.append(judge.Verdict("refuses"))
                    lines = wrapped("%s: %s" % (answer.error[0][0], answer.error[1]))
                else:
                    verdicts.append(judge.verdict_of(referee, case, truth, answer))
                    lines = answer_lines(golden, answer.messages(), answer.grads, caffe2_pb2)
                if subject == "caffe2":
                    kind["reference"] = lines
            theirs, ours = verdicts
            kind["numbers"] = [verdict_text(theirs.kind, theirs.text)] if theirs.text else []
            if theirs.kind == judge.HANGS:
                kind["numbers"] = ["Caffe2 runs these operators without an end"]
            print("%-70.70s Caffe2: %s; ctrlgrad: %s" % (kind["title"], theirs.kind, ours.kind))
            if theirs.kind == judge.RIGHT:
                kind["numbers"] = ["Caffe2's gradients are those by differences"]
            bad += ours.kind not in (judge.RIGHT, "refuses") or theirs.kind == ours.kind
    referee.stop()
    SOURCE.write_text(json.dumps(source, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if bad else 0


def verdict_text(kind, text):
    import numbers_check

    text = re.sub(r"run \d+: ", "", text)
    if kind == "does not run" and "never computed" not in text and "arrays used" not in text:
        return "Caffe2's operators do not run: " + numbers_check.clean(text)
    if kind == "wrong":
        text = rounded(re.sub(r"(\S+): \[", r"`\1`: Caffe2's gradient [", text))
        return text
    return "Caffe2's answer %s%s" % (kind, ": " + text if text else "")


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--check", action="store_true", help="write nothing, say if it is old")
    parse.add_argument("--ask-caffe2", action="store_true", help="ask Caffe2 about further nets")
    options = parse.parse_args()
    if options.ask_caffe2 and ask_caffe2():
        return 1
    text = document()
    if options.check:
        old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if old != text:
            print("docs/differences.md is not up to date: python scripts/make_differences.py")
        return int(old != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
