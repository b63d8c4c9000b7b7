"""The kinds of nets for which Caffe2 gives a wrong answer, or none, and ours.

Each kind is a few operators that are put wherever operators may stand. `assert_right` runs the
answer on numbers; what else a test says is about the operators.
"""

import itertools

import ctrlgrad
import pytest
from ctrlgrad import GradientSlice, backward
from nets import do, if_, net, op, types
from places import FLOWS, PLACES, assert_right, both, in_do, in_while, scope, while_

everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
in_flows = pytest.mark.parametrize("place", FLOWS.values(), ids=FLOWS)


def nested(ops):
    """The operators, and those of all nets inside them."""
    for each in ops:
        yield each
        for arg in each.arg:
            if arg.HasField("n"):
                yield from nested(arg.n.op)


def all_types(ops):
    return types(nested(ops))


def inner_net(each, name):
    [found] = [arg.n for arg in each.arg if arg.name == name]
    return found


def refused(error, forward, ys, blob):
    with pytest.raises(error) as caught:
        backward(forward, ys)
    assert caught.value.blob == blob
    return caught.value


# --------------------------------------------------------------- gradients that the caller gives

CHAIN = [op("Sigmoid", "x", "h"), op("Sin", "h", "y")]


@everywhere
@pytest.mark.parametrize(
    "ys",
    [
        {"y": "gy", "h": "h_given"},
        {"h": "h_given", "y": "gy"},
        {"y": None, "h": "h_given"},
        {"y": "gy", "h": None},
        ["y", "h"],
        {"y": "same", "h": "same"},
    ],
    ids=str,
)
def test_gradient_given_for_the_middle_is_added(place, ys):
    assert_right(place(CHAIN, "x", "y h"), ys)


@everywhere
@pytest.mark.parametrize("users", [1, 2, 3])
def test_given_gradient_is_added_once(place, users):
    ops = [op("Sigmoid", "x", "h"), *(op("Sin", "h", "y%d" % k) for k in range(users))]
    outputs = ["h", *("y%d" % k for k in range(users))]
    assert_right(place(ops, "x", outputs), {name: "g_" + name for name in outputs})


@everywhere
@pytest.mark.parametrize("op_type", ["Sum", "Add", "Mul"])
def test_given_gradient_is_added_to_what_is_handed_on(place, op_type):
    ops = [op("Sigmoid", "x", "h"), op(op_type, "h w", "y")]
    assert_right(place(ops, "x w", "y h"), {"y": "y_given", "h": "h_given"})


@everywhere
def test_gradient_given_for_an_input_is_added(place):
    assert_right(place([op("Sigmoid", "x", "y")], "x", "y"), {"y": "gy", "x": "x_given"})


def test_gradient_given_under_its_usual_name_is_replaced():
    """Recurrent nets name gradients that nobody provides."""
    answer = backward(net(*CHAIN), {"y": "y_grad", "h": "h_grad"})
    assert types(answer.ops) == ["SinGradient", "SigmoidGradient"]
    assert answer.ops[0].output == ["h_grad"]


@pytest.mark.parametrize("users", [1, 2])
def test_sparse_gradient_given_for_a_table_is_joined(users):
    look_ups = [op("Gather", "t i%d" % k, "y%d" % k) for k in range(users)]
    ys = {"t": GradientSlice("i_in", "v_in"), **{"y%d" % k: None for k in range(users)}}
    answer = backward(net(*look_ups), ys)
    joined = [each for each in answer.ops if each.type == "Concat"]
    assert len(joined) == 2
    assert [sorted(each.input) for each in joined] == [
        sorted(["i_in", *("i%d" % k for k in range(users))]),
        sorted(["v_in", *("y%d_autogen_grad" % k for k in range(users))]),
    ]
    assert answer.grads["t"] == tuple(each.output[0] for each in joined)


@everywhere
@pytest.mark.parametrize("name", ["gy", "g", "ab"])
def test_a_name_of_two_characters_is_no_pair(place, name):
    assert_right(place([op("Mul", "x w", "y")], "x w", "y"), {"y": name})


@everywhere
@pytest.mark.parametrize("op_type", ["Sigmoid", "Sinh", "Tile", "Copy", "Mul", "Add", "Negative"])
@pytest.mark.parametrize("name", ["x_grad", "w_grad"])
def test_given_gradient_has_the_name_of_an_input_gradient(place, op_type, name):
    inputs = "x w" if op_type in ("Mul", "Add") else "x"
    assert_right(place([op(op_type, inputs, "y")], inputs, "y"), {"y": name})


@pytest.mark.parametrize("op_type", ["Sinh", "Tile", "Atan", "Normalize"])
def test_a_copy_comes_first_where_a_gradient_cannot_be_made_in_place(op_type):
    answer = backward(net(op(op_type, "x", "y")), {"y": "x_grad"})
    assert types(answer.ops)[0] == "Copy"
    assert answer.ops[1].output == answer.ops[0].input == ["x_grad"]
    assert "x_grad" not in answer.ops[1].input


