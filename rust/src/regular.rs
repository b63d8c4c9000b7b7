//! The shortest way through the walk: an operator whose gradient is one operator, which reads blobs
//! and gradients as they are and writes dense gradients of inputs.
//!
//! Most operators are like that. [`crate::differentiate`] can do them too, and does whatever is left to
//! it here; this room saves the general one's preparations, and does nothing else.

use smallvec::SmallVec;

use crate::backward::{Found, Walk};
use crate::blobs::BlobId;
use crate::error::Result;
use crate::gradient::{Body, Gradient, Ref};
use crate::makers::words::Slot;
use crate::makers::Regular;
use crate::producers::{Origin, Producer};

/// How many gradients such an operator writes, at the most.
const MOST: usize = 8;

/// The inputs that get a gradient, and the names of these.
type Names = SmallVec<[(u32, BlobId); MOST]>;

impl Walk<'_, '_, '_> {
    /// Appends the gradient operator, records what it makes and puts down what the inputs get. Says
    /// `false`, and has done nothing, if the operator is not as regular as its row.
    pub(crate) fn regular(
        &mut self,
        op: usize,
        planned: &Regular,
        g_output: &[Found],
        gets: &mut Vec<Gradient>,
    ) -> Result<bool> {
        let mut names = Names::new();
        if !self.regular_names(op, planned, &mut names) {
            return Ok(false);
        }
        let start = self.out.refs.len();
        for &slot in planned.reads {
            let part = match self.regular_read(op, slot, g_output)? {
                Some(part) if !self.is_one_of(part, &names) => part,
                _ => {
                    self.out.refs.truncate(start);
                    return Ok(false);
                }
            };
            self.out.refs.push(part);
        }
        let middle = self.out.refs.len();
        let inputs = self.net.input_places(op);
        gets.resize(inputs.len(), Gradient::None);
        for &(k, name) in &names {
            let value = self.session.values.add(name);
            self.out.refs.push(Ref::Value(value));
            let gradient = Gradient::Dense(Ref::Value(value));
            gets[k as usize] = gradient;
            let place = inputs.start + k as usize;
            if !self.is_stopped(self.net.blobs()[place]) {
                let (made, origin) = (Some(value), Origin::Forward(op as u32));
                let producer = Producer { gradient, made, made_values: None, origin };
                self.producers.add(self.ssa.at[place], producer);
            }
        }
        let end = self.out.refs.len();
        let own = self.out.args.len() as u32;
        let forward = self.net.ops()[op].view.more();
        let body = Body::Maker { forward, own: own..own, copy_args: planned.copy_args };
        let op_type = planned.op_type.as_bytes();
        self.out.push_ranges(op_type, start..middle, middle..end, Some(op as u32), body);
        Ok(true)
    }

    /// The names of the gradients, put into an empty list; `false` if there is anything special about
    /// them.
    fn regular_names(&mut self, op: usize, planned: &Regular, names: &mut Names) -> bool {
        let inputs = self.net.inputs(op);
        if self.lenient || planned.writes.len() > MOST {
            return false;
        }
        for &slot in planned.writes {
            let Slot::GI(k) = slot else { return false };
            let Some(&input) = inputs.get(k as usize) else { return false };
            let name = self.session.table.gradient(input);
            if names.iter().any(|(_, other)| *other == name) || self.shared.contains(name) {
                return false;
            }
            names.push((k, name));
        }
        true
    }

    fn regular_read(&self, op: usize, slot: Slot, g_output: &[Found]) -> Result<Option<Ref>> {
        let (places, k, shape_only) = match slot {
            Slot::I(k) => (self.net.input_places(op), k as usize, false),
            Slot::Shape(k) => (self.net.input_places(op), k as usize, true),
            Slot::O(k) => (self.net.output_places(op), k as usize, false),
            Slot::GO(k) => {
                let Some(found) = g_output.get(k as usize) else { return Ok(None) };
                return Ok(match self.usable(op, k as usize, found)? {
                    Gradient::Dense(part) => Some(part),
                    _ => None,
                });
            }
            _ => return Ok(None),
        };
        match self.ssa.at[places].get(k) {
            Some(version) => self.forward(op, *version, shape_only).map(Some),
            None => Ok(None),
        }
    }

    fn is_one_of(&self, part: Ref, names: &[(u32, BlobId)]) -> bool {
        let Ref::Value(value) = part else { return false };
        let name = self.session.values.nominal(value);
        names.iter().any(|(_, other)| *other == name)
    }
}
