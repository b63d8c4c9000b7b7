//! Asks for the gradient of one forward operator: a native maker, control flow, or a function that
//! somebody registered.

use std::ops::Range;

use smallvec::SmallVec;

use crate::backward::{form, Found, Walk};
use crate::blobs::{self, BlobId, BlobTable};
use crate::control::{self, Arguments};
use crate::error::{Error, Kind, Result};
use crate::few::Map;
use crate::gradient::{Body, Gradient, Ref, ValueId};
use crate::makers::in_place::may_overwrite;
use crate::makers::words::{Answer, Form, GradientSlot, PlannedOp, Question, Slot};
use crate::makers::{self, Choice};
use crate::values::Values;

/// Whether it is recorded yet who makes the gradients of the inputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Yes,
    No,
}

impl<'a> Walk<'_, '_, 'a> {
    /// Appends the gradient operators of a forward operator and puts down what its inputs get.
    pub(crate) fn differentiate(
        &mut self,
        op: usize,
        gets: &mut Vec<Gradient>,
    ) -> Result<Recorded> {
        let view = &self.net.ops()[op].view;
        let op_type = view.op_type;
        if control::is_control(op_type) {
            let args = Arguments::read(view)?;
            let asked = if self.session.hook.knows(op_type) { self.ask(op)? } else { None };
            match asked {
                Some(asked) => *gets = asked,
                None => control::differentiate(self, op, &args, gets)?,
            }
            return Ok(Recorded::No);
        }
        if view.has_more {
            view.args().try_for_each(|argument| argument.check())?;
        }
        // Filled where they are: a list that is returned is copied, before what was put into it has
        // reached the cache.
        let mut g_output: SmallVec<[Found; 8]> = SmallVec::new();
        let mut forms: SmallVec<[Form; 8]> = SmallVec::new();
        let mut spare: SmallVec<[bool; 8]> = SmallVec::new();
        self.g_output_into(op, &mut g_output);
        for found in &g_output {
            forms.push(form(found.gradient));
            spare.push(self.is_spare(op, found.gradient));
        }
        let question = Question {
            op: &self.net.ops()[op].view,
            inputs: self.net.inputs(op),
            outputs: self.net.outputs(op),
            g_output: &forms,
            spare: &spare,
        };
        let choice = makers::choose(op_type, &question);
        let hook = &mut self.session.hook;
        let goes_first = hook.goes_first(op_type, view.bytes)?;
        if let (Ok(Some(regular)), false) = (choice.as_ref().map(Choice::regular), goes_first) {
            if self.regular(op, &regular, &g_output, gets)? {
                return Ok(Recorded::Yes);
            }
        }
        let mut answer = std::mem::take(&mut self.session.answer);
        let own = choice.and_then(|choice| makers::answer(choice, &question, &mut answer));
        let is_asked = goes_first || (own.is_err() && self.session.hook.knows(op_type));
        let asked = if is_asked { self.ask(op) } else { Ok(None) };
        let done = match (asked, own) {
            (Ok(Some(asked)), _) => {
                *gets = asked;
                Ok(Recorded::No)
            }
            (Ok(None), Ok(())) => {
                self.carry_out(op, &answer, &g_output, gets).map(|()| Recorded::No)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        self.session.answer = answer;
        done
    }

    fn carry_out(
        &mut self,
        op: usize,
        answer: &Answer,
        g_output: &[Found],
        gets: &mut Vec<Gradient>,
    ) -> Result<()> {
        self.protect_from(op, answer, g_output);
        let mut names = SlotNames::new(answer, self.net.inputs(op).len());
        for planned in &answer.ops {
            self.plan(op, answer, planned, g_output, &mut names)?;
        }
        for slot in &answer.g_input {
            gets.push(match *slot {
                GradientSlot::None => Gradient::None,
                GradientSlot::Dense(slot) => {
                    Gradient::Dense(self.read(op, slot, g_output, &names)?)
                }
                GradientSlot::Sparse(indices, values) => Gradient::Sparse(
                    self.read(op, indices, g_output, &names)?,
                    self.read(op, values, g_output, &names)?,
                ),
            });
        }
        Ok(())
    }

    /// Appends one planned operator.
    fn plan(
        &mut self,
        op: usize,
        answer: &Answer,
        planned: &PlannedOp,
        g_output: &[Found],
        names: &mut SlotNames<'_>,
    ) -> Result<()> {
        let slots = |range: &Range<u32>| {
            answer.slots[range.start as usize..range.end as usize].iter().copied()
        };
        let start = self.out.refs.len();
        for slot in slots(&planned.inputs) {
            // Asked alone, an operator may read what the net around it provides.
            if self.lenient && names.awaits(slot) {
                self.write(op, slot, names);
            }
            let part = self.read(op, slot, g_output, names)?;
            self.out.refs.push(part);
        }
        let middle = self.out.refs.len();
        let first_made = self.session.values.len();
        for slot in slots(&planned.outputs) {
            let made = self.session.values.len();
            let mut value = match self.output(op, slot, g_output) {
                Some(value) => value,
                None => self.write(op, slot, names),
            };
            // A gradient that one operator writes twice is two gradients.
            if (first_made..made).contains(&value.0) {
                let first = value;
                value = self.session.values.add(self.session.values.nominal(first));
                self.again.push((first, value));
            }
            self.out.refs.push(Ref::Value(value));
        }
        let end = self.out.refs.len();
        self.copy_clashing(op, planned, start..middle, middle..end);
        let own = &answer.args[planned.args.start as usize..planned.args.end as usize];
        let body = Body::Maker {
            forward: self.net.ops()[op].view.more(),
            own: self.out.arg(own),
            copy_args: planned.copy_args,
        };
        let (op_type, forward) = (planned.op_type.as_bytes(), Some(op as u32));
        self.out.push_ranges(op_type, start..middle, middle..end, forward, body);
        Ok(())
    }

    /// A gradient that is read under the name of one that is written is copied first, unless the
    /// operator can work in place.
    fn copy_clashing(
        &mut self,
        op: usize,
        planned: &PlannedOp,
        reads: Range<usize>,
        writes: Range<usize>,
    ) {
        if self.lenient || !self.may_clash(&reads, &writes) {
            return;
        }
        // In lists of names, so that wide operators do not compare everything with everything.
        let values = &self.session.values;
        let named = |places: Range<usize>, refs: &[Ref]| {
            let mut named: SmallVec<[(BlobId, usize, ValueId); 8]> = places
                .filter_map(|place| match refs[place] {
                    Ref::Value(value) => Some((values.nominal(value), place, value)),
                    Ref::Blob(_) => None,
                })
                .collect();
            named.sort_unstable();
            named
        };
        let (read, written) =
            (named(reads.clone(), &self.out.refs), named(writes.clone(), &self.out.refs));
        let mut first = 0;
        let mut copies: Map<ValueId, ValueId> = Map::default();
        let mut known: Option<(BlobId, bool, bool)> = None;
        for (name, write, written) in written {
            while read.get(first).is_some_and(|(read, ..)| *read < name) {
                first += 1;
            }
            for &(_, read, value) in read[first..].iter().take_while(|(read, ..)| *read == name) {
                if value == written || self.out.refs[read] != Ref::Value(value) {
                    continue;
                }
                let (at, to) = ((read - reads.start) as u32, (write - writes.start) as u32);
                let (one_shape, is_free) = match known {
                    Some((of, one_shape, is_free)) if of == name => (one_shape, is_free),
                    _ => (self.is_updated(op, name), self.keeps_no_name(op, name)),
                };
                known = Some((name, one_shape, is_free));
                let alone = writes.len() == 1;
                if is_free || may_overwrite(planned.op_type.as_bytes(), at, to, one_shape, alone) {
                    continue;
                }
                if let Some(copy) = copies.get(&value) {
                    self.out.refs[read] = Ref::Value(*copy);
                    continue;
                }
                let suffix = [b"_", self.session.table.name(name), b"_DEDUP"].concat();
                let output = self.net.outputs(op).first().copied().unwrap_or(name);
                let copy_name = self.session.table.suffixed(output, &suffix);
                let copy = self.session.values.add(copy_name);
                let device = self.device(op);
                self.out.copy(Ref::Value(value), copy, false, device, Some(op as u32));
                self.out.refs[read] = Ref::Value(copy);
                copies.insert(value, copy);
            }
        }
    }

    /// A first look, which most operators stop at.
    fn may_clash(&self, reads: &Range<usize>, writes: &Range<usize>) -> bool {
        const FEW: usize = 64;
        let values = &self.session.values;
        let [read, written] = [reads, writes].map(|places| &self.out.refs[places.clone()]);
        read.len() * written.len() > FEW
            || written.iter().any(|written| {
                let name = values.nominal_ref(*written);
                let clashes = |part: &Ref| match part {
                    Ref::Value(value) => part != written && values.nominal(*value) == name,
                    Ref::Blob(_) => false,
                };
                read.iter().any(clashes)
            })
    }

    /// Whether an operator works in place on the blob whose gradient has this name.
    fn is_updated(&mut self, op: usize, name: BlobId) -> bool {
        let table = &mut self.session.table;
        let mut inputs = self.net.inputs(op).iter();
        inputs.any(|input| table.gradient(*input) == name && self.net.outputs(op).contains(input))
    }

    /// Whether a gradient of this name would be a second summand, which never keeps its name.
    fn keeps_no_name(&mut self, op: usize, name: BlobId) -> bool {
        let places = self.net.input_places(op);
        places.into_iter().any(|place| {
            self.session.table.gradient(self.net.blobs()[place]) == name
                && self.is_split(self.ssa.at[place])
        })
    }

    fn write(&mut self, op: usize, slot: Slot, names: &mut SlotNames<'_>) -> ValueId {
        let (inputs, outputs) = (self.net.inputs(op), self.net.outputs(op));
        names.write(slot, inputs, outputs, &mut self.session.values, &mut self.session.table)
    }

    /// Copies what others need and these operators are about to overwrite.
    fn protect_from(&mut self, op: usize, answer: &Answer, g_output: &[Found]) {
        if !self.has_shared() {
            return;
        }
        let first_input = self.net.input_places(op).start;
        for planned in &answer.ops {
            for at in planned.outputs.clone() {
                let slot = answer.slots[at as usize];
                let (name, target) = match slot {
                    Slot::GI(k) | Slot::GiIndices(k) | Slot::GiValues(k) => {
                        let Some(&input) = self.net.inputs(op).get(k as usize) else { continue };
                        let table = &mut self.session.table;
                        let name = match slot {
                            Slot::GI(_) => table.gradient(input),
                            Slot::GiIndices(_) => table.suffixed(input, blobs::INDICES),
                            _ => table.suffixed(input, blobs::VALUES),
                        };
                        (name, Some(self.ssa.at[first_input + k as usize]))
                    }
                    Slot::GO(_) => match self.output(op, slot, g_output) {
                        Some(value) => (self.session.values.nominal(value), None),
                        None => continue,
                    },
                    Slot::Local(_) => {
                        let (inputs, outputs) = (self.net.inputs(op), self.net.outputs(op));
                        (slot_name(slot, answer, inputs, outputs, &mut self.session.table), None)
                    }
                    _ => continue,
                };
                // A second summand never keeps its name, so it overwrites nothing.
                if !target.is_some_and(|version| self.is_split(version)) {
                    self.protect(op, name, target);
                }
            }
        }
    }

    /// A gradient operator that works on an output's gradient in place.
    fn output(&self, op: usize, slot: Slot, g_output: &[Found]) -> Option<ValueId> {
        let Slot::GO(k) = slot else { return None };
        let found = g_output.get(k as usize)?;
        match self.usable(op, k as usize, found).ok()? {
            Gradient::Dense(Ref::Value(value)) => Some(value),
            _ => None,
        }
    }

    fn read(
        &self,
        op: usize,
        slot: Slot,
        g_output: &[Found],
        names: &SlotNames<'_>,
    ) -> Result<Ref> {
        let at = |range: Range<usize>, k: u32| {
            self.ssa.at[range].get(k as usize).copied().ok_or_else(|| missing_slot(slot))
        };
        let gradient = |k: u32| match g_output.get(k as usize) {
            Some(found) => self.usable(op, k as usize, found),
            None => Err(missing_slot(slot)),
        };
        match slot {
            Slot::I(k) => self.forward(op, at(self.net.input_places(op), k)?, false),
            Slot::Shape(k) => self.forward(op, at(self.net.input_places(op), k)?, true),
            Slot::O(k) => self.forward(op, at(self.net.output_places(op), k)?, false),
            Slot::GO(k) => match gradient(k)? {
                Gradient::Dense(part) => Ok(part),
                _ => Err(missing_slot(slot)),
            },
            Slot::GoIndices(k) | Slot::GoValues(k) => match (gradient(k)?, slot) {
                (Gradient::Sparse(indices, _), Slot::GoIndices(_)) => Ok(indices),
                (Gradient::Sparse(_, values), _) => Ok(values),
                _ => Err(missing_slot(slot)),
            },
            Slot::GI(_) | Slot::GiIndices(_) | Slot::GiValues(_) | Slot::Local(_) => {
                names.read(slot).map(Ref::Value).ok_or_else(|| {
                    Error::new(
                        Kind::OutOfScope,
                        "its gradient reads a blob that none of its gradient operators has made",
                    )
                    .hint("this form of the operator has no gradient inside a net")
                })
            }
        }
    }
}

fn missing_slot(slot: Slot) -> Error {
    Error::new(Kind::Refused, format!("its gradient needs {slot:?}, which is not there"))
}

/// The values that the slots of one answer stand for.
struct SlotNames<'n> {
    answer: &'n Answer,
    inputs: usize,
    values: SmallVec<[Option<ValueId>; 16]>,
}

impl<'n> SlotNames<'n> {
    fn new(answer: &'n Answer, inputs: usize) -> Self {
        let values = smallvec::smallvec![None; 3 * inputs + answer.locals.len()];
        Self { answer, inputs, values }
    }

