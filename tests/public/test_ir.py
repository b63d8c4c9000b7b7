"""IR and its views, and the SSA functions."""

from collections import defaultdict

import ctrlgrad
import pytest
from ctrlgrad import IR, GradientSlice
from nets import mlp, net, op, types


def two_reads():
    return [
        op("Relu", "x", "h"),
        op("Relu", "h", "h"),
        op("Add", "h h", "y"),
        op("Mul", "h y", "z"),
    ]


def test_versions():
    operators = two_reads()
    ir = IR(operators)
    assert [tuple(each) for each in ir.ssa] == [
        (operators[0], {"x": 0}, {"h": 0}),
        (operators[1], {"h": 0}, {"h": 1}),
        (operators[2], {"h": 1}, {"y": 0}),
        (operators[3], {"h": 1, "y": 0}, {"z": 0}),
    ]
    assert ir.ssa[0].op is operators[0]
    assert ir.ssa[1].in_versions == {"h": 0}
    assert ir.ssa[1].out_versions == {"h": 1}
    assert ir.ssa is ir.ssa


def test_usages_frontier_and_histories():
    operators = two_reads()
    ir = IR(operators)
    assert ir.input_usages == {"x": {0: [0]}, "h": {0: [1], 1: [2, 2, 3]}, "y": {0: [3]}}
    assert ir.frontier == {"x": 0, "h": 1, "y": 0, "z": 0}
    assert isinstance(ir.input_usages, defaultdict)
    assert ir.frontier["nowhere"] == 0
    assert ir.in_version_history["h"] == [
        (operators[1], 0),
        (operators[2], 1),
        (operators[2], 1),
        (operators[3], 1),
    ]
    assert ir.out_version_history["h"] == [(operators[0], 0), (operators[1], 1)]


def test_backward_pass_is_that_of_the_registry():
    operators = mlp().op
    assert IR(operators).GetBackwardPass(["loss"]) == ctrlgrad.GradientRegistry.GetBackwardPass(
        operators, ["loss"]
    )


def test_targets_count_as_read():
    ir = IR([op("Relu", "x", "y")])
    assert "y" not in ir.input_usages
    ir.GetBackwardPass(["y"])
    assert ir.input_usages["y"] == {0: [1]}


def test_gradient_frontier():
    ir = IR([op("Copy", "x", "h"), op("Relu", "h", "h"), op("Relu", "h", "y")])
    assert ir.gradient_frontier == {}
    assert ir.gradient_generators == {}
    ir.GetBackwardPass(["y"])
    assert ir.gradient_frontier == {"y": 0, "h": 0, "x": 0}


def test_dense_generators():
    operators = [op("Relu", "x", "a"), op("Tanh", "x", "b"), op("Sum", "a b", "y")]
    operators[1].device_option.device_type = 1
    operators[0].device_option.device_type = 1
    ir = IR(operators)
    ops, _ = ir.GetBackwardPass(["y"])
    assert types(ops) == ["ConstantFill", "TanhGradient", "ReluGradient", "Sum"]
    [ones] = ir.gradient_generators["y"][0]
    assert ones.grad_op is ops[0]
    assert (ones.idx, ones.gradient) == (0, "y_autogen_grad")
    [handed] = ir.gradient_generators["a"][0]
    assert (handed.grad_op, handed.idx, handed.gradient) == (None, 0, "y_autogen_grad")
    first, second = ir.gradient_generators["x"][0]
    assert (first.grad_op, second.grad_op) == (ops[1], ops[2])
    assert first.gradient == second.gradient == "x_grad"
    assert first.device_option.device_type == 1


def test_sparse_generators():
    operators = [op("Gather", "t i", "a"), op("Gather", "t j", "b"), op("Sum", "a b", "y")]
    ir = IR(operators)
    ir.GetBackwardPass({"y": "g"})
    found = ir.gradient_generators["t"][0]
    assert [each.gradient for each in found] == [
        GradientSlice("j", "g"),
        GradientSlice("i", "g"),
    ]
    assert all(each.grad_op_indices is None for each in found)


def test_orphan_is_refused_when_the_ir_is_made():
    with pytest.raises(ValueError, match="StopGradient") as caught:
        IR([op("StopGradient", "x", "y")])
    assert isinstance(caught.value, ctrlgrad.OrphanError)


def test_get_ssa():
    forward = net(*two_reads())
    ssa, versions = ctrlgrad.get_ssa(forward)
    assert ssa == [
        ([("x", 0)], [("h", 1)]),
        ([("h", 1)], [("h", 2)]),
        ([("h", 2), ("h", 2)], [("y", 1)]),
        ([("h", 2), ("y", 1)], [("z", 1)]),
    ]
    assert versions == {"x": 0, "h": 2, "y": 1, "z": 1}
    assert ctrlgrad.get_ssa(forward.SerializeToString()) == (ssa, versions)


def test_get_ssa_goes_on_from_versions():
    versions = {"x": 3, "other": 1}
    ssa, after = ctrlgrad.get_ssa(net(op("Relu", "x", "x")), versions)
    assert ssa == [([("x", 3)], [("x", 4)])]
    assert after is versions
    assert versions == {"x": 4, "other": 1}


def test_get_ssa_with_external_inputs():
    forward = net(op("Relu", "x", "y"))
    forward.external_input.extend(["x", "unused"])
    assert ctrlgrad.get_ssa(forward)[1] == {"x": 0, "unused": 0, "y": 1}


def test_get_ssa_takes_a_builder():
    class Builder:
        def Proto(self):
            return net(op("Relu", "x", "y"))

    assert ctrlgrad.get_ssa(Builder())[0] == [([("x", 0)], [("y", 1)])]


def test_undefined_blobs_and_producers():
    ssa, _ = ctrlgrad.get_ssa(mlp())
    assert ctrlgrad.get_undefined_blobs(ssa) == {"x", "w1", "b1", "w2", "b2", "y"}
    assert ctrlgrad.get_output_producers(ssa)[("a", 1)] == 1


def test_ops_in_path():
    ssa, versions = ctrlgrad.get_ssa(mlp())
    path = ctrlgrad.get_op_ids_in_path
    assert path(ssa, versions, [], ["loss"]) == [0, 1, 2, 3, 4]
    assert path(ssa, versions, ["a"], ["loss"]) == [2, 3, 4]
    assert path(ssa, versions, ["a"], ["a", "x"]) == []
    with pytest.raises(KeyError) as caught:
        path(ssa, versions, [], ["nowhere"])
    assert isinstance(caught.value, ctrlgrad.UnknownBlobError)
    assert str(caught.value) == "the net has no blob 'nowhere'"
