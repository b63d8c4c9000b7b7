"""Small nets for tests."""

import ctrlgrad


def op(op_type, inputs=(), outputs=(), proto=None, **args):
    """An operator. Names are given as one text with spaces between, or as a list."""
    proto = proto or ctrlgrad.caffe2_pb2
    made = proto.OperatorDef(type=op_type, input=_names(inputs), output=_names(outputs))
    for name, value in args.items():
        arg = made.arg.add(name=name)
        if isinstance(value, int):
            arg.i = value
        elif isinstance(value, float):
            arg.f = value
        elif isinstance(value, list) and value and isinstance(value[0], bytes):
            arg.strings.extend(value)
        elif isinstance(value, list):
            arg.ints.extend(value)
        else:
            arg.n.CopyFrom(value)
    return made


def net(*ops, proto=None, name="net"):
    """A NetDef that holds these operators."""
    return (proto or ctrlgrad.caffe2_pb2).NetDef(name=name, op=ops)


def mlp(proto=None):
    """FC, Relu, FC, loss: a net to learn with."""
    return net(
        op("FC", "x w1 b1", "h", proto),
        op("Relu", "h", "a", proto),
        op("FC", "a w2 b2", "p", proto),
        op("SquaredL2Distance", "p y", "d", proto),
        op("AveragedLoss", "d", "loss", proto),
        proto=proto,
    )


def do(body, inputs, outputs, proto=None):
    """A Do whose inner blobs have the names of the outer ones."""
    inputs, outputs = _names(inputs), _names(outputs)
    names = list(dict.fromkeys(inputs + outputs))
    return op(
        "Do",
        [*inputs, "ws"],
        [*outputs, "ws"],
        proto,
        net=body,
        inner_blobs=[name.encode() for name in names],
        outer_blobs_idx=[(inputs + outputs).index(name) for name in names],
    )


def if_(condition, inputs, outputs, then_net, else_net=None, proto=None):
    """An If."""
    nets = {"then_net": then_net}
    if else_net is not None:
        nets["else_net"] = else_net
    return op("If", [condition, *_names(inputs)], outputs, proto, **nets)


def do_in_do(depth, proto=None, into=None):
    """A Do around a Do around ... a Relu, from x to y; written into an operator if one is given."""
    # Filled in from outside: to copy a net is to parse it, for some versions of protobuf, and
    # what they parse has a limit of depth.
    shell = do(net(proto=proto, name="inner"), "x", "y", proto)
    whole = op("Do", proto=proto) if into is None else into
    inner = whole
    for _ in range(depth):
        inner.CopyFrom(shell)
        body = next(arg.n for arg in inner.arg if arg.name == "net")
        inner = body.op.add()
    inner.CopyFrom(op("Relu", "x", "y", proto))
    return whole


def types(ops):
    """The types of operators."""
    return [each.type for each in ops]


def _names(names):
    return names.split() if isinstance(names, str) else list(names)