@pytest.mark.parametrize("op_type", ["Sigmoid", "Relu", "Scale", "Negative"])
def test_no_copy_where_a_gradient_can_be_made_in_place(op_type):
    assert len(backward(net(op(op_type, "x", "y")), {"y": "x_grad"}).ops) == 1


# ------------------------------------------------------------------------------- one blob twice


@everywhere
@pytest.mark.parametrize("op_type", ["Max", "Mul", "Add", "Sub", "Sum"])
def test_a_blob_with_itself(place, op_type):
    assert_right(place([op(op_type, "x x", "y")], "x", "y"), ["y"])


@everywhere
@pytest.mark.parametrize("inputs", ["x w x", "x x x", "w x x"])
def test_max_counts_a_blob_once(place, inputs):
    assert_right(place([op("Max", inputs, "y")], "x w", "y"), ["y"])


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_max_and_min_ask_for_each_blob_once(op_type):
    answer = backward(net(op(op_type, "x w x", "y")), {"y": "gy"})
    assert types(answer.ops) == [op_type + "Gradient"]
    assert answer.ops[0].input == ["y", "gy", "x", "w"]
    assert answer.ops[0].output == ["x_grad", "w_grad"]


# ---------------------------------------------------------------------- gradients that are shared


@everywhere
@pytest.mark.parametrize("first", ["Sqr", "Sqrt", "Scale", "Negative", "Sigmoid", "Exp"])
@pytest.mark.parametrize("second", ["Sqr", "Sigmoid"])
def test_a_shared_gradient_is_not_changed_for_the_others(place, first, second):
    ops = [op(first, "a", "p"), op(second, "b", "q"), op("Sum", "p q", "y")]
    for order in itertools.permutations(ops[:2]):
        assert_right(place([*order, ops[2]], "a b", "y"), {"y": "y_given"})


def test_the_callers_gradient_is_not_changed():
    answer = backward(net(op("Sqr", "a", "y")), {"y": "gy"})
    assert all("gy" not in each.output for each in answer.ops)
    assert_right(net(op("Sqr", "a", "y"), op("Scale", "z", "z")), {"y": "same", "z": "same"})


@everywhere
@pytest.mark.parametrize("op_type", ["Sqrt", "Exp", "Sqr"])
def test_gradients_in_two_stages_are_one_summand(place, op_type):
    """Of an operator whose gradient is made by two operators, the second one in place."""
    ops = [op("Sigmoid", "x", "k"), op(op_type, "x", "h"), op("Mul", "h k", "y")]
    assert_right(place(ops, "x", "y"), ["y"])
    assert_right(place([ops[1], ops[0], ops[2]], "x", "y"), ["y"])
    assert_right(place([op(op_type, "x", "h"), op(op_type, "x", "k"), ops[2]], "x", "y"), ["y"])


def test_sqrt_of_a_target():
    assert_right(net(op("Sqrt", "x", "h")), ["x", "h"])


@pytest.mark.parametrize("inputs", ["x w", "x x", "w x"])
def test_the_scratch_of_pow_is_no_summand(inputs):
    answer = backward(
        net(op("Sigmoid", "x", "k"), op("Pow", inputs, "h"), op("Mul", "h k", "y")), ["y"]
    )
    sums = [each for each in answer.ops if each.type == "Sum"]
    assert [len(each.input) for each in sums] == [3 if inputs == "x x" else 2]


@everywhere
def test_in_place_under_a_shared_gradient(place):
    ops = [op("Scale", "x", "h", scale=2.0), op("Negative", "h", "h"), op("Sum", "h z", "h")]
    assert_right(place([*ops, op("Sin", "h", "y")], "x z", "y"), ["y"])


@everywhere
def test_two_branches_come_back_into_their_blob(place):
    ops = [
        op("Scale", "x", "h", scale=2.0),
        op("Negative", "h", "a"),
        op("Scale", "h", "b", scale=3.0),
    ]
    assert_right(place([*ops, op("Sum", "a b", "h"), op("Sin", "h", "y")], "x", "y"), ["y"])


@everywhere
def test_one_gradient_given_for_two_blobs(place):
    ops = [op("Scale", "x", "y", scale=2.0), op("Scale", "w", "z", scale=3.0)]
    assert_right(place(ops, "x w", "y z"), {"y": "same", "z": "same"})


@everywhere
def test_a_gradient_through_a_blob_that_is_written_again(place):
    """The gradients of both have one name; TileGradient cannot work in place."""
    ops = [op("Tile", "a", "b"), op("Sum", "b", "a"), op("Sin", "a", "y")]
    assert_right(place([op("Scale", "x", "a"), *ops], "x", "y"), ["y"])


# ------------------------------------------------------------------------------------- versions


