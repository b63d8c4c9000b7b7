"""The map of gradients is a dict for every purpose."""

import collections
import copy
import json
import pickle
import subprocess
import sys
import threading
import types

import ctrlgrad
import pytest
from ctrlgrad import BlobReference, GradientSlice
from ctrlgrad._gradient_map import empty_map
from ctrlgrad._host import OURS
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import net, op


def made():
    forward = net(op("Gather", "table at", "rows"), op("Relu", "rows", "y"))
    return ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, ["y"])[1]


PLAIN = {
    "y": "y_autogen_grad",
    "rows": "rows_grad",
    "table": ("at", "rows_grad"),
}

# Each takes a map that nothing has looked at before.
PURPOSES = {
    "isinstance": lambda m: isinstance(m, dict),
    "bool": lambda m: bool(m),
    "len": lambda m: len(m) == 3,
    "list": lambda m: list(m) == list(PLAIN),
    "reversed": lambda m: list(reversed(m)) == list(PLAIN)[::-1],
    "by text": lambda m: m["rows"] == "rows_grad",
    "by reference": lambda m: m[BlobReference("rows")] == "rows_grad",
    "get": lambda m: (m.get("rows"), m.get("none"), m.get("none", 1)) == ("rows_grad", None, 1),
    "in": lambda m: "rows" in m and BlobReference("rows") in m and "none" not in m,
    "dict": lambda m: dict(m) == PLAIN,
    "two stars": lambda m: {**m} == PLAIN,
    "or": lambda m: m | {"a": "b"} == {**PLAIN, "a": "b"},
    "or from the right": lambda m: {"a": "b"} | m == {"a": "b", **PLAIN},
    "update": lambda m: updated({}, m) == PLAIN,
    "items": lambda m: list(m.items()) == list(PLAIN.items()),
    "keys": lambda m: m.keys() == PLAIN.keys() and list(m.keys()) == list(PLAIN),
    "values": lambda m: list(m.values()) == list(PLAIN.values()),
    "equal": lambda m: m == PLAIN,
    "equal from the right": lambda m: PLAIN == m,  # noqa: SIM300
    "unequal": lambda m: m != {} and {} != m,  # noqa: SIM300
    "copy method": lambda m: m.copy() == PLAIN,
    "copy": lambda m: copy.copy(m) == PLAIN,
    "deepcopy": lambda m: copy.deepcopy(m) == PLAIN,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)) == PLAIN,
    "pickle 2": lambda m: pickle.loads(pickle.dumps(m, 2)) == PLAIN,
    "json": lambda m: (
        json.dumps({str(k): v for k, v in m.items()}, default=str)
        == json.dumps({**PLAIN}, default=str)
    ),
    "json, keys skipped": lambda m: json.dumps(m, skipkeys=True) == "{}",
    "repr": lambda m: repr(m).startswith("{") and 'BlobReference("rows_grad")' in repr(m),
    "sorted": lambda m: sorted(m, key=str) == sorted(PLAIN),
    "set": lambda m: set(m) == set(PLAIN),
    "zip": lambda m: next(zip(m, m.values())) == ("y", "y_autogen_grad"),
    "pop": lambda m: m.pop("rows") == "rows_grad" and "rows" not in m,
    "popitem": lambda m: m.popitem()[0] == "table" and len(m) == 2,
    "setdefault": lambda m: m.setdefault("rows", 1) == "rows_grad" and m.setdefault("a", 1) == 1,
    "clear": lambda m: m.clear() is None and not m,
    "fromkeys": lambda m: dict.fromkeys(m, 0) == dict.fromkeys(PLAIN, 0),
    "format": lambda m: "%(rows)s {rows}".format_map(m) % m == "rows_grad rows_grad",
    "match": lambda m: m.keys() >= {"rows"},
}


def updated(mapping, other):
    mapping.update(other)
    return mapping


@pytest.mark.parametrize("purpose", PURPOSES)
def test_is_a_dict(purpose):
    assert PURPOSES[purpose](made()) is True


def test_json_of_the_map_itself():
    """The keys are no `str`, as in Caffe2. What a dict does then, and not an empty object."""
    with pytest.raises(TypeError, match="keys must be"):
        json.dumps(made())
    with pytest.raises(TypeError, match="keys must be"):
        json.dumps(made(), indent=1, default=str)


def test_changes():
    found = made()
    found["rows"] = BlobReference("other")
    found[BlobReference("table")] = "dense"
    del found["y"]
    assert found == {"rows": "other", "table": "dense"}
    assert made() == PLAIN


def test_kinds_of_keys_and_values():
    found = made()
    assert all(type(blob) is BlobReference for blob in found)
    assert type(found["rows"]) is BlobReference
    assert type(found["table"]) is GradientSlice
    assert type(found["table"].indices) is BlobReference


def test_is_unpickled_elsewhere():
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=pickle.dumps(made()),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"rows_grad" in done.stdout


def test_bytes_give_plain_values():
    forward = net(op("Gather", "table at", "rows"), op("Relu", "rows", "y"))
    _, found = ctrlgrad.backward_bytes(forward.SerializeToString(), ["y"])
    assert found == PLAIN
    assert list(found) == list(PLAIN)
    assert type(found) is dict
    assert {type(blob) for blob in found} == {str}
    assert type(found["table"]) is tuple


# ------------------------------------------------------- beside a dict that is full of references

FOUND = {"a": "a_grad", "b": ("i", "v"), "c": "c_grad", "d": "a_grad"}
NAMES = st.sampled_from(["a", "b", "c", "d", "e", BlobReference("a"), BlobReference("e")])

