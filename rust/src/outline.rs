//! Operators of which nobody reads what they hold, and what protobuf would miss in them.

use smallvec::SmallVec;

use crate::message::{arg, net, op};
use crate::wire::{fields, Field, Value, Writer};

/// The wire form of an operator that no gradient is made from: its type and its blobs, the names of
/// its arguments without what they hold, and its device option.
pub fn outline(
    op_type: &[u8],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
    arguments: &[Vec<u8>],
    device: Option<&[u8]>,
) -> Vec<u8> {
    let mut writer = Writer::default();
    if let Some(device) = device {
        writer.bytes_field(op::DEVICE_OPTION, device);
    }
    for name in arguments.iter().rev() {
        let start = writer.position();
        writer.bytes_field(arg::NAME, name);
        writer.close(op::ARG, start);
    }
    writer.bytes_field(op::TYPE, op_type);
    for (number, names) in [(op::OUTPUT, outputs), (op::INPUT, inputs)] {
        for name in names.iter().rev() {
            writer.bytes_field(number, name);
        }
    }
    writer.written().to_vec()
}

/// Whether an operator may lack required fields. Of all that it holds, also in nested nets, only tensors
/// and partitions of nets have such fields, and perhaps what we do not know. Long lists of values are
/// not gone through: whoever holds the message knows at once.
pub fn may_lack_fields(op: &[u8]) -> bool {
    const LONG: usize = 4096;
    #[derive(Clone, Copy)]
    enum Is {
        Op,
        Arg,
        Net,
    }
    let mut waiting: SmallVec<[(Is, &[u8]); 8]> = SmallVec::from_slice(&[(Is::Op, op)]);
    while let Some((is, message)) = waiting.pop() {
        for field in fields(message) {
            let Ok(Field { number, value, .. }) = field else { continue };
            match (is, number, value) {
                (Is::Arg, arg::FLOATS..=arg::STRINGS, _) if message.len() > LONG => return true,
                (Is::Op, op::ARG, Value::Bytes(arg)) | (Is::Net, net::ARG, Value::Bytes(arg)) => {
                    waiting.push((Is::Arg, arg));
                }
                (Is::Arg, arg::N | arg::NETS, Value::Bytes(net)) => waiting.push((Is::Net, net)),
                (Is::Net, net::OP, Value::Bytes(op)) => waiting.push((Is::Op, op)),
                (Is::Op, ..)
                | (Is::Arg, ..=arg::STRINGS, _)
                | (Is::Net, ..=net::EXTERNAL_OUTPUT, _) => {}
                _ => return true,
            }
        }
    }
    false
}
