"""The golden cases again, asked of Caffe2's names with ctrlgrad under them.

Those with scopes are in test_install.py.
"""

import pathlib

import asking
import canonical
import ctrlgrad
import pytest

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(autouse=True)
def _installed(core):
    with ctrlgrad.installed():
        yield


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_cases(core, proto, path):
    differing = {}
    for case in canonical.load(str(path)):
        if "scope" in case:
            continue
        ops, grads = asking.ask(case, proto, core)
        found = canonical.compare(case, ops, grads, proto=proto)
        unclear = asking.unclear(case, ops)
        if found or unclear:
            differing[case["name"]] = found or unclear
    assert differing == {}
