"""Deterministic forward nets for timing gradient generation.

Every family builds one Caffe2 ``NetDef`` of a requested size, using whatever
module-like object is passed as ``pb`` (it only needs the attributes ``NetDef``,
``OperatorDef`` and ``Argument``).  The same call always gives the same bytes:
there is no randomness, no clock, no set or dict iteration order involved.

    case = build(pb, "chain", 1000)
    case.net      the forward NetDef
    case.ys       {blob: gradient blob, or None for an auto-generated one}
    case.ops      number of operators, those of nested nets included
    case.top_ops  number of operators of the outermost net

``size`` always counts the thing that the family stresses (see FAMILIES): for
the deep nets it is close to the number of operators, for the wide ones it is
the width of one operator, for ``big_args_*`` it is the number of argument
values.  All nets can be differentiated by the reference.

Command line:
    python benches/bench_nets.py --list
    python benches/bench_nets.py chain 1000 --out chain_1000.pb [--pb some.module_pb2]
The second form writes the serialized NetDef, and prints the counts and ys as
one JSON object.
"""

import argparse
import importlib
import json
from collections import namedtuple

Case = namedtuple("Case", ["family", "size", "net", "ys", "ops", "top_ops"])


# --------------------------------------------------------------------- helpers
def add_op(net, type_, inputs, outputs, **args):
    op = net.op.add()
    op.input.extend(inputs)
    op.output.extend(outputs)
    op.type = type_
    for name, value in args.items():
        set_arg(op.arg.add(), name, value)
    return op


def set_arg(arg, name, value):
    arg.name = name
    if isinstance(value, bool):
        arg.i = int(value)
    elif isinstance(value, int):
        arg.i = value
    elif isinstance(value, float):
        arg.f = value
    elif isinstance(value, bytes):
        arg.s = value
    elif isinstance(value, str):
        arg.s = value.encode("utf-8")
    elif isinstance(value, (list, tuple)):
        if not value or isinstance(value[0], int):
            arg.ints.extend(value)
        elif isinstance(value[0], float):
            arg.floats.extend(value)
        else:
            arg.strings.extend(v.encode("utf-8") if isinstance(v, str) else v for v in value)
    else:  # a message: a nested net
        arg.n.CopyFrom(value)


def new_net(pb, name):
    net = pb.NetDef()
    net.name = name
    return net


def count_ops(net):
    total, waiting = 0, [net]
    while waiting:
        one = waiting.pop()
        total += len(one.op)
        for op in one.op:
            for arg in op.arg:
                if arg.HasField("n"):
                    waiting.append(arg.n)
                waiting.extend(arg.nets)
    return total


def add_do(pb, net, inner, inputs, outputs, workspace, prefix=""):
    """Do op that binds inner blobs of the same name (with a prefix) to outer
    ones; a blob that is both read and written is bound once, as an output."""
    seen, order = set(outputs), []
    for name in inputs:
        if name not in seen:
            seen.add(name)
            order.append(name)
    names = order + list(outputs)
    op = net.op.add()
    op.type = "Do"
    op.input.extend([*order, workspace])
    op.output.extend([*list(outputs), workspace])
    set_arg(op.arg.add(), "net", inner)
    set_arg(op.arg.add(), "inner_blobs", [prefix + n for n in names])
    # the index counts the two lists without the workspace blob, which is the
    # last one of each
    set_arg(op.arg.add(), "outer_blobs_idx", list(range(len(names))))
    return op


# --------------------------------------------------------------- deep, no flow
def chain(pb, size):
    net = new_net(pb, "chain")
    prev = "data"
    for i in range(size):
        out = "h%d" % i
        if i % 2 == 0:
            add_op(net, "FC", [prev, "w%d" % i, "b%d" % i], [out])
        else:
            add_op(net, "Relu", [prev], [out])
        prev = out
    return net, {prev: prev + "_grad"}


