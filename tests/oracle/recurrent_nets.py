"""Random recurrent nets: the cells that Caffe2 has, and steps made of single operators.

`recurrent_net` asks for the gradients of the step while it builds the net, and writes them into the
operator. The gradients of a recurrent operator count for some of its outputs only, so the targets
are computed from these.
"""

from typing import Any

import numpy as np
from caffe2.python import core, gru_cell, recurrent, rnn_cell
from caffe2.python.attention import AttentionType
from caffe2.python.model_helper import ModelHelper

from .built import Built, Materials, builder

TURNS, BATCH, WIDTH = 3, 2, 2


@builder
def cells(materials: Materials) -> Built:
    draw = materials.choices
    model = ModelHelper(name="model")
    x = materials.floats("x", TURNS, BATCH, WIDTH)
    if draw.chance(30):
        x = model.net.Tanh(x, "prepared")
    outputs = draw.pick([cell_over_sequence, cell_over_sequence, with_attention])(
        materials, model, x
    )
    return finished(materials, model, outputs)


def finished(materials: Materials, model: Any, outputs: list[core.BlobReference]) -> Built:
    """What is differentiated: all the outputs, or something that is computed from them. Mostly:
    the operator has no gradient where one of them has none."""
    draw, net = materials.choices, model.net
    ys = outputs[:1] if draw.chance(5) else outputs
    if draw.chance(50):
        ys = [net.Sigmoid(y, "y%d" % i) for i, y in enumerate(ys)]
        if len(ys) > 1 and draw.chance(50):
            ys = [net.SumElements(y, "total%d" % i) for i, y in enumerate(ys)]
            ys = [net.Sum(ys, "total")]
    if draw.chance(40):
        ys = {y: "%s_%s" % (y, draw.pick(["in", "grad"])) for y in ys}
    return Built(net, ys, model.AddGradientOperators, model.param_init_net)


def cell_over_sequence(materials: Materials, model: Any, x: Any) -> list[core.BlobReference]:
    draw = materials.choices
    kinds = {
        "basic": (rnn_cell.BasicRNN, 1),
        "gru": (gru_cell.GRU, 1),
        "lstm": (rnn_cell.LSTM, 2),
        "milstm": (rnn_cell.MILSTM, 2),
        "layer norm": (rnn_cell.LayerNormLSTM, 2),
        "layer norm mi": (rnn_cell.LayerNormMILSTM, 2),
    }
    kind = draw.pick(["basic", "basic", "gru", "gru", "lstm", "lstm", *list(kinds)[3:]])
    make, state_count = kinds[kind]
    layers = draw.pick([1, 1, 2]) if kind == "lstm" else 1
    lengths = None
    # What the basic cell does with lengths has no gradient.
    if kind not in ("basic", "gru", "lstm") or draw.chance(10 if kind == "basic" else 50):
        lengths = materials.feed("lengths", np.array([TURNS, TURNS - 1], np.int32))
    own = {}
    if kind == "basic":
        own = {"activation": draw.pick(["tanh", "relu"])}
    elif kind == "gru":
        own = {"linear_before_reset": draw.chance(50)}
    count = state_count * layers
    states = [materials.floats("state%d" % i, 1, BATCH, WIDTH) for i in range(count)]
    if count == 2 and draw.chance(30):
        states = states[:1] * 2  # one blob for both
    all_outputs = list(range(2 * state_count))
    with_gradients = sorted({draw.pick(all_outputs) for _ in range(draw.pick([1, 2, 3]))})
    unrolled = draw.chance(15) and kind in ("lstm", "milstm") and layers == 1
    result = make(
        model,
        x,
        lengths,
        states,
        WIDTH,
        [WIDTH] * layers,
        "cell",
        outputs_with_grads=tuple(with_gradients),
        memory_optimization=draw.chance(30) and kind in ("lstm", "milstm"),
        forget_bias=draw.pick([0.0, 1.0]),
        forward_only=materials.forward_only,
        drop_states=draw.chance(30),
        static_rnn_unroll_size=TURNS if unrolled else None,
        **own,
    )
    return [result[i] for i in with_gradients]


