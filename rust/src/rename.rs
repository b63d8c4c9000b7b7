//! Renames blobs inside the nets of an operator that a registered function gave.
//!
//! Such an operator is kept as bytes. Where one of its outputs becomes a summand and is renamed, the
//! operators inside that write it have to follow, and with them those that read what they wrote.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::message::{arg, net, op};
use crate::session::{RED_ZONE, STACK};
use crate::wire::{fields, Field, Value, Writer};

/// Old names and new ones.
pub type Renamed<'r> = FxHashMap<&'r [u8], &'r [u8]>;

/// Writes an `arg` field of an operator with blobs of its nets renamed.
pub fn paste_renamed(writer: &mut Writer, argument: &Field<'_>, renamed: &Renamed<'_>) {
    let Value::Bytes(bytes) = argument.value else { return writer.bytes(argument.raw) };
    paste_message(writer, argument.number, bytes, |writer, field| match field.value {
        Value::Bytes(bytes) if field.number == arg::N || field.number == arg::NETS => {
            stacker::maybe_grow(RED_ZONE, STACK, || {
                paste_net(writer, field.number, bytes, renamed);
            });
        }
        _ => writer.bytes(field.raw),
    });
}

fn paste_message(
    writer: &mut Writer,
    number: u32,
    bytes: &[u8],
    mut paste: impl FnMut(&mut Writer, &Field<'_>),
) {
    let position = writer.position();
    let all: Vec<_> = fields(bytes).filter_map(Result::ok).collect();
    for field in all.iter().rev() {
        paste(writer, field);
    }
    writer.close(number, position);
}

/// Operators are written last to first, so what is written before each of them is found first.
fn paste_net(writer: &mut Writer, number: u32, bytes: &[u8], renamed: &Renamed<'_>) {
    let mut written: FxHashSet<&[u8]> = FxHashSet::default();
    let ops: Vec<_> = fields(bytes).filter_map(Result::ok).collect();
    let mut local = Vec::with_capacity(ops.len());
    for field in &ops {
        let mut flags = Vec::new();
        if let (net::OP, Value::Bytes(op)) = (field.number, field.value) {
            for field in fields(op).filter_map(Result::ok) {
                if let (op::INPUT, Value::Bytes(name)) = (field.number, field.value) {
                    flags.push(written.contains(name));
                }
            }
            for field in fields(op).filter_map(Result::ok) {
                if let (op::OUTPUT, Value::Bytes(name)) = (field.number, field.value) {
                    written.insert(name);
                }
            }
        }
        local.push(flags);
    }
    let new_name = |name: &[u8]| renamed.get(name).copied();
    let position = writer.position();
    for (field, mut local) in ops.iter().zip(local).rev() {
        match (field.number, field.value) {
            (net::OP, Value::Bytes(op)) => {
                let is_do = fields(op)
                    .filter_map(Result::ok)
                    .any(|field| field.number == op::TYPE && field.value == Value::Bytes(b"Do"));
                paste_message(writer, net::OP, op, |writer, field| {
                    match (field.number, field.value) {
                        (op::INPUT, Value::Bytes(name)) => {
                            let is_local = local.pop().unwrap_or_default();
                            match new_name(name).filter(|_| is_local) {
                                Some(name) => writer.bytes_field(op::INPUT, name),
                                None => writer.bytes(field.raw),
                            }
                        }
                        (op::OUTPUT, Value::Bytes(name)) => match new_name(name) {
                            Some(name) => writer.bytes_field(op::OUTPUT, name),
                            None => writer.bytes(field.raw),
                        },
                        // A Do has a workspace, and so names, of its own.
                        (op::ARG, _) if !is_do => paste_renamed(writer, field, renamed),
                        _ => writer.bytes(field.raw),
                    }
                });
            }
            _ => writer.bytes(field.raw),
        }
    }
    writer.close(number, position);
}
