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

/// The float argument `value`. Wide control flow fills thousands of blobs: this one needs no memory.
fn value_argument(value: f32) -> [u8; 14] {
    let mut argument = *b"\x2a\x0c\x0a\x05value\x15\0\0\0\0";
    argument[10..].copy_from_slice(&value.to_le_bytes());
    argument
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
        let args = self.arg(&value_argument(value));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_of_a_fill_is_an_argument() {
        for value in [0.0_f32, 1.0, -2.5] {
            let written = |writer: &mut Writer| writer.fixed32_field(arg::F, value.to_le_bytes());
            assert_eq!(value_argument(value)[..], argument("value", written)[..]);
        }
    }
}