def with_attention(materials: Materials, model: Any, x: Any) -> list[core.BlobReference]:
    draw = materials.choices
    floats = materials.floats
    encoded = floats("encoded", TURNS, BATCH, WIDTH)
    if draw.chance(30):
        encoded = model.net.Tanh(encoded, "encoder")
    kind = draw.pick(
        [
            AttentionType.Regular,
            AttentionType.Recurrent,
            AttentionType.Dot,
            AttentionType.SoftCoverage,
        ]
    )
    encoder_lengths = None
    if kind == AttentionType.SoftCoverage or draw.chance(50):
        encoder_lengths = materials.feed("encoder_lengths", np.array([3, 2], np.int32))
    with_gradients = draw.pick([(0, 4), (0,), (4,)])
    result = rnn_cell.LSTMWithAttention(
        model,
        x,
        materials.feed("lengths", np.array([TURNS, TURNS - 1], np.int32)),
        floats("hidden", 1, BATCH, WIDTH),
        floats("cell", 1, BATCH, WIDTH),
        floats("context", 1, BATCH, WIDTH),
        WIDTH,
        encoded,
        encoder_lengths,
        WIDTH,
        WIDTH,
        "decoder",
        attention_type=kind,
        outputs_with_grads=with_gradients,
        lstm_memory_optimization=draw.chance(30),
        attention_memory_optimization=draw.chance(30),
        forward_only=materials.forward_only,
    )
    return [result[i] for i in with_gradients]


@builder
def steps(materials: Materials) -> Built:
    """A step of single operators, over one or two states.

    `recurrent_net` ties the gradients of inputs and states to memory of its own, each to one place.
    So each of them must be made by an operator of the step: what comes in is not added up as it is,
    where the gradient of the sum would be that of two blobs.
    """
    draw = materials.choices
    model, step = ModelHelper(name="model"), ModelHelper(name="step")
    x = materials.floats("x", TURNS, BATCH, WIDTH)
    layer = [materials.floats("w", WIDTH, WIDTH), materials.floats("b", WIDTH)]
    scale = materials.floats("scale", 1, BATCH, WIDTH)
    step.net.AddExternalInput(*layer, scale)
    input_t, timestep = step.net.AddScopedExternalInputs("input_t", "timestep")
    count = draw.pick([1, 1, 2])
    before = [step.net.AddScopedExternalInputs("s%d_prev" % i)[0] for i in range(count)]
    initial = [materials.floats("state%d" % i, 1, BATCH, WIDTH) for i in range(count)]
    known = [entering(draw, step.net, blob, layer, scale) for blob in (input_t, *before)]
    new = []
    for i in range(count):
        for _ in draw.more(4):
            incoming = draw.pick([None, None, None, input_t, *before])
            if incoming:
                known.append(entering(draw, step.net, incoming, layer, scale))
            else:
                known.append(combined(draw, step.net, known, layer))
        # the input counts, and each turn depends on the one before
        reads = [known[1 + i], known[0] if i == 0 else draw.pick(known)]
        new.append(getattr(step.net, draw.pick(["Sum", "Mul", "Add"]))(reads, "s%d" % i))
    step.net.AddExternalOutput(*new)
    with_gradients = sorted({draw.below(2 * count) for _ in range(draw.pick([1, 2]))})
    result = recurrent.recurrent_net(
        model.net,
        step.net,
        [(input_t, x)],
        list(zip(before, initial)),
        dict(zip(before, new)),
        timestep=timestep,
        outputs_with_grads=tuple(with_gradients),
        forward_only=materials.forward_only,
    )
    return finished(materials, model, [result[i] for i in with_gradients])


def entering(draw: Any, net: Any, blob: Any, layer: list, scale: Any) -> Any:
    """What a step makes of a blob that comes in."""
    kind = draw.pick(["Tanh", "Sigmoid", "Mul", "FC"])
    if kind == "Mul":
        return net.Mul([blob, scale])
    return net.FC([blob, *layer], axis=2) if kind == "FC" else getattr(net, kind)(blob)


def combined(draw: Any, net: Any, known: list, layer: list) -> Any:
    first = draw.pick(known[::-1])
    kind = draw.pick(["one", "two", "layer", "sum"])
    if kind == "one":
        return getattr(net, draw.pick(["Tanh", "Sigmoid", "Negative", "Copy"]))(first)
    if kind == "two":
        return getattr(net, draw.pick(["Add", "Mul", "Sub"]))([first, draw.pick(known[::-1])])
    if kind == "layer":
        return net.FC([first, *layer], axis=2)
    return net.Sum([first] + [draw.pick(known) for _ in draw.more(2)])
