//! The gradient of a While: a loop over the workspaces that the forward turns have left, last first.
//!
//! A blob that the body changes hands its gradient from turn to turn: the condition net copies what
//! one turn made to where the next one starts from. A blob that every turn reads collects its
//! gradient over the turns.

use std::cell::OnceCell;

use smallvec::smallvec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::Set;
use crate::gradient::{Body, Control, ControlArg, Gradient, GradientNet, NetHead, Ref, ValueId};

use super::body::{LoopBody, Start};
use super::branch::{Branch, Outputs};
use super::listed::Listed;
use super::seeds::seeds;
use super::{control_error, outer_read, unlisted, Arguments};

/// The name of the net that ends the gradient loop; its condition blob is named after it.
const CONDITION_NET: &[u8] = b"gradient_loop_cond_net";

pub(super) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
    gets: &mut Vec<Gradient>,
) -> Result<()> {
    if walk.net.inputs(op).is_empty() {
        return Err(control_error("this While has no input", "its first input is the condition"));
    }
    let seeds = seeds(walk, op, usize::MAX)?;
    let body = LoopBody::read(walk, op, args)?;
    let (starts, branch) = body.differentiate(walk, op, args, &seeds)?;
    Loop::new(walk, op, &body, starts, branch).finish(gets)
}

/// A gradient loop under construction.
struct Loop<'l, 'w, 's, 'a> {
    walk: &'l mut Walk<'w, 's, 'a>,
    op: usize,
    workspace: BlobId,
    turns_again: bool,
    starts: Vec<Start>,
    branch: Branch<'a>,
    outputs: Outputs,
    /// Blobs whose gradient goes from turn to turn: where it starts from, and where a turn leaves it.
    carried: Vec<(ValueId, ValueId)>,
    /// What the turns start from and has no gradient behind the loop, with the blobs that give the
    /// shape.
    zero_starts: Vec<(BlobId, ValueId)>,
    /// Sums over the turns, with the blobs that give the shape.
    zeros: Vec<(BlobId, ValueId)>,
    /// Operators behind the body's gradient in each turn.
    tail: GradientNet<'a>,
    looks_at: Vec<Ref>,
    /// The blobs that the While lists.
    listed: Listed,
}

impl<'l, 'w, 's, 'a> Loop<'l, 'w, 's, 'a> {
    fn new(
        walk: &'l mut Walk<'w, 's, 'a>,
        op: usize,
        body: &LoopBody<'a>,
        starts: Vec<Start>,
        branch: Branch<'a>,
    ) -> Self {
        let LoopBody { workspace, turns_again, .. } = *body;
        let listed = Listed::new(walk, op);
        let outputs = Outputs::new(walk, op);
        Self {
            walk,
            op,
            workspace,
            turns_again,
            listed,
            starts,
            branch,
            outputs,
            carried: Vec::new(),
            zero_starts: Vec::new(),
            zeros: Vec::new(),
            tail: GradientNet::default(),
            looks_at: Vec::new(),
        }
    }

    fn finish(mut self, gets: &mut Vec<Gradient>) -> Result<()> {
        let is_seed: Set<BlobId> = self.starts.iter().map(|start| start.blob).collect();
        self.check_unlisted()?;

        let incoming = self.branch.incoming.clone();
        let numbers: Vec<usize> =
            incoming.iter().map(|(blob, _)| self.listed.number(*blob)).collect();
        // By number of the blob: the gradient that comes out of a turn, and the one before the loop.
        let mut of_turn = vec![Gradient::None; self.listed.len()];
        let mut gradients = of_turn.clone();

        // Summands first: what a net writes is taken in under the names that there are by then.
        let mut collected = Vec::new();
        for ((blob, gradient), number) in incoming.into_iter().zip(numbers) {
            of_turn[number] = gradient;
            if is_seed.contains(&blob) {
                continue;
            }
            if !self.turns_again && matches!(gradient, Gradient::Dense(_)) {
                gradients[number] = gradient;
            } else {
                collected.push((number, self.collect(blob, gradient)));
            }
        }
        self.outputs.take(self.walk, &self.branch);
        for gradient in &mut gradients {
            *gradient = gradient.map(|part| self.walk.session.values.canonical(part));
        }
        for (number, sum) in collected {
            gradients[number] = Gradient::Dense(Ref::Value(sum));
            self.outputs.insert(self.walk.session.values.nominal(sum), sum);
        }
        for Start { blob, behind, value: start } in self.starts.clone() {
            let number = self.listed.number(blob);
            gradients.resize(self.listed.len(), Gradient::None);
            let turn = of_turn.get(number).copied().unwrap_or_default();
            let value = match (turn, behind) {
                (Gradient::Dense(part), Some(behind)) if part == Ref::Value(start) => {
                    gradients[number] = Gradient::Dense(behind);
                    continue;
                }
                (Gradient::Dense(Ref::Value(value)), _) if self.branch.makes(Ref::Value(value)) => {
                    let session = &mut *self.walk.session;
                    let name = session.values.provisional(value, &mut session.table);
                    self.outputs.named(self.walk, name)
                }
                (Gradient::None, Some(behind)) if !self.turns_again => {
                    gradients[number] = Gradient::Dense(behind);
                    continue;
                }
                (Gradient::None, _) => self.forgotten(blob, start),
                _ => return Err(self.sparse_between_turns(blob)),
            };
            gradients[number] = Gradient::Dense(Ref::Value(value));
            self.carried.push((start, value));
        }
        self.settle_seeds(&gradients);
        let inputs = self.walk.net.inputs(self.op).iter();
        let numbers = inputs.filter_map(|blob| self.listed.find(*blob));
        gets.extend(numbers.map(|number| gradients[number]));
        self.push()
    }

