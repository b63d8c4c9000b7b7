"""Generates the backward pass of Caffe2 nets, without Caffe2.

    import ctrlgrad
    net = ctrlgrad.load("net.pb")
    answer = ctrlgrad.backward(net, ["loss"])
    net.op.extend(answer.ops)
    answer.grads["weights"]

The names of Caffe2's own interface (`GradientRegistry`, `IR`, `gen_do_gradient`, ...) are
here as well. Importing the package imports neither protobuf nor Caffe2 nor numpy.
"""

from . import caffe2_pb2
from ._core import DEPTH_LIMIT, __version__
from ._gradient_map import GradientMap
from .blobs import BlobReference, GradientSlice
from .caffe2 import install, installed, uninstall
from .control import gen_do_gradient, gen_if_gradient, gen_while_gradient
from .errors import (
    ArgumentError,
    BindingsError,
    ConflictError,
    ControlFlowError,
    CtrlgradError,
    DeviceError,
    ForbiddenError,
    GradientCountError,
    InexpressibleError,
    InternalError,
    MalformedError,
    MissingPackageError,
    MixedGradientsError,
    NoGradientError,
    OrphanError,
    OverwriteError,
    RefusedError,
    SchemaError,
    ScopeError,
    SparseDeviceError,
    TooDeepError,
    UnimplementedError,
    UnknownBlobError,
    UsageError,
    VersionError,
)
from .files import load, save
from .gradients import BackwardPass, GradientRegistry, backward, backward_bytes
from .ir import IR, get_op_ids_in_path, get_output_producers, get_ssa, get_undefined_blobs
from .support import build_info, has_gradient, supported_operators

__all__ = [
    "DEPTH_LIMIT",
    "IR",
    "ArgumentError",
    "BackwardPass",
    "BindingsError",
    "BlobReference",
    "ConflictError",
    "ControlFlowError",
    "CtrlgradError",
    "DeviceError",
    "ForbiddenError",
    "GradientCountError",
    "GradientMap",
    "GradientRegistry",
    "GradientSlice",
    "InexpressibleError",
    "InternalError",
    "MalformedError",
    "MissingPackageError",
    "MixedGradientsError",
    "NoGradientError",
    "OrphanError",
    "OverwriteError",
    "RefusedError",
    "SchemaError",
    "ScopeError",
    "SparseDeviceError",
    "TooDeepError",
    "UnimplementedError",
    "UnknownBlobError",
    "UsageError",
    "VersionError",
    "__version__",
    "backward",
    "backward_bytes",
    "build_info",
    "caffe2_pb2",
    "gen_do_gradient",
    "gen_if_gradient",
    "gen_while_gradient",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_ssa",
    "get_undefined_blobs",
    "has_gradient",
    "install",
    "installed",
    "load",
    "save",
    "supported_operators",
    "uninstall",
]
