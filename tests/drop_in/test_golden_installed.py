"""The golden cases again, asked of Caffe2's names with ctrlgrad under them.

Those with scopes are in test_install.py.
"""

import pathlib
import warnings

import asking
import canonical
import ctrlgrad
import pytest

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def core():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from caffe2.python import core
    with ctrlgrad.installed():
        yield core


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_cases(core, path):
    from caffe2.proto import caffe2_pb2

    differing = {}
    for case in canonical.load(str(path)):
        if "scope" in case:
            continue
        ops, grads = asking.ask(case, caffe2_pb2, core)
        found = canonical.compare(case, ops, grads, proto=caffe2_pb2)
        unclear = asking.unclear(case, ops)
        if found or unclear:
            differing[case["name"]] = found or unclear
    assert differing == {}
