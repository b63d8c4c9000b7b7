"""Message classes: which ones are taken, which ones come back, and how ours behave.

protobuf has traps where classes of two descriptor pools meet. Each has a test here.
"""

import copy
import pickle
import subprocess
import sys
import threading

import ctrlgrad
import google.protobuf
import pytest
from ctrlgrad import _core, _deep, _messages, caffe2_pb2
from ctrlgrad._schema import FILE
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import api_implementation
from nets import do_in_do, if_, mlp, net, op, types

PURE = api_implementation.Type() == "python"
VERSION = tuple(map(int, google.protobuf.__version__.split(".")[:2]))


class Stranger:
    """Classes with the Caffe2 schema from a pool that is neither ours nor the default one."""

    def __init__(self):
        self.pool, get_class = _messages.pool_of(FILE)
        for name in ("NetDef", "OperatorDef", "Argument"):
            setattr(self, name, get_class(self.pool.FindMessageTypeByName("caffe2." + name)))


@pytest.fixture(scope="module")
def stranger():
    return Stranger()


# ------------------------------------------------------- the answer has the class of the question


def test_operators_come_back_in_the_class_they_came_in(stranger):
    for proto in (caffe2_pb2, stranger):
        forward = mlp(proto)
        ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, ["loss"])
        assert {type(each) for each in ops} == {type(forward.op[0])}
        ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(list(forward.op), ["loss"])
        assert {type(each) for each in ops} == {type(forward.op[0])}
        assert {type(each) for each in ctrlgrad.backward(forward, ["loss"]).ops} == {
            type(forward.op[0])
        }
        ops, _ = ctrlgrad.GradientRegistry.GetGradientForOp(forward.op[1], ["g"])
        assert [type(each) for each in ops] == [type(forward.op[1])]
        ops, _ = ctrlgrad.gen_do_gradient(do_in_do(1, proto), ["g", None])
        assert {type(each) for each in ops} == {proto.OperatorDef}
        ops, _ = ctrlgrad.IR(forward.op).GetBackwardPass(["loss"])
        assert {type(each) for each in ops} == {type(forward.op[0])}


def test_answer_is_extended_into_the_callers_net(stranger):
    """protobuf 4.21 to 6.33 extends by empty messages, silently, if the classes differ."""
    for proto in (caffe2_pb2, stranger):
        forward = mlp(proto)
        count = len(forward.op)
        ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, ["loss"])
        forward.op.extend(ops)
        assert [each.type for each in forward.op[count:]] == [each.type for each in ops]
        assert all(each.type and each.output for each in forward.op)


def test_classes_of_two_pools_do_not_mix(stranger):
    """What makes the rule needed; should protobuf change, the rule can be looked at again."""
    ours, theirs = op("Relu", "x", "y"), op("Relu", "x", "y", stranger)
    assert not isinstance(theirs, caffe2_pb2.OperatorDef)
    assert ours != theirs
    with pytest.raises(TypeError):
        caffe2_pb2.OperatorDef().CopyFrom(theirs)
    assert caffe2_pb2.OperatorDef.FromString(theirs.SerializeToString()) == ours
    forward = net()
    try:
        forward.op.extend([theirs])
    except TypeError:
        return
    assert [each.type for each in forward.op] == [""]
    assert api_implementation.Type() == "upb"
    assert VERSION < (7, 36)


def test_answers_are_the_same_in_any_class(stranger):
    ours, theirs = mlp(), mlp(stranger)
    mine, my_grads = ctrlgrad.GradientRegistry.GetBackwardPass(ours.op, ["loss"])
    others, other_grads = ctrlgrad.GradientRegistry.GetBackwardPass(theirs.op, ["loss"])
    assert [a.SerializeToString() for a in mine] == [b.SerializeToString() for b in others]
    assert my_grads == other_grads
    assert ctrlgrad.get_ssa(ours) == ctrlgrad.get_ssa(theirs)


def test_operators_of_a_long_answer_hold_on_to_few_others():
    names = ["blob_%d" % at for at in range(5000)]
    forward = net(*(op("Relu", x, y) for x, y in zip(names, names[1:])))
    wires = _messages.all_to_bytes(list(forward.op))
    grads = {}
    pieces = _core.backward(wires, [(names[-1], None, False)], grads, None, None)
    assert b"".join(pieces) == ctrlgrad.backward_bytes(forward.SerializeToString(), names[-1:])[0]
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 1.1 * 2**16
    ops, found = ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, names[-1:])
    assert found == grads
    assert [made.output[0] for made in ops[1:]] == [name + "_grad" for name in names[-2::-1]]


