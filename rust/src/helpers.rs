//! The helper operators that a backward pass needs beside the gradient operators proper.

use crate::gradient::{Body, GradientNet, Ref, ValueId};
use crate::message::{arg, op};
use crate::wire::Writer;

/// A serialized `arg` field of an operator.
fn argument(name: &str, value: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    value(&mut writer);
    writer.bytes_field(arg::NAME, name.as_bytes());
    writer.close(op::ARG, 0);
    writer.written().to_vec()
}

/// A float argument.
pub fn float_argument(name: &str, value: f32) -> Vec<u8> {
    argument(name, |writer| writer.fixed32_field(arg::F, value.to_le_bytes()))
}

/// An integer argument.
pub fn int_argument(name: &str, value: i64) -> Vec<u8> {
    argument(name, |writer| writer.varint_field(arg::I, value as u64))
}

/// A list of integers as an argument.
pub fn ints_argument(name: &str, values: &[i64]) -> Vec<u8> {
    argument(name, |writer| {
        for value in values.iter().rev() {
            writer.varint_field(arg::INTS, *value as u64);
        }
    })
}

impl<'a> GradientNet<'a> {
    /// `ConstantFill` with the shape of `like`: how a target that nobody gave a gradient starts, and
    /// the gradient of a branch that did not run.
    pub fn fill(
        &mut self,
        like: Ref,
        value: f32,
        output: ValueId,
        named: bool,
        device: Option<&'a [u8]>,
        forward: Option<u32>,
    ) {
        let args = self.arg(&float_argument("value", value));
        let body = Body::Plain { named, args, device };
        self.push(b"ConstantFill", [like], [output], forward, body);
    }

    /// `Copy`.
    pub fn copy(
        &mut self,
        from: Ref,
        to: ValueId,
        named: bool,
        device: Option<&'a [u8]>,
        forward: Option<u32>,
    ) {
        let body = Body::Plain { named, args: 0..0, device };
        self.push(b"Copy", [from], [to], forward, body);
    }
}