    /// With no turn at all an output keeps its value, and a blob that a turn reads gets a gradient:
    /// both can only leave the loop through its inputs.
    fn check_unlisted(&self) -> Result<()> {
        if self.walk.lenient {
            return Ok(());
        }
        let matter = OnceCell::new();
        let matters =
            |blob: &BlobId| matter.get_or_init(|| self.walk.matter_before(self.op)).contains(blob);
        let is_listed = |blob: &BlobId| self.listed.read(*blob).is_some();
        let is_seed: Set<BlobId> = self.starts.iter().map(|start| start.blob).collect();
        let kept = self.starts.iter().map(|start| start.blob);
        let kept = kept.filter(|blob| !is_listed(blob) && matters(blob));
        let read = self.branch.incoming.iter().map(|(blob, _)| *blob);
        let read = read.filter(|blob| !is_seed.contains(blob) && !is_listed(blob));
        match read.chain(kept).next() {
            None => Ok(()),
            Some(blob) => Err(unlisted(self.walk, "While", blob)),
        }
    }

    fn sparse_between_turns(&self, blob: BlobId) -> Error {
        Error::new(
            Kind::Inexpressible,
            format!(
                "{:?} goes from turn to turn and has a sparse gradient",
                self.walk.session.shown(blob)
            ),
        )
        .hint("put an EnsureDense before the look-up")
        .blob(self.walk.session.table.name(blob))
    }

    /// The sum over the turns of the gradient of a blob that each of them reads.
    fn collect(&mut self, blob: BlobId, gradient: Gradient) -> ValueId {
        let session = &mut *self.walk.session;
        let usual = session.table.gradient(blob);
        let (turn, name) = match gradient {
            Gradient::Dense(Ref::Value(value)) => {
                (value, session.values.provisional(value, &mut session.table))
            }
            _ => (session.values.add(usual), usual),
        };
        let sum = session.values.add(name);
        session.values.split(turn, Some(sum), 0);
        if let Gradient::Sparse(indices, values) = gradient {
            let body = Body::Plain { named: false, args: 0..0, device: self.walk.device(self.op) };
            let inputs = [indices, values, Ref::Blob(blob)];
            self.tail.push(b"SparseToDense", inputs, [turn], None, body);
        }
        self.zeros.push((blob, sum));
        let device = self.walk.sum_device_of(self.op);
        let body = Body::Plain { named: true, args: 0..0, device: Some(device) };
        self.tail.push(b"Sum", [Ref::Value(sum), Ref::Value(turn)], [sum], None, body);
        sum
    }

    /// Each turn overwrites the blob without reading it: what comes from before has no influence.
    fn forgotten(&mut self, blob: BlobId, start: ValueId) -> ValueId {
        let name = self.walk.session.table.gradient(blob);
        let value = self.outputs.named(self.walk, name);
        let version = self.listed.read(blob);
        let shape = version.map(|version| self.walk.shape(self.op, version));
        let like = match shape {
            None => Ref::Blob(blob),
            Some(Ok(like)) => like,
            // What goes from turn to turn keeps its shape.
            Some(Err(_)) => Ref::Value(start),
        };
        self.tail.fill(like, 0.0, value, false, None, None);
        if like == Ref::Blob(blob) {
            self.looks_at.push(like);
        }
        value
    }

    /// Decides which seeds can be used as they are. A loop writes into those that are carried; so
    /// what others need, or what another blob of the loop is called, is copied first.
    fn settle_seeds(&mut self, gradients: &[Gradient]) {
        let mut taken = Set::with_room(self.starts.len());
        let carried: Set<ValueId> = self.carried.iter().map(|(start, _)| *start).collect();
        for Start { blob, behind, value } in self.starts.clone() {
            let Some(behind) = behind else {
                self.zero_starts.push((blob, value));
                continue;
            };
            let name = self.walk.session.values.nominal_ref(behind);
            let gradient = self.listed.find(blob).map(|number| gradients[number]);
            let is_handed_on = gradient == Some(Gradient::Dense(behind));
            let clashes = !taken.insert(name)
                || self.outputs.writes(name)
                || (carried.contains(&value) && self.walk.is_needed_by_others(self.op, name));
            match (clashes && !is_handed_on, behind) {
                (false, Ref::Value(behind)) => self.walk.session.values.same(value, behind),
                _ => self.walk.out.copy(behind, value, false, None, Some(self.op as u32)),
            }
        }
    }

