"""Tries a wheel with each CPython and each protobuf: `python test_matrix.py WHEEL [--some]`.

Each CPython gets an environment outside of this folder. pip puts the wheel into it with one
protobuf after the other, and takes the last one away again. Each time, and with each backend,
try_golden.py asks all golden cases. What pip refuses because one is not made for the other is
named; all else must be right.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]
PROTOBUFS = ["==3.20.*", "==4.21.*", "==4.25.*", "==5.*", "==6.*", ">=7"]
BACKEND = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
ROW = "%-9s%-10s%-9s%-18s%7s  %s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--some", action="store_true", help="the first and the last CPython alone")
    args = parser.parse_args()
    pythons = [PYTHONS[0], PYTHONS[-1]] if args.some else PYTHONS
    failed = 0
    print(ROW % ("CPython", "protobuf", "backend", "golden cases", "seconds", ""), flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(lambda python: list(try_python(python, args.wheel)), pythons):
            for right, *row in rows:
                failed += not right
                print((ROW % tuple(row)).rstrip(), flush=True)
    print("%d of these FAIL" % failed if failed else "all right")
    return failed > 0


def try_python(version, wheel):
    """Yields (whether it is as it must be, the columns of its row) for each combination."""
    found = run(HERE / "find_python", version)
    if found.returncode:
        yield False, version, "", "", "FAILS", "", found.stderr.strip()
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        asked = folder / "asked.json"
        python = folder / "venv" / "bin" / "python"
        subprocess.run([found.stdout.strip(), "-m", "venv", folder / "venv"], check=True)
        for wanted in PROTOBUFS:
            refused = pip(python, "install", wheel, "protobuf" + wanted)
            if refused:
                # A network that is down, or sources that do not build, are no such reason.
                made_for = r" %s\.\S+ Requires-Python" % re.escape(wanted.strip("=>.*"))
                mismatch = re.search(made_for, refused) is not None
                result = "does not install" if mismatch else "FAILS to install"
                yield mismatch, version, wanted.strip("=.*"), "", result, "", "%.99s ..." % refused
                continue
            shown = run(python, "-m", "pip", "show", "protobuf").stdout
            protobuf = re.search("^Version: (.*)", shown, re.MULTILINE).group(1)
            for backend in (None, "python"):
                right, used, *row = ask(python, asked, backend=backend)
                yield right, version, protobuf, used, *row
                if used == "python":
                    break
        pip(python, "uninstall", "--yes", "protobuf")
        right, *row = ask(python, asked, "--bytes")
        yield right, version, "none", *row


def ask(python, *args, backend=None):
    """(whether all is right, the backend, how much is right, seconds, what else there is to say)"""
    env = {name: value for name, value in os.environ.items() if name != BACKEND}
    if backend:
        env[BACKEND] = backend
    start = time.monotonic()
    done = run(python, "-I", "-W", "error", HERE / "try_golden.py", *args, env=env)
    spent = "%.1f" % (time.monotonic() - start)
    lines = done.stderr.strip().split("\n")
    errors = "\n".join(lines if len(lines) < 20 else [*lines[:10], "...", *lines[-10:]])
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return False, backend or "", "FAILS", spent, errors
    counts = "%(right)d of %(asked)d" % found
    if done.returncode or backend not in (None, found["backend"]):
        return False, found["backend"], counts + " FAILS", spent, errors
    warned = "protobuf itself warns: %.60s ..." % found["warned"][0] if found["warned"] else ""
    return True, found["backend"], counts, spent, warned


def pip(python, *args):
    """Lets pip do something; the first of its errors if it fails, else an empty text."""
    done = run(python, "-m", "pip", "--disable-pip-version-check", "--quiet", *args)
    if not done.returncode:
        return ""
    return next((line for line in done.stderr.split("\n") if "ERROR" in line), done.stderr)


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


if __name__ == "__main__":
    sys.exit(main())
