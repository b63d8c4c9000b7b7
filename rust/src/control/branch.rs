//! The gradient of one net of an If or While: it runs in the workspace around it.

use std::cell::OnceCell;

use smallvec::SmallVec;

use crate::backward::{backward, Target, Walk};
use crate::blobs::BlobId;
use crate::error::Result;
use crate::few::FEW;
use crate::gradient::{Body, Gradient, GradientNet, Ref, ValueId};
use crate::message::NetRef;
use crate::seen::Seen;
use crate::session::Session;
use crate::ssa::Places;
use crate::surroundings::Surroundings;

use super::seeds::Seed;

/// A net of an If or While, differentiated.
pub struct Branch<'a> {
    /// The forward net.
    pub forward: NetRef<'a>,
    /// The gradient operators.
    pub net: GradientNet<'a>,
    /// The gradients of blobs as they come in, in the order in which the walk met the blobs.
    pub incoming: BlobGradients,
    /// The gradients that blobs have in the end, whatever version of them it is.
    pub final_gradients: BlobGradients,
    /// All values from here on are made by this net.
    first_value: u32,
    reads: OnceCell<SmallVec<[Ref; FEW]>>,
}

/// Blobs with their gradients; of most branches there are few.
pub type BlobGradients = SmallVec<[(BlobId, Gradient); 4]>;

impl<'a> Branch<'a> {
    /// Differentiates a net, starting from `seeds`.
    pub fn differentiate(
        session: &mut Session<'_, 'a>,
        forward: NetRef<'a>,
        seeds: impl Iterator<Item = Seed>,
        around: &Surroundings<'_>,
    ) -> Result<Self> {
        let net = session.spare.net().filled(forward.ops(), &mut session.table)?;
        let targets: SmallVec<[Target; 4]> = seeds
            .map(|seed| Target {
                blob: seed.output,
                gradient: Some(Gradient::Dense(seed.gradient)),
                in_scope: false,
            })
            .collect();
        let first_value = session.values.len();
        let outcome = backward(session, &net, &targets, around)?;
        let incoming = in_room(outcome.incoming());
        let gradients = outcome.gradients();
        let final_gradients = in_room(gradients.map(|(blob, found)| (blob, found.gradient)));
        session.spare.take_back_read(net);
        let net = session.spare.take_back(outcome);
        let reads = OnceCell::new();
        Ok(Self { forward, net, incoming, final_gradients, first_value, reads })
    }

    /// Whether this net makes it; the rest comes from outside.
    pub fn makes(&self, part: Ref) -> bool {
        matches!(part, Ref::Value(value) if value.0 >= self.first_value)
    }

    /// What it reads from outside, in the order of first use. To be asked for when the net has all its
    /// operators.
    pub fn reads(&self, seen: &mut Seen) -> &[Ref] {
        self.reads.get_or_init(|| self.find_reads(seen))
    }

    fn find_reads(&self, seen: &mut Seen) -> SmallVec<[Ref; FEW]> {
        seen.begin();
        let mut read = SmallVec::new();
        for op in &self.net.ops {
            let inputs = self.net.inputs(op).iter().filter(|part| !self.makes(**part));
            read.extend(inputs.copied().filter(|part| seen.insert(*part)));
            // What has been written here before it is read does not come from outside.
            for value in self.net.outputs(op).filter(|value| !self.makes(Ref::Value(*value))) {
                seen.insert(Ref::Value(value));
            }
        }
        read
    }

    /// What its operators write: values, and the workspaces of Dos.
    pub fn writes(&self) -> impl Iterator<Item = Ref> + use<'_, 'a> {
        self.net.ops.iter().flat_map(|op| self.net.writes(op).iter().copied())
    }

    /// The workspaces of the Dos among its operators.
    pub fn workspaces(&self) -> impl Iterator<Item = Ref> + use<'_, 'a> {
        self.writes().filter(|part| matches!(part, Ref::Blob(_)))
    }

