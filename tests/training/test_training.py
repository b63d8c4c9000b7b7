"""Every model is trained for 20 steps with Caffe2's own gradients, and with ctrlgrad's.

The parameters must be equal after every step: bit by bit where the gradient operators that compute
are the same. Where Caffe2 refuses, or its gradients are wrong, this is checked, too. Whatever
Caffe2 does, ctrlgrad's gradients are compared with central differences of the loss.

`pytest tests/training -rP` shows what came of each model.
"""

import dataclasses
import os
import re
import time
import warnings

import pytest

pytest.importorskip("caffe2", reason="Caffe2 is not installed (make test-reference)")

with warnings.catch_warnings():
    # Caffe2's own, on importing.
    warnings.simplefilter("ignore", DeprecationWarning)
    import numpy as np
    from referee import CRASHES, HANGS

    from . import harness
    from .harness import CAFFE2, CTRLGRAD, FaultError
    from .models import MODELS

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.timeout(4 * harness.SECONDS),
    # Caffe2's own, on making operators.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

# Sums in another order differ in their last bits, and a step hands that on to the next.
OTHER_ORDER = 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    ours = harness.call(harness.train, name, CTRLGRAD)
    assert harness.untrained(ours) == []
    slopes = harness.call(harness.slopes, name, ours.parameters)
    assert harness.wrong_gradients(name, ours.gradients, slopes) == []
    recipe = MODELS[name]
    if recipe.fault is None:
        theirs = harness.call(harness.train, name, CAFFE2)
        same = ours.backward == theirs.backward
        assert harness.apart(ours, theirs, 0 if same else OTHER_ORDER) == []
        verdict = "equal, %s" % ("bit by bit" if same else "but for the order of sums")
    else:
        found = re.search(recipe.fault, reference_fault(name, slopes))
        assert found, "Caffe2 has another fault, or none: %s" % reference_fault(name, slopes)
        verdict = "Caffe2: %s" % found.group()
    print(
        "%s (%s): %d operators, %d gradient operators, loss %.3f to %.3f; %s"
        % (
            name,
            recipe.control_flow or "no control flow",
            len(ours.forward),
            len(ours.backward),
            np.mean(ours.losses[: len(slopes)]),
            np.mean(ours.losses[-len(slopes) :]),
            verdict,
        )
    )


def reference_fault(name, slopes):
    """What is wrong with Caffe2's gradients; nothing if they are right."""
    try:
        theirs = harness.call(harness.train, name, CAFFE2)
    except FaultError as error:
        return str(error)
    # Later steps begin with other parameters than those that the slopes belong to.
    return "; ".join(harness.wrong_gradients(name, theirs.gradients[:1], slopes[:1]))


def test_faults_are_found():
    """Each of the checks above, with a training that is spoilt in one place."""
    good = harness.call(harness.train, "mlp", CAFFE2)
    slopes = harness.call(harness.slopes, "mlp", good.parameters)
    first = good.gradients[0]

    spoilt = [{**first, "h_w": first["h_w"] * 1.05}]
    assert [found.split(":")[0] for found in harness.wrong_gradients("mlp", spoilt, slopes)] == [
        "step 0, h_w"
    ]
    nowhere = [dict.fromkeys(first, [0.0] * harness.DIRECTIONS)]
    nothing = [{blob: value * 0 for blob, value in first.items()}]
    assert len(harness.wrong_gradients("mlp", nothing, nowhere)) == len(first)

    end = good.parameters[-1]
    moved = {**end, "h_w": np.nextafter(end["h_w"], np.float32(1))}
    other = dataclasses.replace(good, parameters=[*good.parameters[:-1], moved])
    assert harness.apart(good, good, 0) == []
    assert len(harness.apart(good, other, 0)) == 1
    assert harness.apart(good, other, OTHER_ORDER) == []

    still = dataclasses.replace(good, parameters=good.parameters[:1], losses=good.losses[::-1])
    assert len(harness.untrained(still)) == len(first) + 1


def test_what_never_ends_or_dies_is_a_fault(monkeypatch):
    monkeypatch.setattr(harness, "SECONDS", 0.5)
    with pytest.raises(FaultError, match=HANGS):
        harness.call(time.sleep, 60)
    with pytest.raises(FaultError, match=CRASHES):
        harness.call(os._exit, 1)
