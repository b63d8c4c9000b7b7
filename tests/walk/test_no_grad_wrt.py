"""`no_grad` and `wrt`: every sentence of their contract, and what must hold for any net."""

import ctrlgrad
import play
import pytest
from ctrlgrad import backward, backward_bytes
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from nets import do, mlp, net, op, types
from places import STEERING, feeds, in_do, in_do_in_then, in_then, in_while, scope, while_

FLOWS = pytest.mark.parametrize(
    "place", [in_do, in_then, in_do_in_then, in_while], ids=["do", "then", "do in then", "while"]
)


def outputs(ops):
    return {name for each in ops for name in each.output}


# ------------------------------------------------------- a name means a blob of the outermost net


def test_a_name_means_all_versions():
    ops = [
        op("Sin", "x", "h"),
        op("Sum", "h v", "h2"),
        op("Sigmoid", "w", "h"),
        op("Mul", "h2 h", "y"),
    ]
    assert set(backward(net(*ops), ["y"]).grads) == {"y", "h2", "h", "v", "w", "x"}
    assert set(backward(net(*ops), ["y"], no_grad=["h"]).grads) == {"y", "h2", "v"}


def test_a_target_may_be_an_input_of_the_net():
    answer = backward(net(op("Sin", "x", "y")), ["y", "x"], wrt=["x"])
    assert set(answer.grads) == {"x"}
    assert answer.grads["x"] in outputs(answer.ops)


@FLOWS
def test_a_blob_inside_is_no_name(place):
    forward = in_do([op("Sin", "x", "inner"), op("Sin", "inner", "y")], "x", "y")
    for more in ({"no_grad": ["inner"]}, {"wrt": ["inner"]}):
        with pytest.raises(ctrlgrad.UnknownBlobError):
            backward(forward, ["y"], **more)


@FLOWS
def test_a_blob_inside_is_reached_through_the_outer_one(place):
    forward = place([op("Mul", "x w", "h"), op("Sin", "h", "y")], "x w", "y")
    assert "w" in backward(forward, ["y"]).grads
    assert "w" not in backward(forward, ["y"], no_grad=["w"]).grads
    assert set(backward(forward, ["y"], wrt=["w"]).grads) == {"w"}


def test_inner_and_outer_names_differ():
    inside = do(net(op("Mul", "a b", "c")), "a b", "c")
    inside.input[:] = ["x", "w", "ws"]
    inside.output[:] = ["y", "ws"]
    forward = net(scope(), inside)
    assert set(backward(forward, ["y"], wrt=["x"]).grads) == {"x"}
    assert set(backward(forward, ["y"], no_grad=["x"]).grads) == {"y", "w"}
    with pytest.raises(ctrlgrad.UnknownBlobError):
        backward(forward, ["y"], no_grad=["a"])


@pytest.mark.parametrize("more", ["no_grad", "wrt"])
@pytest.mark.parametrize(("name", "near"), [("los", "loss"), ("w3", "w1"), ("W2", "w2")])
def test_an_unknown_name_has_near_names(more, name, near):
    with pytest.raises(ctrlgrad.UnknownBlobError, match=more) as caught:
        backward(mlp(), ["loss"], **{more: [name]})
    assert caught.value.blob == name
    assert '"%s"' % near in caught.value.hint


@pytest.mark.parametrize("name", ["w1", b"w1", ctrlgrad.BlobReference("w1")])
def test_any_form_of_a_name(name):
    assert set(backward(mlp(), ["loss"], wrt=[name]).grads) == {"w1"}
    assert "w1" not in backward(mlp(), ["loss"], no_grad=(name,)).grads


# ------------------------------------------------------------------------------------- no_grad


def test_as_if_each_reader_had_a_stop_gradient_before_it():
    ops = [op("Sin", "x", "h"), op("Sin", "h", "a"), op("Tanh", "h", "b"), op("Mul", "a b", "y")]
    answer = backward(net(*ops), ["y"], no_grad=["h"])
    assert set(answer.grads) == {"y", "a", "b"}
    assert types(answer.ops) == ["ConstantFill", "MulGradient"]


