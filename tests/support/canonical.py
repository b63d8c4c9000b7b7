"""Compare gradient answers with golden cases, up to the order FORMAT.md leaves open.

Only the standard library and a protobuf class with the Caffe2 schema are
needed; it does not matter which package the class comes from.

    from canonical import load, compare
    for case in load("nets.jsonl"):
        differences = compare(case, got_ops, got_grads_or_g_input)

`got_ops` is a list of OperatorDef messages (or of their serialized bytes), or
the exception that was raised. `got_grads_or_g_input` is a mapping blob ->
gradient for kind `net`, a list for the other kinds. A gradient is None, a
name, or a pair (indices, values); anything with a useful `str()` will do as a
name.
"""

import gzip
import json
import os
import re

LIMIT = 40

_AUTO_SUM = "is_auto_gen_sum_ops:1"
_LOOP_COND = re.compile(r"gradient_loop_cond_net(?:_\d+)?")


# ---------------------------------------------------------------- reading


def load(path):
    """Yields the cases of a .jsonl file; each knows the folder it came from."""
    folder = os.path.dirname(os.path.abspath(path))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                case = json.loads(line)
                case["_dir"] = folder
                yield case


def read_file(case, name):
    """The bytes of a file that lies beside the case, unpacked if it is .gz."""
    path = os.path.join(case.get("_dir", "."), name)
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as stream:
        return stream.read()


def classes_of(message):
    """(OperatorDef, NetDef) of the schema that `message` belongs to."""
    found = message.DESCRIPTOR.file.message_types_by_name
    return _class(found["OperatorDef"]), _class(found["NetDef"])


def _class(descriptor):
    made = getattr(descriptor, "_concrete_class", None)
    if made is not None:
        return made
    from google.protobuf import message_factory

    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)


def _schema(proto, got_ops):
    if proto is not None:
        return proto.OperatorDef, proto.NetDef
    if isinstance(got_ops, (list, tuple)):
        for op in got_ops:
            if hasattr(op, "DESCRIPTOR"):
                return classes_of(op)
    from caffe2.proto import caffe2_pb2

    return caffe2_pb2.OperatorDef, caffe2_pb2.NetDef


def parse_text(text, cls):
    from google.protobuf import text_format

    message = cls()
    text_format.Parse(text, message)
    return message


def expected_ops(case, answer, operator_def, net_def):
    """The gradient operators of one recorded answer, as messages."""
    if "ops_file" in answer:
        net = net_def()
        net.ParseFromString(read_file(case, answer["ops_file"]))
        return list(net.op)
    return [parse_text(text, operator_def) for text in answer["ops"]]


def forward_net(case, net_def):
    """The forward NetDef of a case of kind `net`."""
    if "net_file" in case:
        net = net_def()
        net.ParseFromString(read_file(case, case["net_file"]))
        return net
    return parse_text(case["net"], net_def)


# ---------------------------------------------------- messages to plain data


def _plain(message):
    """A message as nested dicts and lists. A field that is set to its default
    value differs from one that is not set, as it does in Python protobuf."""
    out = {}
    for field, value in message.ListFields():
        convert = _plain if field.type == field.TYPE_MESSAGE else _scalar
        if _repeated(field):
            out[field.name] = [convert(v) for v in value]
        else:
            out[field.name] = convert(value)
    if message.DESCRIPTOR.name == "OperatorDef" and "arg" in out:
        named = {}
        for arg in out["arg"]:
            named.setdefault(arg.pop("name", ""), []).append(arg)
        out["arg"] = {k: v[0] if len(v) == 1 else v for k, v in named.items()}
    return out


def _repeated(field):
    known = getattr(field, "is_repeated", None)  # newer protobuf
    return field.label == field.LABEL_REPEATED if known is None else known


