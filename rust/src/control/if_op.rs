//! The gradient of an If: an If on the same condition, with the gradients of the two branches.
//!
//! Whatever the condition, the same gradients must be there afterwards. So what only one branch
//! makes, the other fills with zeros; and what a branch only hands on it copies.

use std::cell::OnceCell;

use smallvec::{smallvec, SmallVec};

use crate::backward::Walk;
use crate::blobs::{self, BlobId};
use crate::error::Result;
use crate::few::{Map, Set, FEW};
use crate::gradient::{Control, Gradient, Ref, ValueId};

use super::branch::{Branch, Outputs};
use super::listed::Listed;
use super::seeds::{seeds, set_apart, Seed};
use super::side::Side;
use super::{control_error, net_argument, outer_read, Arguments};

pub(super) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
    gets: &mut Vec<Gradient>,
) -> Result<()> {
    if walk.net.inputs(op).is_empty() {
        return Err(control_error("this If has no input", "its first input is the condition"));
    }
    let mut seeds = seeds(walk, op, usize::MAX)?;
    let then_net = net_argument(walk, args, "then_net")?
        .ok_or_else(|| control_error("this If has no argument then_net", "give it one"))?;
    let else_net = net_argument(walk, args, "else_net")?;
    set_apart(walk, op, &mut seeds, &Set::default());
    let indifferent = walk.indifferent_before(op);
    let (branches, indifferent) = walk.inside(op, indifferent, |session, around| {
        let mut branch = |net| Branch::differentiate(session, net, seeds.iter().copied(), around);
        Ok([Some(branch(then_net)?), else_net.map(branch).transpose()?])
    });
    let mut join = Join::new(walk, op, &seeds, branches?);
    join.indifferent = indifferent;
    join.inputs(gets)?;
    join.local_zeros()?;
    join.finish()
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

/// What is known of a blob, from which on it has a number.
fn known_of<'k>(listed: &mut Listed, known: &'k mut AllKnown, blob: BlobId) -> &'k mut Known {
    let number = listed.number(blob);
    if number == known.len() {
        known.push(Known::default());
    }
    &mut known[number]
}

/// What is known of a blob that the If, or one of its sides, has to do with.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The gradient that goes in.
    seed: Option<Ref>,
    /// The gradients that come out of the sides.
    incoming: [Gradient; 2],
}

/// What is known of blobs, by number.
type AllKnown = SmallVec<[Known; FEW]>;

/// A name that no gradient is provided under.
const UNCLAIMED: usize = usize::MAX;

/// The two sides of an If on their way into one operator.
struct Join<'j, 'w, 's, 'a> {
    walk: &'j mut Walk<'w, 's, 'a>,
    op: usize,
    /// The blobs that it lists, and those that the sides have a gradient for.
    listed: Listed,
    /// What is known of each of them, by number.
    known: AllKnown,
    /// Blobs for which it does not matter what gradient they have before the If.
    indifferent: Set<BlobId>,
    sides: [Side<'a>; 2],
    outputs: Outputs,
    /// By number of the output: the number of the blob whose gradient is written under that name on
    /// both sides. It serves for others of the same states.
    claims: SmallVec<[usize; FEW]>,
    /// What the copies read, beside what the branches read.
    copied: Vec<Ref>,
    looks_at: Vec<Ref>,
}

impl<'j, 'w, 's, 'a> Join<'j, 'w, 's, 'a> {
    fn new(
        walk: &'j mut Walk<'w, 's, 'a>,
        op: usize,
        seeds: &[Seed],
        branches: [Option<Branch<'a>>; 2],
    ) -> Self {
        let listed = Listed::new(walk, op);
        let mut outputs = Outputs::new(walk, op);
        for branch in branches.iter().flatten() {
            outputs.take(walk, branch);
        }
        let sides = branches.map(|branch| Side::new(walk.session, branch));
        let mut join = Self {
            walk,
            op,
            known: smallvec![Known::default(); listed.len()],
            listed,
            indifferent: Set::default(),
            sides,
            outputs,
            claims: SmallVec::new(),
            copied: Vec::new(),
            looks_at: Vec::new(),
        };
        join.learn(seeds);
        join
    }

    /// Puts down what goes in and what comes out.
    fn learn(&mut self, seeds: &[Seed]) {
        for seed in seeds {
            let known = known_of(&mut self.listed, &mut self.known, seed.output);
            known.seed = Some(seed.gradient);
            for (side, incoming) in self.sides.iter().zip(&mut known.incoming) {
                // A side that is not there leaves everything as it is.
                if side.branch.is_none() {
                    *incoming = Gradient::Dense(seed.gradient);
                }
            }
        }
        for (at, side) in self.sides.iter().enumerate() {
            for (blob, gradient) in side.branch.iter().flat_map(|branch| &branch.incoming) {
                let known = known_of(&mut self.listed, &mut self.known, *blob);
                known.incoming[at] = *gradient;
            }
        }
    }

    fn branches(&self) -> impl Iterator<Item = &Branch<'a>> {
        self.sides.iter().filter_map(|side| side.branch.as_ref())
    }

