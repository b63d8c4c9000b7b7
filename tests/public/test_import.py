"""What importing the package does, and what it does not."""

import ast
import os
import pathlib
import subprocess
import sys

import ctrlgrad
import pytest

SUPPORT = str(pathlib.Path(__file__).resolve().parent.parent / "support")

# A NetDef with one operator, Relu from x to y.
NET = r"""
NET = b"\x12\x0c\x0a\x01x\x12\x01y\x22\x04Relu"
"""

NO_PROTOBUF = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "google.protobuf" or name.startswith("google.protobuf."):
            raise ModuleNotFoundError("No module named %r" % name)
sys.meta_path.insert(0, Blocker())
import ctrlgrad
"""


def run(code, **environment):
    """The lines that a Python process of its own prints; warnings are errors in it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_import_brings_no_other_package():
    code = """
import sys
before = set(sys.modules)
import ctrlgrad
ctrlgrad.caffe2_pb2
for name in sorted(set(sys.modules) - before):
    if name.split(".")[0] in ("google", "caffe2", "numpy", "torch", "typing_extensions"):
        print(name)
"""
    assert run(code) == []


def test_all_is_literal_and_complete():
    source = pathlib.Path(ctrlgrad.__file__).read_text(encoding="utf-8")
    [names] = [
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
    ]
    assert names == ctrlgrad.__all__
    assert len(names) == len(set(names))
    public = {
        name
        for name, value in vars(ctrlgrad).items()
        if not name.startswith("_") and type(value).__name__ != "module"
    }
    assert set(names) == public | {"__version__", "caffe2_pb2"}


def test_every_error_is_public():
    from ctrlgrad import errors

    assert set(errors.__all__) <= set(ctrlgrad.__all__)


def test_bytes_need_no_protobuf():
    code = """
ops, grads = ctrlgrad.backward_bytes(NET, ["y"])
print(grads)
print(type(ops).__name__, b"ReluGradient" in ops)
answer = ctrlgrad.backward(NET, ["y"])
print(answer.ops_bytes == ops, answer.grads["x"])
"""
    assert run(NO_PROTOBUF + NET + code) == [
        "{'y': 'y_autogen_grad', 'x': 'x_grad'}",
        "bytes True",
        "True x_grad",
    ]


@pytest.mark.parametrize(
    "call",
    [
        "ctrlgrad.caffe2_pb2.NetDef",
        "ctrlgrad.backward(NET, ['y']).ops",
        "ctrlgrad.load(PATH + '.pb')",
        "ctrlgrad.load(PATH + '.pbtxt')",
        "ctrlgrad.save(NET, PATH + '.pbtxt')",
        "ctrlgrad.GradientRegistry.GetBackwardPass([], ['y'])",
    ],
)
def test_what_needs_protobuf_says_so(call, tmp_path):
    code = f"""
PATH = {str(tmp_path / "net")!r}
ctrlgrad.save(NET, PATH + ".pb")
with open(PATH + ".pbtxt", "w") as file:
    print("name: 'net'", file=file)
try:
    {call}
except ctrlgrad.MissingPackageError as error:
    assert isinstance(error, ImportError)
    assert "pip install protobuf" in str(error)
    print("refused")
"""
    assert run(NO_PROTOBUF + NET + code) == ["refused"]


def test_lazy_module_answers_what_any_module_is_asked():
    code = """
import ctrlgrad.caffe2_pb2 as pb, inspect
print(hasattr(pb, "__path__"), hasattr(pb, "__wrapped__"), inspect.getmodule(pb).__name__)
"""
    assert run(NO_PROTOBUF + code) == ["False False ctrlgrad.caffe2_pb2"]


def test_version_and_build():
    assert ctrlgrad.__version__.count(".") == 2
    info = ctrlgrad.build_info()
    assert info
    assert all(isinstance(word, str) for pair in info.items() for word in pair)
    assert ctrlgrad.DEPTH_LIMIT >= 33


def test_same_bytes_in_every_process():
    code = f"""
import sys
sys.path.insert(0, {SUPPORT!r})
import ctrlgrad, hashlib
from nets import if_, net, op
given = net(
    op("FC", "x w b", "h"), op("FC", "x w b", "i"), op("Sum", "h i x", "s"),
    if_("c", "s h", "o", net(op("Add", "s h", "o")), net(op("Mul", "s h", "o"))))
ops, grads = ctrlgrad.backward_bytes(given.SerializeToString(), ["o"])
print(hashlib.sha256(ops + repr(grads).encode()).hexdigest())
"""
    assert len({tuple(run(code, PYTHONHASHSEED=seed)) for seed in ("0", "1", "4711")}) == 1
