//! Writes an answer out, from its last byte to its first.

use smallvec::SmallVec;

use crate::blobs::BlobTable;
use crate::gradient::{Body, Control, ControlArg, GradientNet, GradientOp, NetHead, Ref};
use crate::message::{arg, net, op, OpRef};
use crate::rename::{paste_renamed, Renamed};
use crate::values::Values;
use crate::wire::{fields, Value, Writer};

/// Fields of an operator, by number.
type Pasted<'a> = SmallVec<[(u32, &'a [u8]); 8]>;

/// Fields that go over as they are. One of another wire type than the schema's is unknown too.
type Unknown<'a> = SmallVec<[&'a [u8]; 4]>;

/// Fields of so many bytes are lent, if they can be, rather than written.
pub const LENT_FROM: usize = 1 << 12;

/// Writes gradient operators.
pub struct Emitter<'e, 'a> {
    /// Holds what has been written.
    pub writer: Writer,
    values: &'e mut Values,
    table: &'e mut BlobTable<'a>,
    /// The forward net, if large fields of it need not be written.
    lender: &'a [u8],
    /// The forward operator that was pasted from last, from which number on, and what of it.
    pasted: (&'a [u8], u32, Pasted<'a>),
}

impl<'e, 'a> Emitter<'e, 'a> {
    /// An emitter that puts its answer in front of what `writer` holds.
    pub fn new(writer: Writer, values: &'e mut Values, table: &'e mut BlobTable<'a>) -> Self {
        Self { writer, values, table, lender: &[], pasted: (&[], 0, SmallVec::new()) }
    }

    /// The same, but large fields that come from `net` are lent.
    #[must_use]
    pub fn lending(self, net: &'a [u8]) -> Self {
        Self { lender: net, ..self }
    }

    /// Writes the operators as the `op` fields of a net.
    pub fn net_ops(&mut self, net: &GradientNet<'a>) {
        for op in net.ops.iter().rev() {
            let position = self.writer.position();
            self.op(net, op);
            self.writer.close(net::OP, position);
        }
    }

    /// Writes one operator, without a field around it.
    pub fn op(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>) {
        match &op.body {
            Body::Maker { forward, own, copy_args } => {
                self.writer.varint_field(op::IS_GRADIENT_OP, 1);
                let first = if *copy_args { op::ARG } else { op::DEVICE_OPTION };
                self.paste(forward, first..=op::ENGINE);
                self.writer.bytes(&net.args[own.start as usize..own.end as usize]);
                self.head(net, op, Some((b"", "")));
            }
            Body::Plain { named, args, device } => {
                if let Some(device) = device {
                    self.writer.bytes_field(op::DEVICE_OPTION, device);
                }
                self.writer.bytes(&net.args[args.start as usize..args.end as usize]);
                self.head(net, op, named.then_some((b"", "")));
            }
            Body::Given { op: given } => self.given(net, op, given),
            Body::Control(control) => self.control(net, op, control),
        }
    }

    fn blob(&mut self, number: u32, of: Ref) {
        let id = self.values.name_of(of, self.table);
        self.writer.pieces_field(number, self.table.pieces(id));
    }