    fn index(&self, slot: Slot) -> Option<usize> {
        Some(match slot {
            Slot::GI(k) => 3 * k as usize,
            Slot::GiIndices(k) => 3 * k as usize + 1,
            Slot::GiValues(k) => 3 * k as usize + 2,
            Slot::Local(k) => 3 * self.inputs + k as usize,
            _ => return None,
        })
    }

    /// Whether the slot is one that gradient operators write, and none has written it yet.
    fn awaits(&self, slot: Slot) -> bool {
        self.index(slot).is_some_and(|index| self.values[index].is_none())
    }

    fn read(&self, slot: Slot) -> Option<ValueId> {
        self.values[self.index(slot)?]
    }

    /// A slot is one value however often it is written: the later operators work on it in place.
    fn write(
        &mut self,
        slot: Slot,
        inputs: &[BlobId],
        outputs: &[BlobId],
        values: &mut Values,
        table: &mut BlobTable<'_>,
    ) -> ValueId {
        let index = self.index(slot);
        if let Some(value) = index.and_then(|index| self.values[index]) {
            return value;
        }
        let value = values.add(slot_name(slot, self.answer, inputs, outputs, table));
        if let Some(index) = index {
            self.values[index] = Some(value);
        }
        value
    }
}

/// The name of the blob that a slot stands for.
fn slot_name(
    slot: Slot,
    answer: &Answer,
    inputs: &[BlobId],
    outputs: &[BlobId],
    table: &mut BlobTable<'_>,
) -> BlobId {
    match slot {
        Slot::I(k) | Slot::Shape(k) => inputs[k as usize],
        Slot::O(k) => outputs[k as usize],
        Slot::GI(k) => table.gradient(inputs[k as usize]),
        Slot::GiIndices(k) => table.suffixed(inputs[k as usize], blobs::INDICES),
        Slot::GiValues(k) => table.suffixed(inputs[k as usize], blobs::VALUES),
        Slot::GO(k) => table.gradient(outputs[k as usize]),
        Slot::GoIndices(k) => table.suffixed(outputs[k as usize], blobs::INDICES),
        Slot::GoValues(k) => table.suffixed(outputs[k as usize], blobs::VALUES),
        Slot::Local(k) => {
            let local = &answer.locals[k as usize];
            let base = slot_name(local.base, answer, inputs, outputs, table);
            table.affixed(local.prefix.as_bytes(), base, local.suffix.as_bytes())
        }
    }
}
