"""Puts a few operators where they may stand: at the top, or inside a Do, If or While."""

import play
from nets import do, if_, net, op


def scope(ws="ws"):
    return op("CreateScope", "", ws)


def while_(body, inputs, outputs, keep=True, ws="ws"):
    """A While of `turns` turns (a blob that counts down) around a Do of this net.

    keep: whether the workspace of each turn keeps its values of outer blobs.
    """
    turn = do(body, inputs, outputs)
    turn.input[-1] = turn.output[-1] = ws
    if keep:
        turn.arg.add(name="copy_external_blobs").i = 1
    count = net(op("Sub", "turns one", "turns"), op("LE", "zero turns", "more"), name="count")
    return op(
        "While",
        ["more", *names(inputs), ws, "turns", "one", "zero"],
        [*names(outputs), ws, "turns", "more"],
        loop_net=net(turn, name="loop"),
        cond_net=count,
    )


def names(text):
    return text.split() if isinstance(text, str) else list(text)


def both(inputs, outputs):
    """What goes in if an output may keep its value."""
    return list(dict.fromkeys([*names(inputs), *names(outputs)]))


def at_top(ops, inputs, outputs):
    return net(*ops)


def in_do(ops, inputs, outputs):
    return net(scope(), do(net(*ops, name="body"), inputs, outputs))


def in_do_in_do(ops, inputs, outputs):
    return in_do(in_do(ops, inputs, outputs).op, inputs, outputs)


def written(ops, outputs):
    """The outputs, and what else the operators write: without a Do it is seen outside."""
    return list(dict.fromkeys([*names(outputs), *(name for each in ops for name in each.output)]))


def in_then(ops, inputs, outputs):
    outputs = written(ops, outputs)
    then_net = net(*ops, name="then")
    return net(if_("cond", both(inputs, outputs), outputs, then_net))


def in_else(ops, inputs, outputs):
    outputs = written(ops, outputs)
    nets = net(name="then"), net(*ops, name="else")
    return net(if_("cond", both(inputs, outputs), outputs, *nets))


def in_do_in_then(ops, inputs, outputs):
    then_net = net(do(net(*ops, name="body"), inputs, outputs), name="then")
    inputs = [*both(inputs, outputs), "ws"]
    return net(scope(), if_("cond", inputs, [*names(outputs), "ws"], then_net))


def in_while(ops, inputs, outputs):
    return net(scope(), while_(net(*ops, name="body"), both(inputs, outputs), outputs))


PLACES = {
    "top": at_top,
    "do": in_do,
    "do in do": in_do_in_do,
    "then": in_then,
    "else": in_else,
    "do in then": in_do_in_then,
    "while": in_while,
}
FLOWS = {name: place for name, place in PLACES.items() if name != "top"}

# Feeds that steer: each place is tried with all of them.
STEERING = [
    {"cond": cond, "turns": turns, "one": 1, "zero": 0, "more": False}
    for cond, turns in [(True, 0), (False, 1), (True, 2)]
]


def feeds(forward, steering):
    """Numbers for what the net reads from outside."""
    names = play.read_from_outside(forward)
    return {**{name: 0.3 + 0.37 * k for k, name in enumerate(names)}, **steering}


def assert_right(forward, ys):
    """The gradients of all that comes in are what central differences say, either way."""
    for steering in STEERING:
        assert play.wrong(forward, feeds(forward, steering), ys) == {}, steering
