"""Asks ctrlgrad and Caffe2 for the backward passes of random nets, and judges both.

    python -m tests.oracle.differential --nets 3000 --seed 1

Of ten nets, seven are made of random operators and three by Caffe2's own builders (`questions`).
ctrlgrad is asked by its own function and, installed, by Caffe2's `AddGradientOperators`; a tenth
of the nets of operators and a quarter of the others in name and device scopes (`entries`).

The command prints how often which came out, and every net where ctrlgrad did worse than it
should, made small. Exit status 1 if there is such a net, 2 if it only refused more
than it needs to. With `--subject caffe2` the reference is compared with itself: that
shows what it gets wrong.
"""

import argparse
import importlib.util
import multiprocessing
import os
import queue
import sys
import time
import traceback
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np
from referee import CRASHES, HANGS, Gone, Referee

from .built import rebuilt
from .entries import Answer, ask, disagreement
from .generate import Case
from .judge import (
    FAILS,
    RIGHT,
    UNSURE,
    WRONG,
    Verdict,
    judge,
    truths,
)
from .questions import counts, question
from .shrink import runs, shrink, shrink_built
from .text import gradient_text, net_text

# What can come of a net. The ones in capitals should not happen.
SAME_RIGHT = "the same answer, right"
OURS_RIGHT = "ours right, the reference's not"
OTHER_RIGHT = "both right, in other operators"
BOTH_REFUSE = "both refuse"
BOTH_REFUSE_OTHERWISE = "both refuse, with errors of different classes"
OURS_REFUSES = "ours refuses, the reference's is not right"
NO_TRUTH = "no truth to compare with"
SAME_WRONG = "THE SAME ANSWER, WRONG"
WORSE = "OURS WRONG"
BOTH_WRONG = "BOTH WRONG, IN OTHER OPERATORS"
NEEDLESS = "OURS REFUSES, THE REFERENCE'S IS RIGHT"
NO_ERROR_OF_OURS = "OURS FAILS WITH AN ERROR THAT IS NOT ITS OWN"
DISAGREES = "INSTALLED IN CAFFE2, OURS ANSWERS OTHERWISE"
BROKEN = "THE TEST ITSELF FAILS"
GOOD = (
    SAME_RIGHT,
    OURS_RIGHT,
    OTHER_RIGHT,
    BOTH_REFUSE,
    BOTH_REFUSE_OTHERWISE,
    OURS_REFUSES,
    NO_TRUTH,
)
BAD = (SAME_WRONG, WORSE, BOTH_WRONG, NO_ERROR_OF_OURS, DISAGREES, BROKEN, NEEDLESS)
REFUSES = "refuses"


@dataclass
class Outcome:
    kind: str
    ours: Verdict
    reference: Verdict
    ours_answer: Optional[Answer] = None
    reference_answer: Optional[Answer] = None
    mark: int = 0  # by which a net is told from any other


def opinion(
    referee: Referee, case: Case, truth: Any, answer: Answer, thorough: bool = False
) -> Verdict:
    """`thorough`: what hangs gets more time, before that is held against it."""
    if answer.error:
        return refusal(answer)
    patience = referee.seconds
    for seconds in (patience, 5 * patience) if thorough else (patience,):
        referee.seconds = seconds
        try:
            return referee.call(judge, case, truth, answer)
        except Gone as gone:
            found = Verdict(str(gone))
        finally:
            referee.seconds = patience
    return found


def refusal(answer: Answer) -> Verdict:
    text = " ".join(answer.error[1].split())[:300]
    return Verdict(REFUSES, "%s: %s" % (answer.error[0][0], text))


def asked(referee: Referee, subject: str, case: Case) -> Answer:
    try:
        return referee.call(ask, subject, case)
    except Gone as gone:
        return Answer(error=([str(gone)], "the question itself %s" % gone))


def outcome(referee: Referee, subject: str, case: Case, thorough: bool = True) -> Outcome:
    """What comes of one net."""
    theirs = asked(referee, "caffe2", case)
    ours = asked(referee, subject, case) if subject != "caffe2" else theirs
    kind, verdict, reference = by_numbers(referee, case, ours, theirs, thorough)
    if subject == "ctrlgrad":
        # A builder can refuse too, in the same words with either.
        if ours.error and "CtrlgradError" not in ours.error[0] and ours.error != theirs.error:
            kind = NO_ERROR_OF_OURS
        story = entries_differ(referee, case)
        if story:
            kind, verdict = DISAGREES, Verdict(DISAGREES, story)
    return Outcome(kind, verdict, reference, ours, theirs)


