//! Borrowed views of the three messages that gradient generation looks into: `NetDef`, `OperatorDef`
//! and `Argument` (and the `DeviceOption` that sums are compared by).
//!
//! A view reads what it is asked for and nothing else; everything unread, fields of a later schema
//! included, can be pasted on byte for byte. Duplicated fields count as protobuf merges them: the
//! last one of a scalar, the concatenation of messages.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::wire::{fields, last_payload, packed_varints, Field, Value};

/// Field numbers of `NetDef`.
pub mod net {
    #![allow(missing_docs)]
    pub const NAME: u32 = 1;
    pub const OP: u32 = 2;
    pub const ARG: u32 = 6;
    pub const EXTERNAL_INPUT: u32 = 7;
    pub const EXTERNAL_OUTPUT: u32 = 8;
}

/// Field numbers of `OperatorDef`.
pub mod op {
    #![allow(missing_docs)]
    pub const INPUT: u32 = 1;
    pub const OUTPUT: u32 = 2;
    pub const NAME: u32 = 3;
    pub const TYPE: u32 = 4;
    pub const ARG: u32 = 5;
    pub const DEVICE_OPTION: u32 = 6;
    pub const ENGINE: u32 = 7;
    pub const CONTROL_INPUT: u32 = 8;
    pub const IS_GRADIENT_OP: u32 = 9;
    pub const DEBUG_INFO: u32 = 10;
}

/// Field numbers of `Argument`.
pub mod arg {
    #![allow(missing_docs)]
    pub const NAME: u32 = 1;
    pub const F: u32 = 2;
    pub const I: u32 = 3;
    pub const S: u32 = 4;
    pub const FLOATS: u32 = 5;
    pub const INTS: u32 = 6;
    pub const STRINGS: u32 = 7;
    pub const N: u32 = 8;
    pub const NETS: u32 = 9;
}

/// Field numbers of `DeviceOption`.
pub mod device {
    #![allow(missing_docs)]
    pub const DEVICE_TYPE: u32 = 1;
    pub const DEVICE_ID: u32 = 2;
    pub const RANDOM_SEED: u32 = 3;
    pub const NODE_NAME: u32 = 4;
    pub const NUMA_NODE_ID: u32 = 5;
    pub const EXTRA_INFO: u32 = 6;
}

/// The payload of a length-delimited field, `None` for any other wire type: protobuf keeps such a
/// field as an unknown one.
fn payload<'a>(field: &Field<'a>) -> Option<&'a [u8]> {
    match field.value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// A `NetDef`.
#[derive(Clone, Copy)]
pub struct NetRef<'a> {
    /// The serialized message.
    pub bytes: &'a [u8],
}

impl<'a> NetRef<'a> {
    /// The operators, in order.
    pub fn ops(self) -> impl Iterator<Item = Result<&'a [u8]>> {
        self.repeated(net::OP)
    }

    /// The names under `external_input`.
    pub fn external_inputs(self) -> impl Iterator<Item = Result<&'a [u8]>> {
        self.repeated(net::EXTERNAL_INPUT)
    }

    fn repeated(self, number: u32) -> impl Iterator<Item = Result<&'a [u8]>> {
        fields(self.bytes).filter_map(move |field| match field {
            Ok(field) if field.number == number => payload(&field).map(Ok),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

/// An `OperatorDef`.
#[derive(Clone, Copy)]
pub struct OpRef<'a> {
    /// The serialized message.
    pub bytes: &'a [u8],
    /// The operator type; empty where none is set.
    pub op_type: &'a [u8],
    /// Whether there is an argument, a device option or an engine.
    pub has_more: bool,
}

impl<'a> OpRef<'a> {
    /// Reads an operator, handing each input and each output to `blob` with `true` for an output.
    pub fn read(bytes: &'a [u8], mut blob: impl FnMut(&'a [u8], bool)) -> Result<Self> {
        let mut op_type: &[u8] = &[];
        let mut has_more = false;
        for field in fields(bytes) {
            let field = field?;
            match (field.number, field.value) {
                (op::INPUT, Value::Bytes(name)) => blob(name, false),
                (op::OUTPUT, Value::Bytes(name)) => blob(name, true),
                (op::TYPE, Value::Bytes(name)) => op_type = name,
                (op::ARG..=op::ENGINE, _) => has_more = true,
                _ => {}
            }
        }
        Ok(Self { bytes, op_type, has_more })
    }

    /// The message, if there is more to it than the operator's type and its blobs.
    pub fn more(&self) -> &'a [u8] {
        if self.has_more {
            self.bytes
        } else {
            &[]
        }
    }

    /// All fields, raw. `read` has been through them, so they are well-formed.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> {
        fields(self.bytes).filter_map(Result::ok)
    }

    /// The arguments, in order.
    pub fn args(&self) -> impl Iterator<Item = ArgRef<'a>> {
        let fields = fields(self.more());
        fields
            .filter_map(Result::ok)
            .filter(|field| field.number == op::ARG)
            .filter_map(|field| Some(ArgRef { bytes: payload(&field)?, raw: field.raw }))
    }

    /// The engine, empty where none is set.
    pub fn engine(&self) -> &'a [u8] {
        self.last_string(op::ENGINE).unwrap_or_default()
    }

    /// The last value of a string field, `None` where it is not set.
    pub fn last_string(&self, number: u32) -> Option<&'a [u8]> {
        self.fields()
            .filter(|field| field.number == number)
            .filter_map(|field| payload(&field))
            .last()
    }

    /// The device option; `None` where it is not set.
    pub fn device(&self) -> Option<Cow<'a, [u8]>> {
        if !self.has_more {
            return None;
        }
        merged(self.fields().filter(|field| field.number == op::DEVICE_OPTION))
    }
}

