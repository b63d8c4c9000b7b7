"""Nets and gradients in a compact form for people to read."""

import re


def gradient_text(value) -> str:
    return value if isinstance(value, str) else "(%s)" % ", ".join(map(str, value))


def op_lines(op, indent: int = 0) -> list[str]:
    pad = " " * indent
    line = "%s%s(%s) -> (%s)" % (pad, op.type, ", ".join(op.input), ", ".join(op.output))
    nets = [(arg.name, arg.n) for arg in op.arg if arg.HasField("n")]
    for arg in op.arg:
        if not arg.HasField("n"):
            value = re.sub(r'^name: "\w+" ', "", str(arg).replace("\n", " ")).strip()
            line += " {%s = %s}" % (arg.name, re.sub(r"\w+: ", "", value))
    for name in ("name", "engine", "debug_info"):
        if getattr(op, name):
            line += " %s=%s" % (name, getattr(op, name))
    if op.device_option.ByteSize():
        line += " device{%s}" % str(op.device_option).replace("\n", " ").strip()
    lines = [line]
    for name, net in nets:
        lines.append("%s  [%s] %s" % (pad, name, net.name))
        for inner in net.op:
            lines += op_lines(inner, indent + 4)
    return lines


def net_text(ops, indent: int = 0) -> str:
    return "\n".join(line for op in ops for line in op_lines(op, indent))