    fn push(self) -> Result<()> {
        let mut this = self;
        let op = this.op;
        let values = &this.walk.session.values;
        let starts = this.carried.iter().map(|(start, _)| values.canonical(Ref::Value(*start)));
        let changes: Vec<Ref> = starts.chain(this.branch.changes()).collect();
        this.walk.protect_outputs(op, this.outputs.order(), &changes);
        let head = NetHead::of(this.branch.forward, "_grad");
        let condition = this.condition_name();
        let net_name = this.walk.session.table.name(condition);
        let scope = this.walk.session.name_scope;
        let cond_name = this.walk.session.table.affixed(scope, condition, b"/cond");
        let cond = this.walk.session.values.add(cond_name);
        let workspace = Ref::Blob(this.workspace);
        let plain = |device| Body::Plain { named: true, args: 0..0, device };
        let (device, cpu) = (this.walk.session.device_scope, this.walk.session.cpu_scope()?);

        let mut cond_net = GradientNet::default();
        cond_net.push(b"HasScope", [workspace], [cond], None, plain(cpu));
        let mut external_inputs = vec![workspace];
        let forward = Some(op as u32);
        this.walk.out.push(b"HasScope", [workspace], [cond], forward, plain(cpu));
        for (start, value) in &this.carried {
            cond_net.push(b"Copy", [Ref::Value(*value)], [*start], None, plain(device));
            external_inputs.push(Ref::Value(*value));
            this.looks_at.push(Ref::Value(*value));
        }
        let (zero_starts, zeros) =
            (std::mem::take(&mut this.zero_starts), std::mem::take(&mut this.zeros));
        this.fill(&zero_starts)?;
        for (start, value) in &this.carried {
            this.walk.out.push(b"Copy", [Ref::Value(*start)], [*value], forward, plain(device));
        }
        this.fill(&zeros)?;

        let reads = this.branch.reads(&mut this.walk.session.seen);
        let mut inputs = Vec::with_capacity(1 + reads.len() + zeros.len());
        inputs.push(Ref::Value(cond));
        this.walk.session.seen.begin();
        for part in reads {
            let mut part = this.walk.session.values.canonical(*part);
            if part == workspace {
                this.walk.check_workspace(op, this.workspace)?;
                this.walk.check_empty_before(op, this.workspace)?;
            } else {
                part = outer_read(this.walk, op, &this.listed, part)?;
            }
            if this.walk.session.seen.insert(part) {
                inputs.push(part);
            }
        }
        let sums = zeros.iter().map(|(_, value)| Ref::Value(*value));
        inputs.extend(sums.filter(|sum| this.walk.session.seen.insert(*sum)));
        let mut loop_net = std::mem::take(&mut this.branch.net);
        loop_net.append(&mut this.tail);
        let cond_head = NetHead {
            forward: None,
            suffix: "",
            always_named: false,
            name: net_name.to_vec(),
            external_inputs,
        };
        let control = Control {
            forward: this.walk.net.ops()[op].view,
            args: smallvec![
                ControlArg::net("loop_net", head, loop_net),
                ControlArg::net("cond_net", cond_head, cond_net),
            ],
            changes,
            looks_at: std::mem::take(&mut this.looks_at),
        };
        this.listed.done(this.walk);
        let outputs = this.outputs.done(this.walk);
        this.walk.push_control(op, b"While", &inputs, &outputs, control);
        Ok(())
    }

    fn fill(&mut self, zeros: &[(BlobId, ValueId)]) -> Result<()> {
        for (blob, value) in zeros {
            let like = match self.listed.read(*blob) {
                Some(version) => self.walk.shape(self.op, version)?,
                None => Ref::Blob(*blob),
            };
            self.walk.out.fill(like, 0.0, *value, false, None, Some(self.op as u32));
        }
        Ok(())
    }

    /// A name that no loop of this answer has yet, and no net that holds gradient loops already.
    fn condition_name(&mut self) -> BlobId {
        let session = &mut *self.walk.session;
        loop {
            let number = session.loops;
            session.loops += 1;
            let mut name = CONDITION_NET.to_vec();
            if number > 0 {
                name.extend_from_slice(format!("_{number}").as_bytes());
            }
            let blob = [session.name_scope, &name, b"/cond"].concat();
            if session.table.get(&blob).is_none() {
                return session.table.intern_copy(&name);
            }
        }
    }
}
