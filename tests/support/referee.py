"""Calls functions in a child process: operators of Caffe2 can hang, or take their process down."""

import multiprocessing
import os
import time
import traceback
from typing import Any

from caffe2.python import workspace

HANGS, CRASHES = "never ends", "crashes"
IDLE = 10


class Gone(Exception):  # noqa: N818 - not a fault of ours
    """The child process hung (HANGS) or died (CRASHES)."""


class Referee:
    """Calls functions in a child process, and puts a new one in its place when it
    hangs or dies. Functions, arguments and results must be picklable.

    A child hangs when it has worked for so many `seconds`, by its own clock: others may keep the
    machine busy. One that waits for something gets `IDLE` times as long.
    """

    def __init__(self, seconds: float = 2.5):
        self.seconds = seconds
        self.child: Any = None

    def call(self, function, *args):
        if self.child is None:
            self.start()
        self.pipe.send((function, args))
        if not self.answers():
            self.stop()
            raise Gone(HANGS)
        try:
            error, result = self.pipe.recv()
        except EOFError:
            self.stop()
            raise Gone(CRASHES) from None
        if error:
            raise RuntimeError(error)
        return result

    def answers(self) -> bool:
        """Whether an answer comes in time."""
        began, worked = time.monotonic(), seconds_of(self.child.pid)
        while not self.pipe.poll(self.seconds / 8):
            waited = time.monotonic() - began
            if waited > IDLE * self.seconds or seconds_of(self.child.pid) - worked > self.seconds:
                return False
        return True

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.child = context.Process(target=serve, args=(theirs,), daemon=True)
        self.child.start()
        theirs.close()

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.join()
            self.pipe.close()
            self.child = None


def seconds_of(pid: int) -> float:
    """For how long a process has worked; where that cannot be told, what time it is."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(pipe) -> None:
    """What the child does."""
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=3"])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Caffe2 reports every failure at length
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((None, function(*args)))
        except Exception:
            pipe.send((traceback.format_exc(), None))
