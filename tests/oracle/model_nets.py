"""Random training nets from `ModelHelper` and brew."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from caffe2.python import brew, core
from caffe2.python.model_helper import ModelHelper
from caffe2.python.modeling.parameter_sharing import ParameterSharing

from .built import Built, Materials, builder

ROWS = 2


@dataclass
class Layer:
    """Two dimensions: examples, and that many values of each."""

    blob: core.BlobReference
    width: int


class Work:
    """A model in the making."""

    def __init__(self, materials: Materials):
        self.materials, self.draw = materials, materials.choices
        self.model = ModelHelper(name="model")
        self.layers = [
            Layer(materials.floats("x%d" % i, ROWS, width), width) for i, width in enumerate((3, 2))
        ]
        self.named = 0

    def name(self, stem: str) -> str:
        self.named += 1
        return "%s%d" % (stem, self.named)

    def read(self) -> Layer:
        """A late one more often than an early one."""
        count = len(self.layers)
        return self.layers[-1 - min(self.draw.below(count), self.draw.below(count))]

    def like(self, layer: Layer) -> list[Layer]:
        """Layers of the same width."""
        same = [each for each in self.layers if each.width == layer.width]
        return [self.draw.pick(same) for _ in self.draw.more(3)]

    def keep(self, blob: core.BlobReference, width: int) -> None:
        self.layers = [layer for layer in self.layers if layer.blob != blob]
        self.layers.append(Layer(blob, width))

    # -------------------------------------------------------------------- layers

    def dense(self) -> None:
        layer, width = self.read(), self.draw.pick([3, 2, 4])
        self.keep(brew.fc(self.model, layer.blob, self.name("fc"), layer.width, width), width)

    def activation(self) -> None:
        layer = self.read()
        kind = self.draw.pick(["tanh", "relu", "softmax", "prelu", "linear", "norm", "dropout"])
        if kind in ("tanh", "relu"):
            name = layer.blob if self.draw.chance(40) else self.name(kind)
            made = getattr(brew, kind)(self.model, layer.blob, name)
        elif kind == "softmax":
            made = brew.softmax(self.model, layer.blob, self.name(kind))
        elif kind == "prelu":
            made = brew.prelu(self.model, layer.blob, self.name(kind), num_channels=1)
        elif kind == "linear":
            made = brew.elementwise_linear(self.model, layer.blob, self.name(kind), layer.width)
        elif kind == "norm":
            made, *_ = brew.layer_norm(self.model, layer.blob, self.name(kind), layer.width)
        else:
            made = brew.dropout(self.model, layer.blob, self.name(kind), ratio=0.5, is_test=1)
        self.keep(made, layer.width)

    def together(self) -> None:
        layer = self.read()
        kind = self.draw.pick(["sum", "concat", "Mul", "Sub"])
        if kind == "sum":
            layers = [layer, *self.like(layer)]
            made, width = brew.sum(self.model, blobs(layers), self.name(kind)), layer.width
        elif kind == "concat":
            layers = [layer] + [self.read() for _ in self.draw.more(2)]
            made = brew.concat(self.model, blobs(layers), self.name(kind), axis=1)
            width = sum(each.width for each in layers)
        else:
            other = (self.like(layer) or [layer])[0]
            made = getattr(self.model.net, kind)([layer.blob, other.blob], self.name(kind.lower()))
            width = layer.width
        self.keep(made, width)

    def towers(self) -> None:
        """The same parameters twice, in name scopes."""
        layer = self.read()
        first, second = self.name("tower"), self.name("tower")
        for tower, each in ((first, layer), (second, (self.like(layer) or [layer])[0])):
            with ParameterSharing({second: first}), core.NameScope(tower):
                hidden = brew.fc(self.model, each.blob, "fc", each.width, 3)
                self.keep(brew.tanh(self.model, hidden, "tanh"), 3)

    def look_up(self) -> None:
        table = self.materials.floats("table%d" % self.draw.below(2), 4, 3)
        rows = self.draw.pick([[0, 3], [1, 1]])
        rows = self.materials.feed("rows%d" % rows[0], np.array(rows, np.int32))
        self.keep(self.model.net.Gather([table, rows], self.name("row")), 3)

    def image(self) -> None:
        image = self.materials.floats("image", ROWS, 1, 3, 3)
        model, name = self.model, self.name
        hidden = brew.conv(model, image, name("conv"), 1, 2, kernel=self.draw.pick([2, 3]))
        hidden = brew.tanh(model, hidden, hidden if self.draw.chance(50) else name("tanh"))
        if self.draw.chance(40):
            hidden = brew.average_pool(model, hidden, name("pool"), kernel=1, stride=1)
        hidden = model.net.ReduceBackMean(hidden, name("mean"), num_reduce_dim=2)
        self.keep(hidden, 2)

    def branches(self) -> None:
        """An If whose branches are models of their own, over what is there already."""
        layer = self.read()
        cond = self.materials.condition("cond%d" % self.draw.below(2))
        count = 2 if self.draw.chance(60) else 1
        result = self.model.net.Copy(layer.blob, self.name("result"))
        outer = {str(each.blob) for each in self.layers} | {str(result)}
        models = []
        for _ in range(count):
            model = ModelHelper(name="branch")
            op_type = self.draw.pick(["Sigmoid", "Tanh", "Negative"])
            inner = getattr(model.net, op_type)(layer.blob, self.name("inner"))
            others = [inner] + [each.blob for each in self.like(layer)]
            # Without its old value, an If that may leave it as it was does not list it.
            model.net.Sum(others if self.draw.chance(10) else [result, *others], result)
            models.append(model)
        brew.cond(self.model, cond, outer | {str(cond)}, *models)
        self.keep(result, layer.width)

    # ---------------------------------------------------------------------- whole

    def loss(self) -> Any:
        """A blob of the net, or an average as training nets have it."""
        kind = self.draw.pick(["blob", "distance", "entropy"])
        net, layer = self.model.net, self.layers[-1]
        if kind == "blob":
            return None
        if kind == "distance":
            label = self.materials.floats("label", ROWS, layer.width)
            each = net.SquaredL2Distance([layer.blob, label], self.name("distance"))
        else:
            label = self.materials.feed("class", np.array([1, 0], np.int32))
            softmax = brew.softmax(self.model, layer.blob, self.name("softmax"))
            each = net.LabelCrossEntropy([softmax, label], self.name("entropy"))
        return net.AveragedLoss(each, self.name("loss"))


def blobs(layers: list[Layer]) -> list[core.BlobReference]:
    return [layer.blob for layer in layers]


@builder
def model(materials: Materials) -> Built:
    work = Work(materials)
    work.dense()
    for _ in work.draw.more(8):
        work.draw.pick(
            [
                work.dense,
                work.activation,
                work.activation,
                work.together,
                work.together,
                work.towers,
                work.look_up,
                work.image,
                work.branches,
            ]
        )()
    loss = work.loss()
    net = work.model.net
    ys = [loss] if loss else materials.targets(net, blobs(work.layers))
    return Built(net, ys, work.model.AddGradientOperators, work.model.param_init_net)