@everywhere
@pytest.mark.parametrize("op_type", ["Log", "Sqr", "Logit", "Mul"])
def test_an_operator_overwrites_what_its_gradient_needs(place, op_type):
    inputs = "x w" if op_type == "Mul" else "x"
    error = refused(
        ctrlgrad.VersionError, place([op(op_type, inputs, "x")], inputs, "x"), ["x"], "x"
    )
    assert error.versions == (0, 1)
    assert error.op_type == op_type


@everywhere
@pytest.mark.parametrize(
    "op_type", ["Sigmoid", "Tanh", "Scale", "Negative", "Exp", "Sum", "Add", "Sub"]
)
def test_an_operator_in_place_that_can_be(place, op_type):
    inputs = "x w" if op_type in ("Add", "Sub", "Sum") else "x"
    assert_right(place([op(op_type, inputs, "x")], inputs, "x"), ["x"])
    assert_right(place([op(op_type, inputs, "x")], inputs, "x"), {"x": "x_grad"})


@everywhere
@pytest.mark.parametrize("op_type", ["Sum", "EnsureDense", "Sigmoid", "Copy"])
def test_a_gradient_of_another_version_is_not_handed_on(place, op_type):
    ops = [op(op_type, "a", "x"), op("Sigmoid", "w", "x"), op("Sin", "x", "y")]
    try:
        assert_right(place(ops, "a w", "y"), ["y"])
    except ctrlgrad.VersionError as error:
        assert error.blob == "x"


@everywhere
def test_a_later_operator_overwrites_what_a_gradient_needs(place):
    ops = [op("Sin", "x", "h"), op("Sigmoid", "w", "x"), op("Mul", "h x", "y")]
    error = refused(ctrlgrad.VersionError, place(ops, "x w", "y"), ["y"], "x")
    assert error.versions == (0, 1)


def test_each_output_of_an_operator_is_looked_at():
    ops = [op("Split", "x", "p q"), op("Sigmoid", "w", "q"), op("Sum", "p q", "s")]
    refused(ctrlgrad.VersionError, net(*ops), {"s": "s_in"}, "q")


@everywhere
def test_swapped_blobs(place):
    ops = [op("Sum", "x", "t"), op("Sum", "y", "x"), op("Sum", "t", "y")]
    assert_right(place(ops, "x y", "x y"), {"x": "x_given", "y": "y_given"})


# ---------------------------------------------------------------------------------------- names


@everywhere
@pytest.mark.parametrize(
    ("ops", "inputs", "blob"),
    [
        (
            [op("Tanh", "w", "x_grad"), op("Sigmoid", "x", "h"), op("Mul", "x_grad h", "y")],
            "x w",
            "x_grad",
        ),
        (
            [
                op("Mul", "_x_grad_autosplit_0 w", "k"),
                op("Sigmoid", "x", "a"),
                op("Tanh", "x", "b"),
                op("Mul", "a b", "c"),
                op("Mul", "c k", "y"),
            ],
            "x w _x_grad_autosplit_0",
            "_x_grad_autosplit_0",
        ),
        ([op("Sigmoid", "x", "x_grad"), op("Sum", "x_grad", "y")], "x", "x_grad"),
    ],
    ids=["made blob", "split name", "read by the operator itself"],
)
def test_a_gradient_would_overwrite_a_forward_blob(place, ops, inputs, blob):
    refused(ctrlgrad.OverwriteError, place(ops, inputs, "y"), ["y"], blob)


@everywhere
@pytest.mark.parametrize("inputs", ["x x_grad", "x_grad x"])
def test_an_operator_reads_a_blob_called_like_its_gradient(place, inputs):
    with pytest.raises((ctrlgrad.OverwriteError, ctrlgrad.BindingsError)) as caught:
        backward(place([op("Mul", inputs, "y")], inputs, "y"), ["y"])
    assert "x_grad" in str(caught.value)


def test_a_forward_blob_called_like_the_ones():
    refused(
        ctrlgrad.OverwriteError, net(op("Mul", "y_autogen_grad x", "y")), ["y"], "y_autogen_grad"
    )


@pytest.mark.parametrize("place", [in_do, in_while])
def test_a_gradient_that_leaves_would_overwrite_an_outer_blob(place):
    forward = place([op("Sigmoid", "x", "h")], "x", "h")
    whole = net(op("Mul", "x_grad w", "k"), *forward.op, op("Mul", "k h", "y"))
    refused(ctrlgrad.OverwriteError, whole, ["y"], "x_grad")


def test_a_clash_that_hurts_nobody_is_no_error():
    """The forward blob of that name is read by no gradient operator that comes later."""
    assert_right(
        net(op("Sum", "w", "x_grad"), op("Sigmoid", "x", "h"), op("Add", "x_grad h", "y")), ["y"]
    )


# --------------------------------------------------------------------- what a net only hands on


@everywhere
@pytest.mark.parametrize("inputs", ["x", "x w", "x x", "x w x"])
def test_a_net_that_only_hands_on(place, inputs):
    assert_right(place([op("Sum", inputs, "y")], both(inputs, ""), "y"), ["y"])
    assert_right(place([op("Sum", inputs, "y")], both(inputs, ""), "y"), {"y": "y_given"})


