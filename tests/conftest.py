"""What all tests share."""

import importlib.util

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
