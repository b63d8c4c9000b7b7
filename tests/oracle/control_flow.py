"""Do, If and While for the random nets."""

from typing import Any, Optional

import numpy as np

from .generate import Draft, Unlucky, fill, operator
from .recipes import Want

Target = tuple[str, tuple[int, ...]]
BOOL = 5
HIGH = 1000.0


def add(draft: Draft) -> None:
    """One operator with nets inside."""
    world = draft.world
    kept = (
        list(draft.ops),
        dict(draft.values),
        dict(draft.first_reads),
        dict(draft.written),
        dict(draft.bound),
    )
    try:
        world.rng.choice([add_do, add_if, add_if, add_while])(draft)
    except Unlucky:
        draft.ops, draft.values, draft.first_reads, draft.written, draft.bound = kept
        draft.draw()


def steps_inside(draft: Draft) -> int:
    return draft.world.rng.choice([0, 0, 1, 1, 2, 3])


def workspace_blob(draft: Draft) -> str:
    name = draft.world.name("ws%d" % draft.world.rng.randrange(1000))
    draft.write("CreateScope", [], [name], given=[None])
    return name


def net_of(draft: Draft, stem: str):
    return draft.world.pb.NetDef(name=draft.world.name(stem), op=draft.ops)


def targets_for(draft: Draft, most: int, new: float = 0.5) -> list[Target]:
    """Blobs for a net inside to write: some that are there, some that are new."""
    world, rng = draft.world, draft.world.rng
    found: dict[str, tuple[int, ...]] = {}
    shapes = [draft.values[n].shape for n in draft.floats()] or [(3,)]
    for _ in range(rng.choice([1, 1, 2, most])):
        old = [n for n in draft.floats() if draft.may_write(n)]
        if old and not world.chance(new):
            name = rng.choice(old[-6:])
            found[name] = draft.values[name].shape
        else:
            found[world.name()] = rng.choice(shapes)
    return list(found.items())


# ------------------------------------------------------------------------------ Do


def write_do(
    draft: Draft, ws: str, targets: Optional[list[Target]] = None, carried=False, control=0.25
) -> dict[str, np.ndarray]:
    """A Do that ends on the targets, or on whatever it has made."""
    world, rng = draft.world, draft.world.rng
    body = Draft(world, draft, isolated=True)
    inner_of: dict[str, str] = {}
    for name, _ in targets or []:
        if name in draft.values and (carried or world.chance(0.6)):
            inner_of[name] = body.bind(name, draft.values[name])
    fill(body, steps_inside(draft), control)
    if targets is None:
        made = [n for n in body.floats() if n in body.written and n not in body.bound]
        targets = []
        for inner in rng.sample(made, min(len(made), rng.choice([1, 1, 2]))):
            outer = inner if inner not in draft.values and world.chance(0.7) else world.name()
            old = [
                n
                for n in draft.floats()
                if draft.may_write(n) and n not in body.bound.values() and n not in dict(targets)
            ]
            if old and world.chance(0.2):
                outer = rng.choice(old)
            inner_of[outer] = inner
            targets.append((outer, body.values[inner].shape))
        if not targets and not any(n in body.written for n in body.bound):
            targets = targets_for(draft, 1, new=0.8)
            for name, shape in targets:
                inner_of[name] = close_inside(body, name, shape, inner_of)
    else:
        for name, shape in targets:
            inner_of[name] = close_inside(body, name, shape, inner_of)
    for outer, inner in inner_of.items():
        body.bound[inner] = outer
    inputs = [outer for inner, outer in body.bound.items() if inner in body.first_reads]
    outputs = [outer for inner, outer in body.bound.items() if inner in body.written]
    if world.chance(0.3):
        rng.shuffle(inputs)
        rng.shuffle(outputs)
    if not outputs:
        raise Unlucky("a Do without outputs")
    outer_names = inputs + outputs
    pairs = [
        (inner, outer_names.index(outer))
        for inner, outer in body.bound.items()
        if outer in outer_names
    ]
    args: dict[str, Any] = {
        "net": net_of(body, "body"),
        "inner_blobs": tuple(p[0] for p in pairs),
        "outer_blobs_idx": tuple(p[1] for p in pairs),
    }
    if carried:
        args["copy_external_blobs"] = 1
    values = {outer: body.values.get(inner) for inner, outer in body.bound.items()}
    draft.write(
        "Do", [*inputs, ws], [*outputs, ws], given=[values[n] for n in outputs] + [None], **args
    )
    return {n: values[n] for n in outputs}


def close_inside(body: Draft, name: str, shape, inner_of: dict[str, str]) -> str:
    """Writes a blob of the net outside; under the name that it has inside."""
    world = body.world
    inner = inner_of.get(name) or next((i for i, o in body.bound.items() if o == name), None)
    if inner is None:
        inner = name if name not in body.values and world.chance(0.7) else world.name()
    body.close(inner, shape)
    return inner


