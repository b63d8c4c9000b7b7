"""Judges a backward pass by its numbers.

The truth comes from central differences of the forward net; an answer is run
behind the forward net in a workspace of its own. Operators of the reference can
hang or bring their process down, so all of this belongs into a child process:
see `referee`.
"""

import itertools
import random
from dataclasses import dataclass
from typing import Optional

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from referee import Gone, Referee

from .entries import Answer
from .generate import Case, Feeds, without_nodes
from .recipes import PICKY, unfit

RIGHT, WRONG, FAILS = "right", "wrong", "does not run"
UNSURE = "unsure"
TOLERANCE = 2e-2
STEP = 1e-2


# --------------------------------------------------------------------------- truth


@dataclass
class Truth:
    """For one run: what goes in, and what the gradient of each float feed must be.

    More than one answer can be right: a gradient that is given under the usual
    name for a blob inside the net may be replaced by the net's own.
    """

    upstream: Feeds
    slopes: list[dict[str, np.ndarray]]
    doubtful: dict[str, np.ndarray]
    skipped: dict[str, np.ndarray]


class Memory:
    """Stands in for StopGradient while differences are taken: it gives the values
    of the undisturbed run again."""

    def __init__(self):
        self.kept: list[np.ndarray] = []
        self.at: Optional[int] = None  # None while recording

    def replay(self, inputs, outputs):
        if self.at is None:
            self.kept.append(inputs[0].data.copy())
            outputs[0].feed(self.kept[-1])
        elif self.at < len(self.kept):
            outputs[0].feed(self.kept[self.at])
            self.at += 1
        else:  # a disturbed run that takes another way
            outputs[0].feed(inputs[0].data.copy())


MEMORY = Memory()
TOKEN: list[str] = []


def without_stops(net, token: str) -> None:
    for op in net.op:
        if op.type == "StopGradient":
            op.type = "Python"
            op.arg.add(name="token", s=token.encode())
        for arg in op.arg:
            if arg.HasField("n"):
                without_stops(arg.n, token)


def weights_of(case: Case, shapes: dict[str, tuple], seed: int):
    """How much each element of each y counts, and the gradients that are given."""
    rng = np.random.RandomState(seed)
    weights, upstream = {}, {}
    ys = case.ys if isinstance(case.ys, dict) else dict.fromkeys(case.ys)
    for y, given in ys.items():
        shape = shapes[y]
        if given is None:
            weights[y] = np.ones(shape)
        elif isinstance(given, list):
            rows = np.arange(shape[0], dtype=np.int32)[::-1].copy()
            values = rng.uniform(0.5, 1.5, shape).astype(np.float32)
            upstream[given[0]], upstream[given[1]] = rows, values
            weights[y] = values[rows].astype(np.float64)
        else:
            if given not in upstream:
                upstream[given] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
            weights[y] = upstream[given].astype(np.float64)
    return weights, upstream


def may_be_replaced(case: Case) -> list[str]:
    """The ys with a gradient under the usual name that the net goes on to use."""
    if not isinstance(case.ys, dict):
        return []
    found, last = [], {}
    ops = case.forward().op
    for i, op in enumerate(ops):
        last.update((blob, i) for blob in op.output)
    for y, given in case.ys.items():
        if given == y + "_grad" and any(y in op.input for op in ops[last.get(y, -1) + 1 :]):
            found.append(y)
    return found


def truths(case: Case, inner: bool = False) -> list[Truth]:
    """What the gradients of the float feeds must be; with `inner`, those of the
    blobs that the outermost net makes, as well."""
    if not TOKEN:
        TOKEN.append(core.CreatePythonOperator(MEMORY.replay, ["x"], ["y"]).arg[0].s.decode())
    net = case.forward()
    net.name, net.type = "differences", "simple"
    without_stops(without_nodes(net), TOKEN[0])
    return [truth_of_run(case, net, feeds, i, inner) for i, feeds in enumerate(case.runs)]


DELTA = "difference/"


