"""Types of the message classes. Made by scripts/make_schema.py."""

from collections.abc import Iterable
from typing import ClassVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

DeviceTypeProto: EnumTypeWrapper
PROTO_CPU: int
CPU: int
PROTO_CUDA: int
CUDA: int
PROTO_MKLDNN: int
MKLDNN: int
PROTO_OPENGL: int
OPENGL: int
PROTO_OPENCL: int
OPENCL: int
PROTO_IDEEP: int
IDEEP: int
PROTO_HIP: int
HIP: int
PROTO_FPGA: int
FPGA: int
PROTO_ORT: int
ORT: int
PROTO_XLA: int
XLA: int
PROTO_MLC: int
MLC: int
PROTO_COMPILE_TIME_MAX_DEVICE_TYPES: int
COMPILE_TIME_MAX_DEVICE_TYPES: int

class TensorProto(Message):
    DataType: ClassVar[EnumTypeWrapper]
    UNDEFINED: ClassVar[int]
    FLOAT: ClassVar[int]
    INT32: ClassVar[int]
    BYTE: ClassVar[int]
    STRING: ClassVar[int]
    BOOL: ClassVar[int]
    UINT8: ClassVar[int]
    INT8: ClassVar[int]
    UINT16: ClassVar[int]
    INT16: ClassVar[int]
    INT64: ClassVar[int]
    FLOAT16: ClassVar[int]
    DOUBLE: ClassVar[int]
    ZERO_COLLISION_HASH: ClassVar[int]
    REBATCHING_BUFFER: ClassVar[int]
    SerializationFormat: ClassVar[EnumTypeWrapper]
    FMT_PROTOBUF: ClassVar[int]
    FMT_BFLOAT16: ClassVar[int]

    class Segment(Message):
        begin: int
        end: int
        def __init__(
            self,
            *,
            begin: int | None = ...,
            end: int | None = ...,
        ) -> None: ...

    @property
    def dims(self) -> RepeatedScalarFieldContainer[int]: ...
    data_type: int
    data_format: int
    @property
    def float_data(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def int32_data(self) -> RepeatedScalarFieldContainer[int]: ...
    byte_data: bytes
    @property
    def string_data(self) -> RepeatedScalarFieldContainer[bytes]: ...
    @property
    def double_data(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def int64_data(self) -> RepeatedScalarFieldContainer[int]: ...
    raw_data: bytes
    name: str
    @property
    def device_detail(self) -> DeviceOption: ...
    @property
    def segment(self) -> TensorProto.Segment: ...
    def __init__(
        self,
        *,
        dims: Iterable[int] | None = ...,
        data_type: int | None = ...,
        data_format: int | None = ...,
        float_data: Iterable[float] | None = ...,
        int32_data: Iterable[int] | None = ...,
        byte_data: bytes | None = ...,
        string_data: Iterable[bytes] | None = ...,
        double_data: Iterable[float] | None = ...,
        int64_data: Iterable[int] | None = ...,
        raw_data: bytes | None = ...,
        name: str | None = ...,
        device_detail: DeviceOption | None = ...,
        segment: TensorProto.Segment | None = ...,
    ) -> None: ...

class QTensorProto(Message):
    @property
    def dims(self) -> RepeatedScalarFieldContainer[int]: ...
    precision: int
    scale: float
    bias: float
    is_signed: bool
    @property
    def data(self) -> RepeatedScalarFieldContainer[int]: ...
    name: str
    data_type: int
    @property
    def scales(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def biases(self) -> RepeatedScalarFieldContainer[float]: ...
    axis: int
    is_multiparam: bool
    def __init__(
        self,
        *,
        dims: Iterable[int] | None = ...,
        precision: int | None = ...,
        scale: float | None = ...,
        bias: float | None = ...,
        is_signed: bool | None = ...,
        data: Iterable[int] | None = ...,
        name: str | None = ...,
        data_type: int | None = ...,
        scales: Iterable[float] | None = ...,
        biases: Iterable[float] | None = ...,
        axis: int | None = ...,
        is_multiparam: bool | None = ...,
    ) -> None: ...

class TensorProtos(Message):
    @property
    def protos(self) -> RepeatedCompositeFieldContainer[TensorProto]: ...
    def __init__(
        self,
        *,
        protos: Iterable[TensorProto] | None = ...,
    ) -> None: ...

class TensorShape(Message):
    @property
    def dims(self) -> RepeatedScalarFieldContainer[int]: ...
    data_type: int
    @property
    def unknown_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    unknown_shape: bool
    name: str
    def __init__(
        self,
        *,
        dims: Iterable[int] | None = ...,
        data_type: int | None = ...,
        unknown_dims: Iterable[int] | None = ...,
        unknown_shape: bool | None = ...,
        name: str | None = ...,
    ) -> None: ...

class TensorShapes(Message):
    @property
    def shapes(self) -> RepeatedCompositeFieldContainer[TensorShape]: ...
    def __init__(
        self,
        *,
        shapes: Iterable[TensorShape] | None = ...,
    ) -> None: ...

class TensorBoundShape(Message):
    DimType: ClassVar[EnumTypeWrapper]
    UNKNOWN: ClassVar[int]
    CONSTANT: ClassVar[int]
    BATCH: ClassVar[int]
    BATCH_OF_FEATURE_MAX: ClassVar[int]
    BATCH_OF_FEATURE_MAX_DEFAULT: ClassVar[int]
    FEATURE_MAX: ClassVar[int]
    FEATURE_MAX_DEFAULT: ClassVar[int]
    @property
    def shape(self) -> TensorShape: ...
    @property
    def dim_type(self) -> RepeatedScalarFieldContainer[int]: ...
    name: str
    shape_is_final: bool
    def __init__(
        self,
        *,
        shape: TensorShape | None = ...,
        dim_type: Iterable[int] | None = ...,
        name: str | None = ...,
        shape_is_final: bool | None = ...,
    ) -> None: ...

class TensorBoundShapes(Message):
    @property
    def shapes(self) -> RepeatedCompositeFieldContainer[TensorBoundShape]: ...
    max_batch_size: int
    max_feature_len: int
    def __init__(
        self,
        *,
        shapes: Iterable[TensorBoundShape] | None = ...,
        max_batch_size: int | None = ...,
        max_feature_len: int | None = ...,
    ) -> None: ...

class AOTConfig(Message):
    max_batch_size: int
    max_seq_size: int
    in_batch_broadcast: bool
    onnxifi_blacklist_ops: str
    onnxifi_min_ops: int
    def __init__(
        self,
        *,
        max_batch_size: int | None = ...,
        max_seq_size: int | None = ...,
        in_batch_broadcast: bool | None = ...,
        onnxifi_blacklist_ops: str | None = ...,
        onnxifi_min_ops: int | None = ...,
    ) -> None: ...

class Argument(Message):
    name: str
    f: float
    i: int
    s: bytes
    @property
    def t(self) -> TensorProto: ...
    @property
    def n(self) -> NetDef: ...
    @property
    def floats(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def ints(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def strings(self) -> RepeatedScalarFieldContainer[bytes]: ...
    @property
    def tensors(self) -> RepeatedCompositeFieldContainer[TensorProto]: ...
    @property
    def nets(self) -> RepeatedCompositeFieldContainer[NetDef]: ...
    @property
    def qtensors(self) -> RepeatedCompositeFieldContainer[QTensorProto]: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        f: float | None = ...,
        i: int | None = ...,
        s: bytes | None = ...,
        t: TensorProto | None = ...,
        n: NetDef | None = ...,
        floats: Iterable[float] | None = ...,
        ints: Iterable[int] | None = ...,
        strings: Iterable[bytes] | None = ...,
        tensors: Iterable[TensorProto] | None = ...,
        nets: Iterable[NetDef] | None = ...,
        qtensors: Iterable[QTensorProto] | None = ...,
    ) -> None: ...

class DeviceOption(Message):
    device_type: int
    device_id: int
    random_seed: int
    node_name: str
    numa_node_id: int
    @property
    def extra_info(self) -> RepeatedScalarFieldContainer[str]: ...
    def __init__(
        self,
        *,
        device_type: int | None = ...,
        device_id: int | None = ...,
        random_seed: int | None = ...,
        node_name: str | None = ...,
        numa_node_id: int | None = ...,
        extra_info: Iterable[str] | None = ...,
    ) -> None: ...

class OperatorDef(Message):
    @property
    def input(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def output(self) -> RepeatedScalarFieldContainer[str]: ...
    name: str
    type: str
    @property
    def arg(self) -> RepeatedCompositeFieldContainer[Argument]: ...
    @property
    def device_option(self) -> DeviceOption: ...
    engine: str
    @property
    def control_input(self) -> RepeatedScalarFieldContainer[str]: ...
    is_gradient_op: bool
    debug_info: str
    domain: str
    op_version: int
    def __init__(
        self,
        *,
        input: Iterable[str] | None = ...,
        output: Iterable[str] | None = ...,
        name: str | None = ...,
        type: str | None = ...,
        arg: Iterable[Argument] | None = ...,
        device_option: DeviceOption | None = ...,
        engine: str | None = ...,
        control_input: Iterable[str] | None = ...,
        is_gradient_op: bool | None = ...,
        debug_info: str | None = ...,
        domain: str | None = ...,
        op_version: int | None = ...,
    ) -> None: ...

class MapFieldEntry(Message):
    key: str
    val: str
    def __init__(
        self,
        *,
        key: str | None = ...,
        val: str | None = ...,
    ) -> None: ...

class BackendOptions(Message):
    backend_name: str
    @property
    def option(self) -> RepeatedCompositeFieldContainer[MapFieldEntry]: ...
    def __init__(
        self,
        *,
        backend_name: str | None = ...,
        option: Iterable[MapFieldEntry] | None = ...,
    ) -> None: ...

class PartitionInfo(Message):
    name: str
    @property
    def device_id(self) -> RepeatedScalarFieldContainer[int]: ...
    extra_info: str
    @property
    def backend_options(self) -> RepeatedCompositeFieldContainer[BackendOptions]: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        device_id: Iterable[int] | None = ...,
        extra_info: str | None = ...,
        backend_options: Iterable[BackendOptions] | None = ...,
    ) -> None: ...

class NetDef(Message):
    name: str
    @property
    def op(self) -> RepeatedCompositeFieldContainer[OperatorDef]: ...
    type: str
    num_workers: int
    @property
    def device_option(self) -> DeviceOption: ...
    @property
    def arg(self) -> RepeatedCompositeFieldContainer[Argument]: ...
    @property
    def external_input(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def external_output(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def partition_info(self) -> RepeatedCompositeFieldContainer[PartitionInfo]: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        op: Iterable[OperatorDef] | None = ...,
        type: str | None = ...,
        num_workers: int | None = ...,
        device_option: DeviceOption | None = ...,
        arg: Iterable[Argument] | None = ...,
        external_input: Iterable[str] | None = ...,
        external_output: Iterable[str] | None = ...,
        partition_info: Iterable[PartitionInfo] | None = ...,
    ) -> None: ...

class ExecutionStep(Message):
    name: str
    @property
    def substep(self) -> RepeatedCompositeFieldContainer[ExecutionStep]: ...
    @property
    def network(self) -> RepeatedScalarFieldContainer[str]: ...
    num_iter: int
    criteria_network: str
    report_net: str
    report_interval: int
    run_every_ms: int
    concurrent_substeps: bool
    should_stop_blob: str
    only_once: bool
    create_workspace: bool
    num_concurrent_instances: int
    def __init__(
        self,
        *,
        name: str | None = ...,
        substep: Iterable[ExecutionStep] | None = ...,
        network: Iterable[str] | None = ...,
        num_iter: int | None = ...,
        criteria_network: str | None = ...,
        report_net: str | None = ...,
        report_interval: int | None = ...,
        run_every_ms: int | None = ...,
        concurrent_substeps: bool | None = ...,
        should_stop_blob: str | None = ...,
        only_once: bool | None = ...,
        create_workspace: bool | None = ...,
        num_concurrent_instances: int | None = ...,
    ) -> None: ...

class PlanDef(Message):
    name: str
    @property
    def network(self) -> RepeatedCompositeFieldContainer[NetDef]: ...
    @property
    def execution_step(self) -> RepeatedCompositeFieldContainer[ExecutionStep]: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        network: Iterable[NetDef] | None = ...,
        execution_step: Iterable[ExecutionStep] | None = ...,
    ) -> None: ...

class BlobProto(Message):
    name: str
    type: str
    @property
    def tensor(self) -> TensorProto: ...
    content: bytes
    @property
    def qtensor(self) -> QTensorProto: ...
    content_num_chunks: int
    content_chunk_id: int
    def __init__(
        self,
        *,
        name: str | None = ...,
        type: str | None = ...,
        tensor: TensorProto | None = ...,
        content: bytes | None = ...,
        qtensor: QTensorProto | None = ...,
        content_num_chunks: int | None = ...,
        content_chunk_id: int | None = ...,
    ) -> None: ...

class DBReaderProto(Message):
    name: str
    source: str
    db_type: str
    key: str
    def __init__(
        self,
        *,
        name: str | None = ...,
        source: str | None = ...,
        db_type: str | None = ...,
        key: str | None = ...,
    ) -> None: ...

class BlobSerializationOptions(Message):
    FloatFormat: ClassVar[EnumTypeWrapper]
    FLOAT_DEFAULT: ClassVar[int]
    FLOAT_PROTOBUF: ClassVar[int]
    FLOAT_BFLOAT16: ClassVar[int]
    blob_name_regex: str
    chunk_size: int
    float_format: int
    def __init__(
        self,
        *,
        blob_name_regex: str | None = ...,
        chunk_size: int | None = ...,
        float_format: int | None = ...,
    ) -> None: ...

class SerializationOptions(Message):
    @property
    def options(self) -> RepeatedCompositeFieldContainer[BlobSerializationOptions]: ...
    def __init__(
        self,
        *,
        options: Iterable[BlobSerializationOptions] | None = ...,
    ) -> None: ...
