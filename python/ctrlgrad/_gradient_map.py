"""The map from blobs to their gradients that comes back from a backward pass."""

from __future__ import annotations

from collections.abc import Mapping

from .blobs import BlobReference, GradientName, GradientSlice, Name

GradientMap = dict[Name, GradientName]
"""Blob -> gradient. The keys are `BlobReference`s, and are found under their text."""


def gradient_map(found: Mapping[str, str | tuple[str, str]]) -> GradientMap:
    """The map for what the core found. The one place where such maps are made."""
    reference = BlobReference
    grads: GradientMap = {}
    for blob, gradient in found.items():
        grads[reference(blob)] = (
            reference(gradient)
            if isinstance(gradient, str)
            else GradientSlice(reference(gradient[0]), reference(gradient[1]))
        )
    return grads
