"""The exceptions: their bases, what they carry, and that they are the core's kinds."""

import copy
import pathlib
import pickle
import re

import ctrlgrad
import pytest
from ctrlgrad import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# What Caffe2 raises in the same situation, by the core's word for it.
BASES = {
    "malformed": ValueError,
    "too_deep": RecursionError,
    "no_maker": Exception,
    "forbidden": Exception,
    "unimplemented": Exception,
    "schema": Exception,
    "refused": Exception,
    "version": RuntimeError,
    "overwritten": RuntimeError,
    "out_of_scope": RuntimeError,
    "orphan": ValueError,
    "bindings": AssertionError,
    "control": AssertionError,
    "inexpressible": RuntimeError,
    "devices": RuntimeError,
    "gradient_count": IndexError,
    "sparse_devices": AssertionError,
    "mixed": RuntimeError,
    "conflict": RuntimeError,
    "unknown_blob": ValueError,
    "argument": ValueError,
    "internal": RuntimeError,
}


@pytest.mark.parametrize("kind", errors.KINDS)
def test_kinds(kind):
    error = errors.build(kind, "text", (1, 2), "Relu", "x", (3, 4), "do this")
    assert isinstance(error, ctrlgrad.CtrlgradError)
    assert isinstance(error, BASES[kind])
    assert str(error) == "text"
    assert (error.path, error.op_index, error.op_type) == ((1, 2), 2, "Relu")
    assert (error.blob, error.versions, error.hint) == ("x", (3, 4), "do this")


def test_kinds_are_those_of_the_core():
    source = (ROOT / "rust" / "src" / "error.rs").read_text(encoding="utf-8")
    assert set(re.findall(r'Kind::\w+ => "(\w+)"', source)) == set(errors.KINDS) == set(BASES)


def test_unknown_kind_is_a_defect():
    assert isinstance(errors.build("no such kind", "text"), ctrlgrad.InternalError)


@pytest.mark.parametrize("name", errors.__all__)
def test_copies(name):
    cls = getattr(ctrlgrad, name)
    error = cls("text", path=(1, 2), op_type="Relu", blob="x", versions=(3, 4), hint="do this")
    for made in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(made) is cls
        assert str(made) == "text"
        assert made.args == ("text",)
        assert (made.path, made.op_type, made.blob) == ((1, 2), "Relu", "x")
        assert (made.versions, made.hint) == ((3, 4), "do this")


@pytest.mark.parametrize("name", errors.__all__)
def test_without_a_place(name):
    error = getattr(ctrlgrad, name)("text")
    assert (error.path, error.op_index, error.op_type) == ((), None, None)
    assert (error.blob, error.versions, error.hint) == (None, None, None)


def test_texts_are_short():
    error = ctrlgrad.CtrlgradError("a" * 5000 + "z" * 5000)
    assert len(str(error)) < 2000
    assert str(error).startswith("aaa")
    assert str(error).endswith("zzz")