def by_numbers(
    referee: Referee, case: Case, ours: Answer, theirs: Answer, thorough: bool
) -> tuple[str, Verdict, Verdict]:
    """What comes of two answers; where both are refusals, nothing has to be run for that."""
    if theirs.error and ours.error:
        same = theirs.error[0][0] in ours.error[0]
        return BOTH_REFUSE if same else BOTH_REFUSE_OTHERWISE, refusal(ours), refusal(theirs)
    try:
        truth = referee.call(truths, case)
    except (Gone, RuntimeError) as gone:
        return NO_TRUTH, Verdict(UNSURE, str(gone)), Verdict(UNSURE)
    same = theirs.same(ours)
    reference = opinion(referee, case, truth, theirs)
    verdict = reference if same else opinion(referee, case, truth, ours, thorough)
    kind = kind_of(verdict, reference, same)
    if kind == NEEDLESS:
        reference = second_look(referee, case, truth, theirs)
        kind = kind_of(verdict, reference, same)
    return kind, verdict, reference


def entries_differ(referee: Referee, case: Case) -> str:
    """What the ways into ctrlgrad do not agree on."""
    try:
        return referee.call(disagreement, case)
    except Gone as gone:
        return str(gone)


def second_look(referee: Referee, case: Case, truth: Any, answer: Answer) -> Verdict:
    """Whether an answer of the reference that we refuse to give is really right."""
    steep = {b for t in truth for b, s in t.slopes[0].items() if np.abs(s).max() > 0.05}
    if not steep or any(b in answer.grads for b in truth[0].slopes[0] if b not in steep):
        return Verdict(UNSURE, "where all is zero, wrong gradients look right")
    try:
        inside = opinion(referee, case, referee.call(truths, case, True), answer)
    except Gone as gone:
        return Verdict(UNSURE, str(gone))
    if inside.kind != RIGHT:
        return inside
    # Ones are forgiving: what is added up after a softmax has no slope.
    ys = case.ys if isinstance(case.ys, dict) else dict.fromkeys(case.ys)
    uneven = replace(case, ys={y: given or "%s_uneven" % y for y, given in ys.items()})
    again = asked(referee, "caffe2", uneven)
    if again.error:
        return inside
    return opinion(referee, uneven, referee.call(truths, uneven), again)


def kind_of(ours: Verdict, reference: Verdict, same: bool) -> str:
    if UNSURE in (ours.kind, reference.kind):
        return NO_TRUTH
    if ours.kind == REFUSES:
        if reference.kind == RIGHT:
            return NEEDLESS
        return BOTH_REFUSE if reference.kind == REFUSES else OURS_REFUSES
    if ours.kind == RIGHT:
        if same:
            return SAME_RIGHT
        return OTHER_RIGHT if reference.kind == RIGHT else OURS_RIGHT
    if same:
        return SAME_WRONG
    return BOTH_WRONG if reference.kind in (WRONG, FAILS, HANGS, CRASHES) else WORSE


# ------------------------------------------------------------------------- reports


def report(case: Case, found: Outcome) -> str:
    lines = ["#### net %s: %s" % (case.name, found.kind)]
    if case.builder:
        lines.append("  built by %s from the choices %s" % (case.builder, list(case.choices)))
    if case.surroundings:
        lines.append("  in %s" % case.surroundings)
    lines += [net_text(case.forward().op, 4), "  ys: %s" % (case.ys,)]
    for number, feeds in enumerate(case.runs):
        lines.append(
            "  run %d: %s"
            % (number, "; ".join("%s = %s" % (k, v.tolist()) for k, v in feeds.items()))
        )
    sides = [("ours", found.ours, found.ours_answer)]
    if found.kind != SAME_WRONG:
        sides.append(("reference", found.reference, found.reference_answer))
    for name, verdict, answer in sides:
        lines.append("  %s: %s  %s" % (name, verdict.kind, verdict.text))
        if answer and not answer.error:
            lines.append(net_text(answer.messages(), 6))
            lines.append("      %s" % {k: gradient_text(v) for k, v in answer.grads.items()})
    return "\n".join(lines)


def runs_in_child(referee: Referee, case: Case) -> bool:
    try:
        return referee.call(runs, case)
    except (Gone, RuntimeError):
        return False


def small(referee: Referee, subject: str, case: Case, found: Outcome) -> Case:
    """The case made small, with what came of it, and our side of that, unchanged."""

    def keeps(candidate: Case) -> bool:
        if not runs_in_child(referee, candidate):
            return False
        again = outcome(referee, subject, candidate, thorough=False)
        return again.kind == found.kind and again.ours.kind == found.ours.kind

    def built_anew(case: Case) -> Optional[Case]:
        try:
            return referee.call(rebuilt, case)
        except (Gone, RuntimeError):
            return None

    hangs = HANGS in (found.ours.kind, found.reference.kind)
    patience, referee.seconds = referee.seconds, 1.0 if hangs else 2.0
    tries = 40 if hangs else 500
    try:
        plain = replace(case, builder="", choices=())
        if case.builder and not keeps(plain):
            return shrink_built(case, built_anew, keeps, tries)
        return shrink(plain, keeps, tries, all_runs=found.kind == NEEDLESS)
    finally:
        referee.seconds = patience


