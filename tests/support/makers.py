"""Gradient makers that a case brings along, as data.

A case may have a key `makers`: operator type -> rule. A rule is

    {"ops": [{"type": ..., "input": [...], "output": [...],
              "copy_device": true, "copy_engine": true, "copy_args": true,
              "device": {"device_type": 1, ...}, "name": "", "is_gradient_op": true}, ...],
     "g_input": [...],
     "needs_all": true,        raise RuntimeError unless every output has a gradient
     "raises": "RuntimeError", raise this, whatever is asked
     "returns": "one" | "none" | "list"}   how the operators are handed back

An entry of `input`, `output` and `g_input` is a name in which these stand for
something else:

    I0, I1, ...   the input of that number          I*   all inputs
    O0, O1, ...   the output of that number         O*   all outputs
    G0, G1, ...   the gradient of that output       G*   all of them
    I0_grad       "<input 0>_grad"                  I*_grad  for all inputs
    null          no gradient (only in `g_input`)

and a pair of entries in `g_input` is a sparse gradient. An output whose
gradient is sparse is spelt G0.indices, G0.values.
"""

import builtins
import re

_PLACE = re.compile(r"^([IOG])(\d+|\*)(.*)$")


def maker(rule, operator_def, gradient_slice):
    """A function (op, g_output) -> (operators, g_input) that follows a rule."""

    def make(op, g_output):
        if "raises" in rule:
            raise getattr(builtins, rule["raises"])("a maker that always fails")
        if rule.get("needs_all"):
            for name, grad in zip(op.output, g_output):
                if grad is None:
                    raise RuntimeError("no gradient for output %s" % name)

        def names(entry):
            if entry is None:
                return [None]
            if isinstance(entry, list):
                return [gradient_slice(names(entry[0])[0], names(entry[1])[0])]
            found = _PLACE.match(entry)
            if not found:
                return [entry]
            which, index, rest = found.groups()
            source = {"I": list(op.input), "O": list(op.output), "G": list(g_output)}[which]
            picked = source if index == "*" else [source[int(index)]]
            if rest in (".indices", ".values"):
                at = 0 if rest == ".indices" else 1
                return [p[at] for p in picked]
            return [p if not rest else p + rest for p in picked]

        def flat(entries):
            return [n for entry in entries for n in names(entry)]

        ops = []
        for spec in rule.get("ops", []):
            made = operator_def()
            made.type = spec["type"]
            made.input.extend(flat(spec.get("input", [])))
            made.output.extend(flat(spec.get("output", [])))
            if spec.get("copy_device") and op.HasField("device_option"):
                made.device_option.CopyFrom(op.device_option)
            if spec.get("copy_engine") and op.HasField("engine"):
                made.engine = op.engine
            if spec.get("copy_args"):
                for arg in op.arg:
                    made.arg.add().CopyFrom(arg)
            for key in ("name", "is_gradient_op"):
                if key in spec:
                    setattr(made, key, spec[key])
            for key, value in spec.get("device", {}).items():
                setattr(made.device_option, key, value)
            ops.append(made)
        g_input = flat(rule["g_input"])
        returns = rule.get("returns", "list")
        if returns == "none":
            return None, g_input
        if returns == "one":
            return ops[0], g_input
        return ops, g_input

    return make
