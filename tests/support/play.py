"""Runs nets whose blobs are single numbers, as Caffe2 would: enough to check gradients.

Workspaces, bindings and the stacks of Do, and what an operator may do in place, are Caffe2's. An
operator that Caffe2 would not run raises `StuckError`.
"""

import math

import ctrlgrad

STEP = 1e-5


class StuckError(Exception):
    """Caffe2 would not run this."""


class Workspace:
    """Blobs by name; some of them are those of a workspace around it, under other names."""

    def __init__(self, blobs=()):
        self.blobs = dict(blobs)
        self.bound = {}
        self.nets = {}

    def home(self, name):
        """The blobs among which a name stands, and its name there."""
        if name not in self.blobs and name in self.bound:
            around, outer = self.bound[name]
            return around.home(outer)
        return self.blobs, name

    def __getitem__(self, name):
        blobs, name = self.home(name)
        if name not in blobs:
            raise StuckError("nobody has written %r" % name)
        return blobs[name]

    def __setitem__(self, name, value):
        blobs, name = self.home(name)
        blobs[name] = value


class Stack:
    """What a workspace blob holds."""

    def __init__(self):
        self.workspaces = []
        self.top = 0


def arguments(op):
    return {arg.name: arg for arg in op.arg}


def flag(args, name):
    return name in args and bool(args[name].i)


def run(ops, workspace):
    for op in ops:
        run_op(op, workspace)


def run_op(op, workspace):
    args = arguments(op)
    if op.type == "Do":
        return run_do(op, args, workspace)
    if op.type == "If":
        branch = "then_net" if workspace[op.input[0]] else "else_net"
        return run(args[branch].n.op, workspace) if branch in args else None
    if op.type == "While":
        return run_while(op, args, workspace)
    rule, in_place = RULES[op.type]
    for k, name in enumerate(op.output):
        if any(other == name and (i, k) not in in_place for i, other in enumerate(op.input)):
            raise StuckError("%s cannot write over its input %r" % (op.type, name))
    values = rule([workspace[name] for name in op.input], args)
    values = values if isinstance(values, list) else [values]
    for name, value in zip(op.output, values):
        workspace[name] = value


def run_do(op, args, workspace):
    names = [*op.input[:-1], *op.output[:-1]]
    bound = {
        inner.decode(): (workspace, names[index])
        for inner, index in zip(args["inner_blobs"].strings, args["outer_blobs_idx"].ints)
    }
    if len(set(bound)) != len({outer for _, outer in bound.values()}):
        raise StuckError("an outer blob is bound twice")
    stack = workspace[op.input[-1]]
    if op.is_gradient_op:
        if stack.top == 0:
            raise StuckError("no workspace is left on %r" % op.input[-1])
        stack.top -= 1
        inside = stack.workspaces[stack.top]
        inside.bound.update({k: v for k, v in bound.items() if k not in inside.blobs})
    else:
        del stack.workspaces[stack.top :]
        inside = Workspace()
        inside.bound = bound
        stack.workspaces.append(inside)
        stack.top += 1
    net = args["net"].n
    run(inside.nets.setdefault(net.name, net).op, inside)
    if flag(args, "copy_external_blobs") and not op.is_gradient_op:
        inside.blobs.update({name: inside[name] for name in bound})


def run_while(op, args, workspace):
    for _ in range(50):
        if "cond_net" in args:
            run(args["cond_net"].n.op, workspace)
        if not workspace[op.input[0]]:
            return
        run(args["loop_net"].n.op, workspace)
    raise StuckError("the loop does not end")


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def scale(values, args):
    return values[0] * (args["scale"].f if "scale" in args else 1.0)


def fill(values, args):
    return args["value"].f if "value" in args else 0.0


def max_gradient(values, args):
    top, g, *rest = values
    return [g if value == top else 0.0 for value in rest]


def each(count):
    """In place on the first input, for each of so many outputs."""
    return {(0, k) for k in range(count)}


