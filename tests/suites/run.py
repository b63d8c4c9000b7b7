"""Caffe2's own tests, with ctrlgrad under them.

    python tests/suites/run.py [--short] [--plain] [--jobs N] [TEXT ...]

Runs the tests that Caffe2 ships with and that ask for a gradient or an SSA form (suites.json lists
them), each file in a process of its own in which `ctrlgrad.install()` was called before the file
was read. TEXT chooses tests: those whose name begins with it, or has it behind a slash.

A test passes if Caffe2's assertions hold, if what it asks reaches ctrlgrad, and if Caffe2's Python
answers none of it. One that fails is run once more, for Caffe2's random operators take the time as
their seed; what passes only then is named. A test that Caffe2 skips because it fails there stands
under `unskipped` in the list: it must pass with ctrlgrad, and must not without.

Exit status 1 if a test fails, 2 if the run says nothing: ctrlgrad is not what answers, or Caffe2
is not installed.

--plain runs the same tests without ctrlgrad. --record brings the list up to date, for the files
whose names begin with TEXT: the tests that pass without ctrlgrad in three rounds, with three hash
seeds, where one of them asks for what ctrlgrad replaces.
"""

import argparse
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "suites.json"
ROUNDS = 3
PACKAGES = ["torch", "protobuf", "numpy", "pytest", "hypothesis", "scipy", "networkx"]

# They need what is not in the wheel (stores, MKL-DNN of old, onnx, server operators).
NOT_LOOKED_INTO = ["distributed", "python/mkl", "python/onnx", "quantization"]

stop = threading.Event()


class MeaninglessError(Exception):
    """The run as a whole says nothing."""


# ------------------------------------------------------------------------- one process