def test_no_operator_that_would_serve_nothing():
    assert types(backward(mlp(), ["loss"], no_grad=["p"]).ops) == [
        "ConstantFill",
        "AveragedLossGradient",
        "SquaredL2DistanceGradient",
    ]


def test_an_operator_goes_on_writing_for_its_other_inputs():
    answer = backward(mlp(), ["loss"], no_grad=["w1", "w2"])
    assert types(answer.ops) == types(backward(mlp(), ["loss"]).ops)
    assert answer.ops[-1].output == ["w1_grad", "b1_grad", "x_grad"]
    assert {"w1", "w2"}.isdisjoint(answer.grads)


def test_it_is_no_summand():
    """What an operator writes for a stopped blob goes into no sum and into no name that is read."""
    ops = [op("Mul", "x w", "a"), op("Mul", "x v", "b"), op("Mul", "a b", "y")]
    answer = backward(net(*ops), ["y"], no_grad=["x"])
    assert "Sum" not in types(answer.ops)
    assert set(answer.grads) == {"y", "a", "b", "w", "v"}


def test_a_target_that_is_stopped_is_an_error():
    for ys in (["loss"], {"loss": "g"}, {"loss": None, "h": None}):
        with pytest.raises(ValueError, match="loss") as caught:
            backward(mlp(), ys, no_grad=["loss"])
        assert isinstance(caught.value, ctrlgrad.ArgumentError)
        assert caught.value.blob == "loss"


def test_stopping_every_input():
    answer = backward(net(op("Mul", "x w", "y")), {"y": "gy"}, no_grad=["x", "w"])
    assert (answer.ops, answer.grads) == ([], {"y": "gy"})


def test_stopping_what_has_no_gradient_changes_nothing():
    forward = net(op("Sin", "x", "y"), op("Sin", "p", "q"))
    assert backward(forward, ["y"], no_grad=["p"]).ops_bytes == backward(forward, ["y"]).ops_bytes


def test_stopping_a_table():
    ops = [op("Gather", "t i", "h"), op("Mul", "h w", "y")]
    answer = backward(net(*ops), ["y"], no_grad=["t"])
    assert set(answer.grads) == {"y", "h", "w"}


def test_a_stopped_blob_may_have_an_operator_without_gradient_before_it():
    ops = [op("NoSuch", "x", "h"), op("Mul", "h w", "y")]
    with pytest.raises(ctrlgrad.NoGradientError):
        backward(net(*ops), ["y"])
    assert set(backward(net(*ops), ["y"], no_grad=["h"]).grads) == {"y", "w"}


@FLOWS
def test_stopping_before_a_flow(place):
    inside = place([op("Mul", "h w", "y")], "h w", "y")
    answer = backward(net(op("Sin", "x", "h"), *inside.op), ["y"], no_grad=["h"])
    assert {"h", "x"}.isdisjoint(answer.grads)
    assert "w" in answer.grads


@FLOWS
def test_stopping_behind_a_flow(place):
    inside = place([op("Mul", "x w", "h")], "x w", "h")
    answer = backward(net(*inside.op, op("Mul", "h v", "y")), ["y"], no_grad=["h"])
    assert set(answer.grads) == {"y", "v"}
    assert types(answer.ops) == ["ConstantFill", "MulGradient"]


# ----------------------------------------------------------------------------------------- wrt


def test_the_entries_of_the_named_blobs():
    full = backward(mlp(), ["loss"])
    answer = backward(mlp(), ["loss"], wrt=["w1", "b2"])
    assert list(answer.grads.items()) == [
        (blob, gradient) for blob, gradient in full.grads.items() if blob in ("w1", "b2")
    ]


def test_the_operators_from_which_they_are_computed_in_order():
    ops = [op("Mul", "x w", "a"), op("Mul", "x v", "b"), op("Mul", "a b", "y")]
    full = backward(net(*ops), ["y"])
    answer = backward(net(*ops), ["y"], wrt=["w"])
    assert types(answer.ops) == ["ConstantFill", "MulGradient", "MulGradient"]
    assert answer.ops == [each for each in full.ops if each in answer.ops]
    assert "Sum" in types(backward(net(*ops), ["y"], wrt=["x"]).ops)