@everywhere
def test_a_net_that_hands_on_beside_a_real_gradient(place):
    assert_right(place([op("Sum", "x", "y"), op("Sigmoid", "w", "z")], "x w", "y z"), ["y", "z"])


@in_flows
def test_a_blob_that_comes_out_as_it_went_in(place):
    assert_right(place([op("Sigmoid", "x", "y")], "x q", "y q"), ["y", "q"])


@everywhere
def test_a_chain_of_aliases(place):
    ops = [
        op("Sum", "x", "a"),
        op("EnsureDense", "a", "b"),
        op("Sum", "b", "c"),
        op("Sum", "c", "y"),
    ]
    assert_right(place(ops, "x", "y"), ["y"])


def test_a_blob_handed_on_has_no_gradient_of_its_own_at_the_top():
    assert backward(net(op("Sum", "x w", "y")), {"y": "gy"}).grads == {
        "y": "gy",
        "x": "gy",
        "w": "gy",
    }


def test_a_branch_that_hands_on_copies():
    """In the other branch the gradient is something else, so it needs a blob of its own."""
    answer = backward(net(if_("c", "x w", "y", net(op("Sum", "x w", "y")))), {"y": "gy"})
    [gradient] = answer.ops
    assert set(gradient.output) == {"x_grad", "w_grad"}
    assert types(inner_net(gradient, "then_net").op) == ["Copy", "Copy"]
    assert types(inner_net(gradient, "else_net").op) == ["ConstantFill", "ConstantFill"]


# ------------------------------------------------------------- blobs that go in and come out


@in_flows
@pytest.mark.parametrize(
    "ys", [{"y": "y_grad"}, {"y": "x_grad"}, {"y": "given"}, {"y": None}], ids=str
)
@pytest.mark.parametrize(
    "ops",
    [
        [op("Add", "y x", "y")],
        [op("Sum", "y x", "h"), op("Negative", "h", "y")],
        [op("Sigmoid", "y", "y"), op("Sigmoid", "x", "side")],
    ],
    ids=["Add", "Sum", "Sigmoid"],
)
def test_a_blob_is_updated(place, ys, ops):
    assert_right(place(ops, "x y", "y"), ys)


@in_flows
@pytest.mark.parametrize(
    "before", [[], [op("Negative", "y", "side")]], ids=["unread", "read in vain"]
)
def test_a_blob_that_is_overwritten_has_no_influence(place, before):
    assert_right(place([*before, op("Sigmoid", "x", "y")], "x y", "y"), ["y"])


@in_flows
@pytest.mark.parametrize(
    "ys", [["y", "z"], {"y": "y_grad", "z": "z_grad"}, {"y": "gy", "z": None}], ids=str
)
def test_an_output_is_used_inside(place, ys):
    assert_right(place([op("Sigmoid", "x", "y"), op("Tanh", "y", "z")], "x", "y z"), ys)


@in_flows
@pytest.mark.parametrize(
    "ys", [["x", "y"], {"x": "x_grad", "y": None}, {"x": "x_grad", "y": "y_grad"}], ids=str
)
def test_an_updated_blob_is_used_inside(place, ys):
    """The gradient that comes in under the usual name is added to what the net itself makes."""
    assert_right(place([op("Sigmoid", "x", "x"), op("Sigmoid", "x", "y")], "x", "x y"), ys)


@pytest.mark.parametrize(
    "then_ops", [[op("Sigmoid", "h", "x")], [op("Sum", "h", "x")], [op("Add", "x h", "x")]]
)
@pytest.mark.parametrize("else_ops", [[op("Sigmoid", "x", "h")], [op("Sum", "x", "h")], [], None])
@pytest.mark.parametrize(
    "ys", [{"h": "h_grad", "x": None}, ["x"], ["h"], {"h": "same", "x": "same"}], ids=str
)
def test_each_branch_updates_another_blob(then_ops, else_ops, ys):
    nets = [net(*then_ops, name="t"), *([net(*else_ops, name="e")] if else_ops is not None else [])]
    assert_right(net(if_("cond", "h x", "x h", *nets)), ys)


@in_flows
def test_the_value_before_has_a_gradient_of_its_own(place):
    forward = place([op("Sigmoid", "w", "y")], both("w", "y"), "y")
    assert_right(net(op("Negative", "x", "y"), *forward.op), ["y"])


@pytest.mark.parametrize("op_type", ["Sum", "Sigmoid", "EnsureDense"])
def test_an_old_value_that_the_if_does_not_list(op_type):
    then_net = net(op("Sigmoid", "w", "y"))
    forward = net(op(op_type, "a", "y"), if_("cond", "w", "y", then_net))
    refused((ctrlgrad.VersionError, ctrlgrad.ScopeError), forward, {"y": "gy"}, "y")


