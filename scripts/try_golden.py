"""Puts the golden cases to an installed ctrlgrad: `python -I -W error try_golden.py FILE`.

Asks with messages and compares the answers with what is recorded. Asks again with bytes, which
must give the same operators byte for byte. These questions and answers are left in FILE; with
--bytes they are asked once more from there, in an environment where there is no protobuf to
compare an answer with a recorded one.
"""

import argparse
import json
import pathlib
import sys
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(ROOT / "tests" / "support"))

import asking  # noqa: E402
import canonical  # noqa: E402
import ctrlgrad  # noqa: E402
import wire  # noqa: E402

# `backward_bytes` takes no target that the net does not know, where GetBackwardPass does.
UNKNOWN_TARGET = {
    "chain/empty_net",
    "chain/empty_net_list",
    "chain/unknown_y_given",
    "chain/unknown_y_list",
    "sparse/ys_sparse_unknown",
    "wrong_sharing/square_of_wanted",
}


class Operator:
    """An operator in wire form: as much of a message class as ctrlgrad asks for."""

    DESCRIPTOR = types.SimpleNamespace(full_name="caffe2.OperatorDef")

    def __init__(self, wire):
        self.wire = wire

    @classmethod
    def FromString(cls, wire):  # noqa: N802
        return cls(wire)

    def SerializeToString(self):  # noqa: N802
        return self.wire


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--bytes", action="store_true")
    args = parser.parse_args()
    assert "site-packages" in pathlib.Path(ctrlgrad.__file__).parts, ctrlgrad.__file__
    assert "error" in sys.warnoptions, "warnings must be errors: python -W error"
    found = ask_bytes(args.file) if args.bytes else ask_messages(args.file)
    print(json.dumps(found))
    return not 0 < found["right"] == found["asked"]


def ask_messages(file):
    backend, warned = import_protobuf()
    right, cases, questions = 0, list(golden_cases()), []
    for case in cases:
        answer = asking.ask(case)
        wrong = canonical.compare(case, *answer, proto=ctrlgrad.caffe2_pb2)
        wrong += filter(None, [asking.unclear(case, answer[0])])
        # Makers that a case brings along are given messages and make messages.
        if not wrong and "makers" not in case:
            question = in_bytes(case)
            question["answer"] = plain(*answer)
            if case["name"] in UNKNOWN_TARGET:
                question["answer"] = "UnknownBlobError"
            questions.append(question)
            wrong = compare_bytes(question)
        right += not wrong
        report(case, wrong)
    file.write_text(json.dumps(questions), encoding="utf-8")
    return {"asked": len(cases), "right": right, "backend": backend, "warned": warned}


def ask_bytes(file):
    try:
        import google.protobuf
    except ImportError:
        pass
    else:
        raise AssertionError("there is a protobuf: %s" % google.protobuf.__file__)
    right, questions = 0, json.loads(file.read_text(encoding="utf-8"))
    for question in questions:
        wrong = compare_bytes(question)
        right += not wrong
        report(question, wrong)
    return {"asked": len(questions), "right": right, "backend": "", "warned": []}


def import_protobuf():
    """(the backend, what protobuf itself warns of): that is no fault of ctrlgrad."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        from google.protobuf import descriptor_pb2, message_factory, text_format  # noqa: F401
        from google.protobuf.internal import api_implementation
    return api_implementation.Type(), sorted({str(warning.message) for warning in warned})


def golden_cases():
    for file in sorted(GOLDEN.glob("*.jsonl")):
        # A case with a scope asks for Caffe2's own.
        yield from (case for case in canonical.load(file) if "scope" not in case)


def report(case, wrong):
    if wrong:
        print("%s: %s" % (case["name"], "; ".join(wrong)[:300]), file=sys.stderr)


# ------------------------------------------------------------------------------ bytes


def in_bytes(case):
    proto = ctrlgrad.caffe2_pb2
    if case["kind"] == "net":
        message, gradients = canonical.forward_net(case, proto.NetDef), case["ys"]
    else:
        message, gradients = canonical.parse_text(case["op"], proto.OperatorDef), case["g_output"]
    return {
        "name": case["name"],
        "kind": case["kind"],
        "wire": message.SerializeToString().hex(),
        "gradients": gradients,
    }


def compare_bytes(question):
    asked, gradients = bytes.fromhex(question["wire"]), question["gradients"]
    try:
        if question["kind"] == "net":
            answer = ctrlgrad.backward_bytes(asked, gradients)
        elif question["kind"] == "op":
            answer = ctrlgrad.GradientRegistry.GetGradientForOp(Operator(asked), gradients)
        else:
            generate = getattr(ctrlgrad, "gen_%s_gradient" % question["kind"])
            answer = generate(Operator(asked), gradients)
    except Exception as error:
        answer = error, None
    found = plain(*answer)
    if found == question["answer"]:
        return []
    return ["as bytes: expected %.120s, got %.120s" % (question["answer"], found)]


def plain(ops, gradients):
    """An answer as JSON has it: the operators as one serialized net, or the class of an error."""
    if isinstance(ops, Exception):
        return type(ops).__name__
    if not isinstance(ops, bytes):
        ops = wire.net(*(op.SerializeToString() for op in ops))
    if isinstance(gradients, dict):
        return [ops.hex(), {str(blob): canonical.gradient(g) for blob, g in gradients.items()}]
    return [ops.hex(), canonical.gradient(gradients)]


if __name__ == "__main__":
    sys.exit(main())
