"""Trains a model with gradients from one source, and takes central differences of its loss.

All of this runs in a child process (`referee`), a new one each time: so the net names that Caffe2
counts, and its optimizers, begin anew, and what a broken gradient does to memory ends there.
"""

import contextlib
from dataclasses import dataclass, field

import canonical
import ctrlgrad
import numpy as np
from caffe2.python import core, optimizer, workspace
from referee import Gone, Referee

from .models import MODELS, Model

Values = dict[str, np.ndarray]
Slopes = dict[str, list[float]]
CAFFE2, CTRLGRAD = "caffe2", "ctrlgrad"
STEPS = 20
SECONDS = 20
DIRECTIONS = 6
TOLERANCE = 1e-2
# How far differences go: far, so that rounding counts for little, but not across a kink.
SMOOTH, KINKED = 2e-2, 1e-3
# Of a loss near 1, in single precision.
ROUNDING = 4e-7


@dataclass
class Training:
    """forward, backward: the operators that compute. losses: step by step. parameters: before each
    step, and behind the last. gradients: those of the parameters, once for each batch."""

    forward: list[tuple]
    backward: list[tuple]
    losses: list[float] = field(default_factory=list)
    parameters: list[Values] = field(default_factory=list)
    gradients: list[Values] = field(default_factory=list)


class FaultError(Exception):
    """What is wrong with gradients; `str` says it."""


def call(function, *args):
    """The result of a function that has run in a new process. Raises FaultError if it fails."""
    referee = Referee(SECONDS)
    try:
        return referee.call(function, *args)
    except (Gone, RuntimeError) as error:
        raise FaultError(str(error)) from None
    finally:
        referee.stop()


def arithmetic(ops) -> list[tuple]:
    """The operators that compute, nested ones among them.

    The order of sums that do not depend on each other, and of copies and fills, is left to chance
    by Caffe2 and its builders.
    """

    def walk(ops):
        for op in ops:
            for arg in op.get("arg", {}).values():
                if isinstance(arg, dict) and "n" in arg:
                    yield from walk(arg["n"].get("op", []))
            if op["type"] not in ("Do", "If", "While", "Copy", "ConstantFill"):
                yield (op["type"], *op.get("input", []), "->", *op.get("output", []))

    return list(walk(canonical.canonical(ops)))


def train(name: str, source: str) -> Training:
    """So many steps of stochastic gradient descent."""
    # Recurrent nets ask for the gradients of their steps while they are built.
    with ctrlgrad.installed() if source == CTRLGRAD else contextlib.nullcontext():
        model = MODELS[name].build()
        end = len(model.net.Proto().op)
        grads = (model.helper or model.net).AddGradientOperators(["loss"])
    forward, backward = model.net.Proto().op[:end], model.net.Proto().op[end:]
    training = Training(arithmetic(forward), arithmetic(backward))
    missing = [blob for blob in model.params if blob not in grads]
    if missing:
        raise FaultError("no gradient for %s" % ", ".join(missing))
    descent = optimizer.SgdOptimizer(MODELS[name].rate)
    for blob in model.params:
        descent(model.net, model.init, core.BlobReference(blob), grads[blob])

    training.parameters.append(start(name, model))
    feed(model.batches[0])
    workspace.CreateNet(model.net)
    for step in range(STEPS):
        feed(model.batches[step % len(model.batches)])
        run(model)
        training.losses.append(float(workspace.FetchBlob("loss")))
        training.parameters.append({blob: workspace.FetchBlob(blob) for blob in model.params})
        if step < len(model.batches):
            training.gradients.append(
                {b: dense(grads[b], value) for b, value in training.parameters[0].items()}
            )
    return training


def start(name: str, model: Model) -> Values:
    """Fills the parameters with numbers that tell them apart, biases too, and gives them back."""
    workspace.RunNetOnce(model.init)
    recipe = MODELS[name]
    rng = np.random.RandomState(recipe.seed)
    filled = {}
    for blob in model.params:
        shape = workspace.FetchBlob(blob).shape
        filled[blob] = rng.uniform(-recipe.spread, recipe.spread, shape).astype(np.float32)
    feed(filled)
    return filled


def feed(values: dict[str, np.ndarray]) -> None:
    for blob, value in values.items():
        workspace.FeedBlob(blob, value)


