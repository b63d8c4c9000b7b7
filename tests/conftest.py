"""What all tests share."""

import importlib
import importlib.util
import warnings

import pytest


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("caffe2") is not None:
        return
    skip = pytest.mark.skip(reason="Caffe2 is not installed (make test-reference)")
    for item in items:
        if item.get_closest_marker("oracle"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _registry_as_it_was():
    """Makers that a test registers are gone behind it."""
    from ctrlgrad import GradientRegistry

    before = dict(GradientRegistry.gradient_registry_)
    yield
    GradientRegistry.gradient_registry_.clear()
    GradientRegistry.gradient_registry_.update(before)


@pytest.fixture(scope="session")
def core():
    """`caffe2.python.core`."""
    with warnings.catch_warnings():
        # Caffe2's own, on importing.
        warnings.simplefilter("ignore")
        return importlib.import_module("caffe2.python.core")


@pytest.fixture(scope="session")
def proto(core):
    """Caffe2's message classes."""
    return importlib.import_module("caffe2.proto.caffe2_pb2")
