"""The map of gradients is a dict for every purpose."""

import copy
import json
import pickle
import subprocess
import sys

import ctrlgrad
import pytest
from ctrlgrad import BlobReference, GradientSlice
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