@everywhere
@pytest.mark.parametrize("writer", ["Negative", "Sum", "Sin"])
@pytest.mark.parametrize("where", ["then", "else"])
def test_an_old_value_from_outside_that_an_inner_if_does_not_list(place, writer, where):
    """Where the inner If leaves the blob as it was, the old value's gradient would be lost."""
    branch = net(op("Sin", "w", "y"))
    inner = if_("cond", "w", "y", *((branch,) if where == "then" else (net(), branch)))
    forward = net(op(writer, "x", "y"), *place([inner], "y w cond", "y").op)
    refused(ctrlgrad.ScopeError, forward, {"y": "gy"}, "y")


@in_flows
def test_a_new_value_that_an_inner_if_makes_has_none_before(place):
    inner = if_("cond", "v w", "y", net(op("Sin", "w", "y")), net(op("Sin", "v", "y")))
    assert_right(net(op("Negative", "x", "w"), *place([inner], "v w cond", "y").op), {"y": "gy"})


@pytest.mark.parametrize("inputs", ["x h h", "x h"])
def test_one_blob_as_two_states_of_a_recurrent_net(inputs):
    args = {"initial_recurrent_state_ids": [1, 1], "outputs_with_grads": [0]}
    forward = net(op("Sin", "h0", "h"), op("RecurrentNetwork", inputs, "a ws", **args))
    ops = backward(forward, {"a": "g"}).ops
    assert list(ops[0].output) == ["x_grad", "h_grad", "_h_grad_autosplit_0"]
    assert types(ops)[:2] == ["RecurrentNetworkGradient", "Sum"]
    assert list(ops[1].input) == ["h_grad", "_h_grad_autosplit_0"]


# --------------------------------------------------------------------------------- Do, If, While


def test_a_net_without_a_name_is_told_from_its_gradient():
    body = net(op("Sigmoid", "x", "y"), name="")
    [gradient] = ctrlgrad.gen_do_gradient(do(body, "x", "y"), ["gy", None])[0]
    assert inner_net(gradient, "net").name
    assert_right(net(scope(), do(body, "x", "y")), ["y"])


@pytest.mark.parametrize("name", ["net", "inner_blobs", "outer_blobs_idx"])
@pytest.mark.parametrize("at_end", [True, False])
def test_an_argument_that_is_there_twice(name, at_end):
    forward = do(net(op("Sigmoid", "x", "y")), "x", "y")
    [again] = [arg for arg in forward.arg if arg.name == name]
    others = [arg for arg in forward.arg if arg.name != name]
    args = [*others, again, again] if at_end else [again, again, *others]
    forward.ClearField("arg")
    forward.arg.extend(args)
    if name == "net":
        return  # the reference takes the first one
    with pytest.raises(AssertionError, match=name):
        ctrlgrad.gen_do_gradient(forward, ["gy", None])


@pytest.mark.parametrize("condition", ["cond", "c", "xyz"])
@pytest.mark.parametrize("blob", ["c", "o", "x", "q"])
def test_letters_of_the_condition_are_blobs_like_others(condition, blob):
    if blob == condition:
        return
    [gradient] = backward(net(if_(condition, blob, "y", net(op("Sin", blob, "y")))), ["y"]).ops[1:]
    assert list(gradient.input) == [condition, blob, "y_autogen_grad"]


def test_a_letter_of_the_condition_is_overwritten():
    ops = [
        if_("cond", "c", "y", net(op("Sin", "c", "y"))),
        op("Scale", "c", "c"),
        op("Add", "c y", "out"),
    ]
    refused(ctrlgrad.VersionError, net(*ops), ["out"], "c")


def test_a_branch_changes_the_condition():
    ops = [op("Sigmoid", "x", "y"), op("Not", "cond", "no"), op("Copy", "no", "cond")]
    body = do(net(*ops), "x cond", "y cond")
    refused(
        ctrlgrad.VersionError,
        net(scope(), if_("cond", "x cond ws", "y cond ws", net(body))),
        ["y"],
        "cond",
    )


@pytest.mark.parametrize("op_type", ["EnsureDense", "Sum"])
def test_a_local_blob_gives_no_shape(op_type):
    """What only one branch makes is not there when the other one has run."""
    ops = [op(op_type, "x", "h"), op("Sigmoid", "h", "y")]
    answer = backward(net(if_("cond", "x", "y h", net(*ops))), ["y"])
    filled = [each for each in nested(answer.ops[1:]) if each.type == "ConstantFill"]
    assert filled
    assert all(each.input == ["x"] for each in filled)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@in_flows
def test_split_names_inside_and_outside(place, count):
    """x is used twice inside and several times behind it."""
    inside = place([op("Sigmoid", "x", "h"), op("Mul", "h x", "y")], "x", "y")
    behind = [
        op(op_type, "x", "k%d" % k) for k, op_type in enumerate(["Sigmoid", "Tanh", "Sin"][:count])
    ]
    joined = op("Sum", ["y", *("k%d" % k for k in range(count))], "z")
    assert_right(net(*inside.op, *behind, joined), ["z"])


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("flow", ["do", "do in do", "then", "else", "do in then"])
def test_the_same_block_several_times(flow, times):
    """Where there is a Do, the workspaces of all lie on one stack."""
    ops = []
    for k in range(times):
        block = [op("Scale", "y", "h%d" % k), op("Add", ["h%d" % k, "w"], "y")]
        ops += [each for each in FLOWS[flow](block, "y w", "y").op if each.type != "CreateScope"]
    assert_right(net(scope(), op("Scale", "x", "y"), *ops), ["y"])