def _scalar(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return repr(value)
    return value


def _nets(op):
    """The nets among the arguments of a plain operator."""
    for arg in op.get("arg", {}).values():
        for one in arg if isinstance(arg, list) else [arg]:
            yield from one.get("nets", [])
            if "n" in one:
                yield one["n"]


# ------------------------------------------------ orders that are left open


def canonical(ops):
    """A list of OperatorDef messages as plain data that compares equal for
    answers that differ only in what FORMAT.md leaves open."""
    return _settle(_number_loop_conditions([_plain(op) for op in ops]))


def _number_loop_conditions(ops):
    """The condition net of a While gradient carries a number that counts the
    nets its process has made before; its rank in this answer replaces it."""
    ranks = {}

    def meet(ops):
        for op in ops:
            for net in _nets(op):
                meet(net.get("op", []))
            if op.get("type") == "HasScope":
                for name in op.get("output", []):
                    for m in _LOOP_COND.finditer(name):
                        ranks.setdefault(m.group(0), "gradient_loop_cond_net#%d" % len(ranks))

    def rename(value):
        if isinstance(value, str):
            return _LOOP_COND.sub(lambda m: ranks.get(m.group(0), m.group(0)), value)
        if isinstance(value, list):
            return [rename(v) for v in value]
        if isinstance(value, dict):
            return {k: rename(v) for k, v in value.items()}
        return value

    meet(ops)
    return rename(ops) if ranks else ops


def _settle(ops):
    for op in ops:
        for net in _nets(op):
            if "op" in net:
                net["op"] = _settle(net["op"])
        if op.get("is_gradient_op"):
            settle = _GRADIENTS.get(op.get("type"))
            if settle:
                settle(op)
    at = 0
    while at < len(ops):
        end = at
        while end < len(ops) and _accumulates(ops[end]):
            end += 1
        if end - at > 1:
            ops[at:end] = _sorted_where_free(ops[at:end])
        at = end + 1
    return ops


def _if_gradient(op):
    _first_then_sorted(op)
    for branch in ("then_net", "else_net"):
        arg = op.get("arg", {}).get(branch)
        ops = arg["n"].get("op", []) if isinstance(arg, dict) and "n" in arg else []
        end = len(ops)
        while end and ops[end - 1].get("type") in ("ConstantFill", "Copy"):
            end -= 1
        ops[end:] = _sorted_where_free(ops[end:])


def _first_then_sorted(op):
    if "input" in op:
        op["input"] = op["input"][:1] + sorted(op["input"][1:])
    if "output" in op:
        op["output"] = sorted(op["output"])


def _do_gradient(op):
    ins, outs = op.get("input", []), op.get("output", [])
    args = op.get("arg", {})
    inner, index = args.get("inner_blobs"), args.get("outer_blobs_idx")
    if isinstance(inner, dict) and isinstance(index, dict):
        outer = ins[:-1] + outs[:-1]
        names, ints = inner.get("strings", []), index.get("ints", [])
        if len(ints) == len(names) and all(0 <= i < len(outer) for i in ints):
            args["blob bindings"] = dict(zip(names, (outer[i] for i in ints)))
            del args["inner_blobs"], args["outer_blobs_idx"]
    saved = args.get("saved_fwd_blobs")
    if isinstance(saved, dict) and "strings" in saved:
        saved["strings"] = sorted(saved["strings"])
    op["input"] = sorted(ins[:-1]) + ins[-1:]
    op["output"] = sorted(outs[:-1]) + outs[-1:]


_GRADIENTS = {"If": _if_gradient, "While": _first_then_sorted, "Do": _do_gradient}


def _accumulates(op):
    return op.get("type") in ("Sum", "Concat") and _AUTO_SUM in op.get("device_option", {}).get(
        "extra_info", []
    )


def _sorted_where_free(ops):
    """The operators in a canonical order in which nothing that reads or writes
    a blob moves across something that writes it."""
    keys = [json.dumps(op, sort_keys=True) for op in ops]
    reads = [set(op.get("input", [])) for op in ops]
    writes = [set(op.get("output", [])) for op in ops]
    waits = [
        {j for j in range(i) if writes[j] & (reads[i] | writes[i]) or reads[j] & writes[i]}
        for i in range(len(ops))
    ]
    order = []
    while len(order) < len(ops):
        ready = [i for i in range(len(ops)) if i not in order and waits[i] <= set(order)]
        order.append(min(ready, key=keys.__getitem__))
    return [ops[i] for i in order]


# --------------------------------------------------------------- comparing


def gradient(value):
    """None, a name, or [indices, values]."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, (list, tuple)):
        return [gradient(v) for v in value]
    return str(value)


def compare(case, got_ops, got_grads_or_g_input, proto=None, which="expect"):
    """What differs between an answer and a case; an empty list if nothing.

    which="reference" compares with what the reference gave, where that is
    recorded separately because it is wrong. With which="expect", an answer
    listed under `also_right` is accepted as well.
    """
    wanted = case.get(which) or case["expect"]
    differences = _against(case, wanted, got_ops, got_grads_or_g_input, proto)
    if differences and which == "expect":
        for other in case.get("also_right", []):
            if not _against(case, other, got_ops, got_grads_or_g_input, proto):
                return []
    return differences


def _against(case, wanted, got_ops, got_grads, proto):
    if "error" in wanted:
        name = wanted["error"]["type"]
        if not isinstance(got_ops, BaseException):
            return [
                "expected %s (%s), got %d operators"
                % (name, wanted["error"].get("about", ""), len(got_ops))
            ]
        kinds = [c.__name__ for c in type(got_ops).__mro__]
        return [] if name in kinds else ["expected %s, got %s: %.200s" % (name, kinds[0], got_ops)]
    if isinstance(got_ops, BaseException):
        return ["expected an answer, got %s: %.300s" % (type(got_ops).__name__, got_ops)]

    operator_def, net_def = _schema(proto, got_ops)
    got = []
    for op in got_ops:
        if isinstance(op, (bytes, bytearray)):
            parsed = operator_def()
            parsed.ParseFromString(bytes(op))
            op = parsed
        got.append(op)
    out = []
    want = expected_ops(case, wanted, operator_def, net_def)
    _diff("ops", canonical(want), canonical(got), out)
    if "grads" in wanted:
        _diff(
            "grads",
            {k: gradient(v) for k, v in wanted["grads"].items()},
            {str(k): gradient(v) for k, v in dict(got_grads).items() if v is not None},
            out,
        )
    else:
        _diff(
            "g_input",
            [gradient(v) for v in wanted["g_input"]],
            [gradient(v) for v in got_grads],
            out,
        )
    return out[:LIMIT]


def _diff(path, want, got, out):
    if len(out) >= LIMIT:
        return
    if type(want) is not type(got):
        out.append("%s: expected %s, got %s" % (path, _short(want), _short(got)))
    elif isinstance(want, dict):
        for key in list(want) + [k for k in got if k not in want]:
            where = "%s.%s" % (path, key)
            if key not in got:
                out.append("%s: missing, expected %s" % (where, _short(want[key])))
            elif key not in want:
                out.append("%s: not expected, got %s" % (where, _short(got[key])))
            else:
                _diff(where, want[key], got[key], out)
    elif isinstance(want, list):
        if len(want) != len(got):
            out.append(
                "%s: expected %d entries %s, got %d %s"
                % (path, len(want), _short(_heads(want)), len(got), _short(_heads(got)))
            )
        for i, (a, b) in enumerate(zip(want, got)):
            _diff("%s[%d]%s" % (path, i, _head(a)), a, b, out)
    elif want != got:
        out.append("%s: expected %s, got %s" % (path, _short(want), _short(got)))


def _head(value):
    return (
        " " + value["type"]
        if isinstance(value, dict) and isinstance(value.get("type"), str)
        else ""
    )


def _heads(values):
    return [_head(v).strip() or v for v in values]


def _short(value):
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 160 else text[:157] + "..."