def inplace(pb, size):
    net = new_net(pb, "inplace")
    prev = "data"
    for i in range(max(1, size // 2)):
        out = "h%d" % i
        add_op(net, "FC", [prev, "w%d" % i, "b%d" % i], [out])
        add_op(net, "Relu", [out], [out])
        prev = out
    return net, {prev: prev + "_grad"}


def overwrite(pb, size):
    """One blob rewritten in place by size ops (all versions of one name)."""
    net = new_net(pb, "overwrite")
    for _i in range(size):
        add_op(net, "Scale", ["x"], ["x"], scale=0.5)
    return net, {"x": "x_out_grad"}


def many_ys(pb, size):
    """size independent Relu ops, each a target of its own; every second one
    gets an auto-generated gradient."""
    net = new_net(pb, "many_ys")
    ys = {}
    for i in range(size):
        add_op(net, "Relu", ["x%d" % i], ["y%d" % i])
        ys["y%d" % i] = None if i % 2 else "y%d_grad" % i
    return net, ys


def long_names(pb, size):
    """A chain whose blob names are all exactly 200 characters, most of them a
    scope that the names share."""
    scope = "trainer_0/sparse_nn/overarch/tower_7/"
    while len(scope) < 150:
        scope += "residual_stack_of_projection_layers/"

    def name(stem):
        head = scope + stem + "/"
        return head + "x" * (200 - len(head))

    net = new_net(pb, "long_names")
    prev = name("data")
    for i in range(size):
        out = name("h%d" % i)
        if i % 2 == 0:
            add_op(net, "FC", [prev, name("w%d" % i), name("b%d" % i)], [out])
        else:
            add_op(net, "Relu", [prev], [out])
        prev = out
    return net, {prev: name("grad_of_last")}


def resnet(pb, size):
    """Bottleneck blocks (3 x Conv, SpatialBN, in-place Relu, plus a shortcut
    Sum), an average pool, one FC and a loss; ``size`` ops, rounded to blocks."""
    net = new_net(pb, "resnet")
    conv = {"kernel": 3, "pad": 1, "stride": 1, "order": "NCHW"}

    def unit(prev, stem, relu):
        out = stem + "_conv"
        add_op(net, "Conv", [prev, out + "_w"], [out], **conv)
        bn = stem + "_bn"
        add_op(
            net,
            "SpatialBN",
            [out, bn + "_s", bn + "_b", bn + "_rm", bn + "_riv"],
            [bn, bn + "_rm", bn + "_riv", bn + "_sm", bn + "_siv"],
            is_test=0,
            epsilon=1e-5,
            momentum=0.9,
            order="NCHW",
        )
        if relu:
            add_op(net, "Relu", [bn], [bn])
        return bn

    prev = unit("data", "stem", True)
    for i in range(max(1, (size - 8) // 10)):
        a = unit(prev, "res%d_a" % i, True)
        b = unit(a, "res%d_b" % i, True)
        c = unit(b, "res%d_c" % i, False)
        out = "res%d" % i
        add_op(net, "Sum", [c, prev], [out])
        add_op(net, "Relu", [out], [out])
        prev = out
    add_op(net, "AveragePool", [prev], ["pool"], global_pooling=1, order="NCHW")
    add_op(net, "FC", ["pool", "pred_w", "pred_b"], ["pred"])
    add_op(net, "SoftmaxWithLoss", ["pred", "label"], ["softmax", "loss"])
    add_op(net, "Scale", ["loss"], ["scaled_loss"], scale=0.125)
    return net, {"scaled_loss": None}


# ------------------------------------------------------------------ accumulation
def mlp_shared(pb, size):
    """size/2 layers that all use the same weight and bias: one Sum with size/2
    inputs for each of the two."""
    net = new_net(pb, "mlp_shared")
    prev = "data"
    for i in range(max(1, size // 2)):
        add_op(net, "FC", [prev, "w", "b"], ["a%d" % i])
        add_op(net, "Relu", ["a%d" % i], ["h%d" % i])
        prev = "h%d" % i
    return net, {prev: prev + "_grad"}


def fanout(pb, size, k=8):
    """Blocks of k FC ops that read one blob, and a Sum that joins them."""
    net = new_net(pb, "fanout")
    prev = "x"
    for b in range(max(1, size // (k + 1))):
        outs = []
        for j in range(k):
            stem = "n%d_%d" % (b, j)
            add_op(net, "FC", [prev, stem + "_w", stem + "_b"], [stem])
            outs.append(stem)
        prev = "x%d" % b
        add_op(net, "Sum", outs, [prev])
    return net, {prev: prev + "_grad"}


def _join(net, names, stem, width=16):
    """Tree of Sum ops of bounded width; returns the name of the root."""
    level = 0
    while len(names) > 1:
        nxt = []
        for i in range(0, len(names), width):
            out = "%s_%d_%d" % (stem, level, i // width)
            add_op(net, "Sum", names[i : i + width], [out])
            nxt.append(out)
        names, level = nxt, level + 1
    return names[0]


def sparse(pb, size, uses=16):
    """size lookups (Gather and SparseLengthsSum alternate) into size/16 shared
    tables: sparse gradients that must be concatenated."""
    net = new_net(pb, "sparse")
    tables = max(1, size // uses)
    outs = []
    for i in range(size):
        table = "table%d" % (i % tables)
        out = "e%d" % i
        if i % 2 == 0:
            add_op(net, "SparseLengthsSum", [table, "idx%d" % i, "len%d" % i], [out])
        else:
            add_op(net, "Gather", [table, "idx%d" % i], [out])
        outs.append(out)
    root = _join(net, outs, "s")
    return net, {root: root + "_grad"}


def sparse_one(pb, size):
    """size lookups into one table: two Concat ops of size inputs each."""
    net = new_net(pb, "sparse_one")
    outs = []
    for i in range(size):
        out = "e%d" % i
        add_op(net, "SparseLengthsSum", ["table", "idx%d" % i, "len%d" % i], [out])
        outs.append(out)
    root = _join(net, outs, "s")
    return net, {root: root + "_grad"}


def dlrm(pb, size):
    """size embedding tables, a bottom MLP, one Concat over everything, pairwise
    products, a top MLP and a loss."""
    net = new_net(pb, "dlrm")
    prev = "dense"
    for i in range(3):
        add_op(net, "FC", [prev, "bot%d_w" % i, "bot%d_b" % i], ["bot%d" % i])
        add_op(net, "Relu", ["bot%d" % i], ["bot%d" % i])
        prev = "bot%d" % i
    feats = [prev]
    for t in range(size):
        stem = "emb%d" % t
        add_op(net, "SparseLengthsSum", [stem + "_w", stem + "_i", stem + "_l"], [stem])
        feats.append(stem)
    add_op(net, "Concat", feats, ["feat", "feat_split"], axis=1, add_axis=1)
    add_op(net, "BatchMatMul", ["feat", "feat"], ["dot"], trans_b=1)
    add_op(net, "Flatten", ["dot"], ["dot_flat"])
    add_op(net, "Concat", ["dot_flat", prev], ["top_in", "top_split"], axis=1)
    prev = "top_in"
    for i in range(3):
        add_op(net, "FC", [prev, "top%d_w" % i, "top%d_b" % i], ["top%d" % i])
        if i < 2:
            add_op(net, "Relu", ["top%d" % i], ["top%d" % i])
        prev = "top%d" % i
    add_op(net, "SigmoidCrossEntropyWithLogits", [prev, "label"], ["xent"])
    add_op(net, "AveragedLoss", ["xent"], ["loss"])
    return net, {"loss": None}


# ------------------------------------------------------------------ one wide op
def wide_concat(pb, size):
    """size Relu ops feed one Concat."""
    net = new_net(pb, "wide_concat")
    for i in range(size):
        add_op(net, "Relu", ["i%d" % i], ["r%d" % i])
    add_op(net, "Concat", ["r%d" % i for i in range(size)], ["c", "c_split"], axis=1)
    return net, {"c": "c_grad"}


def wide_sum(pb, size):
    """size Relu ops feed one Sum."""
    net = new_net(pb, "wide_sum")
    for i in range(size):
        add_op(net, "Relu", ["i%d" % i], ["r%d" % i])
    add_op(net, "Sum", ["r%d" % i for i in range(size)], ["s"])
    return net, {"s": "s_grad"}


def wide_split(pb, size):
    """One Split feeds size Relu ops (joined by narrow Sums): the gradient op
    has size inputs."""
    net = new_net(pb, "wide_split")
    add_op(net, "Split", ["x"], ["p%d" % i for i in range(size)], axis=1)
    outs = []
    for i in range(size):
        add_op(net, "Relu", ["p%d" % i], ["r%d" % i])
        outs.append("r%d" % i)
    root = _join(net, outs, "s")
    return net, {root: root + "_grad"}


# ------------------------------------------------------------------ control flow
def do_wide(pb, size):
    """One Do with size inner Relu ops, each bound to its own outer input and
    its own outer output (2*size bindings)."""
    net = new_net(pb, "do_wide")
    add_op(net, "CreateScope", [], ["ws"])
    inner = new_net(pb, "do_wide_body")
    ins = ["x%d" % i for i in range(size)]
    outs = ["y%d" % i for i in range(size)]
    for i in range(size):
        add_op(inner, "Relu", ["in/" + ins[i]], ["in/" + outs[i]])
    add_do(pb, net, inner, ins, outs, "ws", prefix="in/")
    return net, {o: o + "_grad" for o in outs}


def do_params(pb, size):
    """One Do with a chain of size inner ops and one output; the parameters are
    bound (size bindings), the activations stay local."""
    net = new_net(pb, "do_params")
    add_op(net, "CreateScope", [], ["ws"])
    inner = new_net(pb, "do_params_body")
    ins, prev = ["x"], "x"
    for i in range(max(2, size)):
        out = "y" if i == max(2, size) - 1 else "t%d" % i
        if i % 2 == 0:
            ins += ["w%d" % i, "b%d" % i]
            add_op(inner, "FC", [prev, "w%d" % i, "b%d" % i], [out])
        else:
            add_op(inner, "Relu", [prev], [out])
        prev = out
    add_do(pb, net, inner, ins, ["y"], "ws")
    return net, {"y": "y_grad"}


def _branch(pb, name, do_inputs, y, workspace, build_body):
    body = new_net(pb, name + "_body")
    build_body(body)
    branch = new_net(pb, name)
    add_do(pb, branch, body, do_inputs, [y], workspace)
    return branch


def if_many(pb, size):
    """A chain of size If ops; then: FC and Relu, else: Relu, each in a Do."""
    net = new_net(pb, "if_many")
    prev = "x"
    for i in range(size):
        y, w, b = "y%d" % i, "w%d" % i, "b%d" % i
        wt, we = "ws_then%d" % i, "ws_else%d" % i
        add_op(net, "CreateScope", [], [wt])
        add_op(net, "CreateScope", [], [we])

        def then_body(body, prev=prev, w=w, b=b, y=y):
            add_op(body, "FC", [prev, w, b], ["t"])
            add_op(body, "Relu", ["t"], [y])

        def else_body(body, prev=prev, y=y):
            add_op(body, "Relu", [prev], [y])

        then_net = _branch(pb, "then%d" % i, [prev, w, b], y, wt, then_body)
        else_net = _branch(pb, "else%d" % i, [prev], y, we, else_body)
        add_op(
            net,
            "If",
            ["cond%d" % i, prev, w, b, wt, we],
            [y, wt, we],
            then_net=then_net,
            else_net=else_net,
        )
        prev = y
    return net, {prev: prev + "_grad"}


def if_nested(pb, size):
    """If inside If, size levels deep; the innermost then-branch is an FC."""
    params = ["w", "b"]
    conds = ["cond%d" % depth for depth in range(size)]
    body = new_net(pb, "then%d_body" % (size - 1))
    add_op(body, "FC", ["x", *params], ["y"])
    for depth in reversed(range(size)):
        wt, we = "wt%d" % depth, "we%d" % depth
        deeper = conds[depth + 1 :]
        then_net = new_net(pb, "then%d" % depth)
        add_do(pb, then_net, body, ["x", *params, *deeper], ["y"], wt)
        other = new_net(pb, "else%d_body" % depth)
        add_op(other, "Relu", ["x"], ["y"])
        else_net = new_net(pb, "else%d" % depth)
        add_do(pb, else_net, other, ["x"], ["y"], we)
        body = new_net(pb, "then%d_body" % (depth - 1) if depth else "if_nested")
        add_op(body, "CreateScope", [], [wt])
        add_op(body, "CreateScope", [], [we])
        add_op(
            body,
            "If",
            [conds[depth], "x", *params, *deeper, wt, we],
            ["y", wt, we],
            then_net=then_net,
            else_net=else_net,
        )
    return body, {"y": "y_grad"}


def do_nested(pb, size):
    """Do inside Do, size levels deep, one Relu innermost."""
    body = new_net(pb, "body%d" % (size - 1))
    add_op(body, "Relu", ["x"], ["y"])
    for depth in reversed(range(size)):
        outer = new_net(pb, "body%d" % (depth - 1) if depth else "do_nested")
        add_op(outer, "CreateScope", [], ["ws%d" % depth])
        add_do(pb, outer, body, ["x"], ["y"], "ws%d" % depth)
        body = outer
    return body, {"y": "y_grad"}


def if_wide(pb, size):
    """One If; then: size independent Relu ops, each with an outer input of its
    own; else: writes the same outputs without reading those inputs, so that
    size zero fills are needed."""
    net = new_net(pb, "if_wide")
    add_op(net, "CreateScope", [], ["wt"])
    add_op(net, "CreateScope", [], ["we"])
    xs = ["x%d" % i for i in range(size)]
    ys = ["y%d" % i for i in range(size)]
    then_body = new_net(pb, "then_body")
    else_body = new_net(pb, "else_body")
    for i in range(size):
        add_op(then_body, "Relu", [xs[i]], [ys[i]])
        add_op(else_body, "Relu", ["z"], [ys[i]])
    then_net, else_net = new_net(pb, "then"), new_net(pb, "else")
    add_do(pb, then_net, then_body, xs, ys, "wt")
    add_do(pb, else_net, else_body, ["z"], ys, "we")
    add_op(
        net,
        "If",
        ["cond", "z", *xs, "wt", "we"],
        [*ys, "wt", "we"],
        then_net=then_net,
        else_net=else_net,
    )
    return net, {y: y + "_grad" for y in ys}


def if_shared(pb, size):
    """size If ops that all read the same blob x: size gradients of x have to be
    renamed inside the gradient nets and summed."""
    net = new_net(pb, "if_shared")
    outs = []
    for i in range(size):
        y, wt = "y%d" % i, "wt%d" % i
        add_op(net, "CreateScope", [], [wt])
        body = new_net(pb, "body")
        add_op(body, "Relu", ["x"], [y])
        then_net = new_net(pb, "then%d" % i)
        add_do(pb, then_net, body, ["x"], [y], wt)
        add_op(net, "If", ["cond%d" % i, "x", wt], [y, wt], then_net=then_net)
        outs.append(y)
    root = _join(net, outs, "s")
    return net, {root: root + "_grad"}


def if_shared_wide(pb, size):
    """Two If ops whose then-branches read the same size weights (an FC chain):
    each weight gets two gradients, so size outputs of one gradient If have to
    be renamed inside its nets."""
    net = new_net(pb, "if_shared_wide")
    layers = max(1, size)
    params = []
    for i in range(layers):
        params += ["w%d" % i, "b%d" % i]
    prev = "x"
    for k in range(2):
        y, wt = "y%d" % k, "wt%d" % k
        add_op(net, "CreateScope", [], [wt])
        body, h = new_net(pb, "body%d" % k), prev
        for i in range(layers):
            out = y if i == layers - 1 else "t%d" % i
            add_op(body, "FC", [h, "w%d" % i, "b%d" % i], [out])
            h = out
        then_net = new_net(pb, "then%d" % k)
        add_do(pb, then_net, body, [prev, *params], [y], wt)
        add_op(net, "If", ["cond%d" % k, prev, *params, wt], [y, wt], then_net=then_net)
        prev = y
    return net, {prev: prev + "_grad"}


def _add_while(pb, net, x, y, tag, inner_ops):
    """A state blob starts as x, a While op updates it in place with inner_ops
    ops (Relu first and last, FC and Relu between), and a Sum of one input names
    the result y.  The Sum hands its gradient on under y's gradient name: the
    reference refuses a loop whose incoming gradient has the name that it gives
    to the outgoing one."""
    ws, state = "ws_loop%s" % tag, "state%s" % tag
    add_op(net, "Copy", [x], [state])
    add_op(net, "CreateScope", [], [ws])
    body = new_net(pb, "loop_body%s" % tag)
    prev, params = state, []
    for i in range(inner_ops):
        out = state if i == inner_ops - 1 else "t%s_%d" % (tag, i)
        if i % 2 == 1 and i < inner_ops - 1:
            w, b = "w%s_%d" % (tag, i), "b%s_%d" % (tag, i)
            params += [w, b]
            add_op(body, "FC", [prev, w, b], [out])
        else:
            add_op(body, "Relu", [prev], [out])
        prev = out
    loop = new_net(pb, "loop%s" % tag)
    names = [state, *params]
    do = loop.op.add()
    do.type = "Do"
    do.input.extend([*names, ws])
    do.output.extend([state, ws])
    set_arg(do.arg.add(), "net", body)
    # the state is both an input and an output of the Do op; it is bound once
    set_arg(do.arg.add(), "inner_blobs", names)
    set_arg(do.arg.add(), "outer_blobs_idx", list(range(len(names))))
    set_arg(do.arg.add(), "copy_external_blobs", True)
    add_op(net, "While", ["cond%s" % tag, *names, ws], [state, ws], loop_net=loop)
    add_op(net, "Sum", [state], [y])


def while_one(pb, size):
    """One While whose loop body has size ops (FC, Relu)."""
    net = new_net(pb, "while_one")
    _add_while(pb, net, "x", "y", "", max(1, size))
    return net, {"y": "y_grad"}


def while_state(pb, size):
    """One While that carries size state blobs, each updated in place by one
    Relu."""
    net = new_net(pb, "while_state")
    states = ["state%d" % i for i in range(size)]
    for i in range(size):
        add_op(net, "Copy", ["x%d" % i], [states[i]])
    add_op(net, "CreateScope", [], ["ws_loop"])
    body = new_net(pb, "loop_body")
    for name in states:
        add_op(body, "Relu", [name], [name])
    loop = new_net(pb, "loop")
    do = loop.op.add()
    do.type = "Do"
    do.input.extend([*states, "ws_loop"])
    do.output.extend([*states, "ws_loop"])
    set_arg(do.arg.add(), "net", body)
    set_arg(do.arg.add(), "inner_blobs", states)
    set_arg(do.arg.add(), "outer_blobs_idx", list(range(size)))
    set_arg(do.arg.add(), "copy_external_blobs", True)
    add_op(net, "While", ["cond", *states, "ws_loop"], [*states, "ws_loop"], loop_net=loop)
    for i in range(size):
        add_op(net, "Sum", [states[i]], ["y%d" % i])
    return net, {"y%d" % i: "y%d_grad" % i for i in range(size)}


def while_many(pb, size):
    """A chain of size While ops with a one-op body."""
    net = new_net(pb, "while_many")
    prev = "x"
    for i in range(size):
        y = "y%d" % i
        _add_while(pb, net, prev, y, str(i), 1)
        prev = y
    return net, {prev: prev + "_grad"}


# --------------------------------------------------------------------- big args
def big_args_off(pb, size, ops=16):
    """A short chain next to GivenTensorFill ops that carry size floats and are
    not differentiated."""
    net, ys = chain(pb, ops)
    net.name = "big_args_off"
    for i in range(ops):
        n = size // ops
        add_op(
            net,
            "GivenTensorFill",
            [],
            ["const%d" % i],
            shape=[n],
            values=[float(j % 1024) for j in range(n)],
        )
    return net, ys


def big_args_on(pb, size, ops=16):
    """As big_args_off, but the filled blobs are the weights: gradients reach
    the fill ops (which have none to give)."""
    net = new_net(pb, "big_args_on")
    n = size // ops
    for i in range(ops):
        add_op(
            net,
            "GivenTensorFill",
            [],
            ["w%d" % (2 * i)],
            shape=[n],
            values=[float(j % 1024) for j in range(n)],
        )
    body, ys = chain(pb, 2 * ops)
    net.op.extend(body.op)
    return net, ys


def big_args_copied(pb, size, ops=16):
    """A chain whose ops carry size argument values (a third each of ints,
    floats and short strings) that the gradient ops copy."""
    net, ys = chain(pb, ops)
    net.name = "big_args_copied"
    n = size // (3 * ops)
    for op in net.op:
        set_arg(op.arg.add(), "aux_ints", [j * 37 for j in range(n)])
        set_arg(op.arg.add(), "aux_floats", [float(j % 1024) for j in range(n)])
        set_arg(op.arg.add(), "aux_strings", ["name_%d" % j for j in range(n)])
    return net, ys


# ------------------------------------------------------------------------ table
# family: (function, what size counts)
FAMILIES = {
    "chain": (chain, "ops"),
    "inplace": (inplace, "ops"),
    "overwrite": (overwrite, "ops"),
    "many_ys": (many_ys, "ops"),
    "long_names": (long_names, "ops"),
    "resnet": (resnet, "ops"),
    "mlp_shared": (mlp_shared, "ops"),
    "fanout": (fanout, "ops"),
    "sparse": (sparse, "lookups"),
    "sparse_one": (sparse_one, "lookups"),
    "dlrm": (dlrm, "tables"),
    "wide_concat": (wide_concat, "inputs of the Concat"),
    "wide_sum": (wide_sum, "inputs of the Sum"),
    "wide_split": (wide_split, "outputs of the Split"),
    "do_wide": (do_wide, "inner ops (2 bindings each)"),
    "do_params": (do_params, "inner ops (1 binding each)"),
    "do_nested": (do_nested, "depth"),
    "if_many": (if_many, "If ops"),
    "if_nested": (if_nested, "depth"),
    "if_wide": (if_wide, "outputs of the If"),
    "if_shared": (if_shared, "If ops"),
    "if_shared_wide": (if_shared_wide, "FC ops in each of the two branches"),
    "while_state": (while_state, "state blobs"),
    "while": (while_one, "inner ops"),
    "while_many": (while_many, "While ops"),
    "big_args_off": (big_args_off, "argument values"),
    "big_args_on": (big_args_on, "argument values"),
    "big_args_copied": (big_args_copied, "argument values"),
}


def build(pb, family, size):
    net, ys = FAMILIES[family][0](pb, size)
    return Case(family, size, net, ys, count_ops(net), len(net.op))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("family", nargs="?", choices=sorted(FAMILIES))
    parser.add_argument("size", nargs="?", type=int)
    parser.add_argument("--pb", default="ctrlgrad.caffe2_pb2")
    parser.add_argument("--out")
    parser.add_argument("--list", action="store_true")
    opts = parser.parse_args()
    if opts.list or opts.family is None:
        for name, (_func, unit) in FAMILIES.items():
            print("%-16s size = %s" % (name, unit))
        return
    case = build(importlib.import_module(opts.pb), opts.family, opts.size)
    data = case.net.SerializeToString()
    if opts.out:
        with open(opts.out, "wb") as out:
            out.write(data)
    print(
        json.dumps(
            {
                "family": case.family,
                "size": case.size,
                "ops": case.ops,
                "top_ops": case.top_ops,
                "bytes": len(data),
                "ys": case.ys,
            }
        )
    )


if __name__ == "__main__":
    main()
