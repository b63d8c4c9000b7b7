"""Two backward passes: of a real recommendation model, and of a net with an If and a Do.

    make demo

The first net is DLRM, the open deep-learning recommendation model, as its own Caffe2 benchmark
builds it for the Criteo data set: 26 embedding tables that are looked up, two stacks of fully
connected layers, and the dot products between them. It was saved before gradients were added.
It lies in tests/golden/models with what Caffe2 itself answers for it.

The second net is built here: a regression whose hidden layer runs only if the blob `deep` says so.
"""

import collections
import gzip
import pathlib
import statistics
import time

import ctrlgrad
from ctrlgrad import GradientSlice, caffe2_pb2

MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"


def recommendation_model():
    with gzip.open(MODELS / "dlrm_dot.pb.gz") as file:
        return caffe2_pb2.NetDef.FromString(file.read())


def operator(op_type, inputs, outputs, **nets):
    op = caffe2_pb2.OperatorDef(type=op_type, input=inputs.split(), output=outputs.split())
    for name, net in nets.items():
        op.arg.add(name=name).n.CopyFrom(net)
    return op


def scoped(inputs, outputs, workspace, body):
    """A Do: runs `body` in a workspace of its own, where outer blobs keep their names."""
    do = operator("Do", inputs + " " + workspace, outputs + " " + workspace, net=body)
    names = (inputs + " " + outputs).split()
    do.arg.add(name="inner_blobs", strings=[name.encode() for name in names])
    do.arg.add(name="outer_blobs_idx", ints=range(len(names)))
    return do


def conditional_model():
    deep = caffe2_pb2.NetDef(name="deep")
    deep.op.append(operator("FC", "x w1 b1", "hidden"))
    deep.op.append(operator("Relu", "hidden", "active"))
    deep.op.append(operator("FC", "active w2 b2", "prediction"))
    branch = caffe2_pb2.NetDef(name="then")
    branch.op.append(scoped("x w1 b1 w2 b2", "prediction", "then_workspace", deep))
    shallow = caffe2_pb2.NetDef(name="else")
    shallow.op.append(operator("FC", "x w3 b3", "prediction"))

    net = caffe2_pb2.NetDef(name="regression")
    net.op.append(operator("CreateScope", "", "then_workspace"))
    net.op.append(
        operator(
            "If",
            "deep x w1 b1 w2 b2 w3 b3 then_workspace",
            "prediction then_workspace",
            then_net=branch,
            else_net=shallow,
        )
    )
    net.op.append(operator("SquaredL2Distance", "prediction truth", "distance"))
    net.op.append(operator("AveragedLoss", "distance", "loss"))
    return net


def lines_of(op, indent=4):
    """An operator and, further in, the operators of its nets."""
    lines = ["%s%s: %s -> %s" % (" " * indent, op.type, _few(op.input), _few(op.output))]
    for arg in op.arg:
        if arg.HasField("n"):
            lines.append("%s%s" % (" " * (indent + 2), arg.name))
            for inner in arg.n.op:
                lines += lines_of(inner, indent + 4)
    return lines


def _few(names, most=6):
    names = list(names)
    more = ["... %d more" % (len(names) - most)] if len(names) > most else []
    return " ".join(names[:most] + more) or "()"


def show(title, net, first):
    times = []
    for _ in range(20):
        start = time.perf_counter()
        answer = ctrlgrad.backward(net, ["loss"])
        times.append(time.perf_counter() - start)
    sparse = [blob for blob, found in answer.grads.items() if isinstance(found, GradientSlice)]

    print("\n" + title)
    print("  operators in: %d  (%s)" % (len(net.op), _types(net.op)))
    print("  gradient operators: %d  (%s)" % (len(answer.ops), _types(answer.ops)))
    print("  time: %.2f ms" % (statistics.median(times) * 1000))
    print("  the first gradient operators:")
    for op in answer.ops[:first]:
        print("\n".join(lines_of(op)))
    print("  gradients: of %d blobs, %d of them sparse" % (len(answer.grads), len(sparse)))
    given = {name for op in net.op for name in op.output}
    parameters = [blob for blob in answer.grads if blob not in given]
    for blob in sparse[:3] + [blob for blob in parameters if blob not in sparse][:6]:
        found = answer.grads[blob]
        if isinstance(found, GradientSlice):
            print("    %s: rows %s of values %s" % (blob, found.indices, found.values))
        else:
            print("    %s: %s" % (blob, found))


def _types(ops, most=5):
    counts = collections.Counter(op.type for op in ops).most_common()
    more = ", ..." if len(counts) > most else ""
    return ", ".join("%d %s" % (count, name) for name, count in counts[:most]) + more


def main():
    print("ctrlgrad %s" % ctrlgrad.__version__)
    show("DLRM, a recommendation model", recommendation_model(), 5)
    show("A net with an If, and a Do in one of its branches", conditional_model(), 4)


if __name__ == "__main__":
    main()