def with_deltas(net, feeds: Feeds):
    """The net with something added to each blob that it makes, and those summands."""
    out, deltas = caffe2_pb2.NetDef(name="with deltas", type="simple"), {}
    feed_all(feeds)
    for op in net.op:
        run([op], "one operator")
        out.op.add().CopyFrom(op)
        for blob in op.output:
            value = workspace.FetchBlob(blob)
            if (
                DELTA + blob not in deltas
                and blob not in feeds
                and getattr(value, "dtype", None) == np.float32
            ):
                deltas[DELTA + blob] = np.zeros_like(value)
                out.op.add(type="Add", input=[blob, DELTA + blob], output=[blob])
    return out, deltas


def feed_all(feeds: Feeds) -> None:
    """A new workspace with nothing but these."""
    workspace.ResetWorkspace()
    for blob, value in feeds.items():
        workspace.FeedBlob(blob, value)


def truth_of_run(case: Case, net, feeds: Feeds, number: int, inner: bool) -> Truth:
    MEMORY.kept, MEMORY.at = [], None
    if inner:
        net, deltas = with_deltas(net, feeds)
        feeds = {**feeds, **deltas}
        MEMORY.kept = []
    feed_all(feeds)
    workspace.CreateNet(net, True)
    workspace.RunNet(net.name)
    shapes = {y: workspace.FetchBlob(y).shape for y in case.ys}
    weights, upstream = weights_of(case, shapes, number)

    def objective(blob: str, value: np.ndarray) -> np.ndarray:
        MEMORY.at = 0
        for other in feeds:  # the net may have written over any of them
            workspace.FeedBlob(other, feeds[other])
        workspace.FeedBlob(blob, value)
        workspace.RunNet(net.name)
        return np.array(
            [
                float((workspace.FetchBlob(y).astype(np.float64) * w).sum())
                for y, w in weights.items()
            ]
        )

    slopes, doubtful, skipped = {}, {}, {}
    still = objective(*next(iter(feeds.items())))
    for blob, value in feeds.items():
        if value.dtype != np.float32 or blob in case.constants:
            continue
        by_y = np.zeros((len(weights), *value.shape))
        doubt, skip = np.zeros(value.shape, bool), np.ones(value.shape, bool)
        for at in elements(value.shape, case.elements, number):
            by_y[(slice(None), *at)], doubt[at] = slope(objective, still, blob, value, at)
            skip[at] = False
        name = blob[len(DELTA) :] if blob.startswith(DELTA) else blob
        if by_y.any() or not overwritten_unread(net, name, blob):
            slopes[name], doubtful[name], skipped[name] = by_y, doubt, skip
    choices = []
    loose = may_be_replaced(case)
    for count in range(len(loose) + 1):
        for left_out in itertools.combinations(loose, count):
            keep = np.array([y not in left_out for y in weights])
            choices.append({b: s[keep].sum(axis=0) for b, s in slopes.items()})
    return Truth(upstream, choices, doubtful, skipped)


def elements(shape: tuple[int, ...], most: int, seed: int) -> list[tuple[int, ...]]:
    """Those elements of a blob that are moved: up to `most`, or all of them without a limit."""
    every = list(np.ndindex(*shape))
    return random.Random(seed).sample(every, most) if 0 < most < len(every) else every


def overwritten_unread(net, blob: str, first: str) -> bool:
    """Whether the operator that writes over the first value of a blob does not read it.
    Then the map may speak of the later value, where the first one has no gradient."""
    writers = [op for op in net.op if blob in op.output]
    if first != blob:  # what makes it, and what adds the difference
        del writers[:2]
    return bool(writers) and blob not in writers[0].input


