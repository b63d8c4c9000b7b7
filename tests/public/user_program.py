"""A user's program, with every name of the package. It must pass `mypy --strict`, and run."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import ctrlgrad
from ctrlgrad import (
    DEPTH_LIMIT,
    IR,
    BackwardPass,
    BlobReference,
    CtrlgradError,
    GradientMap,
    GradientRegistry,
    GradientSlice,
    MissingPackageError,
    UnknownBlobError,
    backward,
    backward_bytes,
    build_info,
    caffe2_pb2,
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
    get_op_ids_in_path,
    get_output_producers,
    get_ssa,
    get_undefined_blobs,
    has_gradient,
    install,
    installed,
    load,
    save,
    supported_operators,
    uninstall,
)


def build() -> caffe2_pb2.NetDef:
    net = caffe2_pb2.NetDef(name="net")
    op = net.op.add(type="FC", input=["x", "w", "b"], output=["h"])
    op.arg.add(name="axis", i=1)
    op.device_option.device_type = caffe2_pb2.CPU
    net.op.append(caffe2_pb2.OperatorDef(type="Relu", input=["h"], output=["y"]))
    net.op.add(type="Mine", input=["y"], output=["z"])
    return net


@GradientRegistry.RegisterGradient("Mine")
def mine(
    op: caffe2_pb2.OperatorDef, g_output: list[str | GradientSlice | None]
) -> tuple[caffe2_pb2.OperatorDef, list[str]]:
    made = caffe2_pb2.OperatorDef(type="MineGradient", input=[str(g_output[0])])
    made.output.append(op.input[0] + "_grad")
    return made, [op.input[0] + "_grad"]


def describe(grads: GradientMap) -> list[str]:
    lines = []
    for blob, gradient in grads.items():
        if isinstance(gradient, GradientSlice):
            lines.append(f"{blob}: rows {gradient.indices} of {gradient.values}")
        else:
            lines.append(f"{blob}: {gradient}")
    return lines


def main() -> None:
    net = build()
    answer: BackwardPass = backward(net, ["z"], no_grad=["b"], wrt=["w", BlobReference("x")])
    net.op.extend(answer.ops)
    print(describe(answer.grads), len(answer.ops_bytes), answer.grads["w"])

    data, grads = backward_bytes(build().SerializeToString(), {"z": None})
    print(len(data), grads["w"])

    ops, found = GradientRegistry.GetBackwardPass(build().op, {BlobReference("z"): "g"})
    print(ops[0].type, found["x"], found[BlobReference("x")])
    one, g_input = GradientRegistry.GetGradientForOp(build().op[1], ["g"])
    print(one[0].output[0], g_input[0])

    ir = IR(build().op)
    ir.GetBackwardPass(["z"])
    print(ir.ssa[0].in_versions["x"], ir.input_usages["h"][0], ir.frontier["y"])
    print(ir.gradient_frontier["x"], ir.in_version_history["h"], ir.out_version_history["h"])
    print([entry.gradient for entry in ir.gradient_generators["h"][0]])

    ssa, versions = get_ssa(build())
    print(get_undefined_blobs(ssa), get_output_producers(ssa)[("h", 1)])
    print(get_op_ids_in_path(ssa, versions, ["h"], ["z"]))

    for generate in (gen_do_gradient, gen_if_gradient, gen_while_gradient):
        try:
            generate(caffe2_pb2.OperatorDef(type="Relu"), [])
        except CtrlgradError as error:
            print(error.path, error.op_index, error.op_type, error.blob, error.versions, error.hint)
    try:
        backward(build(), ["q"])
    except UnknownBlobError as error:
        print(error)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.pbtxt"
        save(net, path)
        save(data, str(path.with_suffix(".pb")))
        print(load(path).op[0].type, load(str(path.with_suffix(".pb"))).name)

    print(has_gradient("Relu"), supported_operators()["FC"], DEPTH_LIMIT)
    print(ctrlgrad.__version__, build_info())
    try:
        with installed():
            install()
        uninstall()
    except MissingPackageError as error:
        print(error)
    anything: Any = ctrlgrad.BlobReference("x", net).Net()
    print(anything is net, GradientSlice("i", "v").indices, BlobReference("x") + "_y")
    tensor = caffe2_pb2.TensorProto(dims=[1], data_type=caffe2_pb2.TensorProto.FLOAT)
    print(caffe2_pb2.TensorProto.DataType.Name(tensor.data_type), tensor.dims[0])


if __name__ == "__main__":
    main()
