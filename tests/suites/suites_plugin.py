"""The pytest side of run.py: puts ctrlgrad under Caffe2 and writes down what happens.

What to do stands in the JSON file that $SUITES_PLAN names:

    ctrlgrad   install ctrlgrad first, and make sure that it is what answers
    examples   at most so many examples for a test of hypothesis
    tests      the tests to run; null for all that are found
    unskip     tests whose `@unittest.skip` is taken off
    events     a file; a line of JSON is added to it for whatever happens

A test is the same in every run: its examples, `random` and `numpy.random` are seeded. What Caffe2
draws in C++ is not: there the seed is the time.
"""

import functools
import importlib
import inspect
import json
import os
import pathlib
import random
import threading
import time
import types

import pytest

# They keep names of caffe2.python.core for themselves. A user's program has imported them
# before it calls install().
IMPORTED_EARLY = ["caffe2.python.schema", "caffe2.python.modeling.initializers"]

GENERATES = [
    ("core.GradientRegistry", "GetBackwardPass"),
    ("core.GradientRegistry", "GetGradientForOp"),
    ("core.IR", "__init__"),
    ("core.IR", "GetBackwardPass"),
    *(
        (module, "gen_%s_gradient" % kind)
        for module in ("core", "control_ops_grad")
        for kind in ("do", "if", "while")
    ),
]
READS = [
    ("core", "get_ssa"),
    ("core", "get_undefined_blobs"),
    ("core", "get_output_producers"),
    ("core", "get_op_ids_in_path"),
]
# Caffe2's own is asked for operators that only Caffe2 knows.
MAY_STAY = "GetGradientForOp"

METHODS = types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType

plan = {}