    fn known(&self, blob: BlobId) -> Known {
        self.listed.find(blob).map_or_else(Known::default, |number| self.known[number])
    }

    fn state(&self, side: usize, blob: BlobId) -> State {
        self.state_of(side, blob, &self.known(blob))
    }

    fn states(&self, blob: BlobId) -> [State; 2] {
        let known = self.known(blob);
        [self.state_of(0, blob, &known), self.state_of(1, blob, &known)]
    }

    fn state_of(&self, side: usize, blob: BlobId, known: &Known) -> State {
        match known.incoming[side] {
            Gradient::None => match known.seed {
                // Where it does not matter, the gradient behind the If is handed on, as in the
                // reference.
                Some(seed) if self.indifferent.contains(&blob) => State::Free(seed),
                _ => State::Zero,
            },
            Gradient::Sparse(indices, values) => State::Sparse(indices, values),
            Gradient::Dense(part) if self.sides[side].makes(part) => State::Made(part),
            Gradient::Dense(part) => State::Free(part),
        }
    }

    /// The blob whose gradient both sides provide under a name.
    fn claimed(&self, name: BlobId) -> Option<BlobId> {
        let claim = *self.claims.get(self.outputs.number(name)?)?;
        (claim != UNCLAIMED).then(|| self.listed.blob(claim))
    }

    /// Claims a name that is written.
    fn claim(&mut self, name: BlobId, blob: BlobId) {
        if let (Some(output), Some(number)) = (self.outputs.number(name), self.listed.find(blob)) {
            if self.claims.len() <= output {
                self.claims.resize(output + 1, UNCLAIMED);
            }
            self.claims[output] = number;
        }
    }