    /// What comes from outside and is changed by it although it is no output.
    pub fn changes(&self) -> impl Iterator<Item = Ref> + use<'_, 'a> {
        let changes = self.net.ops.iter().flat_map(|op| match &op.body {
            Body::Control(control) => &control.changes[..],
            _ => &[],
        });
        changes.copied().filter(|part| !self.makes(*part))
    }
}

/// What comes of an iterator, in a list with room for as much as may come.
fn in_room(items: impl Iterator<Item = (BlobId, Gradient)>) -> BlobGradients {
    let (least, most) = items.size_hint();
    let mut list = SmallVec::with_capacity(most.unwrap_or(least));
    list.extend(items);
    list
}

/// The number of a workspace under whose name a value is written as well.
const WORKSPACE: u32 = u32::MAX;

/// The values of an If or While that its nets write: one for each name.
pub struct Outputs {
    /// By name: the number of the value.
    places: Places,
    /// In the order of first use.
    order: SmallVec<[Ref; FEW]>,
}

impl Outputs {
    /// No outputs of the gradient of operator `op` yet.
    pub fn new(walk: &mut Walk<'_, '_, '_>, op: usize) -> Self {
        let mut places = std::mem::take(&mut walk.session.outputs);
        places.begin(walk.session.table.len());
        // Most inputs get a gradient, and there may be workspaces.
        Self { places, order: SmallVec::with_capacity(walk.net.inputs(op).len() + 2) }
    }

    /// Takes in all that a net writes. Values of one name become one value of the operator.
    pub fn take(&mut self, walk: &mut Walk<'_, '_, '_>, branch: &Branch<'_>) {
        for part in branch.writes() {
            match part {
                Ref::Blob(blob) if self.writes(blob) => self.places.set(blob, WORKSPACE),
                Ref::Blob(blob) => self.push(blob, part),
                Ref::Value(value) => self.add(walk, value),
            }
        }
    }

    fn add(&mut self, walk: &mut Walk<'_, '_, '_>, value: ValueId) {
        let session = &mut *walk.session;
        let name = session.values.provisional(value, &mut session.table);
        // A summand is called after its sum, whatever that is called in the end.
        let is_summand = session.values.is_summand(value);
        let outer = match self.number(name) {
            Some(number) => match self.order.get(number) {
                Some(Ref::Value(outer)) => *outer,
                _ => return,
            },
            None => {
                let outer = if is_summand { value } else { session.values.add(name) };
                self.insert(name, outer);
                outer
            }
        };
        if !is_summand {
            session.values.same(value, outer);
        }
    }

    fn push(&mut self, name: BlobId, part: Ref) {
        self.places.set(name, self.order.len() as u32);
        self.order.push(part);
    }

    /// The operator's value of that name, made if there is none.
    pub fn named(&mut self, walk: &mut Walk<'_, '_, '_>, name: BlobId) -> ValueId {
        if let Some(Ref::Value(value)) = self.number(name).and_then(|at| self.order.get(at)) {
            return *value;
        }
        let value = walk.session.values.add(name);
        self.insert(name, value);
        value
    }

    /// Takes in a value that the operator writes itself.
    pub fn insert(&mut self, name: BlobId, value: ValueId) {
        self.push(name, Ref::Value(value));
    }

    /// Whether something of that name is written.
    pub fn writes(&self, name: BlobId) -> bool {
        self.number(name).is_some()
    }

    /// The number of what is written under that name: its place in the order.
    pub fn number(&self, name: BlobId) -> Option<usize> {
        self.places.get(name).map(|number| number as usize)
    }

    /// All of them, in the order of first use.
    pub fn order(&self) -> &[Ref] {
        &self.order
    }

    /// All of them. Gives the memory back.
    pub fn done(self, walk: &mut Walk<'_, '_, '_>) -> SmallVec<[Ref; FEW]> {
        walk.session.outputs = self.places;
        self.order
    }
}
