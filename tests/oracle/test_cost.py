"""Being installed under Caffe2 costs next to nothing. `cost.py` prints the exact figures."""

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("caffe2.python.core")

from . import cost  # noqa: E402


def test_add_gradient_operators_costs_what_its_parts_cost():
    seconds = cost.backward_pass(rounds=5)
    assert seconds["installed"] < 1.5 * (seconds["ctrlgrad"] + seconds["around"])


def test_import_and_install_are_not_felt():
    caffe2, added = cost.start(rounds=3)
    # 10 to 20 ms on a machine that imports Caffe2 in a second.
    assert added < 0.1 * caffe2
