//! A forward net taken apart: its operators, and their blobs as ids.

use crate::blobs::{BlobId, BlobTable};
use crate::error::{Error, Kind, Result};
use crate::memory;
use crate::message::{NetRef, OpRef};

/// An operator of a [`Net`].
#[derive(Clone, Copy)]
pub struct Op<'a> {
    /// The message it came from.
    pub view: OpRef<'a>,
    start: u32,
    inputs: u32,
    outputs: u32,
}

/// The operators of one net, in order. Nested nets are not looked into.
#[derive(Default)]
pub struct Net<'a> {
    ops: Vec<Op<'a>>,
    /// The inputs, then the outputs, of one operator after the other.
    blobs: Vec<BlobId>,
    /// Scratch: the outputs of one operator.
    outputs: Vec<BlobId>,
}

impl<'a> Net<'a> {
    /// Reads a serialized `NetDef`.
    pub fn read(net: NetRef<'a>, table: &mut BlobTable<'a>) -> Result<Self> {
        Self::default().filled(net.ops(), table)
    }

    /// Reads serialized `OperatorDef`s into a net that has none.
    pub fn filled(
        mut self,
        ops: impl Iterator<Item = Result<&'a [u8]>>,
        table: &mut BlobTable<'a>,
    ) -> Result<Self> {
        for bytes in ops {
            self.push(bytes?, table)?;
        }
        Ok(self)
    }

    fn push(&mut self, bytes: &'a [u8], table: &mut BlobTable<'a>) -> Result<()> {
        let Self { ops, blobs, outputs } = self;
        let start = blobs.len();
        outputs.clear();
        let view = OpRef::read(bytes, |name, is_output| {
            let id = table.intern(name);
            if is_output {
                outputs.push(id);
            } else {
                blobs.push(id);
            }
        })
        .map_err(|error| error.at(ops.len(), b""))?;
        let inputs = self.blobs.len() - start;
        self.blobs.extend_from_slice(outputs);
        // Places of blobs and versions are counted in 32 bits.
        if u32::try_from(self.blobs.len()).is_err() {
            return Err(Error::new(
                Kind::Argument,
                "the net has more than 2^32 inputs and outputs",
            ));
        }
        let (start, inputs, outputs) = (start as u32, inputs as u32, self.outputs.len() as u32);
        self.ops.push(Op { view, start, inputs, outputs });
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.ops.clear();
        self.blobs.clear();
        self.outputs.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        memory::room(&self.ops) + memory::room(&self.blobs)
    }

    /// The memory of an empty net, for another one.
    pub(crate) fn renewed<'b>(self) -> Net<'b> {
        Net { ops: memory::renewed(self.ops), blobs: self.blobs, outputs: self.outputs }
    }

    /// The operators.
    pub fn ops(&self) -> &[Op<'a>] {
        &self.ops
    }

    /// All inputs and outputs, in the order in which [`Net::input_places`] counts them.
    pub fn blobs(&self) -> &[BlobId] {
        &self.blobs
    }

    /// Where the inputs of an operator stand in [`Net::blobs`].
    pub fn input_places(&self, op: usize) -> std::ops::Range<usize> {
        let Op { start, inputs, .. } = self.ops[op];
        start as usize..(start + inputs) as usize
    }

    /// Where its outputs stand.
    pub fn output_places(&self, op: usize) -> std::ops::Range<usize> {
        let Op { start, inputs, outputs, .. } = self.ops[op];
        (start + inputs) as usize..(start + inputs + outputs) as usize
    }

    /// The inputs of an operator.
    pub fn inputs(&self, op: usize) -> &[BlobId] {
        &self.blobs[self.input_places(op)]
    }

    /// The outputs of an operator.
    pub fn outputs(&self, op: usize) -> &[BlobId] {
        &self.blobs[self.output_places(op)]
    }
}
