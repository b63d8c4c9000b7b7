"""Checks the numbers of a gradient answer: runs the forward and the gradient
operators in a Caffe2 workspace and compares with central differences.

Needs a Caffe2 that can run operators (the reference: PyPI torch 1.10.2). A case
may bring `numbers`, a list of runs:

    {"feed": {blob: [type, shape, flat values]},
     "upstream": the same, for the gradient blobs that are given,
     "grads": the same, what the gradient of these blobs must be}

    from numbers_check import wrong
    for run in case.get("numbers", []):
        print(wrong(case, ops, grads, run))     # [] if the numbers are right

A blob that an answer has no gradient for counts as having a gradient of zero.
An answer may differ from `expect` and still be right by these numbers.
"""

import re

import canonical
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace


def forward_ops(case):
    """The forward operators of a case of any kind."""
    if case["kind"] == "net":
        return list(canonical.forward_net(case, caffe2_pb2.NetDef).op)
    return [canonical.parse_text(case["op"], caffe2_pb2.OperatorDef)]


def as_array(value):
    """An array from [type, shape, flat values]."""
    kind, shape, flat = value
    return np.array(flat, dtype=kind).reshape(shape)


def from_array(array, digits=None):
    flat = array.ravel().tolist()
    if digits and array.dtype.kind == "f":
        flat = [float(("%%.%dg" % digits) % v) for v in flat]
    return [str(array.dtype), list(array.shape), flat]


def run_ops(ops, feed, name):
    net = caffe2_pb2.NetDef()
    net.name, net.type = name, "simple"
    net.op.extend(ops)
    for blob, value in feed.items():
        workspace.FeedBlob(blob, value)
    workspace.RunNetOnce(net)


def upstream_of(case, shapes, seed):
    """What flows into the backward pass: ones, or numbers where the case names
    a blob for the gradient."""
    rng = np.random.RandomState(seed)
    weights, feed = {}, {}
    if case["kind"] != "net":
        ys = {}
        outputs = forward_ops(case)[0].output
        for y, g in zip(outputs, case["g_output"]):
            if g is not None:
                ys[y] = g
    else:
        ys = case["ys"] if isinstance(case["ys"], dict) else dict.fromkeys(case["ys"])
    for y, g in ys.items():
        shape = shapes[y]
        if g is None:
            weights[y] = np.ones(shape)
        elif isinstance(g, list):
            rows = np.arange(shape[0], dtype=np.int32)[::-1].copy()
            values = rng.uniform(0.5, 1.5, shape).astype(np.float32)
            feed[g[0]], feed[g[1]] = rows, values
            dense = np.zeros(shape)
            np.add.at(dense, rows, values)
            weights[y] = dense
        else:
            if g not in feed:
                feed[g] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
            weights[y] = feed[g].astype(np.float64)
    return weights, feed


def prepare(case):
    setup = [canonical.parse_text(t, caffe2_pb2.OperatorDef) for t in case.get("setup", [])]
    return setup + forward_ops(case)


def differences(case, feed, weights, wrt, eps=1e-2):
    """d objective / d blob by central differences."""
    ops = prepare(case)

    def objective(values):
        workspace.ResetWorkspace()
        run_ops(ops, values, "forward")
        return sum(
            float((workspace.FetchBlob(y).astype(np.float64) * w).sum()) for y, w in weights.items()
        )

    out = {}
    for blob in wrt:
        slope = np.zeros(feed[blob].shape)
        for at in np.ndindex(*feed[blob].shape):
            moved = []
            for step in (eps, -eps):
                values = dict(feed)
                values[blob] = feed[blob].copy()
                values[blob][at] += step
                moved.append(objective(values))
            slope[at] = (moved[0] - moved[1]) / (2 * eps)
        out[blob] = slope
    return out


def record(case, feed, wrt=None, seed=0):
    """One entry of `numbers`: what goes in and what must come out."""
    workspace.ResetWorkspace()
    run_ops(prepare(case), feed, "forward")
    keys = case["ys"] if case["kind"] == "net" else forward_ops(case)[0].output
    shapes = {
        y: workspace.FetchBlob(y).shape for y in keys if hasattr(workspace.FetchBlob(y), "shape")
    }
    weights, upstream = upstream_of(case, shapes, seed)
    if wrt is None:
        wrt = [b for b, v in feed.items() if v.dtype == np.float32]
    slopes = differences(case, feed, weights, wrt)
    return {
        "feed": {k: from_array(v) for k, v in feed.items()},
        "upstream": {k: from_array(v) for k, v in upstream.items()},
        "grads": {k: from_array(v.astype(np.float32), 5) for k, v in slopes.items()},
    }


def wrong(case, ops, grads, entry, tolerance=2e-2):
    """What is wrong with an answer, in numbers, for one entry of `numbers`."""
    feed = {k: as_array(v) for k, v in entry["feed"].items()}
    upstream = {k: as_array(v) for k, v in entry["upstream"].items()}
    if not isinstance(grads, dict):
        names = forward_ops(case)[0].input
        grads = dict(zip(names, grads))
    grads = {str(k): canonical.gradient(v) for k, v in grads.items()}
    found = []
    workspace.ResetWorkspace()
    try:
        run_ops(prepare(case), feed, "forward")
        run_ops(ops, upstream, "backward")
        for blob, value in entry["grads"].items():
            want = as_array(value)
            got = np.zeros(want.shape, np.float32)
            name = grads.get(blob)
            if isinstance(name, list):
                rows = workspace.FetchBlob(name[0]).ravel()
                values = workspace.FetchBlob(name[1])
                np.add.at(got, rows, values.reshape((len(rows), *want.shape[1:])))
            elif name is not None:
                got = workspace.FetchBlob(name)
                if not hasattr(got, "shape"):
                    found.append("%s: %s was never computed" % (blob, name))
                    continue
            if got.shape != want.shape or not np.allclose(
                got, want, rtol=tolerance, atol=tolerance
            ):
                found.append(
                    "%s: gradient %s, by differences %s"
                    % (
                        blob,
                        "none" if name is None else np.round(got, 4).ravel().tolist(),
                        np.round(want, 4).ravel().tolist(),
                    )
                )
    except Exception as error:
        found.append("the gradient operators do not run: " + clean(str(error)))
    return found


FAILURES = (
    ("non-existing input blob", "an operator reads a blob that does not exist"),
    ("nullptr (uninitialized)", "an operator reads a blob that nothing has written"),
    ("Can't find blob", "the gradient blob does not exist"),
    ("did not pass schema", "an operator breaks its schema"),
    ("Input tensor", "an operator is given a tensor of the wrong kind"),
    ("IsType<T>()", "an operator is given a blob of the wrong type"),
    ("blob_bindings", "an operator's blob bindings are refused"),
)


def clean(message):
    """What went wrong, in words that do not depend on the build."""
    found = [words for text, words in FAILURES if text in message]
    blob = re.search(r"(?:Offending Blob name|non-existing input blob): (\S+)", message)
    return (found[0] if found else "an operator fails") + (
        " (%s)" % blob.group(1).rstrip(".") if blob else ""
    )
