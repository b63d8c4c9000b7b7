"""Random nets, asked of ctrlgrad and of Caffe2; both answers are run.

A net that fails here is found again by its two numbers: `python -m
tests.oracle.differential --seed SEED --first NUMBER --nets 1`. Other nets are
asked for with `make test-reference SEED=...`; here they are the same every time, so that what fails
is what has changed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("CTRLGRAD_SEED", "1"))

pytestmark = pytest.mark.oracle


def differential(*options: object, hash_seed: str = "0") -> "subprocess.CompletedProcess[str]":
    # A process of its own: operators of Caffe2 can take theirs down, and the
    # reference's answers depend on the hash seed.
    return subprocess.run(
        [sys.executable, "-m", "tests.oracle.differential", *map(str, options)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_the_same_nets_every_time():
    done = differential("--seed", SEED, "--nets", 400)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_nets_depend_on_nothing_but_the_seed():
    """Not on the hash seed, on how many processes share the work, or on the nets before."""
    marks = set()
    for hash_seed, workers in (("1", 1), ("random", 2)):
        done = differential("--seed", 7, "--nets", 40, "--workers", workers, hash_seed=hash_seed)
        marks.add(done.stdout.splitlines()[1])
    [line] = marks
    assert line.startswith("made by: 28 operators, 4 net_builder, 4 model, 2 cells, 2 steps; all")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_entries_that_disagree_are_noticed(monkeypatch):
    """Whatever can differ between ctrlgrad's own function and what it puts under Caffe2."""
    import ctrlgrad

    from .entries import Answer, disagreement, foreign
    from .generate import Case

    net = ctrlgrad.caffe2_pb2.NetDef()
    net.op.add(type="Relu", input=["x"], output=["h"])
    net.op.add(type="Relu", input=["h"], output=["y"])
    case = Case(net.SerializeToString(), ["y"], [])
    assert disagreement(case) == ""

    registry, right = ctrlgrad.GradientRegistry, ctrlgrad.GradientRegistry.GetBackwardPass
    ops, grads = right(net.op, ["y"])
    found = {}
    for name, answer in (
        ("operators", lambda operators, ys: (ops[:-1], grads)),
        ("map", lambda operators, ys: (ops, {**grads, "x": "other"})),
        ("refusal", lambda operators, ys: right(operators, "y")),
    ):
        monkeypatch.setattr(registry, "GetBackwardPass", answer)
        found[name] = disagreement(case)
    assert "another answer" in found["operators"]
    assert "another answer" in found["map"]
    assert "instead of" in found["refusal"]
    assert foreign(ops, grads) == [
        "ctrlgrad.blobs.BlobReference",
        "ctrlgrad.caffe2_pb2.OperatorDef",
    ]
    assert not Answer().same(Answer(error=(["E"], "")))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_built_nets_are_made_small():
    from . import judge
    from .built import generate_built, rebuilt
    from .questions import KINDS
    from .shrink import shrink_built

    def holds_an_if(case) -> bool:
        return any(op.type == "If" for op in case.forward().op)

    assert "net_builder" in KINDS
    referee = judge.Referee(seconds=60)
    try:
        cases = (referee.call(generate_built, "net_builder", 1, n) for n in range(20))
        case = next(c for c in cases if holds_an_if(c) and len(c.forward().op) > 20)
        small = shrink_built(case, lambda c: referee.call(rebuilt, c), holds_an_if, 100)
    finally:
        referee.stop()
    assert holds_an_if(small)
    assert len(small.forward().op) < len(case.forward().op) / 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_referee_replaces_a_child_that_hangs_or_dies():
    from referee import CRASHES, HANGS, Gone, Referee

    referee = Referee(seconds=0.5)
    try:
        with pytest.raises(Gone, match=HANGS):
            referee.call(_sleep)
        with pytest.raises(Gone, match=CRASHES):
            referee.call(os._exit, 1)
        assert referee.call(sum, [1, 2]) == 3
    finally:
        referee.stop()


def _sleep():
    import time

    time.sleep(60)
