"""Answers stay what they are, byte for byte: the benchmark families at two sizes.

The digests are in digests.json. An answer that has changed has to be shown right first; then
`PYTHONPATH=benches python tests/walk/test_digests.py` records it.
"""

import hashlib
import json
import pathlib

import bench_nets
import ctrlgrad
import pytest

DIGESTS = pathlib.Path(__file__).with_name("digests.json")
DEEP = {"if_nested", "do_nested"}


def sizes(family):
    if family in DEEP:
        return 3, 20
    return (1000, 20_000) if family.startswith("big_args") else (30, 1000)


def digest(family, size):
    case = bench_nets.build(ctrlgrad.caffe2_pb2, family, size)
    ops, grads = ctrlgrad.backward_bytes(case.net.SerializeToString(), case.ys)
    return hashlib.sha256(ops + json.dumps(list(grads.items())).encode()).hexdigest()


def every():
    return {
        "%s:%d" % (family, size): (family, size)
        for family in bench_nets.FAMILIES
        for size in sizes(family)
    }


@pytest.mark.parametrize("name", every())
def test_the_answer_is_the_one_that_was_recorded(name):
    assert digest(*every()[name]) == json.loads(DIGESTS.read_text())[name]


if __name__ == "__main__":
    made = {name: digest(*case) for name, case in every().items()}
    DIGESTS.write_text(json.dumps(made, indent=1) + "\n")
