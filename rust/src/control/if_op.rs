//! The gradient of an If: an If on the same condition, with the gradients of the two branches.
//!
//! Whatever the condition, the same gradients must be there afterwards. So what only one branch
//! makes, the other fills with zeros; and what a branch only hands on it copies.

use std::cell::OnceCell;

use crate::backward::Walk;
use crate::blobs::{self, BlobId};
use crate::error::Result;
use crate::few::{Map, Set};
use crate::gradient::{Body, Control, ControlArg, Gradient, GradientNet, NetHead, Ref, ValueId};
use crate::helpers::{int_argument, ints_argument};
use crate::ssa::VersionId;
use crate::surroundings::Surroundings;

use super::branch::{Branch, Outputs};
use super::seeds::{seeds, set_apart, Seed};
use super::{control_error, net_argument, outer_read, Arguments, Listed, ELSE_SUFFIX};

/// `TensorProto.INT32`.
const INT32: i64 = 2;

pub(super) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
) -> Result<Vec<Gradient>> {
    if walk.net.inputs(op).is_empty() {
        return Err(control_error("this If has no input", "its first input is the condition"));
    }
    let mut seeds = seeds(walk, op, usize::MAX)?;
    let then_net = net_argument(walk, args, "then_net")?
        .ok_or_else(|| control_error("this If has no argument then_net", "give it one"))?;
    let else_net = net_argument(walk, args, "else_net")?;
    set_apart(walk, op, &mut seeds, &Set::default());
    let indifferent = walk.indifferent_before(op);
    let (session, sight) = walk.apart();
    let matter = OnceCell::new();
    let matters = |blob| matter.get_or_init(|| sight.matter_inside(op)).contains(&blob);
    let around = Surroundings {
        read_outside: sight.net.outputs(op).to_vec(),
        no_gradient: Set::default(),
        indifferent,
        matters: Some(&matters),
    };
    let mut branch = |net| Branch::differentiate(session, net, seeds.iter().copied(), &around);
    let then_branch = Some(branch(then_net)?);
    let else_branch = else_net.map(branch).transpose()?;
    let indifferent = around.indifferent;
    let mut join = Join::new(walk, op, seeds, [then_branch, else_branch]);
    join.indifferent = indifferent;
    let gradients = join.inputs()?;
    join.local_zeros()?;
    join.finish()?;
    Ok(gradients)
}

/// What a blob's gradient is on one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Zero.
    Zero,
    /// It comes from outside and is handed on.
    Free(Ref),
    /// The branch makes it.
    Made(Ref),
    /// It is sparse.
    Sparse(Ref, Ref),
}

