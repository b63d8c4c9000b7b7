"""BlobReference and GradientSlice: facts of Caffe2's classes of these names."""

import copy
import pickle

import ctrlgrad
import pytest
from ctrlgrad import BlobReference, GradientSlice, _core, blobs
from nets import net, op


class Theirs:
    """As much of Caffe2's own class as comparisons need."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(self.name)


Theirs.__name__ = "BlobReference"


def test_is_found_under_its_text():
    blob = BlobReference("x")
    assert blob == "x"
    assert blob == b"x"
    assert blob == BlobReference("x")
    assert (blob != "x") is False
    assert blob != "y"
    assert blob != 1
    assert hash(blob) == hash("x")
    assert {blob: 1}["x"] == 1
    assert {"x": 1}[blob] == 1


def test_equals_caffe2s_reference():
    assert BlobReference("x") == Theirs("x")
    assert BlobReference("x") != Theirs("y")
    assert {BlobReference("x"): 1}[Theirs("x")] == 1


def test_is_made_from_anything_with_a_text():
    assert BlobReference(b"x") == "x"
    assert BlobReference(3) == "3"
    assert BlobReference(BlobReference("x")) == "x"
    assert str(BlobReference(b"x\xff")) == "x\udcff"
    assert BlobReference(b"x\xff") == b"x\xff"


def test_text_and_scopes():
    blob = BlobReference("a/b/x")
    assert type(str(blob)) is str
    assert repr(blob) == 'BlobReference("a/b/x")'
    assert (blob.GetNameScope(), blob.GetUnscopedName()) == ("a/b/", "x")
    assert (BlobReference("x").GetNameScope(), BlobReference("x").GetUnscopedName()) == ("", "x")


def test_addition_gives_references():
    net = object()
    for made in (BlobReference("x", net) + "_y", "x_" + BlobReference("y", net)):
        assert made == "x_y"
        assert type(made) is BlobReference
        assert made.Net() is net
    for wrong in (lambda: BlobReference("x") + 1, lambda: 1 + BlobReference("x")):
        with pytest.raises(RuntimeError) as caught:
            wrong()
        assert isinstance(caught.value, ctrlgrad.CtrlgradError)


def test_makes_operators_of_its_net():
    class Net:
        def Relu(self, inputs, *args, **kwargs):
            return inputs, args, kwargs

    blob = BlobReference("x", Net())
    assert blob.Relu("y", 1, z=2) == (["x", "y"], (1,), {"z": 2})
    assert blob.Relu() == (["x"], (), {})
    assert blob.Relu(["y", "z"])[0] == ["x", "y", "z"]
    with pytest.raises(AttributeError, match="Relu"):
        BlobReference("x").Relu("y")


def test_meta_is_a_place_of_its_own():
    one, other = BlobReference("x"), BlobReference("x")
    one.meta["a"] = 1
    assert one.meta == {"a": 1}
    assert other.meta == {}


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies(how):
    blob = BlobReference("x")
    blob.meta["a"] = 1
    made = how(blob)
    assert made == blob
    assert type(made) is BlobReference
    assert made.meta == {"a": 1}


def test_gradient_slice_is_a_pair():
    sparse = GradientSlice(indices="i", values="v")
    assert sparse == ("i", "v")
    assert hash(sparse) == hash(("i", "v"))
    assert (sparse.indices, sparse.values) == tuple(sparse)
    assert pickle.loads(pickle.dumps(sparse)) == sparse
    assert GradientSlice(BlobReference("i"), BlobReference("v")) == sparse


ODD_TARGETS = [
    {"a": None, "b": "c"},
    {"b": "c", "a": None},
    ["b", "a", "b"],
    {"a": ""},
    {"a": "c\0d", "b": None},
    {"a\0b": "c"},
    ["a\0b"],
    ["nowhere"],
    ["å"],
    {"a": "å"},
    [""],
    [],
    {},
]


@pytest.mark.parametrize("more", [0, 1, 20])
@pytest.mark.parametrize("ys", ODD_TARGETS, ids=repr)
def test_targets_in_two_texts_are_the_same_targets(ys, more):
    more = ["m%d" % k for k in range(more)]
    ys = [*more, *ys] if isinstance(ys, list) else {**dict.fromkeys(more), **ys}
    forward = net(*(op("Relu", "x", [y]) for y in ["a", "b", "a\0b", "å", *more]))
    wire = forward.SerializeToString()

    def answer(targets):
        grads = {}
        try:
            return _core.backward(wire, targets, grads, None, None, known=True), list(grads.items())
        except ctrlgrad.CtrlgradError as error:
            return type(error), str(error)

    assert answer(blobs.plain_targets(ys)) == answer(blobs.targets_to_core(ys))
    values = ys.values() if isinstance(ys, dict) else ()
    given = [gradient for gradient in values if gradient != "c"]
    plain = not any(given) and "" not in given and all(y.isascii() and "\0" not in y for y in ys)
    assert isinstance(blobs.plain_targets(ys), tuple) == (plain and len(ys) >= blobs.MANY)
