"""Being installed under Caffe2 costs next to nothing. `cost.py` prints the exact figures."""

import importlib

import pytest

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cost():
    """The module beside; importing it imports Caffe2."""
    return importlib.import_module("cost")


def test_a_backward_pass_costs_what_its_parts_cost(cost):
    seconds = cost.backward_pass(rounds=3)
    assert seconds["installed"] < 2 * (seconds["ctrlgrad"] + seconds["around"])


def test_import_and_install_are_not_felt(cost):
    caffe2, added = cost.start(rounds=3)
    assert added < caffe2 / 5
