"""Makes a net smaller while something about it stays true.

Greedy: single steps are tried, those that take most away first, and each one that
keeps the condition is made, until no step does.
"""

import dataclasses
from collections.abc import Iterator
from itertools import islice
from typing import Any, Callable, Optional

from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from .choices import shorter
from .generate import Case, Feeds, runs_forward, used
from .surroundings import NOWHERE

VARIADIC = ("Sum", "Max", "Min", "Mean", "Concat")
SAME_TYPE = {1: "Sigmoid", 2: "Mul"}
MOST_TRIES = 1500


def shrink(
    case: Case, keeps: Callable[[Case], bool], limit: int = MOST_TRIES, all_runs: bool = False
) -> Case:
    """The smallest case found for which `keeps` holds. It must hold for `case`."""
    tries, at, changed_since = 0, 0, False
    while True:
        # after a step that was possible, go on from there: what failed before it fails again mostly
        for candidate in islice(smaller(case, all_runs), at, None):
            tries += 1
            if tries > limit:
                return case
            if keeps(candidate):
                case, changed_since = candidate, True
                break
            at += 1
        else:
            if not changed_since:
                return case
            at, changed_since = 0, False


def shrink_built(
    case: Case, rebuilt: Callable[[Case], Optional[Case]], keeps, limit: int = MOST_TRIES
) -> Case:
    """The same for a net that is built: without scopes, of fewer and plainer choices."""
    tries, found = 0, True
    while found:
        found = False
        for wanted in plainer_builds(case):
            tries += 1
            if tries > limit:
                return case
            candidate = rebuilt(wanted)
            if candidate and size(candidate) < size(case) and keeps(candidate):
                case, found = candidate, True
                break
    return case


def plainer_builds(case: Case) -> Iterator[Case]:
    if case.surroundings:
        yield dataclasses.replace(case, surroundings=NOWHERE)
    for choices in shorter(case.choices):
        yield dataclasses.replace(case, choices=choices)


def size(case: Case) -> tuple[int, int, int]:
    return bool(case.surroundings), len(case.choices), sum(map(bool, case.choices))


def runs(case: Case) -> bool:
    return bool(case.ys) and bool(case.runs) and runs_forward(case)


# ---------------------------------------------------------------------- one step less


def smaller(case: Case, all_runs: bool) -> Iterator[Case]:
    if len(case.runs) > 1 and not all_runs:
        for i in range(len(case.runs)):
            yield rebuilt(case, runs=[case.runs[i]])
    if case.surroundings:
        yield dataclasses.replace(case, surroundings=NOWHERE)
    net = case.forward()
    for path in reversed(paths(net)):  # the last readers first
        for change in (drop, unwrap_then, unwrap_else):
            yield from changed(case, path, change)
    yield from fewer_ys(case)
    for path in paths(net):
        for change in (drop_else, drop_last_input, drop_first_input, drop_unread_input, plainer):
            yield from changed(case, path, change)


def fewer_ys(case: Case) -> Iterator[Case]:
    ys = case.ys
    for y in list(ys):
        if len(ys) > 1:
            left = (
                {k: v for k, v in ys.items() if k != y}
                if isinstance(ys, dict)
                else [k for k in ys if k != y]
            )
            yield rebuilt(case, ys=left)
    if isinstance(ys, dict):
        for y, given in ys.items():
            if given is not None:
                yield rebuilt(case, ys={**ys, y: None})
            if isinstance(given, str) and given != "%s_in" % y:
                yield rebuilt(case, ys={**ys, y: "%s_in" % y})
        if not any(ys.values()):
            yield rebuilt(case, ys=list(ys))


def rebuilt(case: Case, net=None, ys=None, runs: Optional[list[Feeds]] = None) -> Case:
    net = net or case.forward()
    found = {}
    for feeds in runs or case.runs:
        left = used(net, feeds)
        found.setdefault(str({k: v.tolist() for k, v in left.items()}), left)
    return dataclasses.replace(
        case,
        net=net.SerializeToString(),
        ys=case.ys if ys is None else ys,
        runs=list(found.values()),
    )


# ----------------------------------------------------------------- places in the net

Path = tuple[int, ...]


def nets_in(op) -> list[Any]:
    return [arg.n for arg in op.arg if arg.HasField("n")]


def paths(net, before: Path = ()) -> list[Path]:
    """Each operator: its number, then net and number for each net around it."""
    found = []
    for i, op in enumerate(net.op):
        found.append((*before, i))
        if op.type != "While":  # the count and the test stay
            for k, inner in enumerate(nets_in(op)):
                found += paths(inner, (*before, i, k))
        else:
            found += paths(named_net(op, "loop_net"), (*before, i, net_number(op, "loop_net")))
    return found


def net_number(op, name: str) -> int:
    return [arg.name for arg in op.arg if arg.HasField("n")].index(name)


def named_net(op, name: str):
    return next((arg.n for arg in op.arg if arg.name == name), None)


def changed(case: Case, path: Path, change) -> Iterator[Case]:
    """The case with one operator replaced by others, if that still runs."""
    net = case.forward()
    holder, around = net, []
    for at in range(0, len(path) - 1, 2):
        op = holder.op[path[at]]
        around.append(op)
        holder = nets_in(op)[path[at + 1]]
    new = change(holder.op[path[-1]])
    if new is None:
        return
    ops = list(holder.op[: path[-1]]) + new + list(holder.op[path[-1] + 1 :])
    kept = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in ops]
    del holder.op[:]
    holder.op.extend(kept)
    for op in reversed(around):
        tidy(op)
    yield rebuilt(case, net, runs=with_missing(case, net))


