"""What the tests of the public interface share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _without_caffe2(monkeypatch):
    """Caffe2 may have been imported by other tests; these are about ctrlgrad's own classes."""
    monkeypatch.delitem(sys.modules, "caffe2.proto.caffe2_pb2", raising=False)
