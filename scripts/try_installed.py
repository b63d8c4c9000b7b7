"""Tries an installed ctrlgrad from outside its sources: `python try_installed.py`."""

import importlib.metadata
import pathlib
import sys
import tempfile

import ctrlgrad


def main():
    folder = pathlib.Path(ctrlgrad.__file__).resolve().parent
    assert "site-packages" in folder.parts, folder
    assert not [name for name in sys.modules if name.startswith(("google.protobuf", "numpy"))]

    net = b"\x12\x0c\x0a\x01x\x12\x01y\x22\x04Relu"
    ops, grads = ctrlgrad.backward_bytes(net, ["y"])
    assert grads == {"y": "y_autogen_grad", "x": "x_grad"}, grads
    answer = ctrlgrad.backward(ctrlgrad.caffe2_pb2.NetDef.FromString(net), ["y"])
    assert [op.type for op in answer.ops] == ["ConstantFill", "ReluGradient"]
    assert answer.ops_bytes == ops
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "net.pbtxt"
        ctrlgrad.save(ops, path)
        assert list(ctrlgrad.load(path).op) == answer.ops
    try:
        ctrlgrad.backward_bytes(net, ["z"])
    except ctrlgrad.UnknownBlobError:
        pass
    else:
        raise AssertionError("an unknown target was taken")

    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()
    about = importlib.metadata.metadata("ctrlgrad")
    assert about["Version"] == ctrlgrad.__version__
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE"]
    assert "protobuf>=3.20" in about.get_all("Requires-Dist")
    assert len(about.get_all("Classifier")) > 5 and len(about.get_all("Project-URL")) >= 4
    print("ctrlgrad %s works on Python %s" % (ctrlgrad.__version__, sys.version.split()[0]))


if __name__ == "__main__":
    main()