def slope(objective, still: np.ndarray, blob: str, value: np.ndarray, at):
    """The slope along one element, and whether there is a kink nearby: then it
    depends on the width of the step, or jumps from one side to the other."""

    def moved(step: float) -> np.ndarray:
        there = value.copy()
        there[at] += step
        return objective(blob, there)

    central, jump = [], []
    for step in (2 * STEP, STEP, STEP / 4):
        right, left = moved(step), moved(-step)
        central.append((right - left) / (2 * step))
        jump.append((right + left - 2 * still) / step)  # of a smooth function: goes with the step
    kink = (np.abs(jump[1]) > 0.02) & (np.abs(jump[0]) < 1.5 * np.abs(jump[1]))
    bent = not all(np.allclose(c, central[1], rtol=3e-2, atol=1e-2) for c in central)
    return (4 * central[1] - central[0]) / 3, bent or kink.any()


# -------------------------------------------------------------------------- verdict


@dataclass
class Verdict:
    kind: str
    text: str = ""


def run(ops, name: str) -> None:
    net = caffe2_pb2.NetDef(name=name, type="simple")
    net.op.extend(ops)
    workspace.RunNetOnce(without_nodes(net))


def judge(case: Case, truth: list[Truth], answer: Answer) -> Verdict:
    """Runs an answer and compares it with the truth, for all runs."""
    unsure = None
    for number, (feeds, one) in enumerate(zip(case.runs, truth)):
        feed_all(feeds)
        run((answer.forward_net() or case.forward()).op, "forward")
        try:
            for blob, value in one.upstream.items():
                workspace.FeedBlob(blob, value)
            run(answer.messages(), "backward")
            got = {
                blob: dense(answer.grads.get(blob), slope.shape)
                for blob, slope in one.slopes[0].items()
            }
        except Exception as error:
            return Verdict(FAILS, "run %d: %s" % (number, reason(str(error))))
        wrong = [compare(got, want, one) for want in one.slopes]
        if all(wrong) and unfit_inside(case, feeds):
            unsure = Verdict(
                UNSURE, "run %d: Caffe2's operators are wrong for values in it" % number
            )
        elif all(wrong):
            return Verdict(WRONG, "run %d: %s" % (number, "; ".join(wrong[0])))
        elif any(d.any() for d in one.doubtful.values()):
            unsure = Verdict(UNSURE, "run %d is too close to a kink" % number)
    return unsure or Verdict(RIGHT)


def unfit_inside(case: Case, feeds: Feeds) -> bool:
    feed_all(feeds)
    for op in case.forward().op:
        if op.type in PICKY and unfit(
            op.type, [workspace.FetchBlob(n) for n in dict.fromkeys(op.input)]
        ):
            return True
        run([op], "one operator")
    return False


def dense(gradient, shape) -> np.ndarray:
    """The values of a gradient. What has none counts as zero."""
    if gradient is None:
        return np.zeros(shape, np.float32)
    if isinstance(gradient, list):
        out = np.zeros(shape, np.float32)
        rows = workspace.FetchBlob(gradient[0]).ravel()
        values = workspace.FetchBlob(gradient[1])
        np.add.at(out, rows, values.reshape((len(rows), *tuple(shape[1:]))))
        return out
    value = workspace.FetchBlob(gradient)
    if not hasattr(value, "shape"):
        raise ValueError("%s was never computed" % gradient)
    return value


def compare(got, want, truth: Truth) -> list[str]:
    found = []
    for blob, right in want.items():
        here = got[blob]
        if here.shape != right.shape:
            found.append("%s has shape %s, its gradient %s" % (blob, right.shape, here.shape))
            continue
        sure = ~(truth.doubtful[blob] | truth.skipped[blob])
        if not np.allclose(here[sure], right[sure], rtol=TOLERANCE, atol=TOLERANCE):
            found.append(
                "%s: %s, by differences %s"
                % (blob, np.round(here[sure], 4).tolist(), np.round(right[sure], 4).tolist())
            )
    return found


def reason(message: str) -> str:
    """The lines of an error that say something."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("frame")]
    return " ".join(" ".join(lines).split())[:300]


def verdict_of(referee: Referee, case: Case, truth: list[Truth], answer: Answer) -> Verdict:
    try:
        return referee.call(judge, case, truth, answer)
    except Gone as gone:
        return Verdict(str(gone))