@pytest.mark.parametrize("first", ["do", "do in then", "while"])
def test_a_loop_is_alone_on_its_stack(first):
    """Its gradient takes up all that is on it; what lies below is not a turn."""
    below = FLOWS[first]([op("Sum", "y w", "y")], "y w", "y")
    loop = while_(net(op("Scale", "y", "y", scale=2.0)), "y", "y")
    forward = net(*below.op, op("Sum", "turns2", "turns"), loop)
    refused(ctrlgrad.VersionError, forward, ["y"], "ws")


def test_a_do_may_lie_on_the_stack_of_a_loop():
    above = FLOWS["do"]([op("Sum", "y w", "y")], "y w", "y").op[1:]
    loop = while_(net(op("Scale", "y", "y", scale=2.0)), "y", "y")
    assert_right(net(scope(), loop, *above), ["y"])


def test_what_goes_from_turn_to_turn_without_gradient_behind_the_loop():
    body = net(op("Sum", "x z", "x"), op("Sin", "x", "y"))
    assert_right(net(scope(), while_(body, "x z y", "x y")), ["y"])


@in_flows
def test_a_loss_behind_an_update(place):
    forward = place([op("Add", "y w", "y")], "y w", "y")
    ops = [op("Scale", "x", "y", scale=0.5), *forward.op, op("Sin", "y", "loss")]
    assert_right(net(*ops), ["loss"])


@in_flows
def test_a_blob_that_all_read(place):
    assert_right(place([op("Sum", "y w", "h"), op("Sum", "h w", "y")], "y w", "y"), ["y"])


@pytest.mark.parametrize(
    "outer_use", [[], [op("Sigmoid", "w", "k")]], ids=["inside only", "outside too"]
)
def test_a_blob_that_every_turn_reads(outer_use):
    loop = while_(net(op("Add", "y w", "y")), "y w", "y")
    ys = ["y", *(["k"] if outer_use else [])]
    forward = net(scope(), loop, *outer_use)
    assert_right(forward, ys)
    answer = backward(forward, ys)
    assert "Sum" in all_types(each for each in answer.ops if each.type == "While")


def test_what_a_loop_starts_from_is_not_changed_for_the_others():
    loop = while_(net(op("Sigmoid", "y", "y")), "y", "y")
    ops = [op("Sigmoid", "w", "k"), op("Scale", "x", "y"), scope(), loop, op("Sum", "y k", "s")]
    assert_right(net(*ops), {"s": "s_in"})


def test_reuse_workspace_may_be_false():
    turn = do(net(op("Sigmoid", "y", "y")), "y", "y")
    turn.arg.add(name="reuse_workspace").i = 0
    loop = op("While", "more y ws", "y ws", loop_net=net(turn))
    assert "While" in types(ctrlgrad.gen_while_gradient(loop, ["gy", None])[0])


def test_reuse_workspace_may_not_be_true():
    turn = do(net(op("Sigmoid", "y", "y")), "y", "y")
    turn.arg.add(name="reuse_workspace").i = 1
    loop = op("While", "more y ws", "y ws", loop_net=net(turn))
    with pytest.raises(ctrlgrad.ControlFlowError, match="reuse"):
        ctrlgrad.gen_while_gradient(loop, ["gy", None])


@pytest.mark.parametrize("op_type", ["Sigmoid", "Sum", "Negative"])
def test_a_loop_that_writes_what_it_does_not_read(op_type):
    loop = while_(net(op(op_type, "k", "a")), "k a", "a")
    assert_right(net(scope(), loop), ["a"])
    loop = while_(net(op(op_type, "k", "a")), "k", "a")
    assert_right(net(op("ConstantFill", "k", "a"), scope(), loop), ["a"])


def test_a_blob_of_the_last_turn_only():
    loop = while_(net(op("Sum", "y", "a"), op("Scale", "y", "y", scale=2.0)), "y a", "a y")
    assert_right(net(scope(), loop), ["a", "y"])


@pytest.mark.parametrize("stop", [op("StopGradient", "b", "b"), op("ConstantFill", "b", "b")])
def test_a_loop_without_gradient_ends(stop):
    """Its gradient loop must take the workspaces of all turns from the stack."""
    loop = while_(net(stop), "b", "b")
    answer = backward(net(scope(), loop, op("Scale", "b", "x")), ["x"])
    [gradient] = [each for each in answer.ops if each.type == "While"]
    assert "Do" in types(inner_net(gradient, "loop_net").op)


