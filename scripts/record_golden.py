"""Puts our answer in the place of a recorded one, where it has been shown right.

    python3.9 scripts/record_golden.py [--dry-run] [--only TEXT]

Asks every golden case that ctrlgrad and the record answer differently. Only where the case says
that Caffe2 is wrong, and the operators of our answer give the right numbers when Caffe2 runs
them, our answer becomes the recorded one, marked by `recorded_by`. Everything else that differs
is printed and left alone. Needs Caffe2 (`make test-reference` makes such an environment).
Exit status 1 if something differs that could not be recorded.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import asking  # noqa: E402
import canonical  # noqa: E402
import numbers_check  # noqa: E402
from caffe2.proto import caffe2_pb2  # noqa: E402

MARK = "ctrlgrad, numbers shown right"


def answer_as_text(case, ops, grads):
    """An answer in the form that `expect` has."""
    from google.protobuf import text_format

    found = {"ops": [text_format.MessageToString(op) for op in ops]}
    if case["kind"] == "net":
        found["grads"] = {str(blob): canonical.gradient(value) for blob, value in grads.items()}
    else:
        found["g_input"] = [canonical.gradient(value) for value in grads]
    return found


def settled(case):
    """(what the case becomes, None) or (None, what is wrong); (None, None) if nothing differs."""
    ops, grads = asking.ask(case, caffe2_pb2)
    found = canonical.compare(case, ops, grads, proto=caffe2_pb2)
    if not found:
        return None, None
    if isinstance(ops, BaseException):
        return None, found[0]
    if not case.get("reference_is_wrong") or not case.get("numbers"):
        return None, found[0]
    for run in case["numbers"]:
        wrong = numbers_check.wrong(case, ops, grads, run)
        if wrong:
            return None, wrong[0]
    changed = {key: value for key, value in case.items() if key != "_dir"}
    changed["expect"] = answer_as_text(case, ops, grads)
    changed["recorded_by"] = MARK
    return changed, None


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--dry-run", action="store_true", help="change nothing")
    parse.add_argument("--only", default="", help="only cases whose name holds this text")
    args = parse.parse_args()
    recorded = left = 0
    for path in sorted((ROOT / "tests" / "golden").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        before = recorded
        for at, case in enumerate(canonical.load(str(path))):
            if args.only not in case["name"] or "scope" in case:
                continue
            changed, wrong = settled(case)
            if changed is not None:
                recorded += 1
                lines[at] = json.dumps(changed, ensure_ascii=False)
                print("recorded  %s" % case["name"])
            elif wrong is not None:
                left += 1
                print("differs   %s: %.300s" % (case["name"], wrong))
        if recorded > before and not args.dry_run:
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("%d recorded, %d differ and were left alone" % (recorded, left))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
