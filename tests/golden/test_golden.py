"""Every golden case: what Caffe2 answered, or where it is known to be wrong, the right answer.

FORMAT.md describes the cases. Those whose answer depends on Caffe2's own scopes are listed in
NEEDS_SCOPES: without Caffe2 there is no way to ask them.
"""

import functools
import pathlib

import asking
import canonical
import ctrlgrad
import pytest

HERE = pathlib.Path(__file__).resolve().parent
FILES = ["ops", "nets", "control_flow", "models", "reports"]

NEEDS_SCOPES = {
    "device/ones_and_gpu_in_device_scope",
    "device/device_scope_sum",
    "wrong_ys/ones_in_name_scope",
    "wrong_while_net/in_name_scope",
    "models/test_rnn_cell_test_step_84",
    "models/test_rnn_cell_test_step_103",
    "models/test_rnn_cell_test_step_114",
}


@functools.cache
def cases(file):
    return {case["name"]: case for case in canonical.load(str(HERE / (file + ".jsonl")))}


@pytest.mark.parametrize(
    ("file", "name"),
    [(file, name) for file in FILES for name in cases(file) if name not in NEEDS_SCOPES],
)
def test_case(file, name):
    case = cases(file)[name]
    ops, grads = asking.ask(case)
    assert canonical.compare(case, ops, grads, proto=ctrlgrad.caffe2_pb2) == []
    assert asking.unclear(case, ops) is None


def test_no_case_is_left_out_but_for_its_scope():
    """The list above holds what has a scope, and nothing else."""
    everything = [case for file in FILES for case in cases(file).values()]
    assert {case["name"] for case in everything if "scope" in case} == NEEDS_SCOPES
    assert {file.stem for file in HERE.glob("*.jsonl")} == set(FILES)
    assert len(everything) == len({case["name"] for case in everything})


def test_unknown_fields_come_back():
    """Fields that the schema does not know are kept where Caffe2 keeps them."""
    [case] = [case for case in cases("reports").values() if "unknown_fields_kept" in case]
    ops, _ = asking.ask(case)
    [gradient] = [op for op in ops if op.type == "If"]
    [then_net] = [arg.n for arg in gradient.arg if arg.name == "then_net"]
    for place, (number, value) in case["unknown_fields_kept"].items():
        message = gradient if place == "the If operator" else then_net
        field = encoded(number << 3) + encoded(value)
        assert field in message.SerializeToString(), place


def encoded(value):
    """A number as a protobuf varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])
