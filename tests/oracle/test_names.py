"""The names that Caffe2 has too, side by side with Caffe2's."""

import pickle

import ctrlgrad
import pytest
from nets import if_, net, op

pytestmark = [
    pytest.mark.oracle,
    # Caffe2's own, on importing and on making operators.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def forward(proto):
    """In place, a blob with three readers, a sparse gradient, an If."""
    return net(
        op("Gather", "table at", "rows", proto),
        op("FC", "rows w b", "h", proto),
        op("Relu", "h", "h", proto),
        op("Sigmoid", "h", "a", proto),
        op("Tanh", "h", "t", proto),
        op("Sum", "a t h", "s", proto),
        if_(
            "c",
            "s h",
            "y",
            net(op("Mul", "s h", "y", proto), proto=proto),
            net(op("Add", "s h", "y", proto), proto=proto),
            proto,
        ),
        proto=proto,
    )


def as_plain(value):
    """Blobs of either package as text, operators as bytes, in any mapping or list."""
    if isinstance(value, dict):
        return {as_plain(key): as_plain(each) for key, each in value.items() if each != {}}
    if isinstance(value, tuple):
        return tuple(map(as_plain, value))
    if isinstance(value, list):
        return list(map(as_plain, value))
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    return value if value is None or isinstance(value, int) else str(value)


def test_caffe2s_messages_come_back_as_caffe2s(proto):
    given = forward(proto)
    ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(given.op, ["y"])
    assert {type(each) for each in ops} == {proto.OperatorDef}
    given.op.extend(ops)
    assert all(each.type for each in given.op)
    own = ctrlgrad.caffe2_pb2.NetDef.FromString(forward(proto).SerializeToString())
    ours, _ = ctrlgrad.GradientRegistry.GetBackwardPass(own.op, ["y"])
    assert as_plain(ours) == as_plain(ops)


def test_load_and_bytes_use_caffe2s_classes(proto, tmp_path):
    ctrlgrad.save(forward(proto), tmp_path / "net.pb")
    assert type(ctrlgrad.load(tmp_path / "net.pb")) is proto.NetDef
    answer = ctrlgrad.backward(forward(proto).SerializeToString(), ["y"])
    assert {type(each) for each in answer.ops} == {proto.OperatorDef}


def test_schema_is_caffe2s(proto):
    from ctrlgrad._schema import FILE

    assert proto.DESCRIPTOR.serialized_pb == FILE
    names = {name for name in dir(proto) if not name.startswith(("_", "enum_type"))}
    assert names <= set(dir(ctrlgrad.caffe2_pb2))


def test_both_packages_pickle_side_by_side(proto):
    for message in (proto.NetDef(name="n"), ctrlgrad.caffe2_pb2.NetDef(name="n")):
        assert type(pickle.loads(pickle.dumps(message))) is type(message)


def test_map_is_read_with_caffe2s_references(core, proto):
    _, grads = ctrlgrad.GradientRegistry.GetBackwardPass(forward(proto).op, ["y"])
    _, theirs = core.GradientRegistry.GetBackwardPass(forward(proto).op, ["y"])
    assert as_plain(grads) == as_plain(theirs)
    assert grads[core.BlobReference("w")] == "w_grad"
    assert grads["table"] == ctrlgrad.GradientSlice("at", "rows_grad")


def test_targets_may_be_caffe2s_references(core, proto):
    ys = {core.BlobReference("y"): core.BlobReference("g")}
    _, grads = ctrlgrad.GradientRegistry.GetBackwardPass(forward(proto).op, ys)
    assert grads["y"] == "g"
    reads = [op("Copy", "x", "y", proto)]
    sparse = {"x": core.GradientSlice("i", "v")}
    _, grads = ctrlgrad.GradientRegistry.GetBackwardPass(reads, sparse)
    assert grads == {"x": ("i", "v")}


@pytest.mark.parametrize("name", ["x", "a/b/x", "", "/", "a/"])
def test_blob_references(core, name):
    ours, theirs = ctrlgrad.BlobReference(name), core.BlobReference(name)
    for ask in (
        str,
        repr,
        hash,
        lambda b: b.GetNameScope(),
        lambda b: b.GetUnscopedName(),
        lambda b: b.Net(),
        lambda b: str(b + "y"),
        lambda b: str("y" + b),
        lambda b: (b == name, b == name.encode(), b != name, b == 1),
        bool,
    ):
        assert ask(ours) == ask(theirs)
    assert ours == theirs


def test_ssa(core, proto):
    given = forward(proto)
    given.external_input.extend(["table", "at", "extra"])
    for ask in (
        lambda package: package.get_ssa(given),
        lambda package: package.get_ssa(given, {"h": 4, "other": 1}),
        lambda package: package.get_ssa(forward(proto)),
        lambda package: package.get_undefined_blobs(package.get_ssa(given)[0]),
        lambda package: package.get_output_producers(package.get_ssa(given)[0]),
        lambda package: package.get_op_ids_in_path(*package.get_ssa(given), ["rows"], ["t", "a"]),
        lambda package: package.get_op_ids_in_path(*package.get_ssa(given), ["h"], ["y"]),
        lambda package: package.get_op_ids_in_path(*package.get_ssa(given), [], ["y"]),
    ):
        assert ask(ctrlgrad) == ask(core)
    model = core.Net(given)
    assert ctrlgrad.get_ssa(model) == core.get_ssa(model)


VIEWS = ["ssa", "input_usages", "frontier", "in_version_history", "out_version_history"]


def test_views_before_the_backward_pass(core, proto):
    operators = list(forward(proto).op)
    ours, theirs = ctrlgrad.IR(operators), core.IR(operators)
    for view in [*VIEWS, "gradient_frontier", "gradient_generators"]:
        assert as_plain(getattr(ours, view)) == as_plain(getattr(theirs, view)), view


def test_views_behind_the_backward_pass(core, proto):
    operators = list(forward(proto).op)
    ours, theirs = ctrlgrad.IR(operators), core.IR(operators)
    assert as_plain(ours.GetBackwardPass(["y"])[1]) == as_plain(theirs.GetBackwardPass(["y"])[1])
    for view in [*VIEWS, "gradient_frontier"]:
        assert as_plain(getattr(ours, view)) == as_plain(getattr(theirs, view)), view


def test_generators(core, proto):
    """Without an If: the order of its inputs is open, and its operators differ by it."""
    operators = list(forward(proto).op)[:-1]
    ours, theirs = ctrlgrad.IR(operators), core.IR(operators)
    ours.GetBackwardPass({"s": "g"})
    theirs.GetBackwardPass({"s": "g"})
    assert as_plain(ours.gradient_generators) == as_plain(theirs.gradient_generators)
    assert type(ours.gradient_generators["table"][0][0].gradient) is ctrlgrad.GradientSlice


def test_errors_are_caught_by_the_same_clauses(core, proto):
    questions = [
        ([op("StopGradient", "x", "y", proto)], ["y"]),
        ([op("NoSuchOperator", "x", "y", proto)], ["y"]),
        ([op("Relu", "x", "h", proto), op("Copy", "z", "h", proto)], ["h"]),
        (
            [
                op("Relu", "x", "h", proto),
                op("Relu", "h", "y", proto),
                op("Copy", "z", "y", proto),
            ],
            {"h": None, "y": None},
        ),
        ([op("Relu", "x", "y", proto)], "y"),
    ]
    for operators, ys in questions:
        try:
            core.GradientRegistry.GetBackwardPass(operators, ys)
        except Exception as error:
            with pytest.raises(type(error)):
                ctrlgrad.GradientRegistry.GetBackwardPass(operators, ys)
