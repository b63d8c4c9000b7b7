//! The gradient of one net of an If or While: it runs in the workspace around it.

use std::cell::OnceCell;

use crate::backward::{backward, Target, Walk};
use crate::blobs::BlobId;
use crate::error::Result;
use crate::few::{Map, Set};
use crate::gradient::{Body, Gradient, GradientNet, Ref, ValueId};
use crate::message::NetRef;
use crate::session::Session;
use crate::surroundings::Surroundings;

use super::seeds::Seed;

/// A net of an If or While, differentiated.
pub struct Branch<'a> {
    /// The forward net.
    pub forward: NetRef<'a>,
    /// The gradient operators.
    pub net: GradientNet<'a>,
    /// The gradients of blobs as they come in, in the order in which the walk met the blobs.
    pub incoming: Vec<(BlobId, Gradient)>,
    /// The gradients that blobs have in the end, whatever version of them it is.
    pub final_gradients: Vec<(BlobId, Gradient)>,
    /// All values from here on are made by this net.
    first_value: u32,
    reads: OnceCell<Set<Ref>>,
}

impl<'a> Branch<'a> {
    /// Differentiates a net, starting from `seeds`.
    pub fn differentiate(
        session: &mut Session<'_, 'a>,
        forward: NetRef<'a>,
        seeds: impl Iterator<Item = Seed>,
        around: &Surroundings<'_>,
    ) -> Result<Self> {
        let net = session.spare.net().filled(forward.ops(), &mut session.table)?;
        let targets: Vec<Target> = seeds
            .map(|seed| Target {
                blob: seed.output,
                gradient: Some(Gradient::Dense(seed.gradient)),
                in_scope: false,
            })
            .collect();
        let first_value = session.values.len();
        let outcome = backward(session, &net, &targets, around)?;
        let incoming = outcome.incoming().collect();
        let final_gradients =
            outcome.gradients().map(|(blob, found)| (blob, found.gradient)).collect();
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
    pub fn reads(&self) -> &Set<Ref> {
        self.reads.get_or_init(|| self.find_reads())
    }

    fn find_reads(&self) -> Set<Ref> {
        let (mut read, mut written) = (Set::default(), Set::default());
        for op in &self.net.ops {
            let inputs = self.net.inputs(op).iter().filter(|part| !self.makes(**part));
            read.extend(inputs.copied().filter(|part| !written.contains(part)));
            let outputs = self.net.outputs(op).map(Ref::Value);
            written.extend(outputs.filter(|part| !self.makes(*part)));
        }
        read
    }

    /// What its operators write: values, and the workspaces of Dos.
    pub fn writes(&self) -> impl Iterator<Item = Ref> + '_ {
        self.net.ops.iter().flat_map(|op| {
            self.net.refs[op.outputs.start as usize..op.outputs.end as usize].iter().copied()
        })
    }

    /// The workspaces of the Dos among its operators.
    pub fn workspaces(&self) -> impl Iterator<Item = Ref> + '_ {
        self.writes().filter(|part| matches!(part, Ref::Blob(_)))
    }

    /// What comes from outside and is changed by it although it is no output.
    pub fn changes(&self) -> impl Iterator<Item = Ref> + '_ {
        let changes = self.net.ops.iter().flat_map(|op| match &op.body {
            Body::Control(control) => &control.changes[..],
            _ => &[],
        });
        changes.copied().filter(|part| !self.makes(*part))
    }
}

/// The values of an If or While that its nets write: one for each name.
#[derive(Default)]
pub struct Outputs {
    by_name: Map<BlobId, Ref>,
    /// In the order of first use.
    pub order: Vec<Ref>,
}

impl Outputs {
    /// Takes in all that a net writes. Values of one name become one value of the operator.
    pub fn take(&mut self, walk: &mut Walk<'_, '_, '_>, branch: &Branch<'_>) {
        let writes: Vec<Ref> = branch.writes().collect();
        for part in writes {
            self.add(walk, part);
        }
    }

    fn add(&mut self, walk: &mut Walk<'_, '_, '_>, part: Ref) -> Ref {
        let Ref::Value(value) = part else {
            if let Ref::Blob(blob) = part {
                if self.by_name.insert(blob, part).is_none() {
                    self.order.push(part);
                }
            }
            return part;
        };
        let session = &mut *walk.session;
        let name = session.values.provisional(value, &mut session.table);
        // A summand is called after its sum, whatever that is called in the end.
        let is_summand = session.values.is_summand(value);
        let outer = *self.by_name.or_insert_with(name, || {
            let outer = if is_summand { value } else { session.values.add(name) };
            self.order.push(Ref::Value(outer));
            Ref::Value(outer)
        });
        if let (Ref::Value(outer), false) = (outer, is_summand) {
            session.values.same(value, outer);
        }
        outer
    }

    /// The operator's value of that name, made if there is none.
    pub fn named(&mut self, walk: &mut Walk<'_, '_, '_>, name: BlobId) -> ValueId {
        match self.by_name.get(&name) {
            Some(Ref::Value(value)) => *value,
            _ => {
                let value = walk.session.values.add(name);
                self.by_name.insert(name, Ref::Value(value));
                self.order.push(Ref::Value(value));
                value
            }
        }
    }

    /// Takes in a value that the operator writes itself.
    pub fn insert(&mut self, name: BlobId, value: ValueId) {
        self.by_name.insert(name, Ref::Value(value));
        self.order.push(Ref::Value(value));
    }

    /// Whether something of that name is written.
    pub fn writes(&self, name: BlobId) -> bool {
        self.by_name.contains_key(&name)
    }
}
