"""What speed, memory and growth are measured against: for each line a bar, and a goal behind it."""

from typing import NamedTuple


class Line(NamedTuple):
    """One line of the report.

    key: what is measured: `family:size column` of speed.py, or a figure of memory.py or scaling.py.
    bar, goal: ratios against Caffe2 are to be reached or passed, all else is to be kept below.
    """

    key: str
    bar: float
    goal: float

    @property
    def more_is_better(self) -> bool:
        return "reference/" in self.key

    def met(self, value: float, limit: float) -> bool:
        return value >= limit if self.more_is_better else value <= limit


def _lines(keys: str, column: str, bar: float, goal: float) -> list[Line]:
    return [Line("%s %s" % (key, column), bar, goal) for key in keys.split()]


MESSAGES = [
    *_lines(
        "chain:10000 inplace:10000 mlp_shared:10000 fanout:10000 sparse:10000 many_ys:10000",
        "reference/messages",
        20,
        27,
    ),
    *_lines("resnet:10000", "reference/messages", 13, 17),
    *_lines("overwrite:10000", "reference/messages", 11, 13),
    *_lines(
        "chain:10000 inplace:10000 fanout:10000 sparse:10000 many_ys:10000",
        "reference/read",
        10,
        14,
    ),
    *_lines("if_many:1000 while:1000 if_shared:1000", "reference/messages", 30, 40),
    *_lines("do_wide:1000 if_wide:1000 while_state:1000", "reference/messages", 60, 80),
    *_lines(
        "wide_concat:10000 wide_split:10000 dlrm:10000 while:10000", "reference/messages", 120, 180
    ),
    *_lines("do_wide:10000 if_wide:10000", "reference/messages", 300, 600),
    *_lines(
        "chain:1000 chain:10000 inplace:10000 overwrite:10000 mlp_shared:10000 fanout:10000 "
        "sparse:10000 many_ys:10000 resnet:10000 long_names:10000 if_many:1000 if_shared:1000 "
        "while:1000 while_state:1000 do_wide:1000 if_wide:1000 wide_concat:10000 "
        "wide_split:10000 dlrm:10000 while_many:100 do_params:1000",
        "messages/floor",
        1.6,
        1.25,
    ),
    *_lines("big_args_off:1000000", "reference/messages", 1, 5),
    *_lines("big_args_on:1000000", "reference/messages", 5, 50),
    *_lines("big_args_copied:1000000", "reference/messages", 2.5, 3.5),
    *_lines("chain:10", "reference/messages", 10, 15),
    *_lines("if_many:1", "reference/messages", 10, 30),
]
"""Messages in and out."""

BYTES = [
    *_lines("chain:1000 chain:10000 chain:100000", "reference/bytes", 100, 200),
    *_lines("chain:1000", "bytes", 0.45, 0.25),
    *_lines("chain:10000", "bytes", 0.6, 0.3),
    *_lines("chain:100000", "bytes", 0.8, 0.45),
    *_lines("resnet:100000 sparse:100000 fanout:100000", "bytes", 1.5, 0.9),
    *_lines("if_many:10000", "bytes", 1.2, 0.6),
    *_lines("resnet:100000", "reference/bytes", 67, 111),
    *_lines("sparse:100000", "reference/bytes", 60, 100),
    *_lines("fanout:100000", "reference/bytes", 70, 117),
    *_lines("if_many:10000", "reference/bytes", 170, 350),
    *_lines("do_wide:10000 if_wide:10000", "reference/bytes", 1000, 3000),
    *_lines("while:30000 if_shared_wide:3000", "reference/bytes", 2000, 5000),
    *_lines("big_args_copied:1000000", "reference/bytes", 40, 90),
    *_lines("chain:1000 chain:10000 chain:100000", "bytes without a dict over scan + intern", 3, 2),
    *_lines("chain:1000 chain:10000 chain:100000", "bytes over scan + intern", 3, 2),
]
"""Bytes in and out; times are microseconds for each forward operator, on a machine where Caffe2
takes 62 for chain:10000. What the same bars are against Caffe2 stands beside them.

The base of the last lines is `support/base.rs`: each name of the net looked at once, in Rust. A
call without a dict is one from Rust: the gradient operators and the map both come as bytes.
"""

UPB = [
    Line("upb chain:10000 messages", 1.5, 1.0),
    Line("upb chain:10000 messages/floor", 2.6, 1.75),
]
"""Messages in and out with the newest protobuf, whose messages are made and read much faster."""

MEMORY = [
    Line("chain:100000 bytes, KB an operator", 0.6, 0.4),
    Line("chain:100000 messages, KB an operator", 1.6, 1.2),
    Line("long_names:100000 bytes, over its answer", 2, 1.3),
    Line("big_args_copied:1000000 bytes, over its answer", 2, 1.3),
    Line("growth over calls 10 to 1000, MB", 1, 0.25),
]
"""The most that is in use during a call."""

GROWTH = [
    Line("largest exponent of a family", 1.2, 1.1),
    Line("wide families over chain, at most", 4, 2.5),
    Line("slowest family at full size, s", 2, 0.5),
    Line("chain:1000000 over chain:10000, each operator", 2.5, 1.6),
    Line("if_nested: time a byte, depth 64 over 4", 1.5, 1.1),
    Line("do_nested: time a byte, depth 64 over 4", 1.5, 1.1),
    Line("while_many: last of eleven calls over the first", 1.1, 1.1),
]
"""How time grows, in bytes."""

ALL = [*MESSAGES, *UPB, *BYTES, *MEMORY, *GROWTH]
