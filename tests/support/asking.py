"""Puts a golden case to ctrlgrad, through its public names alone, or those of Caffe2."""

import canonical
import ctrlgrad
import makers


def ask(case, proto=None, package=ctrlgrad):
    """(gradient operators, gradients) for a case, or (the exception, None).

    proto: a module with the message classes that the question is put in.
    package: who is asked; `caffe2.python.core` has the same names.
    """
    proto = proto or ctrlgrad.caffe2_pb2
    registry = package.GradientRegistry
    registered = dict(registry.gradient_registry_)
    for op_type, rule in case.get("makers", {}).items():
        function = makers.maker(rule, proto.OperatorDef, package.GradientSlice)
        registry.RegisterGradient(op_type)(function)
    try:
        return _ask(case, proto, package)
    except Exception as error:
        return error, None
    finally:
        registry.gradient_registry_.clear()
        registry.gradient_registry_.update(registered)


def _ask(case, proto, package):
    if case["kind"] == "net":
        ys = case["ys"]
        if isinstance(ys, dict):
            ys = {blob: _gradient(value, package) for blob, value in ys.items()}
        net = canonical.forward_net(case, proto.NetDef)
        return package.GradientRegistry.GetBackwardPass(net.op, ys)
    op = canonical.parse_text(case["op"], proto.OperatorDef)
    g_output = [_gradient(value, package) for value in case["g_output"]]
    if case["kind"] == "op":
        return package.GradientRegistry.GetGradientForOp(op, g_output)
    return getattr(package, "gen_%s_gradient" % case["kind"])(op, g_output)


def _gradient(value, package):
    return package.GradientSlice(*value) if isinstance(value, list) else value


def unclear(case, error):
    """What is wrong with the way in which a question is refused; None if nothing is."""
    if not isinstance(error, BaseException) or case.get("makers"):
        return None
    if not isinstance(error, ctrlgrad.CtrlgradError):
        return "%s is no CtrlgradError" % type(error).__name__
    if len(str(error)) >= 2000:
        return "the text has %d characters" % len(str(error))
    return None