class Calls:
    """Counts calls. One that is made inside another belongs to it."""

    def __init__(self):
        self.number = 0
        self.inside = threading.local()

    def counted(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            depth = getattr(self.inside, "depth", 0)
            self.number += depth == 0
            self.inside.depth = depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self.inside.depth = depth

        return call

    def watch(self, owner, name):
        """Makes owner.name count; TypeError where that is not possible."""
        raw = inspect.getattr_static(owner, name)
        if raw is object.__init__:
            raise TypeError("a class without a constructor of its own")
        if isinstance(raw, classmethod):
            new = classmethod(self.counted(raw.__func__))
        elif not inspect.isclass(owner):
            new = self.counted(getattr(owner, name))
        elif isinstance(raw, METHODS):
            new = self.counted(raw)
        else:
            new = staticmethod(self.counted(getattr(owner, name)))
        setattr(owner, name, new)


asked = Calls()  # for what ctrlgrad replaces, whoever answers
reference = Calls()  # answered by Caffe2's Python all the same


def write(**event):
    with pathlib.Path(plan["events"]).open("a") as stream:
        stream.write(json.dumps(event) + "\n")


# --------------------------------------------------------------------- who answers


def places(names):
    """{text: (owner, attribute)} of each name, as things stand now."""
    found = {}
    for path, attribute in names:
        module, _, kind = path.partition(".")
        owner = importlib.import_module("caffe2.python." + module)
        found["%s.%s" % (path, attribute)] = (getattr(owner, kind) if kind else owner), attribute
    return found


def answers():
    """{text: the function, or for a constructor the class, that stands there now}."""
    return {
        name: owner if attribute == "__init__" else bare(getattr(owner, attribute))
        for name, (owner, attribute) in places(GENERATES + READS).items()
    }


def bare(thing):
    return getattr(thing, "__func__", thing)


def comes_from(package, thing):
    """Whether a function, method or class is one of the package's."""
    owner = getattr(thing, "__objclass__", None) or getattr(thing, "__self__", None)
    home = thing.__name__ if inspect.ismodule(thing) else getattr(thing, "__module__", None)
    return (
        str(home).split(".")[0] == package.__name__
        or thing is bare(getattr(package, getattr(thing, "__name__", ""), None))
        or (owner is not None and comes_from(package, owner))
    )


def install():
    """Installs ctrlgrad; returns the names that are not ctrlgrad's even so."""
    for owner, attribute in places(GENERATES).values():
        if attribute != MAY_STAY:
            reference.watch(owner, attribute)
    before = answers()
    ctrlgrad = importlib.import_module("ctrlgrad")
    ctrlgrad.install()
    return [
        name
        for name, thing in answers().items()
        if thing is before[name] or not comes_from(ctrlgrad, thing)
    ]


def watch():
    """Counts the calls; returns the names where that is not possible."""
    uncounted = []
    for name, (owner, attribute) in places(GENERATES + READS).items():
        try:
            asked.watch(owner, attribute)
        except TypeError:
            uncounted.append(name)
    return uncounted


# ---------------------------------------------------------------------- the tests


def tame_hypothesis():
    """Few examples and always the same ones, whatever a test asks for."""
    import hypothesis

    make = hypothesis.settings.__init__
    known = inspect.signature(make).parameters

    def settings(self, parent=None, **wanted):
        usual = (parent or hypothesis.settings.default or hypothesis.settings).max_examples
        most = wanted.get("max_examples", usual)
        wanted.update(
            max_examples=min(most if isinstance(most, int) else 100, plan["examples"]),
            derandomize=True,
            database=None,
            deadline=None,
            print_blob=False,
            verbosity=hypothesis.Verbosity.normal,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        # Caffe2's tests pass settings that hypothesis has dropped since.
        make(self, parent, **{key: value for key, value in wanted.items() if key in known})

    hypothesis.settings.__init__ = settings
    hypothesis.settings.register_profile("suites", hypothesis.settings())
    hypothesis.settings.load_profile("suites")


def pytest_configure():
    plan.update(json.loads(pathlib.Path(os.environ["SUITES_PLAN"]).read_text()))
    import numpy

    if not hasattr(numpy, "asscalar"):
        # Gone since numpy 1.23; Caffe2's tests call it.
        numpy.asscalar = lambda array: array.item()
    tame_hypothesis()
    for name in IMPORTED_EARLY:
        importlib.import_module(name)
    if plan["ctrlgrad"]:
        try:
            wrong = install()
        except Exception as error:
            write(meaningless="ctrlgrad cannot be installed: %r" % error)
            raise
        if wrong:
            write(meaningless="not ctrlgrad's after install(): " + ", ".join(wrong))
            pytest.exit("ctrlgrad is not what answers", 2)
    write(uncounted=watch())


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    for test in plan["unskip"]:
        path, kind, function = test.split("::")
        if (collector.nodeid, name) == (path, kind):
            setattr(obj, function, getattr(obj, function).__wrapped__)


def pytest_collectreport(report):
    if report.failed:
        last = report.longreprtext.strip().splitlines()[-1]
        write(collect="%s\n%s" % (last, report.longreprtext))


def pytest_collection_modifyitems(items):
    if plan["tests"] is not None:
        wanted = set(plan["tests"])
        items[:] = [item for item in items if item.nodeid in wanted]
    write(found=[item.nodeid for item in items])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    import numpy

    write(start=item.nodeid)
    random.seed(0)
    numpy.random.seed(0)
    item.seen = {"outcome": "passed", "error": "", "trace": ""}
    calls, by_reference, started = asked.number, reference.number, time.monotonic()
    yield
    write(
        end=item.nodeid,
        calls=asked.number - calls,
        reference=reference.number - by_reference,
        seconds=round(time.monotonic() - started, 2),
        **item.seen,
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.outcome == "passed" or item.seen["outcome"] == "failed":
        return
    item.seen["outcome"] = report.outcome
    item.seen["error"] = call.excinfo.exconly().strip() if call.excinfo else report.longreprtext
    item.seen["trace"] = report.longreprtext if report.failed else ""