def test_values_are_followed_not_names():
    """h_grad is written three times; the last one is that of another version."""
    ops = [op("Sin", "x", "h"), op("Scale", "h", "h"), op("Scale", "h", "h"), op("Mul", "h w", "y")]
    full = backward(net(*ops), ["y"])
    assert types(full.ops)[-4:] == ["MulGradient", "Scale", "Scale", "SinGradient"]
    assert types(backward(net(*ops), ["y"], wrt=["w"]).ops) == ["ConstantFill", "MulGradient"]
    assert types(backward(net(*ops), ["y"], wrt=["h"]).ops) == types(full.ops)[:-1]


def test_a_sum_needs_all_of_its_summands():
    ops = [op("Sin", "x", "a"), op("Tanh", "x", "b"), op("Mul", "a b", "y")]
    assert backward(net(*ops), ["y"], wrt=["x"]).ops == backward(net(*ops), ["y"]).ops


def test_a_sparse_gradient_needs_both_parts():
    ops = [op("Gather", "t i", "a"), op("Gather", "t j", "b"), op("Mul", "a b", "y")]
    answer = backward(net(*ops), ["y"], wrt=["t"])
    assert types(answer.ops).count("Concat") == 2
    assert set(answer.grads["t"]) <= outputs(answer.ops)


def test_a_named_blob_that_no_target_depends_on():
    forward = net(op("Sin", "x", "y"), op("Sin", "y", "z"))
    assert backward(forward, ["y"], wrt=["z"]).grads == {}
    assert backward(forward, ["y"], wrt=["z"]).ops == []
    assert backward(forward, ["y"], wrt=["z", "x"]).grads == {"x": "x_grad"}


def test_a_named_target():
    assert types(backward(mlp(), ["loss"], wrt=["loss"]).ops) == ["ConstantFill"]
    answer = backward(mlp(), {"loss": "g"}, wrt=["loss"])
    assert (answer.ops, answer.grads) == ([], {"loss": "g"})


def test_naming_nothing():
    assert (backward(mlp(), ["loss"], wrt=[]).ops, backward(mlp(), ["loss"], wrt=()).grads) == (
        [],
        {},
    )


@FLOWS
def test_a_gradient_flow_is_kept_whole(place):
    forward = place([op("Mul", "x w", "h"), op("Sin", "h", "y")], "x w", "y")
    full = backward(forward, ["y"])
    for blob in "xw":
        assert backward(forward, ["y"], wrt=[blob]).ops == full.ops


@FLOWS
def test_a_gradient_flow_is_left_out_whole(place):
    inside = place([op("Sin", "x", "h")], "x", "h")
    answer = backward(net(*inside.op, op("Mul", "h w", "y")), ["y"], wrt=["w"])
    assert types(answer.ops) == ["ConstantFill", "MulGradient"]


def test_what_a_gradient_loop_starts_from_is_kept():
    loop = while_(net(op("Add", "y w", "y")), "y w", "y")
    forward = net(scope(), loop, op("Sin", "y", "z"))
    for blob in "yw":
        assert backward(forward, ["z"], wrt=[blob]).ops == backward(forward, ["z"]).ops


# ---------------------------------------------------------------------------------------- both


def test_first_no_grad_then_wrt():
    answer = backward(mlp(), ["loss"], no_grad=["a"], wrt=["w1", "w2"])
    assert answer.grads == {"w2": "w2_grad"}
    assert types(answer.ops)[-1] == "FCGradient"
    assert len(answer.ops) == 4


def test_a_blob_in_both_has_no_entry():
    answer = backward(mlp(), ["loss"], no_grad=["w1"], wrt=["w1"])
    assert (answer.ops, answer.grads) == ([], {})