def run_process(path, root, plan, limit):
    """Runs a file of tests; returns what the plugin wrote, and how the process ended."""
    with tempfile.TemporaryDirectory(prefix="suites-") as name:
        folder = pathlib.Path(name)
        events, written, said = folder / "events", folder / "plan", folder / "said"
        events.touch()
        written.write_text(json.dumps(dict(plan, events=str(events))))
        work = folder / "work"
        work.mkdir()
        command = [sys.executable, "-m", "pytest", str(path), "-p", "suites_plugin"]
        command += ["-c", os.devnull, "--rootdir", str(root), "--noconftest", "-s", "-q"]
        command += ["-p", "no:cacheprovider", "-p", "no:warnings", "--tb=short"]
        with said.open("w") as output:
            child = subprocess.Popen(
                command,
                env=environment(folder, written, plan),
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            end = follow(child, events, limit)
        seen = [json.loads(line) for line in events.read_text().splitlines()]
        lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
        return seen, "\n".join([end, *lines[-60:]])


def environment(folder, written, plan):
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return dict(
        os.environ,
        SUITES_PLAN=str(written),
        PYTHONPATH=os.pathsep.join(path for path in paths if path),
        PYTHONHASHSEED=str(plan.get("hash_seed", 0)),
        PYTHONDONTWRITEBYTECODE="1",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        TMPDIR=str(folder),
        CUDA_VISIBLE_DEVICES="",
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
    )


def follow(child, events, limit):
    """Waits for a process as long as something happens in it; returns how it ended."""
    size, moved = 0, time.monotonic()
    try:
        while child.poll() is None:
            time.sleep(0.02)
            if events.stat().st_size != size:
                size, moved = events.stat().st_size, time.monotonic()
            elif time.monotonic() - moved > limit or stop.is_set():
                # Python's fault handler, which pytest turns on, prints where the test stands.
                os.killpg(child.pid, signal.SIGABRT)
                time.sleep(1)
                return "nothing happened for %d s" % limit
        code = child.returncode
        return "signal %d" % -code if code < 0 else "exit status %d" % code
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


# ---------------------------------------------------------------------------- one file


def run_file(file, tests, root, plan, limit):
    """What became of each test of a file: {test: {outcome, error, trace, calls, ...}}.

    A test that takes the process with it costs its own result alone: what is left is run in a new
    process. `tests` is None for all that the file has.
    """
    if not (root / file).exists():
        return {test: lost("there is no such file", absent=True) for test in tests}
    results = {}
    while (tests is None or len(results) < len(tests)) and not stop.is_set():
        left = tests and [test for test in tests if test not in results]
        events, end = run_process(root / file, root, dict(plan, tests=left), limit)
        seen = digest(events)
        results.update(seen["ended"])
        if seen["running"]:
            results[seen["running"]] = lost("the process ended in this test: " + end)
        elif end.startswith("signal"):
            print("note: %s: %s behind its last test" % (file, end.splitlines()[0]))
        if not seen["running"] and not seen["ended"]:
            absent = seen["found"] == [] and not seen["collect"]
            why = "there is no such test" if absent else seen["collect"] or end
            results.update((test, lost(why, absent)) for test in left or [])
            break
        if tests is None:
            tests = seen["found"]
    return results


def digest(events):
    """The events of one process, put together."""
    seen = {"ended": {}, "running": None, "found": None, "collect": "", "uncounted": []}
    for event in events:
        if "meaningless" in event:
            raise MeaninglessError(event["meaningless"])
        if "start" in event:
            seen["running"] = event["start"]
        elif "end" in event:
            seen["ended"][event.pop("end")] = dict(event, uncounted=seen["uncounted"])
            seen["running"] = None
        else:
            seen.update(event)
    return seen


def lost(trace, absent=False):
    """The result of a test that could not tell its own."""
    error = (trace.splitlines() or [""])[0]
    known = {"outcome": "absent" if absent else "lost", "error": error, "trace": trace}
    return dict(known, calls=0, reference=0, seconds=0.0, uncounted=[])


def complaint(result, recorded, plan, unskipped):
    """Why a result does not count as a pass; empty if it does."""
    if unskipped and not plan["ctrlgrad"]:
        return "" if result["outcome"] == "failed" else "does not fail without ctrlgrad any more"
    if result["outcome"] != "passed":
        return "%s: %s" % (result["outcome"], (result["error"].splitlines() or [""])[0])
    if not plan["ctrlgrad"]:
        return ""
    if result["reference"]:
        return "passed, but Caffe2's Python answered %d calls" % result["reference"]
    if recorded and not result["calls"] and not result["uncounted"]:
        return "passed, but none of its calls reached ctrlgrad (%d were recorded)" % recorded
    return ""


def judge(file, tests, root, plan, limit):
    """({test: result with its complaint}, the tests that passed at the second try)."""

    def tried(chosen):
        results = run_file(file, chosen, root, plan, limit)
        for test, result in results.items():
            unskipped = test in plan["unskip"]
            result["complaint"] = complaint(result, tests[test], plan, unskipped)
        return results

    results = tried(list(tests))
    again = [test for test, result in results.items() if result["outcome"] in ("failed", "lost")]
    again = [test for test in again if results[test]["complaint"]]
    second = tried(again) if again else {}
    late = [test for test, result in second.items() if not result["complaint"]]
    results.update((test, second[test]) for test in late)
    return results, late


# ------------------------------------------------------------------------------ all


def caffe2_folder():
    spec = importlib.util.find_spec("caffe2")
    if spec is None or not spec.submodule_search_locations:
        raise MeaninglessError("Caffe2 is not installed for %s" % sys.executable)
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def versions():
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package).split("+")[0]
        except metadata.PackageNotFoundError:
            raise MeaninglessError("%s is not installed" % package) from None
    return found


def make_plan(listed, ctrlgrad, unskip):
    return {"ctrlgrad": ctrlgrad, "examples": listed["examples"], "unskip": unskip}


def chosen(listed, asked):
    """{file: {test: calls}}, the part of the list that was asked for."""
    known = {
        file + "::" + test: calls
        for file, tests in listed["files"].items()
        for test, calls in tests.items()
    }
    known.update(dict.fromkeys(listed["unskipped"], 1))

    def named(text):
        return [name for name in known if name.startswith(text) or "/" + text in name]

    wanted = asked.texts or (listed["short"] if asked.short else [""])
    work = {}
    for name in (name for text in wanted for name in named(text)):
        work.setdefault(name.partition("::")[0], {})[name] = known[name]
    unmet = [text for text in wanted if not named(text)]
    if unmet:
        raise MeaninglessError("not in the list: " + ", ".join(unmet))
    return work