/// Messages that stand several times under one number count as one, the concatenation.
fn merged<'a>(messages: impl Iterator<Item = Field<'a>>) -> Option<Cow<'a, [u8]>> {
    let mut pieces = messages.filter_map(|field| payload(&field));
    let mut whole = Cow::Borrowed(pieces.next()?);
    for piece in pieces {
        whole.to_mut().extend_from_slice(piece);
    }
    Some(whole)
}

/// An `Argument`.
#[derive(Clone, Copy)]
pub struct ArgRef<'a> {
    /// The serialized message.
    pub bytes: &'a [u8],
    /// The field of the operator that holds it, tag included.
    pub raw: &'a [u8],
}

impl<'a> ArgRef<'a> {
    fn fields(&self) -> impl Iterator<Item = Result<Field<'a>>> {
        fields(self.bytes)
    }

    /// Fails where the bytes are no argument; the other readers pass over what is malformed.
    pub fn check(&self) -> Result<()> {
        self.checked_name().map(drop)
    }

    /// The argument's name, as [`ArgRef::name`] gives it; fails where the bytes are no argument.
    pub fn checked_name(&self) -> Result<&'a [u8]> {
        let (name, well_formed) = last_payload(self.bytes, arg::NAME);
        well_formed.map(|()| name.unwrap_or_default())
    }

    fn well_formed(&self) -> impl Iterator<Item = Field<'a>> {
        self.fields().filter_map(Result::ok)
    }

    /// The argument's name, empty where none is set.
    pub fn name(&self) -> &'a [u8] {
        last_payload(self.bytes, arg::NAME).0.unwrap_or_default()
    }

    /// The field `i`, `None` where it is not set.
    pub fn i(&self) -> Option<i64> {
        let last = self.well_formed().filter(|field| field.number == arg::I);
        last.filter_map(|field| match field.value {
            Value::Varint(value) => Some(value as i64),
            _ => None,
        })
        .last()
    }

    /// The field `f`, `None` where it is not set.
    pub fn f(&self) -> Option<f32> {
        let last = self.well_formed().filter(|field| field.number == arg::F);
        last.filter_map(|field| match field.value {
            Value::Fixed32(value) => Some(f32::from_le_bytes(value)),
            _ => None,
        })
        .last()
    }

    /// The field `s`, `None` where it is not set.
    pub fn s(&self) -> Option<&'a [u8]> {
        let last = self.well_formed().filter(|field| field.number == arg::S);
        last.filter_map(|field| payload(&field)).last()
    }

    /// The field `ints`, packed or not.
    pub fn ints(&self) -> Result<SmallVec<[i64; 8]>> {
        let mut ints = SmallVec::new();
        for field in self.well_formed().filter(|field| field.number == arg::INTS) {
            match field.value {
                Value::Varint(value) => ints.push(value as i64),
                Value::Bytes(packed) => {
                    for value in packed_varints(packed) {
                        ints.push(value? as i64);
                    }
                }
                _ => {}
            }
        }
        Ok(ints)
    }

    /// The field `strings`.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> {
        self.well_formed()
            .filter(|field| field.number == arg::STRINGS)
            .filter_map(|field| payload(&field))
    }

    /// The nested net; `None` where it is not set.
    pub fn net(&self) -> Option<Cow<'a, [u8]>> {
        merged(self.well_formed().filter(|field| field.number == arg::N))
    }
}

/// A `DeviceOption`, as far as sums of gradients look at it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device<'a> {
    /// Kind of device; 0 is the CPU.
    pub kind: i64,
    /// Number of the device.
    pub id: i64,
    /// The NUMA node, where one is set.
    pub numa_node: Option<i64>,
    /// The name of the node.
    pub node_name: &'a [u8],
    /// The extra information, in order.
    pub extra_info: Vec<&'a [u8]>,
}

impl<'a> Device<'a> {
    /// Reads a serialized device option.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut device = Self::default();
        for field in fields(bytes) {
            let field = field.map_err(|_| Error::malformed("a device option is broken"))?;
            match (field.number, field.value) {
                (device::DEVICE_TYPE, Value::Varint(value)) => {
                    device.kind = i64::from(value as i32);
                }
                (device::DEVICE_ID, Value::Varint(value)) => device.id = i64::from(value as i32),
                (device::NUMA_NODE_ID, Value::Varint(value)) => {
                    device.numa_node = Some(i64::from(value as i32));
                }
                (device::NODE_NAME, Value::Bytes(name)) => device.node_name = name,
                (device::EXTRA_INFO, Value::Bytes(text)) => device.extra_info.push(text),
                _ => {}
            }
        }
        Ok(device)
    }
}