def test_messages_and_bytes_agree():
    more = {"no_grad": ["a"], "wrt": ["w2"]}
    answer = backward(mlp(), ["loss"], **more)
    assert backward_bytes(mlp().SerializeToString(), ["loss"], **more) == (
        answer.ops_bytes,
        dict(answer.grads),
    )


# -------------------------------------------------------------------------------- for any net

ONE = ["Sin", "Tanh", "Sigmoid", "Negative", "Scale", "Sum", "Tile", "EnsureDense"]
TWO = ["Add", "Mul", "Sum", "Sub"]
IN_PLACE = ["Tanh", "Sigmoid", "Negative", "Scale", "Sum"]
START = ["a", "b", "c"]


@st.composite
def operators(draw, blobs, depth, label):
    """Operators that read what is there: chains, fans, in place, and flows."""
    ops, known = [], list(blobs)
    for k in range(draw(st.integers(1, 4))):
        blob = draw(st.sampled_from(known))
        new = "%s%d" % (label, k)
        kind = draw(st.sampled_from(["one", "two", "in place", "again", "flow", "flow"]))
        if kind == "one":
            ops.append(op(draw(st.sampled_from(ONE)), [blob], [new]))
        elif kind == "two":
            ops.append(op(draw(st.sampled_from(TWO)), [blob, draw(st.sampled_from(known))], [new]))
        elif kind == "in place":
            ops.append(op(draw(st.sampled_from(IN_PLACE)), [blob], [blob]))
        elif kind == "again":
            ops.append(op("Tanh", [blob], [draw(st.sampled_from(known))]))
            if ops[-1].output[0] == blob:
                ops[-1].type = "Scale"
        elif kind == "flow" and depth:
            place = draw(st.sampled_from([in_do, in_then, in_do_in_then, in_while]))
            inside = draw(operators(known[:3], depth - 1, new + "_"))
            if {"CreateScope", "If"} & set(types(inside)):
                place = in_do
            steering = [] if place is in_then else ["cond", "turns", "one", "zero", "more"]
            needed = play.read_from_outside(net(*inside))
            made = [name for each in inside for name in each.output if name not in known]
            shown = [name for name in known if any(name in each.output for each in inside)]
            result = [name for name in shown + made[-1:] if name != "ws"]
            if not result:
                continue
            ops += [op("Scale", [blob], [name]) for name in made if place is not in_do]
            listed = [name for name in needed if name in known or name in steering]
            ops += place(inside, listed, result).op
            known += [name for name in result if name not in known]
            continue
        else:
            continue
        known += [name for name in ops[-1].output if name not in known]
    return ops


@st.composite
def questions(draw, more=()):
    """A net whose inputs nobody overwrites, and targets."""
    scaled = [op("Scale", [name + "0"], [name]) for name in START]
    made = draw(operators(START, 2, "h"))
    forward = net(*scaled, *made, *more)
    blobs = dict.fromkeys(name for each in forward.op for name in each.output)
    blobs = [name for name in blobs if not name.startswith(("ws", "turns", "more"))]
    ys = draw(st.lists(st.sampled_from(blobs), min_size=1, max_size=2, unique=True))
    return forward, {y: draw(st.sampled_from([None, "g_" + y])) for y in ys}


def all_blobs(forward):
    return list(dict.fromkeys(n for each in forward.op for n in [*each.input, *each.output]))


def answered(forward, ys, **more):
    try:
        return backward(forward, ys, **more)
    except ctrlgrad.CtrlgradError:
        assume(False)


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(any(each == other for other in rest) for each in part)


any_net = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
    database=None,
)


@any_net
@given(st.data())
def test_every_wrt_answer_is_a_part_of_the_full_one(data):
    forward, ys = data.draw(questions())
    full = answered(forward, ys)
    wrt = data.draw(st.lists(st.sampled_from(all_blobs(forward)), max_size=3))
    part = backward(forward, ys, wrt=wrt)
    assert list(part.grads.items()) == [(b, g) for b, g in full.grads.items() if b in wrt]
    assert is_subsequence(part.ops, full.ops)
    everything = backward(forward, ys, wrt=all_blobs(forward))
    assert everything.grads == full.grads


