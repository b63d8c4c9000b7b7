"""Types: a user's program with every name passes mypy, and runs."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import ctrlgrad
import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent / "user_program.py"


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_program_passes_mypy(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(PROGRAM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_program_runs():
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'w: w_grad'" in done.stdout


def test_program_uses_every_name():
    used = set(re.findall(r"\w+", PROGRAM.read_text(encoding="utf-8")))
    errors = {name for name in ctrlgrad.__all__ if name.endswith("Error")}
    assert set(ctrlgrad.__all__) - errors <= used