/// The two sides of an If on their way into one operator.
struct Join<'j, 'w, 's, 'a> {
    walk: &'j mut Walk<'w, 's, 'a>,
    op: usize,
    seeds: Map<BlobId, Ref>,
    /// The versions of the inputs.
    versions: Map<BlobId, VersionId>,
    /// Blobs for which it does not matter what gradient they have before the If.
    indifferent: Set<BlobId>,
    sides: [Option<Branch<'a>>; 2],
    incoming: [Map<BlobId, Gradient>; 2],
    outputs: Outputs,
    /// By name: what is written under it on both sides, and so for whom it can serve.
    claims: Map<BlobId, [State; 2]>,
    /// Copies that close each side, made before anything of the tail is written.
    copies: [Vec<(Ref, ValueId)>; 2],
    /// What each side hands on under its name. Where the value is renamed after all, it is copied.
    kept: [Vec<(Ref, ValueId)>; 2],
    /// Operators that close each side.
    tails: [GradientNet<'a>; 2],
    /// What the copies read, beside what the branches read.
    copied: Vec<Ref>,
    looks_at: Vec<Ref>,
}

impl<'j, 'w, 's, 'a> Join<'j, 'w, 's, 'a> {
    fn new(
        walk: &'j mut Walk<'w, 's, 'a>,
        op: usize,
        seeds: Vec<Seed>,
        sides: [Option<Branch<'a>>; 2],
    ) -> Self {
        let seeds: Map<BlobId, Ref> =
            seeds.into_iter().map(|seed| (seed.output, seed.gradient)).collect();
        let incoming = [0, 1].map(|side: usize| match &sides[side] {
            Some(branch) => branch.incoming.iter().copied().collect(),
            // A side that is not there leaves everything as it is.
            None => seeds.iter().map(|(blob, part)| (*blob, Gradient::Dense(*part))).collect(),
        });
        let versions = walk.input_versions(op);
        let mut outputs = Outputs::default();
        for branch in sides.iter().flatten() {
            outputs.take(walk, branch);
        }
        Self {
            walk,
            op,
            seeds,
            versions,
            indifferent: Set::default(),
            sides,
            incoming,
            outputs,
            claims: Map::default(),
            copies: [Vec::new(), Vec::new()],
            kept: [Vec::new(), Vec::new()],
            tails: [GradientNet::default(), GradientNet::default()],
            copied: Vec::new(),
            looks_at: Vec::new(),
        }
    }

    fn state(&self, side: usize, blob: BlobId) -> State {
        match self.incoming[side].get(&blob) {
            None | Some(Gradient::None) => match self.seeds.get(&blob) {
                // Where it does not matter, the gradient behind the If is handed on, as in the
                // reference.
                Some(seed) if self.indifferent.contains(&blob) => State::Free(*seed),
                _ => State::Zero,
            },
            Some(Gradient::Sparse(indices, values)) => State::Sparse(*indices, *values),
            Some(Gradient::Dense(part)) => match &self.sides[side] {
                Some(branch) if branch.makes(*part) => State::Made(*part),
                _ => State::Free(*part),
            },
        }
    }

    /// The gradients of the inputs.
    fn inputs(&mut self) -> Result<Vec<Gradient>> {
        self.check_unlisted()?;
        let inputs: Vec<BlobId> = self.walk.net.inputs(self.op).to_vec();
        let mut done: Map<BlobId, Gradient> = Map::with_room(inputs.len());
        let mut gradients = Vec::with_capacity(inputs.len());
        for blob in inputs {
            let gradient = match done.get(&blob) {
                Some(gradient) => *gradient,
                None => {
                    let gradient = self.input(blob)?;
                    done.insert(blob, gradient);
                    gradient
                }
            };
            gradients.push(gradient);
        }
        Ok(gradients)
    }

    /// A gradient for a blob that the If does not list could not leave it.
    fn check_unlisted(&self) -> Result<()> {
        if self.walk.lenient {
            return Ok(());
        }
        let matter = OnceCell::new();
        let matters =
            |blob| matter.get_or_init(|| self.walk.matter_before(self.op)).contains(&blob);
        for side in [0, 1] {
            let incoming: Vec<BlobId> = match &self.sides[side] {
                Some(branch) => branch.incoming.iter().map(|(blob, _)| *blob).collect(),
                None => self.walk.net.outputs(self.op).to_vec(),
            };
            for blob in incoming.into_iter().filter(|blob| !self.versions.contains_key(blob)) {
                let is_lost = match self.state(side, blob) {
                    State::Zero => false,
                    State::Free(_) if self.seeds.contains_key(&blob) => matters(blob),
                    _ => true,
                };
                if is_lost {
                    return Err(super::unlisted(self.walk, "If", blob));
                }
            }
        }
        Ok(())
    }

    fn input(&mut self, blob: BlobId) -> Result<Gradient> {
        let states = [self.state(0, blob), self.state(1, blob)];
        if states.iter().any(|state| matches!(state, State::Sparse(..))) {
            return self.sparse_input(blob, states);
        }
        match states {
            [State::Zero, State::Zero] => return Ok(Gradient::None),
            [State::Free(part), State::Free(other)] if part == other => {
                let name = self.walk.session.values.nominal_ref(part);
                if !self.outputs.writes(name) {
                    return Ok(Gradient::Dense(part));
                }
            }
            _ => {}
        }
        let name = self.name_for(blob, states);
        let value = self.outputs.named(self.walk, name);
        if self.claims.insert(name, states).is_none() {
            for side in [0, 1] {
                self.provide(side, blob, states, value)?;
            }
        }
        Ok(Gradient::Dense(Ref::Value(value)))
    }

    /// The name under which both sides provide the gradient of a blob: the one that a side makes it
    /// under, or the usual one.
    fn name_for(&mut self, blob: BlobId, states: [State; 2]) -> BlobId {
        let usual = self.walk.session.table.gradient(blob);
        let session = &mut *self.walk.session;
        let mut made = states.iter().filter_map(|state| match state {
            State::Made(Ref::Value(value)) => {
                Some(session.values.provisional(*value, &mut session.table))
            }
            _ => None,
        });
        let name = match (made.next(), made.next()) {
            (Some(name), None) => name,
            (Some(name), Some(other)) if name == other => name,
            _ => usual,
        };
        let mut name = name;
        let mut next = usual;
        while self.claims.get(&name).is_some_and(|claimed| *claimed != states) {
            name = next;
            next = self.walk.session.table.affixed(b"_", name, b"_DEDUP");
        }
        name
    }

    /// Closes a side so that `value` holds the gradient of `blob` there.
    fn provide(
        &mut self,
        side: usize,
        blob: BlobId,
        states: [State; 2],
        value: ValueId,
    ) -> Result<()> {
        let name = self.walk.session.values.nominal(value);
        match states[side] {
            State::Zero => {
                let like = self.shape_source(1 - side, blob, states[1 - side]);
                self.fill(side, like, value)?;
            }
            State::Free(part) if self.walk.session.values.nominal_ref(part) == name => {
                self.walk.session.idle_copies = true;
                self.kept[side].push((part, value));
                self.copied.push(part);
            }
            State::Free(part) => self.copy(side, part, value),
            State::Made(part) => {
                let session = &mut *self.walk.session;
                let Ref::Value(made) = part else { return Ok(()) };
                if session.values.provisional(made, &mut session.table) != name {
                    self.copy(side, part, value);
                }
            }
            State::Sparse(indices, values) => {
                let to_dense = [indices, values, Ref::Blob(blob)];
                let device = self.walk.device(self.op);
                let body = Body::Plain { named: false, args: 0..0, device };
                self.tails[side].push(b"SparseToDense", to_dense, [value], None, body);
            }
        }
        Ok(())
    }

    /// The blob that a zero gradient takes its shape from: the first one that has this gradient on
    /// the other side and is there whatever side runs.
    fn shape_source(&self, other: usize, blob: BlobId, state: State) -> BlobId {
        let (Some(branch), State::Made(part)) = (&self.sides[other], state) else { return blob };
        let inputs = self.walk.net.inputs(self.op);
        if inputs.len() > 64 {
            return blob;
        }
        let same = branch
            .final_gradients
            .iter()
            .filter(|(_, gradient)| *gradient == Gradient::Dense(part));
        same.map(|(blob, _)| *blob).find(|blob| inputs.contains(blob)).unwrap_or(blob)
    }

    fn fill(&mut self, side: usize, like: BlobId, value: ValueId) -> Result<()> {
        let like = match self.versions.get(&like) {
            Some(version) => self.walk.shape(self.op, *version)?,
            None => Ref::Blob(like),
        };
        self.looks_at.push(like);
        self.tails[side].fill(like, 0.0, value, false, None, None);
        Ok(())
    }

    fn copy(&mut self, side: usize, part: Ref, value: ValueId) {
        let is_free = !self.sides[side].as_ref().is_some_and(|branch| branch.makes(part));
        if is_free {
            self.copied.push(part);
        }
        self.copies[side].push((part, value));
    }

    /// A sparse gradient on one side at least: sparse on both, with nothing in it where the side has
    /// none; dense where that cannot be.
    fn sparse_input(&mut self, blob: BlobId, states: [State; 2]) -> Result<Gradient> {
        let like = states.iter().find_map(|state| match state {
            State::Sparse(indices, _) => self.walk.session.values.like(*indices),
            _ => None,
        });
        let all_sparse =
            states.iter().all(|state| matches!(state, State::Zero | State::Sparse(..)));
        let needs_empty = states.contains(&State::Zero);
        if !all_sparse || (needs_empty && like.is_none()) {
            let name = self.walk.session.table.gradient(blob);
            let value = self.outputs.named(self.walk, name);
            self.claims.insert(name, states);
            for side in [0, 1] {
                self.provide(side, blob, states, value)?;
            }
            return Ok(Gradient::Dense(Ref::Value(value)));
        }
        let indices = self.walk.session.table.suffixed(blob, blobs::INDICES);
        let indices = self.outputs.named(self.walk, indices);
        let values = self.walk.session.table.suffixed(blob, blobs::VALUES);
        let values = self.outputs.named(self.walk, values);
        for side in [0, 1] {
            match (states[side], like) {
                (State::Sparse(side_indices, side_values), _) => {
                    for (part, value) in [(side_indices, indices), (side_values, values)] {
                        self.copy_unless_named(side, part, value);
                    }
                }
                (_, Some(like)) => self.empty(side, blob, like, indices, values),
                _ => {}
            }
        }
        self.walk.session.values.set_like(indices, like);
        Ok(Gradient::Sparse(Ref::Value(indices), Ref::Value(values)))
    }

    fn copy_unless_named(&mut self, side: usize, part: Ref, value: ValueId) {
        let session = &mut *self.walk.session;
        let name = session.values.nominal(value);
        let is_named = match part {
            Ref::Value(made) => session.values.provisional(made, &mut session.table) == name,
            Ref::Blob(_) => false,
        };
        if !is_named {
            self.copy(side, part, value);
        }
    }

    /// No row of `blob`: indices of the type and rank of `like`, and as many rows.
    fn empty(
        &mut self,
        side: usize,
        blob: BlobId,
        like: BlobId,
        indices: ValueId,
        values: ValueId,
    ) {
        let name = self.walk.session.table.suffixed(blob, b"_grad_no_rows");
        let nothing = self.outputs.named(self.walk, name);
        let device = self.walk.device(self.op);
        let tail = &mut self.tails[side];
        let mut args = ints_argument("shape", &[0]);
        args.extend(int_argument("dtype", INT32));
        let args = tail.arg(&args);
        tail.push(b"ConstantFill", [], [nothing], None, Body::Plain { named: false, args, device });
        let mut gather = |from: BlobId, at: ValueId, to: ValueId| {
            let body = Body::Plain { named: false, args: 0..0, device };
            tail.push(b"Gather", [Ref::Blob(from), Ref::Value(at)], [to], None, body);
        };
        gather(like, nothing, indices);
        gather(blob, indices, values);
        self.looks_at.push(Ref::Blob(blob));
        self.copied.push(Ref::Blob(like));
    }

    /// Gradients of blobs that only one side knows. Nobody reads them behind the If; but a gradient
    /// operator that lists an output makes it, as in the reference.
    fn local_zeros(&mut self) -> Result<()> {
        let listed: Set<BlobId> = self.walk.net.blobs()[self.walk.net.input_places(self.op)]
            .iter()
            .chain(self.walk.net.outputs(self.op))
            .copied()
            .collect();
        let known_before = OnceCell::new();
        for side in [0, 1] {
            let Some(branch) = &self.sides[side] else { continue };
            let read = branch.reads();
            let mut owner: Map<BlobId, BlobId> = Map::with_room(branch.final_gradients.len());
            let session = &mut *self.walk.session;
            for (blob, gradient) in &branch.final_gradients {
                if let Gradient::Dense(Ref::Value(value)) = gradient {
                    if branch.makes(Ref::Value(*value)) {
                        let name = session.values.provisional(*value, &mut session.table);
                        owner.or_insert_with(name, || *blob);
                    }
                }
            }
            let mut other_writes = Set::default();
            if let Some(other) = &self.sides[1 - side] {
                for part in other.writes() {
                    if let Ref::Value(value) = part {
                        other_writes.insert(session.values.provisional(value, &mut session.table));
                    }
                }
            }
            let mut wanted = Vec::new();
            for part in branch.writes() {
                let Ref::Value(value) = part else { continue };
                let name = session.values.provisional(value, &mut session.table);
                let Some(blob) = owner.remove(&name) else { continue };
                let known = listed.contains(&blob) || read.contains(&Ref::Blob(blob));
                if other_writes.contains(&name) || self.claims.contains_key(&name) || !known {
                    continue;
                }
                wanted.push((blob, name));
            }
            for (blob, name) in wanted {
                let value = self.outputs.named(self.walk, name);
                match self.seeds.get(&blob).copied() {
                    Some(seed) if self.walk.session.values.nominal_ref(seed) == name => {}
                    Some(seed) => self.copy(1 - side, seed, value),
                    None if self.walk.lenient
                        || known_before
                            .get_or_init(|| self.walk.known_before(self.op))
                            .contains(&blob) =>
                    {
                        self.fill(1 - side, blob, value)?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Copies that are all to read what was there before any of them.
    fn side_by_side(&mut self, copies: Vec<(Ref, ValueId)>) -> GradientNet<'a> {
        let mut net = GradientNet::default();
        let written: Set<BlobId> =
            copies.iter().map(|(_, to)| self.walk.session.values.nominal(*to)).collect();
        let mut late = Vec::with_capacity(copies.len());
        for (mut from, to) in copies {
            let name = self.walk.session.values.nominal_ref(from);
            if written.contains(&name) {
                let target = self.walk.session.values.nominal(to);
                let suffix = [b"_", self.walk.session.table.name(name), b"_DEDUP"].concat();
                let aside = self.walk.session.table.suffixed(target, &suffix);
                let aside = self.outputs.named(self.walk, aside);
                net.copy(from, aside, false, None, None);
                from = Ref::Value(aside);
            }
            late.push((from, to));
        }
        for (from, to) in late {
            net.copy(from, to, false, None, None);
        }
        net
    }

    /// Puts both sides into one operator.
    fn finish(mut self) -> Result<()> {
        let (op, view) = (self.op, self.walk.net.ops()[self.op].view);
        let mut met = Set::default();
        let condition = self.walk.ssa.at[self.walk.net.input_places(op).start];
        let mut inputs = vec![self.walk.forward(op, condition, false)?];
        met.insert(inputs[0]);
        let mut reads = Vec::new();
        for branch in self.sides.iter().flatten() {
            reads.extend(branch.reads().iter().copied());
        }
        reads.append(&mut self.copied);
        let workspaces: Set<Ref> =
            self.sides.iter().flatten().flat_map(Branch::workspaces).collect();
        let listed = Listed::new(self.walk, op, &self.versions);
        for part in reads {
            let mut part = self.walk.session.values.canonical(part);
            match part {
                Ref::Blob(blob) if workspaces.contains(&part) => {
                    self.walk.check_workspace(op, blob)?;
                }
                _ => part = outer_read(self.walk, op, &listed, part)?,
            }
            if met.insert(part) {
                inputs.push(part);
            }
        }
        let changes = self.sides.iter().flatten().flat_map(Branch::changes).collect();
        let [then_copies, else_copies] = std::mem::take(&mut self.copies);
        let [then_kept, else_kept] = std::mem::take(&mut self.kept);
        let [mut then_tail, mut else_tail] = std::mem::take(&mut self.tails);
        for (tail, copies, kept) in
            [(&mut then_tail, then_copies, then_kept), (&mut else_tail, else_copies, else_kept)]
        {
            let mut first = self.side_by_side(copies);
            for (from, to) in kept {
                first.copy(from, to, false, None, None);
            }
            first.append(std::mem::take(tail));
            *tail = first;
        }
        let [then_branch, else_branch] = self.sides;
        let mut args = Vec::with_capacity(2);
        let then_forward = then_branch.as_ref().map(|branch| branch.forward);
        if let Some(mut branch) = then_branch {
            branch.net.append(then_tail);
            args.push(ControlArg::Net(
                "then_net",
                NetHead::of(branch.forward, "_grad"),
                branch.net,
            ));
        }
        match (else_branch, then_forward) {
            (Some(mut branch), _) => {
                branch.net.append(else_tail);
                args.push(ControlArg::Net(
                    "else_net",
                    NetHead::of(branch.forward, "_grad"),
                    branch.net,
                ));
            }
            (None, Some(forward)) if !else_tail.ops.is_empty() => {
                let head = NetHead::of(forward, ELSE_SUFFIX);
                args.push(ControlArg::Net("else_net", head, else_tail));
            }
            _ => {}
        }
        let control = Control { forward: view, args, changes, looks_at: self.looks_at };
        self.walk.push_control(op, b"If", inputs, self.outputs.order, control);
        Ok(())
    }
}
