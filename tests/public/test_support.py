"""The table of supported operators."""

import ctrlgrad
import pytest

WORDS = {"maker", "none", "forbidden", "unimplemented"}


@pytest.mark.parametrize(
    ("op_type", "word"),
    [
        ("Relu", "maker"),
        ("FC", "maker"),
        ("Do", "maker"),
        ("If", "maker"),
        ("While", "maker"),
        ("StopGradient", "none"),
        ("NoSuchOperator", "unknown"),
        ("", "unknown"),
    ],
)
def test_has_gradient(op_type, word):
    assert ctrlgrad.has_gradient(op_type) == word


def test_supported_operators():
    table = ctrlgrad.supported_operators()
    assert set(table.values()) == WORDS
    assert list(table) == sorted(table)
    assert len(table) >= 584
    assert all(ctrlgrad.has_gradient(op_type) == word for op_type, word in table.items())
    table.clear()
    assert ctrlgrad.supported_operators()