def run_all(work, jobs, run):
    """Calls run(file) for each file, some at a time; yields (file, what it returns) in order."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {file: pool.submit(run, file) for file in work}
        try:
            for file, made in runs.items():
                yield file, made.result()
        except BaseException:
            stop.set()
            for made in runs.values():
                made.cancel()
            raise


def try_all(listed, asked):
    """Runs what was asked for and says how it went; returns the exit status."""
    root, started = caffe2_folder(), time.monotonic()
    here = versions()
    for package, version in listed["made_with"].items():
        if version != here[package]:
            print("note: listed with %s %s, here is %s" % (package, version, here[package]))
    work = chosen(listed, asked)
    plan = make_plan(listed, not asked.plain, list(listed["unskipped"]))
    results, late = {}, []
    for file, (became, second) in run_all(
        work, asked.jobs, lambda file: judge(file, work[file], root, plan, asked.timeout)
    ):
        results.update(became)
        late += second
        good = sum(not result["complaint"] for result in became.values())
        print("%s: %d of %d pass" % (file, good, len(work[file])), flush=True)
    # Another torch may have fewer tests; the one that the list was made with has them all.
    absent = [test for test, result in results.items() if result["outcome"] == "absent"]
    if here["torch"] == listed["made_with"]["torch"]:
        absent = []
    failed = [test for test in results if results[test]["complaint"] and test not in absent]
    unskipped = [test for test in results if test in plan["unskip"] and test not in failed]
    if asked.plain:
        tell("failed, as they must without ctrlgrad", unskipped)
    else:
        tell("passed, though Caffe2 skips them", unskipped)
    tell("not in this Caffe2", absent)
    tell("passed only at the second try", late)
    tell("failed", failed, lambda test: results[test]["trace" if asked.traces else "complaint"])
    reached = sum(result["calls"] for result in results.values())
    print(
        "%d of %d tests pass, %d calls %s, %d s"
        % (
            len(results) - len(absent) - len(failed),
            len(results) - len(absent),
            reached,
            "counted" if asked.plain else "reached ctrlgrad",
            time.monotonic() - started,
        )
    )
    return 1 if failed else 0


def tell(title, tests, more=None):
    if tests:
        print("\n%s:" % title)
        for test in tests:
            print("  " + test + ("\n      " + more(test)[:3000] if more else ""))
        print()


def record(listed, asked):
    """Brings the list up to date: the tests that pass without ctrlgrad in every round."""
    root = caffe2_folder()
    files = sorted(str(path.relative_to(root)) for path in root.glob("**/*_test.py"))
    files = [file for file in files if not file.startswith(tuple(NOT_LOOKED_INTO))]
    if asked.texts:
        files = [file for file in files if file.startswith(tuple(asked.texts))]
    listed["made_with"] = versions()

    def rounds(file):
        passed = None
        for seed in range(ROUNDS):
            plan = dict(make_plan(listed, False, []), hash_seed=seed)
            results = run_file(file, passed and list(passed), root, plan, asked.timeout)
            passed = {
                test: result["calls"]
                for test, result in results.items()
                if result["outcome"] == "passed"
            }
            if not any(passed.values()):
                return {}
        return passed

    for file, passed in run_all(files, asked.jobs, rounds):
        print("%s: %d tests, %d calls" % (file, len(passed), sum(passed.values())), flush=True)
        listed["files"].pop(file, None)
        if passed:
            tests = {test.partition("::")[2]: calls for test, calls in sorted(passed.items())}
            listed["files"] = dict(sorted([*listed["files"].items(), (file, tests)]))
        LIST.write_text(json.dumps(listed, indent=1) + "\n")
    return 0


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="tests: the beginning of a name")
    parser.add_argument("--short", action="store_true", help="a selection: each kind of call")
    parser.add_argument("--plain", action="store_true", help="without ctrlgrad")
    parser.add_argument("--record", action="store_true", help="bring the list up to date")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time (1)")
    parser.add_argument("--timeout", type=float, default=180, help="seconds a test may take (180)")
    parser.add_argument("--traces", action="store_true", help="print the whole of each error")
    return parser.parse_args()


def main():
    asked = options()
    listed = json.loads(LIST.read_text())
    return record(listed, asked) if asked.record else try_all(listed, asked)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MeaninglessError as error:
        print("run.py: %s" % error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
