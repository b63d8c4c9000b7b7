"""ctrlgrad under Caffe2: what is put in place, what comes back, how it is taken away."""

import contextlib
import pathlib
import subprocess
import sys
import threading
import types

import canonical
import ctrlgrad
import pytest
from ctrlgrad import caffe2
from nets import if_, net, op

pytestmark = [
    pytest.mark.oracle,
    # Caffe2's own, on importing and on making operators.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
FUNCTIONS = [
    "gen_do_gradient",
    "gen_if_gradient",
    "gen_while_gradient",
    "get_ssa",
    "get_undefined_blobs",
    "get_output_producers",
    "get_op_ids_in_path",
]


@pytest.fixture(scope="module")
def control(core):
    from caffe2.python import control_ops_grad

    return control_ops_grad


@pytest.fixture(autouse=True)
def _as_it_was(core):
    """What a test installs or registers is gone behind it."""
    registry = core.GradientRegistry.gradient_registry_
    before = dict(registry)
    yield
    ctrlgrad.uninstall()
    registry.clear()
    registry.update(before)


@pytest.fixture
def installed(core):
    ctrlgrad.install()


@pytest.fixture
def makers(core):
    """The makers registered with Caffe2."""
    return core.GradientRegistry.gradient_registry_


def standing(core, control):
    """Everything that is replaced, as it stands."""
    found = {("core", name): getattr(core, name) for name in ("IR", *FUNCTIONS)}
    found.update((("control", name), getattr(control, name)) for name in FUNCTIONS[:3])
    registry = core.GradientRegistry
    found.update((("registry", name), raw) for name, raw in vars(registry).items())
    found.update((("makers", kind), maker) for kind, maker in registry.gradient_registry_.items())
    return found


def replaced(core, control, before):
    now = standing(core, control)
    assert now.keys() == before.keys()
    return {key for key in now if now[key] is not before[key]}


def chain(core):
    built = core.Net("chain")
    x = built.AddExternalInput("x")
    return built, x, built.Sigmoid(built.Relu(x, "y"), "z")


# ------------------------------------------------------------- putting in place, taking away


def test_what_is_replaced_and_that_it_comes_back(core, control):
    before = standing(core, control)
    registry, makers = core.GradientRegistry, core.GradientRegistry.gradient_registry_
    ctrlgrad.install()
    expected = {("core", name) for name in ("IR", *FUNCTIONS)}
    expected |= {("control", name) for name in FUNCTIONS[:3]}
    expected |= {("registry", "GetBackwardPass"), ("registry", "GetGradientForOp")}
    expected |= {("makers", kind) for kind in ("Do", "If", "While")}
    assert replaced(core, control, before) == expected
    assert core.GradientRegistry is registry
    assert registry.gradient_registry_ is makers
    ctrlgrad.install()
    assert replaced(core, control, before) == expected
    ctrlgrad.uninstall()
    assert replaced(core, control, before) == set()
    ctrlgrad.uninstall()
    assert replaced(core, control, before) == set()


def test_installed_nests(core, control):
    before = standing(core, control)
    with ctrlgrad.installed():
        with ctrlgrad.installed():
            assert replaced(core, control, before)
        assert replaced(core, control, before)
    assert not replaced(core, control, before)
    ctrlgrad.install()
    with ctrlgrad.installed():
        pass
    assert replaced(core, control, before)
    with ctrlgrad.installed():
        ctrlgrad.uninstall()
        assert not replaced(core, control, before)
    assert not replaced(core, control, before)
    with pytest.raises(ZeroDivisionError), ctrlgrad.installed():
        assert replaced(core, control, before)
        1 / 0  # noqa: B018
    assert not replaced(core, control, before)


def test_threads(core, control):
    before = standing(core, control)
    wrong = []
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(50):
            with ctrlgrad.installed():
                if core.IR is not caffe2.IR:
                    wrong.append("not there")
                built, _, z = chain(core)
                if len(built.AddGradientOperators([z])) != 3:
                    wrong.append("another answer")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not replaced(core, control, before)


def test_modules_that_have_imported_a_name(core, control, monkeypatch):
    early, late = types.ModuleType("early_user"), types.ModuleType("late_user")
    early.IR, early.get_ssa, early.gen_if_gradient = core.IR, core.get_ssa, core.gen_if_gradient
    early.TheirIR = core.IR  # another name is a user's own affair
    early.get_undefined_blobs = unrelated = object()
    before = dict(vars(early))
    monkeypatch.setitem(sys.modules, "early_user", early)
    ctrlgrad.install()
    assert (early.IR, early.get_ssa) == (core.IR, core.get_ssa)
    assert early.gen_if_gradient is core.gen_if_gradient
    assert early.TheirIR is before["IR"]
    assert early.get_undefined_blobs is unrelated
    monkeypatch.setitem(sys.modules, "late_user", late)
    late.IR = core.IR
    late.get_ssa = ctrlgrad.get_ssa
    ctrlgrad.uninstall()
    assert vars(early) == before
    assert late.IR is before["IR"]
    assert late.get_ssa is ctrlgrad.get_ssa


def test_what_others_have_put_in_place_meanwhile_stays(core, monkeypatch):
    before = core.get_ssa
    ctrlgrad.install()
    own = object()
    monkeypatch.setattr(core, "get_ssa", own)
    ctrlgrad.uninstall()
    assert core.get_ssa is own
    monkeypatch.setattr(core, "get_ssa", before)


def test_a_maker_of_a_users_for_control_flow_stays(core, makers):
    core.GradientRegistry.RegisterGradient("If")(lambda op, g_output: ([], [None] * len(op.input)))
    own = makers["If"]
    ctrlgrad.install()
    assert makers["If"] is own
    branch = net(op("Relu", "x", "y"))
    assert core.GradientRegistry.GetGradientForOp(if_("c", "x", "y", branch), ["g"])[0] == []
    ctrlgrad.uninstall()
    assert makers["If"] is own


def test_build_info_says_so(core):
    assert ctrlgrad.build_info()["installed"] == "no"
    with ctrlgrad.installed():
        assert ctrlgrad.build_info()["installed"].startswith("under Caffe2 of torch 1.")
    assert ctrlgrad.build_info()["installed"] == "no"


def test_caffe2_is_imported_by_install_only():
    code = """
import sys, warnings
warnings.simplefilter("ignore")
import ctrlgrad, ctrlgrad.caffe2
ctrlgrad.uninstall()
assert ctrlgrad.build_info()["installed"] == "no"
assert not any(name.partition(".")[0] in ("caffe2", "torch") for name in sys.modules)
ctrlgrad.install()
assert "caffe2.python.core" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# --------------------------------------------------------------------- whose classes come back


def test_the_answer_is_of_caffe2s_classes(core, proto, installed):
    built = core.Net("net")
    rows = built.Gather(["table", "at"], "rows")
    y = built.Sum([rows, built.Relu(rows, "r")], "y")
    found = built.AddGradientOperators([y])
    assert all(type(each) is proto.OperatorDef for each in built.Proto().op)
    assert {type(key) for key in found} == {core.BlobReference}
    assert type(found["rows"]) is core.BlobReference
    assert type(found["table"]) is core.GradientSlice
    assert type(found["table"].indices) is core.BlobReference
    assert found == {
        "y": "y_autogen_grad",
        "rows": "rows_grad",
        "r": "y_autogen_grad",
        "table": ("at", "rows_grad"),
    }


@pytest.mark.parametrize("ours", [False, True])
def test_whatever_class_the_question_has(core, proto, installed, ours):
    source = ctrlgrad.caffe2_pb2 if ours else proto
    forward = net(op("Relu", "x", "y", source), proto=source)
    ops, _ = core.GradientRegistry.GetBackwardPass(forward.op, ["y"])
    assert type(ops) is list
    assert [type(each) for each in ops] == [proto.OperatorDef] * 2
    proto.NetDef().op.extend(ops)


def test_a_failed_call_leaves_the_net_usable(core, installed):
    built, _, z = chain(core)
    built.Sin("y", "y")
    before = built.Proto().SerializeToString()
    with pytest.raises(RuntimeError, match="version"):
        built.AddGradientOperators([z])
    assert built.Proto().SerializeToString() == before
    other, _, z = chain(core)
    with pytest.raises(TypeError):
        other.AddGradientOperators("z")
    assert set(other.AddGradientOperators([z])) == {"x", "y", "z"}


# --------------------------------------------------------------------------------- the views


def test_ir_keeps_the_callers_operators(core, proto, installed):
    built, _, z = chain(core)
    ops = list(built.Proto().op)
    ir = core.IR(ops)
    ops[0].input[0] = "other"  # as the exporters to tensorboard do
    assert all(one is entry.op for one, entry in zip(ops, ir.ssa))
    assert ir.ssa[0].in_versions == {"x": 0}
    assert type(ir.ssa[0]) is core.OpSSA
    ops[0].device_option.extra_info.append("later")
    answer, _ = ir.GetBackwardPass([z])
    assert [each.device_option.extra_info for each in answer[-1:]] == [["later"]]


def test_the_views_have_caffe2s_types(core, installed):
    built = core.Net("net")
    rows = built.Gather(["table", "at"], "rows")
    y = built.Sum([built.Sin(rows, "s"), built.Cos(rows, "c")], "y")
    ir = core.IR(built.Proto().op)
    assert ir.gradient_frontier == {}
    ir.GetBackwardPass([y])
    assert ir.frontier["rows"] == 0
    assert ir.gradient_frontier["table"] == 0
    [sparse] = ir.gradient_generators["table"][0]
    assert type(sparse) is core.SparseGradGenMeta
    assert type(sparse.gradient) is core.GradientSlice
    assert {type(each) for each in ir.gradient_generators["rows"][0]} == {core.GradGenMeta}
    assert ir.IS_AUTO_GEN_SUM_OPS_TAG == "is_auto_gen_sum_ops"


def test_constants_are_the_references(core):
    theirs = {name: value for name, value in vars(core.IR).items() if name.isupper()}
    with ctrlgrad.installed():
        assert theirs
        for name, value in theirs.items():
            assert getattr(core.IR, name) == value


def test_ssa_functions_are_the_references(core):
    built, _, _ = chain(core)
    built.Relu("y", "y")
    given = {"q": 4, "y": 2}
    theirs = core.get_ssa(built, dict(given))
    with ctrlgrad.installed():
        versions = dict(given)
        ours = core.get_ssa(built, versions)
        assert ours == theirs
        assert list(ours[1]) == list(theirs[1])
        assert ours[1] is versions
        assert core.get_ssa(built.Proto(), dict(given)) == theirs
        undefined = core.get_undefined_blobs(ours[0])
        assert type(undefined) is set
        assert {type(blob) for blob in undefined} <= {str}
        assert core.get_op_ids_in_path(*ours, ["x"], ["z"]) == [0, 1]
        assert core.get_output_producers(ours[0])["z", 1] == 1


def test_renaming_outputs_of_a_gradient_if_stays_the_references(control, core):
    before = control.disambiguate_grad_if_op_output
    with ctrlgrad.installed():
        assert control.disambiguate_grad_if_op_output is before
        assert core.disambiguate_grad_if_op_output is before


# ------------------------------------------------------------------------------------ scopes


def test_a_target_in_a_name_scope(core, installed):
    """Ones are named in the scope, as Caffe2 does it where it is right: for a reference."""
    with core.NameScope("outer"):
        built = core.Net("net")
        y = built.Relu("x", "y")
        assert str(y) == "outer/y"
        assert built.AddGradientOperators([y])["outer/y"] == "outer/outer/y_autogen_grad"
        other = core.Net("net")
        other.Relu("x", "y")
        assert other.AddGradientOperators(["outer/y"])["outer/y"] == "outer/y_autogen_grad"


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("device", ["", "device_type: 0 device_id: 0", "node_name: 'n'"])
def test_a_device_scope(core, proto, device, tagged):
    scope = canonical.parse_text(device, proto.DeviceOption)

    def answer():
        forward = net(
            op("Sigmoid", "x", "a", proto),
            op("Tanh", "x", "b", proto),
            op("Mul", "a b", "y", proto),
            proto=proto,
        )
        if tagged:
            for each in forward.op:
                tag = core.IR.ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG
                each.device_option.extra_info.append("%s:1" % tag)
        with core.DeviceScope(scope, "" if device else "here"):
            ops, grads = core.GradientRegistry.GetBackwardPass(forward.op, ["y"])
        return [canonical.canonical([each]) for each in ops], grads

    theirs = answer()
    with ctrlgrad.installed():
        assert answer() == theirs


SCOPED = [
    case
    for file in ("nets", "control_flow", "models")
    for case in canonical.load(str(GOLDEN / (file + ".jsonl")))
    if "scope" in case
]


@pytest.mark.parametrize("case", SCOPED, ids=lambda case: case["name"])
def test_golden_cases_with_scopes(core, proto, installed, case):
    forward = canonical.forward_net(case, proto.NetDef)
    with contextlib.ExitStack() as scopes:
        if "name" in case["scope"]:
            scopes.enter_context(core.NameScope(case["scope"]["name"]))
        if "device" in case["scope"]:
            device = canonical.parse_text(case["scope"]["device"], proto.DeviceOption)
            scopes.enter_context(core.DeviceScope(device))
        ops, grads = core.GradientRegistry.GetBackwardPass(forward.op, case["ys"])
    assert canonical.compare(case, ops, grads, proto=proto) == []


# ------------------------------------------------------------------- makers written in Python


def test_makers_get_caffe2s_classes(core, proto, installed, makers):
    seen = []

    @core.GradientRegistry.RegisterGradient("Mine")
    def mine(forward, g_output):
        seen.append((forward, g_output))
        made = core.CreateOperator("MineGradient", "g", [core.BlobReference("x_grad")])
        return made, [core.BlobReference("x_grad")]

    forward = op("Mine", "x", "y", proto)
    ops, g_input = core.GradientRegistry.GetGradientForOp(forward, ["g"])
    assert seen[-1][0] is forward
    assert type(ops) is list
    assert [each.type for each in ops] == ["MineGradient"]
    assert type(g_input[0]) is core.BlobReference
    inner = if_("c", "x", "y", net(forward, proto=proto), proto=proto)
    core.GradientRegistry.GetBackwardPass([inner], {"y": "g"})
    assert type(seen[-1][0]) is proto.OperatorDef
    core.GradientRegistry.GetGradientForOp(
        op("Mine", "x", "y", proto), [core.GradientSlice("i", "v")]
    )
    assert type(seen[-1][1][0]) is core.GradientSlice


def test_makers_may_ask_again(core, proto, installed, makers):
    @core.GradientRegistry.RegisterGradient("Twice")
    def twice(forward, g_output):
        inner = [op("Relu", forward.input, ["t"], proto), op("Sigmoid", "t", forward.output, proto)]
        one, _ = core.GradientRegistry.GetGradientForOp(inner[1], g_output)
        ops, found = core.GradientRegistry.GetBackwardPass(
            inner, dict(zip(forward.output, g_output))
        )
        assert ops[0] == one[0]
        return inner[:1] + ops, [found[str(forward.input[0])]]

    forward = [op("Twice", "x", "y", proto)]
    ops, found = core.GradientRegistry.GetBackwardPass(forward, ["y"])
    assert found["x"] == "x_grad"
    assert [each.type for each in ops[1:]] == ["Relu", "SigmoidGradient", "ReluGradient"]


def test_makers_registered_with_either_package_are_asked(core, proto, makers):
    @ctrlgrad.GradientRegistry.RegisterGradient("Mine")
    def mine(forward, g_output):
        return [], list(g_output)

    with ctrlgrad.installed():
        found = core.GradientRegistry.GetBackwardPass([op("Mine", "x", "y", proto)], {"y": "g"})[1]
    assert found["x"] == "g"


# ------------------------------------------------------------- makers of the installed Caffe2


@pytest.fixture
def library(core, monkeypatch):
    """A user's library with the types Halve, and a Relu of its own: a double of the C++ registry,
    which gives them the gradient of Scale."""
    host = caffe2._host()

    class Registry:
        GradientWrapper = core.C.GradientWrapper

        @staticmethod
        def get_gradient_defs(wire, g_output):
            asked = ctrlgrad.caffe2_pb2.OperatorDef.FromString(wire)
            if asked.type in ("Halve", "Relu"):
                asked.type = "Scale"
            return core.C.get_gradient_defs(asked.SerializeToString(), g_output)

    monkeypatch.setattr(host, "_cpp", Registry)
    monkeypatch.setattr(host, "_first", {})
    monkeypatch.setattr(host, "_is_operator", lambda op_type: core.IsOperator(op_type) or loaded)
    loaded = []
    return loaded


@pytest.mark.parametrize("gradient", ["g", "gy", "y_grad"])
def test_types_that_only_caffe2_knows(core, proto, installed, library, gradient):
    halve = op("Halve", "x", "y", proto)
    with pytest.raises(ctrlgrad.NoGradientError, match="no gradient is known"):
        core.GradientRegistry.GetGradientForOp(halve, [gradient])
    library.append("loaded")
    ops, g_input = core.GradientRegistry.GetGradientForOp(halve, [gradient])
    assert [(each.type, *each.input, *each.output) for each in ops] == [
        ("Scale", gradient, "x_grad")
    ]
    assert g_input == ["x_grad"]
    inner = if_("c", "x", "y", net(halve, proto=proto), proto=proto)
    [gradient_if], _ = core.GradientRegistry.GetBackwardPass([inner], {"y": gradient})
    assert gradient_if.arg[0].n.op[0].type == "Scale"


def test_caffe2s_own_refusal_is_told(core, proto, installed, library):
    library.append("loaded")
    two = op("Halve", "x", "y z", proto)
    core.GradientRegistry.GetGradientForOp(op("Halve", "x", "y", proto), ["g"])
    inner = if_("c", "x", "y", net(op("Relu", "x", "x", proto), two, proto=proto), proto=proto)
    with pytest.raises(ctrlgrad.RefusedError, match="did not pass schema checking") as caught:
        core.GradientRegistry.GetBackwardPass([inner], {"y": "g"})
    assert (caught.value.path, caught.value.op_type) == ((0, 1), "Halve")
    assert "frame #" not in str(caught.value)


def test_types_that_caffe2_knows_otherwise(core, proto, installed, library):
    ops, _ = core.GradientRegistry.GetGradientForOp(op("Relu", "x", "y", proto), ["g"])
    assert ops[0].type == "Scale"
    ops, _ = ctrlgrad.GradientRegistry.GetGradientForOp(op("Relu", "x", "y", proto), ["g"])
    assert ops[0].type == "ReluGradient"


def test_types_that_caffe2_refuses_are_asked_of_python(core, proto, installed, library, makers):
    library.append("loaded")
    makers["Halve"] = lambda forward, g_output: ([], g_output[:1])
    sparse = [core.GradientSlice("i", "v")] * 2
    two = op("Halve", "x", "y z", proto)
    assert core.GradientRegistry.GetGradientForOp(two, sparse)[1] == sparse[:1]


def test_what_a_fill_holds_is_read_where_caffe2_has_a_gradient_for_it(
    core, proto, installed, library, monkeypatch
):
    def ask(values):
        fill = op("GivenTensorFill", "x", "y", proto, values=[1] * values)
        before = len(asked)
        core.GradientRegistry.GetBackwardPass([fill], {"y": "g"})
        return asked[before:]

    asked = []

    def get_gradient_defs(wire, g_output):
        asked.append(len(ctrlgrad.caffe2_pb2.OperatorDef.FromString(wire).arg[0].ints))
        return [], [core.C.GradientWrapper()]

    monkeypatch.setattr(caffe2._host()._cpp, "get_gradient_defs", get_gradient_defs)
    assert ask(7) == [7]
    caffe2._host()._first["GivenTensorFill"] = True
    assert ask(8) == [8]
    caffe2._host()._first["GivenTensorFill"] = False
    assert ask(9) == []


def test_our_table_is_that_of_torch(core):
    """No type of the reference is asked of C++ by mistake: what differs, differs on purpose."""
    host = caffe2.Caffe2(core, None)
    differing = set()
    for case in canonical.load(str(GOLDEN / "ops.jsonl")):
        forward = canonical.parse_text(case["op"], ctrlgrad.caffe2_pb2.OperatorDef)
        known = core.IsOperator(forward.type)
        if known and host._differs(forward.type, forward.SerializeToString()):
            differing.add(forward.type)
    assert differing == caffe2.RIGHT_ALONE