    /// Puts down the gradients of the inputs.
    fn inputs(&mut self, gets: &mut Vec<Gradient>) -> Result<()> {
        self.check_unlisted()?;
        let net = self.walk.net;
        // Inputs have the first numbers, in their order.
        let mut done: SmallVec<[Gradient; FEW]> = SmallVec::new();
        for &blob in net.inputs(self.op) {
            let number = self.listed.number(blob);
            if number == done.len() {
                done.push(self.input(blob)?);
            }
            gets.push(done[number]);
        }
        Ok(())
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
            let (incoming, outputs) = match &self.sides[side].branch {
                Some(branch) => (&branch.incoming[..], &[][..]),
                None => (&[][..], self.walk.net.outputs(self.op)),
            };
            let blobs = incoming.iter().map(|(blob, _)| blob).chain(outputs);
            for &blob in blobs.filter(|blob| self.listed.read(**blob).is_none()) {
                let is_lost = match self.state(side, blob) {
                    State::Zero => false,
                    State::Free(_) if self.known(blob).seed.is_some() => matters(blob),
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
        let states = self.states(blob);
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
        if self.claimed(name).is_none() {
            self.claim(name, blob);
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
        while self.claimed(name).is_some_and(|claimed| self.states(claimed) != states) {
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
                self.sides[side].keep(part, value);
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
                let device = self.walk.device(self.op);
                self.sides[side].make_dense((indices, values), blob, value, device);
            }
        }
        Ok(())
    }

    /// The blob that a zero gradient takes its shape from: the first one that has this gradient on
    /// the other side and is there whatever side runs.
    fn shape_source(&self, other: usize, blob: BlobId, state: State) -> BlobId {
        let (Some(branch), State::Made(part)) = (&self.sides[other].branch, state) else {
            return blob;
        };
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
        let like = match self.listed.read(like) {
            Some(version) => self.walk.shape(self.op, version)?,
            None => Ref::Blob(like),
        };
        self.looks_at.push(like);
        self.sides[side].fill(like, value);
        Ok(())
    }

    fn copy(&mut self, side: usize, part: Ref, value: ValueId) {
        if !self.sides[side].makes(part) {
            self.copied.push(part);
        }
        self.sides[side].copy(part, value);
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
            self.claim(name, blob);
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
        self.sides[side].empty((blob, like), nothing, (indices, values), device);
        self.looks_at.push(Ref::Blob(blob));
        self.copied.push(Ref::Blob(like));
    }

    /// Gradients of blobs that only one side knows. Nobody reads them behind the If; but a gradient
    /// operator that lists an output makes it, as in the reference.
    fn local_zeros(&mut self) -> Result<()> {
        for side in [0, 1] {
            for (blob, name) in self.local(side) {
                let value = self.outputs.named(self.walk, name);
                match self.known(blob).seed {
                    Some(seed) if self.walk.session.values.nominal_ref(seed) == name => {}
                    Some(seed) => self.copy(1 - side, seed, value),
                    None if self.walk.lenient || self.listed.is_known_before(self.walk, blob) => {
                        self.fill(1 - side, blob, value)?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Blobs whose gradients one side alone makes, with the names of the gradients.
    fn local(&mut self, side: usize) -> Vec<(BlobId, BlobId)> {
        let Some(branch) = &self.sides[side].branch else { return Vec::new() };
        let session = &mut *self.walk.session;
        let mut name_of = |part| match part {
            Ref::Value(value) => Some(session.values.provisional(value, &mut session.table)),
            Ref::Blob(_) => None,
        };
        let names = branch.writes().filter_map(&mut name_of);
        // Most have been provided on both sides.
        let is_claimed = |name: &BlobId| {
            let claim = self.outputs.number(*name).and_then(|number| self.claims.get(number));
            claim.is_some_and(|claim| *claim != UNCLAIMED)
        };
        let names: Vec<BlobId> = names.filter(|name| !is_claimed(name)).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let mut owner: Map<BlobId, BlobId> = Map::with_room(branch.final_gradients.len());
        for (blob, gradient) in &branch.final_gradients {
            if let Gradient::Dense(part) = gradient {
                if let Some(name) = name_of(*part).filter(|_| branch.makes(*part)) {
                    owner.or_insert_with(name, || *blob);
                }
            }
        }
        let other = self.sides[1 - side].branch.iter().flat_map(Branch::writes);
        let written_by_other: Set<BlobId> = other.filter_map(name_of).collect();
        let read: Set<Ref> = branch.reads(&mut self.walk.session.seen).iter().copied().collect();
        let mut local = Vec::new();
        for name in names {
            let Some(blob) = owner.remove(&name) else { continue };
            let is_known = self.listed.left(blob).is_some() || read.contains(&Ref::Blob(blob));
            if is_known && !written_by_other.contains(&name) {
                local.push((blob, name));
            }
        }
        local
    }

    /// The inputs of the operator: the condition, and what the sides read.
    fn reads(&mut self) -> Result<SmallVec<[Ref; FEW]>> {
        let op = self.op;
        let condition = self.walk.ssa.at[self.walk.net.input_places(op).start];
        let condition = self.walk.forward(op, condition, false)?;
        let seen = &mut self.walk.session.seen;
        let [then_reads, else_reads] = self
            .sides
            .each_ref()
            .map(|side| side.branch.as_ref().map_or(&[][..], |branch| branch.reads(seen)));
        seen.begin();
        seen.insert(condition);
        let room = 1 + then_reads.len() + else_reads.len() + self.copied.len();
        let mut inputs = SmallVec::with_capacity(room);
        inputs.push(condition);
        let workspaces: Set<Ref> = self.branches().flat_map(Branch::workspaces).collect();
        for part in then_reads.iter().chain(else_reads).chain(&self.copied) {
            let mut part = self.walk.session.values.canonical(*part);
            match part {
                Ref::Blob(blob) if workspaces.contains(&part) => {
                    self.walk.check_workspace(op, blob)?;
                }
                _ => part = outer_read(self.walk, op, &self.listed, part)?,
            }
            if self.walk.session.seen.insert(part) {
                inputs.push(part);
            }
        }
        Ok(inputs)
    }

    /// Puts both sides into one operator.
    fn finish(mut self) -> Result<()> {
        let (op, view) = (self.op, self.walk.net.ops()[self.op].view);
        let inputs = self.reads()?;
        let changes = self.branches().flat_map(Branch::changes).collect();
        for side in &mut self.sides {
            side.close(self.walk, &mut self.outputs);
        }
        let [then_side, else_side] = self.sides;
        let then_net = then_side.branch.as_ref().map(|branch| branch.forward);
        let session = &mut *self.walk.session;
        let then_net_argument = then_side.into_arg(session, "then_net", None);
        let else_net_argument = else_side.into_arg(session, "else_net", then_net);
        let args = then_net_argument.into_iter().chain(else_net_argument).collect();
        let control = Control { forward: view, args, changes, looks_at: self.looks_at };
        self.listed.done(self.walk);
        let outputs = self.outputs.done(self.walk);
        self.walk.push_control(op, b"If", &inputs, &outputs, control);
        Ok(())
    }
}
