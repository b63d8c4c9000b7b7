//! Small nets for the unit tests.

use crate::message::{net, op};
use crate::wire::Writer;

/// A serialized net of operators given as (type, inputs, outputs).
pub fn net_of(ops: &[(&str, &[&str], &[&str])]) -> Vec<u8> {
    let mut writer = Writer::default();
    for (op_type, inputs, outputs) in ops.iter().rev() {
        let position = writer.position();
        writer.bytes_field(op::TYPE, op_type.as_bytes());
        for name in outputs.iter().rev() {
            writer.bytes_field(op::OUTPUT, name.as_bytes());
        }
        for name in inputs.iter().rev() {
            writer.bytes_field(op::INPUT, name.as_bytes());
        }
        writer.close(net::OP, position);
    }
    writer.written().to_vec()
}