def with_missing(case: Case, net) -> list[Feeds]:
    """What is no longer made is fed instead, with the value that it had."""
    missing = []
    written = set()
    for op in net.op:
        missing += [n for n in op.input if n not in written and n not in case.runs[0]]
        written.update(op.output)
    if not missing:
        return case.runs
    values: dict[str, Any] = {}
    try:
        if runs_forward(case):
            for name in missing:
                value = workspace.FetchBlob(name)
                if hasattr(value, "shape"):
                    values[name] = value
    except Exception:
        pass
    return [{**feeds, **values} for feeds in case.runs]


# ------------------------------------------------------------------------- changes


def drop(op):
    return []


def unwrap_then(op):
    """What an operator holds, in its place."""
    if op.type == "If":
        return list(named_net(op, "then_net").op)
    if op.type == "While":
        return list(named_net(op, "loop_net").op)
    if op.type == "Do":
        outer = bindings(op)
        names = {}
        for inner in named_net(op, "net").op:
            inner = caffe2_pb2.OperatorDef.FromString(inner.SerializeToString())
            for blobs in (inner.input, inner.output):
                for i, blob in enumerate(blobs):
                    blobs[i] = outer.get(blob, blob + "_local" if blob in outer.values() else blob)
            names[len(names)] = inner
        return list(names.values())
    return None


def unwrap_else(op):
    net = named_net(op, "else_net") if op.type == "If" else None
    return list(net.op) if net else None


def drop_else(op):
    if op.type != "If" or not named_net(op, "else_net"):
        return None
    for i, arg in enumerate(op.arg):
        if arg.name == "else_net":
            del op.arg[i]
            break
    tidy(op)
    return [op]


def drop_last_input(op):
    if op.type not in VARIADIC or len(op.input) < 2:
        return None
    del op.input[-1]
    return [op]


def drop_first_input(op):
    if op.type not in VARIADIC or len(op.input) < 2:
        return None
    del op.input[0]
    return [op]


def drop_unread_input(op):
    """An input of an If that its branches do not read, nor write over."""
    if op.type != "If":
        return None
    reads = (
        reads_and_writes(named_net(op, "then_net"))[0]
        | reads_and_writes(named_net(op, "else_net"))[0]
    )
    for blob in op.input[1:]:
        if blob not in reads and blob not in op.output:
            op.input.remove(blob)
            return [op]
    return None


def plainer(op):
    """A usual operator type in the place of a rare one."""
    wanted = SAME_TYPE.get(len(op.input))
    if (
        wanted in (None, op.type)
        or len(op.output) != 1
        or nets_in(op)
        or op.type in ("CreateScope", "Sum", "Copy", "Scale", "Negative", "Sqr")
    ):
        return None
    op.type = wanted
    del op.arg[:]
    return [op]


# -------------------------------------------------- inputs and outputs of nets in nets


def bindings(op) -> dict[str, str]:
    """Inner name -> outer name."""
    outer = list(op.input[:-1]) + list(op.output[:-1])
    inner = next(a.strings for a in op.arg if a.name == "inner_blobs")
    index = next(a.ints for a in op.arg if a.name == "outer_blobs_idx")
    return {name.decode(): outer[i] for name, i in zip(inner, index)}


def reads_and_writes(net) -> tuple[set, set]:
    reads, writes = set(), set()
    for op in net.op if net else ():
        reads.update(n for n in op.input if n not in writes)
        writes.update(op.output)
    return reads, writes


def tidy(op) -> None:
    """Takes away inputs and outputs that no net inside reads or writes any more."""
    reads, writes = set(), set()
    for net in nets_in(op):
        more = reads_and_writes(net)
        reads |= more[0]
        writes |= more[1]
    if op.type != "Do":
        inputs = [
            n
            for i, n in enumerate(op.input)
            if i == 0 or n in reads or (n in op.output and n in writes)
        ]
        outputs = [n for n in dict.fromkeys([*op.output, *op.input[1:]]) if n in writes]
        extra = [
            n for n in sorted(reads) if n not in inputs and op.type == "If" and n not in op.input
        ]
        replace(op, inputs + [n for n in extra if not n.startswith("ws")], outputs)
        return
    bound = bindings(op)
    inner_of = {outer: inner for inner, outer in bound.items()}
    inputs = [n for n in op.input[:-1] if inner_of.get(n) in reads]
    outputs = [
        n for n in dict.fromkeys([*op.output[:-1], *op.input[:-1]]) if inner_of.get(n) in writes
    ]
    outer = inputs + outputs
    pairs = [(i, outer.index(o)) for i, o in bound.items() if o in outer]
    replace(op, [*inputs, op.input[-1]], [*outputs, op.output[-1]])
    for arg in op.arg:
        if arg.name == "inner_blobs":
            del arg.strings[:]
            arg.strings.extend(p[0].encode() for p in pairs)
        elif arg.name == "outer_blobs_idx":
            del arg.ints[:]
            arg.ints.extend(p[1] for p in pairs)


def replace(op, inputs: list[str], outputs: list[str]) -> None:
    del op.input[:]
    op.input.extend(inputs)
    del op.output[:]
    op.output.extend(outputs)