RULES = {
    "Add": (lambda v, _: v[0] + v[1], {(0, 0), (1, 0)}),
    "AddGradient": (lambda v, _: [v[0], v[0]], each(2)),
    "ConstantFill": (fill, each(1)),
    "Copy": (lambda v, _: v[0], ()),
    "CopyOnDeviceLike": (lambda v, _: v[0], ()),
    "CreateScope": (lambda v, _: Stack(), ()),
    "Div": (lambda v, _: v[0] / v[1], each(1)),
    "EnsureDense": (lambda v, _: v[0], each(1)),
    "Exp": (lambda v, _: math.exp(v[0]), each(1)),
    "HasScope": (lambda v, _: v[0].top > 0, ()),
    "LE": (lambda v, _: v[0] <= v[1], ()),
    "Log": (lambda v, _: math.log(v[0]), each(1)),
    "Max": (lambda v, _: max(v), each(1)),
    "MaxGradient": (max_gradient, ()),
    "Mul": (lambda v, _: v[0] * v[1], {(0, 0), (1, 0)}),
    "MulGradient": (lambda v, _: [v[0] * v[2], v[0] * v[1]], ()),
    "Negative": (lambda v, _: -v[0], each(1)),
    "Not": (lambda v, _: not v[0], ()),
    "Scale": (scale, each(1)),
    "Sigmoid": (lambda v, _: sigmoid(v[0]), each(1)),
    "SigmoidGradient": (lambda v, _: v[1] * v[0] * (1 - v[0]), {(1, 0)}),
    "Sin": (lambda v, _: math.sin(v[0]), ()),
    "SinGradient": (lambda v, _: v[1] * math.cos(v[0]), ()),
    "Sinh": (lambda v, _: math.sinh(v[0]), ()),
    "SinhGradient": (lambda v, _: v[0] * math.cosh(v[1]), ()),
    "Sqr": (lambda v, _: v[0] * v[0], each(1)),
    "Sqrt": (lambda v, _: math.sqrt(v[0]), each(1)),
    "StopGradient": (lambda v, _: v[0], each(1)),
    "Sub": (lambda v, _: v[0] - v[1], each(1)),
    "SubGradient": (lambda v, _: [v[0], -v[0]], each(2)),
    "Sum": (lambda v, _: sum(v), each(1)),
    "Tile": (lambda v, _: v[0], ()),
    "TileGradient": (lambda v, _: v[0], ()),
    "Tanh": (lambda v, _: math.tanh(v[0]), each(1)),
    "TanhGradient": (lambda v, _: v[1] * (1 - v[0] * v[0]), {(1, 0)}),
}


def loss(forward, feeds, seeds):
    workspace = Workspace(feeds)
    run(forward.op, workspace)
    return sum(workspace[blob] * value for blob, value in seeds.items())


def differences(forward, feeds, seeds, blob):
    """The gradient of a fed blob by central differences."""
    at = {side: dict(feeds, **{blob: feeds[blob] + side * STEP}) for side in (1, -1)}
    return (loss(forward, at[1], seeds) - loss(forward, at[-1], seeds)) / (2 * STEP)


def seeds_of(ys):
    """What the gradients that the caller gives hold: numbers that tell them apart."""
    given = {name: 0.7 + 0.4 * k for k, name in enumerate(dict.fromkeys(filter(None, ys.values())))}
    return given, {blob: 1.0 if name is None else given[name] for blob, name in ys.items()}


def gradients(forward, feeds, ys, **more):
    """Blob -> its gradient as the operators of ours compute it, and the answer itself."""
    ys = ys if isinstance(ys, dict) else dict.fromkeys(ys)
    answer = ctrlgrad.backward(forward, ys, **more)
    workspace = Workspace(feeds)
    run(forward.op, workspace)
    for name, value in seeds_of(ys)[0].items():
        workspace[name] = value
    run(answer.ops, workspace)
    return {str(blob): workspace[str(name)] for blob, name in answer.grads.items()}, answer


def read_from_outside(forward):
    """The blobs that a net reads before it writes them."""
    read, written = {}, set()
    for op in forward.op:
        read.update(dict.fromkeys(name for name in op.input if name not in written))
        written.update(op.output)
    return list(read)


def wrong(forward, feeds, ys, **more):
    """Fed blobs whose gradient is not that of central differences: name -> (it, right one)."""
    ys = ys if isinstance(ys, dict) else dict.fromkeys(ys)
    got, _ = gradients(forward, feeds, ys, **more)
    seeds = seeds_of(ys)[1]
    found = {}
    for blob in read_from_outside(forward):
        if isinstance(feeds.get(blob), float):
            right = differences(forward, feeds, seeds, blob)
            if abs(got.get(blob, 0.0) - right) > 1e-6 * (1 + abs(right)):
                found[blob] = (got.get(blob), right)
    return found
