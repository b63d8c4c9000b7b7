"""Puts a golden case to ctrlgrad, through its public names alone."""

import canonical
import ctrlgrad
import makers


def ask(case, proto=None):
    """(gradient operators, gradients) for a case, or (the exception, None).

    proto: a module with the message classes that the question is put in.
    """
    proto = proto or ctrlgrad.caffe2_pb2
    registry = ctrlgrad.GradientRegistry
    registered = dict(registry.gradient_registry_)
    for op_type, rule in case.get("makers", {}).items():
        function = makers.maker(rule, proto.OperatorDef, ctrlgrad.GradientSlice)
        registry.RegisterGradient(op_type)(function)
    try:
        return _ask(case, proto)
    except Exception as error:
        return error, None
    finally:
        registry.gradient_registry_.clear()
        registry.gradient_registry_.update(registered)


def _ask(case, proto):
    if case["kind"] == "net":
        ys = case["ys"]
        if isinstance(ys, dict):
            ys = {blob: _gradient(value) for blob, value in ys.items()}
        net = canonical.forward_net(case, proto.NetDef)
        return ctrlgrad.GradientRegistry.GetBackwardPass(net.op, ys)
    op = canonical.parse_text(case["op"], proto.OperatorDef)
    g_output = [_gradient(value) for value in case["g_output"]]
    if case["kind"] == "op":
        return ctrlgrad.GradientRegistry.GetGradientForOp(op, g_output)
    return getattr(ctrlgrad, "gen_%s_gradient" % case["kind"])(op, g_output)


def _gradient(value):
    return ctrlgrad.GradientSlice(*value) if isinstance(value, list) else value


def unclear(case, error):
    """What is wrong with the way in which a question is refused; None if nothing is."""
    if not isinstance(error, BaseException) or case.get("makers"):
        return None
    if not isinstance(error, ctrlgrad.CtrlgradError):
        return "%s is no CtrlgradError" % type(error).__name__
    if len(str(error)) >= 2000:
        return "the text has %d characters" % len(str(error))
    return None
