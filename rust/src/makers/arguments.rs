//! Arguments of forward operators as makers read them, and of gradient operators as they are written.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::answer::{Answer, Question};
use super::words::{Arg, Read};
use crate::error::{shown_name, Error, Kind, Result};
use crate::message::{arg, op, ArgRef};

/// How many arguments a row may read.
pub(super) const MOST_READS: usize = 3;

/// So many arguments are compared each with each, more are looked up in a table.
const FEW: usize = 8;

/// The first argument of this name.
pub(super) fn find<'a>(q: &Question<'_, 'a>, name: &str) -> Option<ArgRef<'a>> {
    q.op.args().find(|argument| argument.name() == name.as_bytes())
}

/// The positions that the first argument of this name lists, none where it is missing.
pub(super) fn positions(q: &Question, name: &str) -> Result<Vec<u32>> {
    let Some(argument) = find(q, name) else { return Ok(Vec::new()) };
    let position = |number| {
        u32::try_from(number).map_err(|_| {
            Error::new(Kind::Refused, format!("the argument {name} holds {number}"))
                .hint(format!("list in {name} positions that the operator has"))
        })
    };
    argument.ints()?.into_iter().map(position).collect()
}

/// The arguments that a row reads.
#[derive(Default)]
pub(super) struct Values {
    values: [i64; MOST_READS],
    given: [bool; MOST_READS],
}

impl Values {
    /// Reads them all in one pass and refuses those of the wrong kind; if they are to be `distinct`,
    /// those of one name that differ as well.
    pub(super) fn read(reads: &[Read], distinct: bool, q: &Question) -> Result<Self> {
        let mut values = Self::default();
        for (value, read) in values.values.iter_mut().zip(reads) {
            *value = match *read {
                Read::Flag(_, default) => i64::from(default),
                Read::Int(_, default) => default,
                Read::Raw(_) => 0,
            };
        }
        let mut seen: [(&[u8], &[u8]); FEW] = [(&[], &[]); FEW];
        for (count, argument) in q.op.args().enumerate() {
            let name = argument.name();
            values.take(reads, name, &argument)?;
            if distinct && count < FEW {
                if seen[..count].iter().any(|&(other, arg)| other == name && arg != argument.bytes)
                {
                    return Err(twice(name));
                }
                seen[count] = (name, argument.bytes);
            } else if distinct && count == FEW {
                check_many_distinct(q)?;
            }
        }
        Ok(values)
    }

    fn take(&mut self, reads: &[Read], name: &[u8], argument: &ArgRef) -> Result<()> {
        for (k, read) in reads.iter().enumerate() {
            if read.name().as_bytes() == name && !self.given[k] {
                self.given[k] = true;
                self.values[k] = match *read {
                    Read::Raw(_) => argument.i().unwrap_or(0),
                    Read::Flag(..) => integer(argument)?,
                    Read::Int(..) => i64::from(int32(argument)?),
                };
            }
        }
        Ok(())
    }

    /// The value of one of the arguments.
    pub(super) fn value(&self, reads: &[Read], name: &str) -> i64 {
        place(reads, name).map_or(0, |k| self.values[k])
    }

    /// Whether one of the arguments is there.
    pub(super) fn given(&self, reads: &[Read], name: &str) -> bool {
        place(reads, name).is_some_and(|k| self.given[k])
    }
}

fn place(reads: &[Read], name: &str) -> Option<usize> {
    reads.iter().position(|read| read.name() == name)
}

/// The field `i` of an argument that must have it.
pub(super) fn integer(argument: &ArgRef) -> Result<i64> {
    argument.i().ok_or_else(|| {
        let name = shown_name(argument.name());
        Error::new(Kind::Refused, format!("the argument {name} is no integer"))
            .hint(format!("give {name} in the field i"))
    })
}

/// The same, where it must fit into 32 bits.
pub(super) fn int32(argument: &ArgRef) -> Result<i32> {
    let value = integer(argument)?;
    i32::try_from(value).map_err(|_| {
        let name = shown_name(argument.name());
        Error::new(Kind::Refused, format!("the argument {name} is {value}"))
            .hint(format!("give {name} a value that fits into 32 bits"))
    })
}

/// Refuses arguments of one name that differ, in linear time.
fn check_many_distinct(q: &Question) -> Result<()> {
    let mut seen: HashMap<&[u8], &[u8], FixedState> = HashMap::default();
    for argument in q.op.args() {
        let name = argument.name();
        if seen.insert(name, argument.bytes).is_some_and(|bytes| bytes != argument.bytes) {
            return Err(twice(name));
        }
    }
    Ok(())
}

#[cold]
fn twice(name: &[u8]) -> Error {
    let name = shown_name(name);
    Error::new(Kind::Refused, format!("the argument {name} is there twice, with two values"))
        .hint(format!("keep one of the two {name}"))
}

impl Answer {
    /// Writes the arguments that the next operator has of its own.
    pub(super) fn arguments(&mut self, q: &Question, args: &[Arg]) {
        for arg in args {
            match *arg {
                Arg::Int(name, value) => self.int(name, value),
                Arg::Float(name, value) => self.float(name, value),
                Arg::IntOf(name, from, default) => {
                    let value = find(q, from).map_or(default, |from| from.i().unwrap_or(0));
                    self.int(name, value);
                }
                Arg::FloatOf(name, from, default) => {
                    let value = find(q, from).map_or(default, |from| from.f().unwrap_or(0.0));
                    self.float(name, value);
                }
                Arg::All => q.op.args().for_each(|argument| self.copied(&argument)),
            }
        }
    }

    /// An argument as the forward operator has it.
    pub(super) fn copied(&mut self, argument: &ArgRef) {
        self.args.extend_from_slice(argument.raw);
    }

    /// An integer.
    pub(super) fn int(&mut self, name: &str, value: i64) {
        let value = varint_of(value);
        self.argument(name, 1 + varint_size(value));
        self.tag(arg::I, 0);
        self.varint(value);
    }

    /// A float.
    pub(super) fn float(&mut self, name: &str, value: f32) {
        self.argument(name, 5);
        self.tag(arg::F, 5);
        self.args.extend_from_slice(&value.to_le_bytes());
    }

    /// A text.
    pub(super) fn string(&mut self, name: &str, value: &str) {
        self.argument(name, 1 + varint_size(value.len() as u64) + value.len());
        self.text(arg::S, value);
    }

    /// An argument whose fields are given serialized.
    pub(super) fn serialized(&mut self, fields: &[u8]) {
        self.tag(op::ARG, 2);
        self.varint(fields.len() as u64);
        self.args.extend_from_slice(fields);
    }

    /// The head of an argument whose value takes so many bytes.
    fn argument(&mut self, name: &str, size: usize) {
        self.tag(op::ARG, 2);
        self.varint((1 + varint_size(name.len() as u64) + name.len() + size) as u64);
        self.text(arg::NAME, name);
    }

    fn text(&mut self, number: u32, text: &str) {
        self.tag(number, 2);
        self.varint(text.len() as u64);
        self.args.extend_from_slice(text.as_bytes());
    }

    fn tag(&mut self, number: u32, kind: u32) {
        self.varint(u64::from(number << 3 | kind));
    }

    fn varint(&mut self, value: u64) {
        push_varint(&mut self.args, value);
    }
}

/// Protobuf writes negative numbers as their two's complement.
pub(super) fn varint_of(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// Appends a varint.
pub(super) fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn varint_size(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}