@any_net
@given(st.data())
def test_every_wrt_answer_has_the_numbers_of_the_full_one(data):
    forward, ys = data.draw(questions())
    answered(forward, ys)
    wrt = data.draw(st.lists(st.sampled_from(all_blobs(forward)), max_size=3))
    for steering in STEERING:
        given_feeds = feeds(forward, steering)
        full, _ = play.gradients(forward, given_feeds, ys)
        part, _ = play.gradients(forward, given_feeds, ys, wrt=wrt)
        assert part == {blob: value for blob, value in full.items() if blob in wrt}


@any_net
@given(st.data())
def test_every_full_answer_is_right(data):
    forward, ys = data.draw(questions())
    answered(forward, ys)
    for steering in STEERING:
        assert play.wrong(forward, feeds(forward, steering), ys) == {}


def stopped(forward, names):
    """The net with a StopGradient before each reader of these blobs in the outermost net."""
    made = net()
    for k, each in enumerate(forward.op):
        copy = type(each).FromString(each.SerializeToString())
        for name in dict.fromkeys(set(names) & set(each.input)):
            if each.type in ("Do", "If", "While"):
                assume(False)
            made.op.append(op("StopGradient", [name], ["%s_stopped_%d" % (name, k)]))
            copy.input[:] = [
                "%s_stopped_%d" % (name, k) if other == name else other for other in copy.input
            ]
        made.op.append(copy)
    return made


@any_net
@given(st.data())
def test_every_no_grad_answer(data):
    forward, ys = data.draw(questions())
    full = answered(forward, ys)
    names = data.draw(st.lists(st.sampled_from(all_blobs(forward)), min_size=1, max_size=2))
    assume(not set(names) & set(ys))
    try:
        answer = backward(forward, ys, no_grad=names)
    except ctrlgrad.VersionError:
        reject()  # an older value of a target has no gradient then, which no answer can express
    assert not set(names) & set(answer.grads)
    assert set(answer.grads) <= set(full.grads)
    check_that_all_serves(answer)
    both = backward(
        forward, ys, no_grad=names, wrt=data.draw(st.sets(st.sampled_from(all_blobs(forward))))
    )
    assert is_subsequence(both.ops, answer.ops)


def check_that_all_serves(answer):
    """Each operator writes something that is read later, or that is a gradient in the map."""
    wanted = {part for g in answer.grads.values() for part in (g if isinstance(g, tuple) else [g])}
    for each in reversed(answer.ops):
        assert wanted & set(each.output) or each.type in ("Do", "If", "While"), each
        wanted |= set(each.input)
        for arg in each.arg:
            for inner in arg.n.op:
                wanted |= set(inner.input)


@any_net
@given(st.data())
def test_no_grad_has_the_numbers_of_stop_gradient(data):
    forward, ys = data.draw(questions())
    answered(forward, ys)
    names = data.draw(st.lists(st.sampled_from(all_blobs(forward)), min_size=1, max_size=2))
    assume(not set(names) & set(ys))
    like = stopped(forward, names)
    answered(like, ys)
    for steering in STEERING:
        given_feeds = feeds(forward, steering)
        got, _ = play.gradients(forward, given_feeds, ys, no_grad=names)
        want, _ = play.gradients(like, given_feeds, ys)
        same = {blob: value for blob, value in want.items() if blob not in names}
        assert got == pytest.approx({b: v for b, v in same.items() if "_stopped_" not in b})


def test_no_ones_are_left_for_a_target_that_nothing_needs():
    body = net(op("Sin", "a", "h"), op("Tanh", "b", "a"))
    scoped = op(
        "Do",
        "a b ws",
        "a h ws",
        net=body,
        inner_blobs=[b"a", b"b", b"h"],
        outer_blobs_idx=[0, 1, 3],
    )
    forward = net(op("Sin", "a", "x"), op("CreateScope", "", "ws"), scoped)
    assert [each.type for each in backward(forward, ["a"]).ops] == ["ConstantFill", "Do"]
    assert backward(forward, ["a"], no_grad=["b"]).ops == []