# ------------------------------------------------------------------------- the work


def clerk(subject: str, seed: int, numbers: range, most: int, out: Any) -> None:
    """Does some of the nets, in a process of its own."""
    referee = Referee()
    reported: Counter = Counter()
    employer = os.getppid()
    for number in numbers:
        if os.getppid() != employer:
            break  # nobody waits any more
        try:
            found, story = one_net(referee, subject, seed, number, reported, most)
        except Exception:
            found = Outcome(BROKEN, Verdict(UNSURE), Verdict(UNSURE))
            story = "#### net %d/%d: the test fails\n%s" % (seed, number, traceback.format_exc())
        found.ours_answer = found.reference_answer = None
        out.put((found, story))
    referee.stop()


def one_net(
    referee: Referee, subject: str, seed: int, number: int, reported: Counter, most: int
) -> tuple[Outcome, Optional[str]]:
    try:
        case = referee.call(question, seed, number)
    except Gone as gone:
        return Outcome(NO_TRUTH, Verdict(UNSURE, str(gone)), Verdict(UNSURE)), None
    found = outcome(referee, subject, case)
    mark = found.mark = mark_of(case)
    if found.kind not in BAD:
        return found, None
    reported[found.kind] += 1
    if reported[found.kind] <= most:
        case = small(referee, subject, case, found)
        again = outcome(referee, subject, case)
        found = again if again.kind == found.kind else found
        found.mark = mark
    return found, report(case, found)


def mark_of(case: Case) -> int:
    feeds = [{name: value.tolist() for name, value in run.items()} for run in case.runs]
    return zlib.crc32(repr((case.name, case.net, case.ys, feeds, case.surroundings)).encode())


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the reference's answers depend on it
        again = [sys.executable, "-m", "tests.oracle.differential", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--nets", type=int, default=3000)
    parse.add_argument("--first", type=int, default=0, help="number of the first net")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--subject", choices=("ctrlgrad", "caffe2"), default="ctrlgrad")
    parse.add_argument("--workers", type=int, default=2)
    parse.add_argument(
        "--most", type=int, default=5, help="how many nets of each bad kind a worker makes small"
    )
    parse.add_argument(
        "--refusals",
        type=int,
        default=0,
        help="how many refusals to allow where the reference comes out right, be it by luck",
    )
    parse.add_argument("--report", help="file for the nets that came out badly")
    options = parse.parse_args()
    if importlib.util.find_spec(options.subject) is None:
        parse.error("%s is not installed" % options.subject)
    kinds, references, stories = run(options)
    for kind in GOOD + BAD:
        print("%6d  %5.1f %%  %s" % (kinds[kind], 100 * kinds[kind] / options.nets, kind))
    print("the reference: " + ", ".join("%d %s" % (n, k) for k, n in references.most_common()))
    if options.report:
        with open(options.report, "w", encoding="utf-8") as stream:
            stream.write("\n\n".join(stories) + "\n")
    else:
        print("\n\n".join(stories))
    if any(kinds[kind] for kind in BAD if kind != NEEDLESS):
        return 1
    return 2 if kinds[NEEDLESS] > options.refusals else 0


def run(options: argparse.Namespace) -> tuple[Counter, Counter, list[str]]:
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    began = time.time()
    last = options.first + options.nets
    workers = [
        context.Process(
            target=clerk,
            args=(
                options.subject,
                options.seed,
                range(options.first + k, last, options.workers),
                options.most,
                out,
            ),
        )
        for k in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    kinds: Counter = Counter()
    references: Counter = Counter()
    stories: list[str] = []
    mark = 0
    for _ in range(options.nets):
        got = received(out, workers)
        kinds[got[0].kind] += 1
        references[got[0].reference.kind] += 1
        mark ^= got[0].mark
        if got[1]:
            stories.append(got[1])
    for worker in workers:
        worker.join()
    seconds = time.time() - began
    print(
        "%d nets from number %d of seed %d in %.0f s (%.0f nets/s)"
        % (options.nets, options.first, options.seed, seconds, options.nets / seconds)
    )
    made = counts(options.first, options.nets).most_common()
    print("made by: %s; all in all %08x" % (", ".join("%d %s" % (n, k) for k, n in made), mark))
    return kinds, references, stories


def received(out: Any, workers: list[Any]) -> Any:
    """The next result, however long it takes while somebody works on it."""
    while True:
        try:
            return out.get(timeout=10)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                raise


if __name__ == "__main__":
    sys.exit(main())
