"""The gradients of Do, If and While, under the names they have in Caffe2.

Source: `caffe2.python.control_ops_grad` of torch 1.10.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from . import _core
from ._host import NATIVE, OURS
from .gradients import GradientRegistry, InputGradient, Operator, one_operator

__all__ = ["gen_do_gradient", "gen_if_gradient", "gen_while_gradient"]


def gen_do_gradient(
    op: Operator, g_output: Iterable[Any]
) -> tuple[list[Operator], list[InputGradient]]:
    """The gradient of a Do.

    op: an OperatorDef of any class with the Caffe2 schema.
    g_output: one gradient for each output of `op`: None, a name, or a `GradientSlice`.

    Returns the gradient operators, of the class of `op`, and the gradients of its inputs, which
    leave out the workspace blob at the end. Raises BindingsError or ControlFlowError if the
    operator is not built as it must be, and what its net raises.
    """
    return one_operator(OURS, partial(_core.control_gradient, "Do"), op, g_output)


def gen_if_gradient(
    op: Operator, g_output: Iterable[Any]
) -> tuple[list[Operator], list[InputGradient]]:
    """The gradient of an If. Arguments, answer and errors are those of `gen_do_gradient`."""
    return one_operator(OURS, partial(_core.control_gradient, "If"), op, g_output)


def gen_while_gradient(
    op: Operator, g_output: Iterable[Any]
) -> tuple[list[Operator], list[InputGradient]]:
    """The gradient of a While. Arguments, answer and errors are those of `gen_do_gradient`."""
    return one_operator(OURS, partial(_core.control_gradient, "While"), op, g_output)


NATIVE.update((gen_do_gradient, gen_if_gradient, gen_while_gradient))
GradientRegistry.RegisterGradient("Do")(gen_do_gradient)
GradientRegistry.RegisterGradient("If")(gen_if_gradient)
GradientRegistry.RegisterGradient("While")(gen_while_gradient)