def add_do(draft: Draft) -> None:
    write_do(draft, workspace_blob(draft))


# ------------------------------------------------------------------------------ If


def condition(draft: Draft) -> str:
    world, rng = draft.world, draft.world.rng
    known = [n for n, a in draft.values.items() if a.dtype == np.bool_ and a.size == 1]
    if known and world.chance(0.3):
        return rng.choice(known)
    stem = rng.choice(["cond", "more", "c", "flag", "xyz"])
    if draft.floats() and world.chance(0.2):  # from the data, but for a limit that decides it
        total, cond = world.name(), world.name(stem)
        limit = draft.feed(np.full((), HIGH, np.float32), constant=True, stem="limit")
        world.conditions.append(draft.outermost(limit)[1])
        draft.write("SumElements", [rng.choice(draft.floats())], [total])
        draft.write("LT", [total, limit], [cond])
        return cond
    cond = draft.feed(np.array(True), stem=stem)
    world.conditions.append(draft.outermost(cond)[1])
    return cond


def add_if(draft: Draft) -> None:
    world, rng = draft.world, draft.world.rng
    cond = condition(draft)
    targets = targets_for(draft, 3)
    branches = ["then_net"] + (["else_net"] if world.chance(0.55) else [])
    written: dict[str, list[Target]] = {b: [] for b in branches}
    for target in targets:
        chosen = [b for b in branches if world.chance(0.8)] or [rng.choice(branches)]
        for branch in chosen:
            written[branch].append(target)
        if len(chosen) < 2 and target[0] not in draft.values:
            prepare(draft, *target)
    args: dict[str, Any] = {}
    reads: dict[str, None] = {}
    outputs: dict[str, Optional[np.ndarray]] = {}
    local: dict[str, None] = {}
    for name in branches:
        reads.update(write_branch(draft, args, name, written[name], outputs, local))
    for name, _ in targets:
        everywhere = len(branches) == 2 and all(name in dict(written[b]) for b in branches)
        if name in draft.values and not everywhere:
            reads[name] = None  # its old value counts where no branch writes it
    if world.chance(0.5):
        outputs.update(dict.fromkeys((n for n in local if n not in outputs), None))
    inputs = [n for n in reads if n != cond]
    if world.chance(0.3):
        rng.shuffle(inputs)
    draft.write("If", [cond, *inputs], list(outputs), given=list(outputs.values()), **args)


def prepare(draft: Draft, name: str, shape) -> None:
    """Something for the case that the branch does not run."""
    if draft.world.chance(0.5):
        like = draft.choose(Want(shape=shape))[0]
        draft.write("ConstantFill", [like], [name], value=0.25)
    else:
        draft.close(name, shape)


def write_branch(draft: Draft, args, name: str, targets: list[Target], outputs, local):
    """One branch; gives what it reads."""
    world = draft.world
    branch = Draft(world, draft)
    if world.chance(0.5):
        ws = workspace_blob(draft)
        if targets:
            outputs.update(write_do(branch, ws, targets))
            outputs[ws] = None
    else:
        branch.depth += 1
        fill(branch, steps_inside(draft), 0.2)
        for target in targets:
            branch.close(*target)
        for blob in branch.written:
            array = branch.values.get(blob)
            ours = blob in dict(targets) or blob in draft.values
            if ours or array is None:
                outputs.setdefault(blob, array if ours else None)
            else:
                local[blob] = None
    args[name] = net_of(branch, "branch")
    return branch.first_reads


# --------------------------------------------------------------------------- While


def add_while(draft: Draft) -> None:
    world = draft.world
    carried: list[Target] = []
    for name, shape in targets_for(draft, 2, new=0.6):
        if name not in draft.values:
            prepare(draft, name, shape)
        carried.append((name, shape))
    count, one, more = world.name("i"), world.name("one"), world.name("more")
    draft.write("GivenTensorIntFill", [], [count], given=[None], shape=(1,), values=(0,))
    draft.write("GivenTensorIntFill", [], [one], given=[None], shape=(1,), values=(1,))
    draft.write("ConstantFill", [], [more], given=[None], shape=(1,), dtype=BOOL, value=0)
    limit = draft.feed(np.array([2], np.int32), stem="n")
    world.turns.append(draft.outermost(limit)[1])
    ws = workspace_blob(draft)
    loop = Draft(world, draft)
    after = write_do(loop, ws, carried, carried=True)
    tail = [
        operator(world.pb, "Add", [count, one], [count], {}),
        operator(world.pb, "LE", [count, limit], [more], {}),
    ]
    nets = {
        "loop_net": net_of(loop, "loop"),
        "cond_net": world.pb.NetDef(name=world.name("turns"), op=tail),
    }
    inputs = [more] + [n for n in loop.first_reads if n != ws] + [ws, count, one, limit]
    outputs = [*list(after), ws, count, more]
    draft.write(
        "While",
        list(dict.fromkeys(inputs)),
        outputs,
        given=list(after.values()) + [None] * 3,
        **nets,
    )