def run(model: Model) -> None:
    """One step, which begins with new workspaces for Do and While.

    Else Caffe2 takes up those of the step before: it frees the copies of outer blobs that a loop
    has left there, but the gradient net that lies there too goes on reading them.
    """
    for op in model.net.Proto().op:
        if op.type == "CreateScope":
            workspace.FeedBlob(op.output[0], np.zeros(1, np.float32))
    workspace.RunNet(model.net)


def dense(gradient, parameter: np.ndarray) -> np.ndarray:
    if not isinstance(gradient, core.GradientSlice):
        return workspace.FetchBlob(str(gradient))
    indices, values = (workspace.FetchBlob(str(blob)) for blob in gradient)
    out = np.zeros_like(parameter)
    np.add.at(out, indices, values)
    return out


# ------------------------------------------------------------------------ trainings


def untrained(training: Training) -> list[str]:
    """What has not come of a training."""
    first, last = training.parameters[0], training.parameters[-1]
    found = ["%s does not move" % blob for blob in first if np.array_equal(first[blob], last[blob])]
    once = len(training.gradients)  # through all batches
    if not np.mean(training.losses[-once:]) < np.mean(training.losses[:once]):
        found.append("the loss does not fall: %s" % training.losses)
    return found


def apart(one: Training, other: Training, tolerance: float) -> list[str]:
    """The parameters that differ at some time, by more than the tolerance (relative to the largest
    number in them), and the losses."""
    found = []
    for step, (ours, theirs) in enumerate(zip(one.parameters, other.parameters)):
        for blob, value in theirs.items():
            most = np.abs(ours[blob] - value).max()
            if not most <= tolerance * np.abs(value).max():
                found.append("%s before step %d, by %g" % (blob, step, most))
    if not np.allclose(one.losses, other.losses, rtol=tolerance, atol=0):
        found.append("losses: %s, %s" % (one.losses, other.losses))
    return found


# -------------------------------------------------------------------- differences


def directions(parameter: np.ndarray) -> list[np.ndarray]:
    """Ways to move a parameter, of length 1: the same in every process."""
    rng = np.random.RandomState(3)
    drawn = [rng.standard_normal(parameter.shape) for _ in range(DIRECTIONS)]
    return [way / np.linalg.norm(way) for way in drawn]


def slopes(name: str, steps: list[Values]) -> list[Slopes]:
    """How the loss changes along each direction, by central differences: for each batch, with the
    parameters of that step. NaN where a kink is near."""
    model = MODELS[name].build()
    start(name, model)
    feed(model.batches[0])
    workspace.CreateNet(model.net)
    width = KINKED if MODELS[name].kinks else SMOOTH

    def loss(parameters: Values, batch: Values) -> float:
        feed({**parameters, **batch})
        run(model)
        return float(workspace.FetchBlob("loss"))

    def slope(parameters: Values, batch: Values, blob: str, way: np.ndarray) -> float:
        def moved(by: float) -> float:
            there = (parameters[blob] + by * way).astype(np.float32)
            return loss({**parameters, blob: there}, batch)

        near, far = ((moved(w) - moved(-w)) / (2 * w) for w in (width, 2 * width))
        smooth = abs(near - far) < TOLERANCE * abs(near) + ROUNDING / width
        return (4 * near - far) / 3 if smooth else np.nan

    return [
        {b: [slope(values, batch, b, way) for way in directions(values[b])] for b in model.params}
        for values, batch in zip(steps, model.batches)
    ]


def wrong_gradients(name: str, gradients: list[Values], slopes: list[Slopes]) -> list[str]:
    """What is wrong with gradients: step, parameter, and along each direction what the gradient
    says and what differences say.

    A parameter that no sure direction shows to matter in any step is wrong, too.
    """
    noise = ROUNDING / (KINKED if MODELS[name].kinks else SMOOTH)
    found, most = [], dict.fromkeys(gradients[0], 0.0)
    for step, (values, by_differences) in enumerate(zip(gradients, slopes)):
        for blob, gradient in values.items():
            along = np.array([(gradient * way).sum() for way in directions(gradient)])
            right = np.array(by_differences[blob])
            sure = ~np.isnan(right)
            largest = np.abs(right[sure]).max(initial=0)
            most[blob] = max(most[blob], largest)
            if not np.allclose(along[sure], right[sure], rtol=0, atol=TOLERANCE * largest + noise):
                found.append("step %d, %s: %s, by differences %s" % (step, blob, along, right))
    return found + ["%s does not matter" % blob for blob in most if most[blob] < 4 * noise]