def test_operators_come_back_as_if_each_were_alone():
    ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(mlp().op, ["loss"])
    alone = [caffe2_pb2.OperatorDef.FromString(made.SerializeToString()) for made in ops]
    assert ops == alone
    ops[0].type = "Changed"
    ops[1].arg.add(name="more").i = 3
    assert ops[2:] == alone[2:]
    kept = ops[1]
    del ops
    assert kept.arg[-1].i == 3
    gathered = caffe2_pb2.NetDef(op=[kept, *alone])
    kept.type = "Changed"
    assert gathered.op[0].type == alone[1].type
    assert pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept) == kept


def test_operators_of_a_subclass_free_container():
    forward = mlp()
    for operators in (forward.op, list(forward.op), tuple(forward.op), iter(list(forward.op))):
        ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(operators, ["loss"])
        assert len(ops) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ctrlgrad.backward(op("Relu", "x", "y"), ["y"]),
        lambda: ctrlgrad.backward("net", ["y"]),
        lambda: ctrlgrad.backward(None, ["y"]),
        lambda: ctrlgrad.backward(mlp().op, ["loss"]),
        lambda: ctrlgrad.backward(caffe2_pb2.NetDef, ["loss"]),
        lambda: ctrlgrad.backward_bytes(mlp(), ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass(mlp(), ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass(mlp().op[0], ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass(b"", ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass(None, ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass(["Relu"], ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetBackwardPass([mlp()], ["loss"]),
        lambda: ctrlgrad.GradientRegistry.GetGradientForOp(mlp(), ["g"]),
        lambda: ctrlgrad.GradientRegistry.GetGradientForOp(op("Relu", "x", "y"), "g"),
        lambda: ctrlgrad.GradientRegistry.GetGradientForOp(op("Relu", "x", "y"), None),
        lambda: ctrlgrad.gen_if_gradient(mlp(), ["g"]),
        lambda: ctrlgrad.IR(mlp()),
        lambda: ctrlgrad.get_ssa(op("Relu", "x", "y")),
        lambda: ctrlgrad.save(op("Relu", "x", "y"), "unused.pb"),
    ],
)
def test_anything_else_is_a_type_error(wrong):
    with pytest.raises(TypeError) as caught:
        wrong()
    assert isinstance(caught.value, ctrlgrad.UsageError)


def test_a_net_for_its_operators_is_told_apart():
    with pytest.raises(TypeError, match=r"net\.op"):
        ctrlgrad.GradientRegistry.GetBackwardPass(mlp(), ["loss"])


# ------------------------------------------------------------------------------ our own classes


def test_default_pool_never_hears_of_them():
    """google.protobuf.internal.builder would leak the file into it, under pure Python."""
    assert caffe2_pb2.NetDef().DESCRIPTOR.file.pool is not descriptor_pool.Default()
    _deep.parse(caffe2_pb2.NetDef, mlp().SerializeToString())
    code = """
import ctrlgrad
from ctrlgrad import _deep
_deep.parse(ctrlgrad.caffe2_pb2.NetDef, ctrlgrad.caffe2_pb2.NetDef(name="n").SerializeToString())
from google.protobuf import descriptor_pool
pool = descriptor_pool.Default()
for look in (pool.FindFileByName, pool.FindMessageTypeByName):
    for name in ("caffe2/proto/caffe2.proto", "caffe2.NetDef"):
        try:
            look(name)
            print("found", name)
        except KeyError:
            pass
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_file_of_the_same_name_may_be_in_the_default_pool(ours_first):
    """Caffe2's own file is one; whoever registers second in one pool loses."""
    code = (
        """
import ctrlgrad
from ctrlgrad._schema import FILE
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto.FromString(FILE)
file.message_type.add(name="OneMore")
if %r:
    ctrlgrad.caffe2_pb2.NetDef
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
ctrlgrad.caffe2_pb2.NetDef
descriptor_pool.Default().FindMessageTypeByName("caffe2.OneMore")
print(hasattr(ctrlgrad.caffe2_pb2, "OneMore"))
"""
        % ours_first
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


def test_pickle_copy_and_compare():
    """Classes out of a message factory do not pickle until their module and name lead to them."""
    segment = caffe2_pb2.TensorProto.Segment(begin=1, end=2)
    for message in (mlp(), mlp().op[0], caffe2_pb2.TensorProto(segment=segment), segment):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(message, protocol))
            assert again == message
            assert type(again) is type(message)
        assert copy.deepcopy(message) == message


def test_pickle_is_read_by_a_process_that_has_imported_nothing():
    data = pickle.dumps([mlp(), caffe2_pb2.TensorProto.Segment(begin=1, end=2)])
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[0].op[0].type)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.strip() == b"FC"


def test_module_offers_what_caffe2s_does():
    assert caffe2_pb2.TensorProto.FLOAT == 1
    assert caffe2_pb2.TensorProto.DataType.Name(10) == "INT64"
    assert caffe2_pb2.DeviceTypeProto.Value("PROTO_CUDA") == 1
    assert (caffe2_pb2.PROTO_CUDA, caffe2_pb2.CUDA, caffe2_pb2.CPU) == (1, 1, 0)
    assert caffe2_pb2.DESCRIPTOR.name == "caffe2/proto/caffe2.proto"
    assert {"NetDef", "OperatorDef", "Argument", "TensorProto", "PlanDef"} <= set(dir(caffe2_pb2))
    assert caffe2_pb2.NetDef.__module__ == "ctrlgrad.caffe2_pb2"
    assert caffe2_pb2.TensorProto.Segment.__qualname__ == "TensorProto.Segment"
    with pytest.raises(AttributeError, match="NoSuchName"):
        caffe2_pb2.NoSuchName  # noqa: B018
    with pytest.raises(ImportError):
        from ctrlgrad.caffe2_pb2 import NoSuchName  # noqa: F401


def test_classes_are_made_once_by_many_threads():
    code = """
import threading, ctrlgrad
start, found = threading.Barrier(8), []
def look():
    start.wait()
    found.append(ctrlgrad.caffe2_pb2.NetDef)
threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_answers_from_many_threads():
    forward = mlp()
    expected = ctrlgrad.backward(forward, ["loss"]).ops_bytes
    found = []

    def ask():
        for _ in range(20):
            found.append(ctrlgrad.backward(forward, ["loss"]).ops_bytes)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160
    assert set(found) == {expected}


def test_caffe2s_classes_are_the_default_once_it_is_imported(monkeypatch, stranger):
    assert _messages.default_class("NetDef") is caffe2_pb2.NetDef
    monkeypatch.setitem(sys.modules, "caffe2.proto.caffe2_pb2", stranger)
    data = mlp().SerializeToString()
    assert type(ctrlgrad.backward(data, ["loss"]).ops[0]) is stranger.OperatorDef


# ------------------------------------------------------------------------ what messages can hold


def test_unknown_fields_survive():
    unknown = b"\xca\x3e\x03abc"  # field 1001, three bytes
    given = op("Conv", "x w b", "y")
    given.arg.add(name="kernel", i=3).MergeFromString(unknown)
    ops, _ = ctrlgrad.GradientRegistry.GetGradientForOp(given, ["g"])
    assert unknown in ops[0].SerializeToString()


@pytest.mark.skipif(PURE, reason="protobuf in pure Python holds no names that are not UTF-8")
def test_names_that_are_not_utf8_in_messages():
    wire = b"\x12\x0d\x0a\x02x\xff\x12\x01y\x22\x04Relu"
    forward = caffe2_pb2.NetDef.FromString(wire)
    answer = ctrlgrad.backward(forward, ["y"])
    assert answer.grads["x\udcff"] == "x\udcff_grad"
    assert answer.grads[ctrlgrad.BlobReference(b"x\xff")] == b"x\xff_grad"
    assert _bytes(answer.ops[-1].output[0]) == b"x\xff_grad"
    ssa = ctrlgrad.IR(forward.op).ssa
    assert ssa[0].in_versions == {"x\udcff": 0}


def _bytes(name):
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")


@pytest.mark.skipif(not PURE, reason="compiled protobuf holds names that are not UTF-8")
def test_names_that_are_not_utf8_are_refused_by_name():
    wire = b"\x12\x0d\x0a\x02x\xff\x12\x01y\x22\x04Relu"
    answer = ctrlgrad.backward(wire, ["y"])
    with pytest.raises(ctrlgrad.ArgumentError, match="UTF-8"):
        answer.ops  # noqa: B018


def test_names_that_are_not_utf8_in_bytes():
    wire = b"\x12\x0d\x0a\x02x\xff\x12\x01y\x22\x04Relu"
    for ys in (["y"], [b"y"], {b"y": None}):
        ops, grads = ctrlgrad.backward_bytes(wire, ys)
        assert grads["x\udcff"] == "x\udcff_grad"
        assert b"x\xff_grad" in ops
    ops, grads = ctrlgrad.backward_bytes(wire, {"y": b"g\xff"})
    assert grads["y"] == "g\udcff"
    assert b"g\xff" in ops
    with pytest.raises(ctrlgrad.ArgumentError):
        ctrlgrad.backward_bytes(wire, {"y": "\ud800"})


DEPTHS = [1, 33, 34, 60] if PURE else [1, 33, 34, 60, 198]


@pytest.mark.parametrize("depth", DEPTHS)
def test_nets_deeper_than_protobuf_parses(depth):
    """33 is what protobuf parses. Caffe2, in memory, answers Do in Do to 198."""
    given = do_in_do(depth)
    ops, g_input = ctrlgrad.gen_do_gradient(given, ["g", None])
    assert g_input == ["x_grad"]
    levels = 0
    [inner] = ops
    while inner.type == "Do":
        [body] = [arg.n for arg in inner.arg if arg.name == "net"]
        inner = body.op[0]
        levels += 1
    assert levels == depth
    assert inner.type == "ReluGradient"
    ops, grads = ctrlgrad.GradientRegistry.GetBackwardPass([given], {"y": "g"})
    assert grads["x"] == "x_grad"
    assert len(ops) == 1
    whole = net()
    do_in_do(depth, into=whole.op.add())
    assert types(ctrlgrad.backward(whole, ["y"]).ops) == ["ConstantFill", "Do"]


def test_parts_put_together_are_the_whole():
    """The way for deep nets gives what protobuf itself gives where both can."""
    given = mlp()
    arg = given.op[0].arg.add(name="nets")
    arg.nets.add(name="one").op.add(type="Relu").arg.add(name="n").n.name = "inner"
    arg.nets.add(name="two")
    arg.n.SetInParent()
    given.arg.add(name="of the net").n.name = "argument"
    wire = given.SerializeToString() + b"\xca\x3e\x03abc"
    # A field that is not repeated, twice: protobuf merges the two.
    inner = caffe2_pb2.NetDef(op=[op("A", n=net(op("B")))]).SerializeToString()
    other = caffe2_pb2.NetDef(name="other", op=[op("C")]).SerializeToString()
    twice = field(6, field(1, b"n") + field(8, inner) + field(8, other))
    for data in (wire, twice):
        expected = caffe2_pb2.NetDef.FromString(data)
        found = _deep.parse(caffe2_pb2.NetDef, data)
        assert found.SerializeToString() == expected.SerializeToString()


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def test_garbage_is_refused():
    for data in (b"\x0a", b"\x0a\x7f", b"\x12\x02\x22"):
        with pytest.raises(ctrlgrad.MalformedError) as caught:
            _messages.from_bytes(caffe2_pb2.NetDef, data)
        assert isinstance(caught.value, ValueError)


def partition(forward):
    forward.partition_info.add()


def quantized(forward):
    forward.op[0].arg.add(name="t").qtensors.add(precision=8, scale=1.0, bias=0.0)


def quantized_behind_a_lot(forward):
    quantized(forward)
    forward.op[0].arg[0].floats.extend([1.0] * 5000)


def segment(forward):
    forward.op[0].arg.add(name="t").t.segment.begin = 1


def segments(forward):
    forward.arg.add(name="t").tensors.add().segment.begin = 1


@pytest.mark.parametrize("lacks", [partition, quantized, quantized_behind_a_lot, segment, segments])
@pytest.mark.parametrize("inside", [False, True])
def test_required_fields_are_asked_for(lacks, inside):
    inner = net(op("Relu", "x", "y"))
    forward = net(if_("c", "x", "y", inner)) if inside else inner
    # Some protobufs copy no message that lacks a field: it is made to lack it where it is.
    lacks(forward.op[0].arg[0].n if inside else forward)
    with pytest.raises(ctrlgrad.MalformedError, match="missing required fields"):
        ctrlgrad.backward(forward, ["y"])
    if inside or lacks not in (partition, segments):
        for ask in (ctrlgrad.IR, lambda ops: ctrlgrad.GradientRegistry.GetBackwardPass(ops, ["y"])):
            with pytest.raises(ctrlgrad.MalformedError, match="missing required fields"):
                ask([op("Relu", "u", "x"), *forward.op])


def test_tensors_that_lack_nothing_are_taken():
    forward = net(op("Relu", "x", "y"))
    segment(forward)
    forward.op[0].arg[0].t.segment.end = 2
    ops, _ = ctrlgrad.GradientRegistry.GetBackwardPass(forward.op, ["y"])
    assert ops[1].arg[0] == forward.op[0].arg[0]


def test_schema_is_the_one_of_the_classes():
    file = descriptor_pb2.FileDescriptorProto.FromString(FILE)
    assert (file.name, file.package) == ("caffe2/proto/caffe2.proto", "caffe2")
    assert len(file.message_type) == 21
