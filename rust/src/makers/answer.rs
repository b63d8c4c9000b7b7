//! What a maker is asked, and what it answers.
//!
//! An answer holds slots, not names: what they are called, and which version of a blob they stand for,
//! is the walk's business. One answer serves for all operators of a net, so that its buffers are
//! allocated once.

use std::ops::Range;

use super::words::{Form, GradientSlot, Local, Slot};
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::message::OpRef;

/// A forward operator, and the gradients of its outputs.
#[derive(Clone, Copy)]
pub struct Question<'q, 'a> {
    /// The operator's message, for its arguments.
    pub op: &'q OpRef<'a>,
    /// Its inputs.
    pub inputs: &'q [BlobId],
    /// Its outputs.
    pub outputs: &'q [BlobId],
    /// The gradients of the outputs; may be shorter or longer than `outputs`.
    pub g_output: &'q [Form],
    /// Which of them the backward pass made for this operator alone, so that it may overwrite them;
    /// `false` where the list is too short.
    pub spare: &'q [bool],
}

/// A gradient operator, as ranges into the lists of an [`Answer`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedOp {
    /// Its type.
    pub op_type: &'static str,
    /// What it reads: a range of [`Answer::slots`].
    pub inputs: Range<u32>,
    /// What it writes: a range of [`Answer::slots`].
    pub outputs: Range<u32>,
    /// Its own arguments: a range of [`Answer::args`], whole `arg` fields of an `OperatorDef`.
    pub args: Range<u32>,
    /// Whether the arguments of the forward operator follow behind.
    pub copy_args: bool,
}

/// The gradient operators of one forward operator, and what its inputs get.
#[derive(Default)]
pub struct Answer {
    /// The operators, in the order in which they run.
    pub ops: Vec<PlannedOp>,
    /// What they read and write.
    pub slots: Vec<Slot>,
    /// Their own arguments, serialized.
    pub args: Vec<u8>,
    /// The helper blobs that `Slot::Local` speaks of.
    pub locals: Vec<Local>,
    /// One entry for each input of the forward operator.
    pub g_input: Vec<GradientSlot>,
}

impl Answer {
    /// Forgets everything, and gives none of the inputs a gradient.
    pub fn clear(&mut self, n_inputs: usize) {
        self.ops.clear();
        self.slots.clear();
        self.args.clear();
        self.locals.clear();
        self.g_input.clear();
        self.g_input.resize(n_inputs, GradientSlot::None);
    }

    /// Appends an operator. Arguments written since the last one are its own.
    #[inline]
    pub(super) fn push(
        &mut self,
        q: &Question,
        op_type: &'static str,
        copy_args: bool,
        reads: impl IntoIterator<Item = Slot>,
        writes: impl IntoIterator<Item = Slot>,
    ) -> Result<()> {
        let start = self.slots.len() as u32;
        for slot in reads {
            q.check(slot)?;
            self.slots.push(slot);
        }
        let middle = self.slots.len() as u32;
        for slot in writes {
            q.check(slot)?;
            self.slots.push(slot);
            match slot {
                Slot::GI(k) => self.g_input[k as usize] = GradientSlot::Dense(slot),
                Slot::GiIndices(k) | Slot::GiValues(k) => {
                    let pair = GradientSlot::Sparse(Slot::GiIndices(k), Slot::GiValues(k));
                    self.g_input[k as usize] = pair;
                }
                _ => {}
            }
        }
        let args = self.ops.last().map_or(0, |op| op.args.end)..self.args.len() as u32;
        let (inputs, outputs) = (start..middle, middle..self.slots.len() as u32);
        self.ops.push(PlannedOp { op_type, inputs, outputs, args, copy_args });
        Ok(())
    }

    /// Adds a helper blob.
    pub(super) fn local(&mut self, prefix: &'static str, base: Slot, suffix: &'static str) -> Slot {
        self.locals.push(Local { prefix, base, suffix });
        Slot::Local(self.locals.len() as u32 - 1)
    }
}

impl Question<'_, '_> {
    /// The form of the gradient of output `k`.
    pub(super) fn form(&self, k: u32) -> Result<Form> {
        self.g_output.get(k as usize).copied().ok_or_else(|| self.refusal(Slot::GO(k)))
    }

    /// Whether input `i` carries the name of output `o`.
    pub(super) fn in_place(&self, i: usize, o: usize) -> bool {
        self.inputs.get(i).is_some_and(|input| self.outputs.get(o) == Some(input))
    }

    /// The positions of the inputs.
    pub(super) fn input_positions(&self) -> Range<u32> {
        0..self.inputs.len() as u32
    }

    /// The positions of the outputs.
    pub(super) fn output_positions(&self) -> Range<u32> {
        0..self.outputs.len() as u32
    }

    /// Refuses a slot that the operator or its output gradients do not have.
    #[inline]
    pub(super) fn check(&self, slot: Slot) -> Result<()> {
        let is_there = match slot {
            Slot::I(k) | Slot::Shape(k) | Slot::GI(k) | Slot::GiIndices(k) | Slot::GiValues(k) => {
                (k as usize) < self.inputs.len()
            }
            Slot::O(k) => (k as usize) < self.outputs.len(),
            Slot::GO(k) => self.g_output.get(k as usize) == Some(&Form::Dense),
            Slot::GoIndices(k) | Slot::GoValues(k) => {
                self.g_output.get(k as usize) == Some(&Form::Sparse)
            }
            Slot::Local(_) => true,
        };
        if is_there {
            Ok(())
        } else {
            Err(self.refusal(slot))
        }
    }

    #[cold]
    fn refusal(&self, slot: Slot) -> Error {
        let (k, given) = match slot {
            Slot::GO(k) | Slot::GoIndices(k) | Slot::GoValues(k) => {
                (k, self.g_output.get(k as usize))
            }
            Slot::O(k) => return missing("output", k, self.outputs.len()),
            Slot::I(k) | Slot::Shape(k) | Slot::GI(k) | Slot::GiIndices(k) | Slot::GiValues(k) => {
                return missing("input", k, self.inputs.len())
            }
            Slot::Local(_) => return Error::new(Kind::Internal, "a helper blob is not there"),
        };
        let (what, hint) = match given {
            None => (
                format!(
                    "the gradient of output {k} is needed, and {} given",
                    match self.g_output.len() {
                        0 => "no output gradients were".to_string(),
                        1 => "only one output gradient was".to_string(),
                        n => format!("only {n} output gradients were"),
                    }
                ),
                "give one entry for each output, None where there is no gradient".to_string(),
            ),
            Some(Form::None) => (
                format!("the gradient of output {k} is needed, and there is none"),
                format!(
                    "use output {k} on the way to a y, or put a StopGradient behind the operator"
                ),
            ),
            Some(Form::Sparse) => (
                format!("the gradient of output {k} is sparse, and a dense one is needed"),
                format!("read output {k} through an EnsureDense"),
            ),
            Some(Form::Dense) => (
                format!("the gradient of output {k} is dense, and a sparse one is needed"),
                "give indices and values".to_string(),
            ),
        };
        Error::new(Kind::Refused, what).hint(hint)
    }
}

fn missing(noun: &str, k: u32, count: usize) -> Error {
    let plural = if count == 1 { "" } else { "s" };
    let what =
        format!("the gradient needs {noun} {k}, and the operator has {count} {noun}{plural}");
    Error::new(Kind::Refused, what).hint(format!("give the operator {noun} {k} as well"))
}
