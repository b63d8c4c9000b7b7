"""The map from blobs to their gradients that comes back from a backward pass."""

from __future__ import annotations

from collections.abc import Mapping

from ._host import OURS, Host
from .blobs import GradientName, Name

GradientMap = dict[Name, GradientName]
"""Blob -> gradient. The keys are `BlobReference`s, and are found under their text."""


def gradient_map(found: Mapping[str, str | tuple[str, str]], host: Host = OURS) -> GradientMap:
    """The map for what the core found. The one place where such maps are made."""
    reference, sparse = host.blob_reference, host.gradient_slice
    grads: GradientMap = {}
    for blob, gradient in found.items():
        grads[reference(blob)] = (
            reference(gradient)
            if isinstance(gradient, str)
            else sparse(reference(gradient[0]), reference(gradient[1]))
        )
    return grads