@pytest.mark.parametrize("then", [True, False])
def test_two_inputs_of_an_if_do_not_share_a_gradient(then):
    """b becomes a in one branch, in the other a keeps its value: they have different gradients."""
    nets = net(op("Sum", "b", "a"), op("Sigmoid", "a", "y"), name="t"), net(name="e")
    for order in itertools.permutations("bay"):
        flow = if_("cond", list(order), "a y", *(nets if then else nets[::-1]))
        assert_right(net(flow), ["y", "a"])


@pytest.mark.parametrize("inputs", ["a b", "b a"])
@pytest.mark.parametrize("op_type", ["Sum", "EnsureDense"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_comes_in_is_handed_on_before_it_is_overwritten(inputs, op_type, depth):
    """b becomes a: b_grad is copied for a, and then b_grad is zeros."""
    ops = [if_("cond", inputs, "b", net(op(op_type, "a", "b"), name="t")), op("Sin", "b", "y")]
    for _ in range(depth):
        ops = [if_("cond", "cond %s y" % inputs, "b y", net(*ops, name="t"))]
    assert_right(net(*ops), ["y"])


def test_an_input_and_an_output_of_an_if_do_not_share_a_gradient():
    """c is all that h is made of in one branch; in the other h keeps its value."""
    flow = if_("cond", "c h", "h", net(op("Sum", "c", "h"), op("Tanh", "h", "h"), name="t"))
    assert_right(net(op("Sinh", "c", "h"), flow, op("Sin", "h", "y")), ["y"])


@in_flows
@pytest.mark.parametrize("ops", [[op("Sum", "a", "y")], [op("Sum", "a b", "y")]])
@pytest.mark.parametrize(
    "ys", [{"a": None, "y": "a_grad"}, {"y": "a_grad", "a": "y_grad"}], ids=str
)
def test_what_is_handed_on_has_the_name_of_the_summand(place, ops, ys):
    assert_right(place(ops, "a b", "y"), ys)


# --------------------------------------------------------------------------------------- shapes


def test_zeros_take_no_shape_from_a_blob_that_has_changed():
    loop = while_(net(op("Sum", "c", "y")), "y c", "y")
    forward = net(scope(), loop, op("Sigmoid", "h", "c"))
    try:
        answer = backward(forward, ["y"])
    except ctrlgrad.VersionError as error:
        assert error.blob == "c"
    else:
        assert all(
            each.input != ["c"] for each in nested(answer.ops) if each.type == "ConstantFill"
        )


def test_zeros_take_the_shape_of_the_gradient_where_the_blob_has_changed():
    loop = while_(net(op("Negative", "h", "b"), op("Sum", "b", "a")), "a h", "a")
    forward = net(scope(), loop, op("ExpandDims", "a", "a", dims=[0]), op("Sigmoid", "a", "y"))
    try:
        answer = backward(forward, ["y"])
    except ctrlgrad.CtrlgradError:
        return
    assert all(each.input != ["a"] for each in nested(answer.ops) if each.type == "ConstantFill")


@pytest.mark.parametrize("used", ["p", "q"])
def test_a_piece_of_a_split_that_nobody_uses_is_zeros(used):
    answer = backward(net(op("Split", "x", "p q", axis=0), op("Sigmoid", used, "y")), ["y"])
    [joined] = [each for each in answer.ops if each.type == "Concat"]
    assert list(joined.input) == ["p_grad", "q_grad"]


# ------------------------------------------------------------------------------------ look-ups


@pytest.mark.parametrize("then", [True, False])
@pytest.mark.parametrize("in_a_do", [True, False])
@pytest.mark.parametrize("both_branches", [True, False])
def test_a_look_up_in_a_branch_is_sparse_or_dense(then, in_a_do, both_branches):
    looks = [op("Gather", "t i", "y")]
    if in_a_do:
        looks = [do(net(*looks), "t i", "y")]
    other = [op("Gather", "t j", "y")] if both_branches else []
    nets = [net(*looks, name="t"), net(*other, name="e")]
    flow = if_("cond", "t i j y ws", "y ws", *(nets if then else nets[::-1]))
    answer = backward(net(scope(), flow), ["y"])
    gradient = answer.grads["t"]
    made = {name for each in answer.ops for name in each.output}
    assert set(gradient if isinstance(gradient, tuple) else [gradient]) <= made
    assert all("GradientSlice" not in name for each in nested(answer.ops) for name in each.input)


@pytest.mark.parametrize(
    "look_up", [[op("Gather", "t i", "h")], [op("Gather", "t i", "h"), op("Gather", "t j", "k")]]
)
def test_a_look_up_in_one_branch_and_dense_use_in_the_other(look_up):
    """Zeros for the side that has no dense gradient must not come behind the dense one."""
    then_net = net(*look_up, op("Sum", "h", "y"), name="t")
    else_net = net(op("Sum", "t t", "y"), name="e")
    forward = net(if_("cond", "t i j h k y", "y h k", then_net, else_net))
    answer = backward(forward, ["y"])
    for branch in ("then_net", "else_net"):
        writers = [
            each.type for each in inner_net(answer.ops[-1], branch).op if "t_grad" in each.output
        ]
        assert "ConstantFill" not in writers[1:]


def test_a_look_up_in_a_do_is_sparse():
    answer = backward(net(scope(), do(net(op("Gather", "t i", "y")), "t i", "y")), ["y"])
    assert answer.grads["t"] == ("t_grad_indices", "t_grad_values")
    assert {"t_grad_indices", "t_grad_values"} <= set(answer.ops[-1].output)


def test_a_look_up_in_a_loop_is_summed_over_the_turns():
    loop = while_(net(op("Gather", "t i", "r"), op("Add", "y r", "y")), "t i y", "y")
    answer = backward(net(scope(), loop), ["y"])
    assert answer.grads["t"] == "t_grad"
    assert "SparseToDense" in all_types(answer.ops)


@pytest.mark.parametrize("flow", ["do", "if", "while"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_sparse_gradient_cannot_enter(flow, twice):
    body = net(op("Negative", "x", "h"), op("EnsureDense", "h", "y"), op("EnsureDense", "h", "z"))
    forward = {
        "do": do(body, "x", "y z"),
        "if": if_("cond", "x", "y z h", body),
        "while": op("While", "more x y z ws", "y z ws", loop_net=net(do(body, "x", "y z"))),
    }[flow]
    ys = {"y": ("i", "v"), **({"z": ("i", "v")} if twice else {})}
    error = refused(ctrlgrad.InexpressibleError, net(forward), ys, "y")
    assert "EnsureDense" in error.hint


# ------------------------------------------------------------------------------------- devices


def on_device(each, kind, number, *extra):
    each.device_option.device_type = kind
    each.device_option.device_id = number
    each.device_option.extra_info.extend(extra)
    return each


TAG = "only_keep_is_auto_gen_sum_ops_tag:1"


@pytest.mark.parametrize("kind", [1, 5])
@pytest.mark.parametrize("tagged", [(True, True), (True, False), (False, True)])
def test_the_tag_keeps_kind_and_number_of_the_device(kind, tagged):
    ops = [
        on_device(op("Relu", "x", "a"), kind, 3, *([TAG] if tagged[0] else ["note"])),
        on_device(op("Sigmoid", "x", "b"), kind, 3, *([TAG] if tagged[1] else ["note"])),
    ]
    answer = backward(net(*ops, op("Sum", "a b", "y")), {"y": "gy"})
    device = answer.ops[-1].device_option
    assert answer.ops[-1].type == "Sum"
    assert (device.device_type, device.device_id) == (kind, 3)
    assert list(device.extra_info) == ["is_auto_gen_sum_ops:1"]


@pytest.mark.parametrize("where", [(1, 0), (1, 1)])
def test_gradients_on_two_devices_are_not_added(where):
    ops = [on_device(op("Relu", "x", "a"), 0, 0), on_device(op("Sigmoid", "x", "b"), *where)]
    refused(ctrlgrad.DeviceError, net(*ops, op("Sum", "a b", "y")), {"y": "gy"}, "x")


def test_indices_and_values_on_two_devices():
    def table(forward, g_output):
        indices = on_device(op("TableIndices", forward.input[1], "t_grad_indices"), 1, 0)
        values = on_device(op("TableValues", g_output[0], "t_grad_values"), 1, 1)
        return [indices, values], [GradientSlice("t_grad_indices", "t_grad_values"), None]

    ctrlgrad.GradientRegistry.RegisterGradient("Table")(table)
    with pytest.raises(AssertionError) as caught:
        backward(net(op("Table", "t i", "y")), ["y"])
    assert isinstance(caught.value, ctrlgrad.SparseDeviceError)
    assert isinstance(caught.value, RuntimeError)


# ------------------------------------------------------------- answers that must not be refused


@pytest.mark.parametrize("op_type", ["Min", "Max"])
def test_max_of_one_in_place(op_type):
    assert types(backward(net(op(op_type, "x", "x")), {"x": "gx"}).ops)


def test_weighted_sum_in_place():
    """Without grad_on_w its gradient reads the weights alone."""
    answer = backward(net(op("WeightedSum", "h k z l", "h")), {"h": "gh"})
    assert types(answer.ops) == ["WeightedSumGradient"]
    refused(
        ctrlgrad.VersionError, net(op("WeightedSum", "h k z l", "h", grad_on_w=1)), {"h": "gh"}, "h"
    )


def test_a_stop_gradient_in_a_branch_is_read_outside():
    forward = net(
        if_("cond", "x", "y", net(op("StopGradient", "x", "y")), net(op("Sin", "x", "y")))
    )
    answer = backward(forward, ["y"])
    [filled] = inner_net(answer.ops[-1], "then_net").op
    assert (filled.type, list(filled.output)) == ("ConstantFill", ["x_grad"])