    fn name(&mut self, of: Ref) -> &'a [u8] {
        let id = self.values.name_of(of, self.table);
        self.table.name(id)
    }

    /// Type, name in two pieces, outputs and inputs.
    fn head(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>, name: Option<(&[u8], &str)>) {
        self.writer.bytes_field(op::TYPE, op.op_type);
        match name {
            None => {}
            // Most operators have no name, but a field for it.
            Some((b"", _)) => self.writer.bytes_field(op::NAME, b""),
            Some(name) => self.lengthened_field(op::NAME, name),
        }
        self.blobs(net, op);
    }

    // Not inlined, so that what is written thousands of times is: the names of blobs.
    #[inline(never)]
    fn lengthened_field(&mut self, number: u32, (name, suffix): (&[u8], &str)) {
        let position = self.writer.position();
        self.writer.bytes(suffix.as_bytes());
        self.writer.bytes(name);
        self.writer.close(number, position);
    }

    fn blobs(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>) {
        for (number, blobs) in [(op::OUTPUT, net.writes(op)), (op::INPUT, net.inputs(op))] {
            for blob in blobs.iter().rev() {
                self.blob(number, *blob);
            }
        }
    }

    /// Pastes messages and strings of a forward operator, in the order of their numbers.
    fn paste(&mut self, forward: &'a [u8], numbers: std::ops::RangeInclusive<u32>) {
        if forward.is_empty() {
            return;
        }
        let first = *numbers.start();
        let (bytes, from, found) = &mut self.pasted;
        // A wide operator may have as many gradient operators as outputs: it is read once.
        if !std::ptr::eq(*bytes, forward) || *from != first {
            found.clear();
            found.extend(fields(forward).filter_map(Result::ok).filter_map(|field| {
                let is_meant =
                    numbers.contains(&field.number) && matches!(field.value, Value::Bytes(_));
                is_meant.then_some((field.number, field.raw))
            }));
            found.sort_by_key(|(number, _)| *number);
            (*bytes, *from) = (forward, first);
        }
        for (_, raw) in found.iter().rev() {
            match place_in(self.lender, raw) {
                Some(range) if raw.len() >= LENT_FROM => self.writer.lend(range),
                _ => self.writer.bytes(raw),
            }
        }
    }

    /// A registered function's operator: the names of its blobs are ours, the rest is pasted.
    fn given(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>, given: &OpRef<'a>) {
        let mut renamed = Renamed::default();
        for output in net.outputs(op) {
            let before = self.table.name(self.values.nominal(output));
            let name = self.name(Ref::Value(output));
            if name != before {
                renamed.insert(before, name);
            }
        }
        let rest: Vec<_> = given
            .fields()
            .filter(|field| field.number != op::INPUT && field.number != op::OUTPUT)
            .collect();
        for field in rest.iter().rev() {
            if field.number == op::ARG && !renamed.is_empty() {
                paste_renamed(&mut self.writer, field, &renamed);
            } else {
                self.writer.bytes(field.raw);
            }
        }
        self.blobs(net, op);
    }

    fn control(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>, control: &Control<'a>) {
        let (mut name, mut pasted, mut rest) = (None, Pasted::new(), Unknown::new());
        for field in control.forward.fields() {
            match (field.number, field.value) {
                (op::NAME, Value::Bytes(found)) => name = Some(found),
                (op::DEVICE_OPTION | op::ENGINE, Value::Bytes(_)) => {
                    pasted.push((field.number, field.raw));
                }
                (op::INPUT..=op::CONTROL_INPUT, Value::Bytes(_))
                | (op::IS_GRADIENT_OP, Value::Varint(_)) => {}
                _ => rest.push(field.raw),
            }
        }
        pasted.sort_by_key(|(number, _)| *number);
        for raw in rest.into_iter().rev() {
            self.writer.bytes(raw);
        }
        self.writer.varint_field(op::IS_GRADIENT_OP, 1);
        for (_, raw) in pasted.into_iter().rev() {
            self.writer.bytes(raw);
        }
        for argument in control.args.iter().rev() {
            self.control_arg(net, argument);
        }
        self.head(net, op, name.map(|name| lengthened(name, "_grad")));
    }

    fn control_arg(&mut self, outer: &GradientNet<'a>, argument: &ControlArg<'a>) {
        let position = self.writer.position();
        let name = match argument {
            ControlArg::Net(name, inner) => {
                let position = self.writer.position();
                self.net(&inner.head, &inner.net);
                self.writer.close(arg::N, position);
                name
            }
            ControlArg::Names(name, blobs) => {
                for blob in outer.refs[blobs.start as usize..blobs.end as usize].iter().rev() {
                    self.blob(arg::STRINGS, *blob);
                }
                name
            }
            ControlArg::Ints(name, ints) => {
                for int in outer.numbers[ints.start as usize..ints.end as usize].iter().rev() {
                    self.writer.varint_field(arg::INTS, u64::from(*int));
                }
                name
            }
        };
        self.writer.bytes_field(arg::NAME, name.as_bytes());
        self.writer.close(op::ARG, position);
    }

    fn net(&mut self, head: &NetHead<'a>, net: &GradientNet<'a>) {
        stacker::maybe_grow(crate::session::RED_ZONE, crate::session::STACK, || {
            for blob in head.external_inputs.iter().rev() {
                self.blob(net::EXTERNAL_INPUT, *blob);
            }
            let Some(forward) = head.forward else {
                self.net_ops(net);
                self.writer.bytes_field(net::NAME, &head.name);
                return;
            };
            let (mut name, mut rest) = (None, Unknown::new());
            for field in fields(forward.bytes).filter_map(Result::ok) {
                match (field.number, field.value) {
                    (net::NAME, Value::Bytes(found)) => name = Some(found),
                    (net::OP | net::EXTERNAL_INPUT | net::EXTERNAL_OUTPUT, Value::Bytes(_)) => {}
                    _ => rest.push(field.raw),
                }
            }
            for raw in rest.into_iter().rev() {
                self.writer.bytes(raw);
            }
            self.net_ops(net);
            let name = match name {
                name if head.always_named => Some((name.unwrap_or_default(), head.suffix)),
                name => name.map(|name| lengthened(name, head.suffix)),
            };
            if let Some(name) = name {
                self.lengthened_field(net::NAME, name);
            }
        });
    }
}

/// Where a field stands in a text, if it is a piece of it.
fn place_in(text: &[u8], field: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = field.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let end = start.checked_add(field.len())?;
    (end <= text.len()).then_some(start..end)
}

/// An empty name stays empty: the reference lengthens only names that there are.
fn lengthened<'n>(name: &'n [u8], suffix: &'static str) -> (&'n [u8], &'static str) {
    (name, if name.is_empty() { "" } else { suffix })
}