# What a dict can be asked by its methods, by operators, and by C code that looks past the methods.
STEPS = {
    "getitem": lambda m, k: m[k],
    "get": lambda m, k: (m.get(k), m.get(k, 7)),
    "in": lambda m, k: k in m,
    "len": lambda m, k: (len(m), bool(m)),
    "iter": lambda m, k: list(m),
    "reversed": lambda m, k: list(reversed(m)),
    "keys": lambda m, k: (list(m.keys()), k in m.keys(), m.keys() & {k}),  # noqa: SIM118
    "values": lambda m, k: list(m.values()),
    "items": lambda m, k: list(m.items()),
    "dict": lambda m, k: dict(m),
    "stars": lambda m, k: {**m},
    "keywords": lambda m, k: (lambda **given: given)(**{str(key): m[key] for key in m}),
    "union": lambda m, k: m | {k: "x"},
    "union from the right": lambda m, k: {k: "x"} | m,
    "union in place": lambda m, k: m.__ior__({k: "x"}) is m,
    "update another": lambda m, k: updated({k: "x"}, m),
    "update": lambda m, k: m.update({k: "x"}),
    "update by name": lambda m, k: m.update(a="x"),
    "set": lambda m, k: m.__setitem__(k, "x"),
    "del": lambda m, k: m.__delitem__(k),
    "pop": lambda m, k: m.pop(k),
    "pop with default": lambda m, k: m.pop(k, 7),
    "popitem": lambda m, k: m.popitem(),
    "setdefault": lambda m, k: m.setdefault(k, "x"),
    "clear": lambda m, k: m.clear(),
    "copy": lambda m, k: (m.copy(), copy.copy(m), copy.deepcopy(m)),
    "pickle": lambda m, k: [pickle.loads(pickle.dumps(m, n)) for n in range(6)],
    "equal": lambda m, k: (m == FOUND, FOUND == m, m != FOUND, m == {k: 1}),  # noqa: SIM300
    "repr": lambda m, k: (repr(m), "%s" % m),
    "json": lambda m, k: json.dumps(m, skipkeys=True, default=str),
    "json of texts": lambda m, k: json.dumps({str(key): m[key] for key in m}, default=str),
    "format": lambda m, k: "{a} {d}".format_map(m),
    "percent": lambda m, k: "%(c)s %(b)s" % m,
    "sorted": lambda m, k: sorted(m, key=str),
    "set of": lambda m, k: (set(m), frozenset(m), tuple(m)),
    "fromkeys": lambda m, k: dict.fromkeys(m, k),
    "own fromkeys": lambda m, k: dict(type(m).fromkeys(["a"], k)),
    "chain": lambda m, k: dict(collections.ChainMap({}, m)),
    "counter": lambda m, k: collections.OrderedDict(m),
    "locals": lambda m, k: eval("(a, c)", {}, m),
    "translate": lambda m, k: "x".translate(m),
    "identity": lambda m, k: m.get(k) is m.get(k),
    "unbound": lambda m, k: (dict.get(m, k), dict.__len__(m), dict.__contains__(m, k)),
    "unbound items": lambda m, k: dict(dict.items(m)) == dict(m),
    "exec": lambda m, k: exec("x = a", {**m}),
    "merge": lambda m, k: types.MappingProxyType(m) == m,
}


def outcome(step, mapping, key):
    try:
        return step(mapping, key)
    except Exception as error:
        return type(error)


def kinds(value):
    """The types of everything in a value."""
    if isinstance(value, dict):
        return [(kinds(key), kinds(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [kinds(each) for each in value]
    return type(value)


def lazy_map():
    lazy = empty_map(OURS)
    for blob, found in FOUND.items():
        dict.__setitem__(lazy, blob, found)
    return lazy


LOOKS_PAST = {"unbound"}  # finds texts, which are equal


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), NAMES), min_size=1, max_size=8))
def test_is_as_a_dict_that_is_full_of_references(steps):
    lazy = lazy_map()
    real = {
        BlobReference(blob): BlobReference(found)
        if isinstance(found, str)
        else GradientSlice(*map(BlobReference, found))
        for blob, found in FOUND.items()
    }
    for name, key in steps:
        ours, theirs = outcome(STEPS[name], lazy, key), outcome(STEPS[name], real, key)
        assert ours == theirs, name
        if name not in LOOKS_PAST:
            assert kinds(ours) == kinds(theirs), name
    assert lazy == real
    assert real == lazy
    assert kinds(lazy.copy()) == kinds(real)


LOOKS = {
    "getitem": lambda m: m["b"] == ("i", "v"),
    "get": lambda m: m.get("a") == "a_grad",
    "in": lambda m: "c" in m,
    "len": lambda m: len(m) == len(FOUND),
    "bool": lambda m: bool(m),
    "equal": lambda m: m == FOUND,
    "equal from the right": lambda m: FOUND == m,  # noqa: SIM300
    "unequal": lambda m: (m != FOUND) is False,
    "items": lambda m: dict(m.items()) == FOUND,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_thread_that_looks_while_the_references_are_put_in_finds_them(look):
    lazy = lazy_map()
    found = []
    other = threading.Thread(
        target=lambda: found.append(outcome(lambda m, _: LOOKS[look](m), lazy, ""))
    )

    def start_at_the_worst_moment(frame, event, arg):
        in_between = frame.f_code is type(lazy)._settled.__code__ and not dict.__len__(lazy)
        if in_between and other.ident is None:
            other.start()
            other.join(0.1)
        return start_at_the_worst_moment

    before = sys.gettrace()
    sys.settrace(start_at_the_worst_moment)
    try:
        assert dict(lazy.items()) == FOUND
    finally:
        sys.settrace(before)
    other.join()
    assert found == [True]
