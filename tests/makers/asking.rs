//! Operators to ask about, and answers as text.

use _core::blobs::BlobTable;
use _core::error::{Error, Result};
use _core::makers::words::{Answer, Form, GradientSlot, Local, PlannedOp, Question, Slot};
use _core::message::{arg, op, ArgRef, OpRef};
use _core::wire::{fields, Value, Writer};
use bumpalo::Bump;

/// A forward operator with the gradients of its outputs. Inputs are i0, i1, ...; outputs o0, o1, ...
#[derive(Clone)]
pub struct Op {
    kind: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    args: Vec<Vec<u8>>,
    forms: Vec<Form>,
}

impl Op {
    /// All output gradients are dense.
    pub fn new(op_type: &str, inputs: usize, outputs: usize) -> Self {
        let names = |letter, count| (0..count).map(|k| format!("{letter}{k}")).collect();
        Self {
            kind: op_type.to_string(),
            inputs: names('i', inputs),
            outputs: names('o', outputs),
            args: Vec::new(),
            forms: vec![Form::Dense; outputs],
        }
    }

    pub fn arg(&self, argument: Vec<u8>) -> Self {
        let mut op = self.clone();
        op.args.push(argument);
        op
    }

    pub fn forms(&self, forms: &[Form]) -> Self {
        Self { forms: forms.to_vec(), ..self.clone() }
    }

    pub fn rename_output(&self, output: usize, name: &str) -> Self {
        let mut op = self.clone();
        op.outputs[output] = name.to_string();
        op
    }

    pub fn ask(&self) -> Result<String> {
        self.ask_into(&mut Answer::default())
    }

    pub fn ask_into(&self, answer: &mut Answer) -> Result<String> {
        let mut writer = Writer::default();
        for argument in self.args.iter().rev() {
            writer.bytes_field(op::ARG, argument);
        }
        writer.bytes_field(op::TYPE, self.kind.as_bytes());
        for name in self.outputs.iter().rev() {
            writer.bytes_field(op::OUTPUT, name.as_bytes());
        }
        for name in self.inputs.iter().rev() {
            writer.bytes_field(op::INPUT, name.as_bytes());
        }
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 8);
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let op = OpRef::read(writer.written(), |name, is_output| {
            let id = table.intern(name);
            if is_output { &mut outputs } else { &mut inputs }.push(id);
        })?;
        let question = Question {
            op: &op,
            inputs: &inputs,
            outputs: &outputs,
            g_output: &self.forms,
            spare: &[],
        };
        let choice = _core::makers::choose(op.op_type, &question)?;
        _core::makers::answer(choice, &question, answer)?;
        Ok(shown(answer))
    }
}

/// The answer to a question that has one.
pub fn answer_of(op: &Op) -> String {
    op.ask().unwrap_or_else(|error: Error| panic!("{error:?}"))
}

pub fn int(name: &str, value: i64) -> Vec<u8> {
    argument(name, |writer| writer.varint_field(arg::I, value as u64))
}

pub fn float(name: &str, value: f32) -> Vec<u8> {
    argument(name, |writer| writer.fixed32_field(arg::F, value.to_le_bytes()))
}

pub fn text(name: &str, value: &str) -> Vec<u8> {
    argument(name, |writer| writer.bytes_field(arg::S, value.as_bytes()))
}

pub fn ints(name: &str, values: &[i64]) -> Vec<u8> {
    argument(name, |writer| {
        for value in values.iter().rev() {
            writer.varint_field(arg::INTS, *value as u64);
        }
    })
}

fn argument(name: &str, value: impl Fn(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    value(&mut writer);
    writer.bytes_field(arg::NAME, name.as_bytes());
    writer.written().to_vec()
}

fn shown(answer: &Answer) -> String {
    let ops: Vec<_> = answer.ops.iter().map(|op| shown_op(answer, op)).collect();
    let gradients: Vec<_> = answer
        .g_input
        .iter()
        .map(|gradient| match *gradient {
            GradientSlot::None => "-".to_string(),
            GradientSlot::Dense(slot) => shown_slot(answer, slot),
            GradientSlot::Sparse(indices, values) => {
                format!("({}, {})", shown_slot(answer, indices), shown_slot(answer, values))
            }
        })
        .collect();
    format!("{} | {}", ops.join("; "), gradients.join(" "))
}

fn shown_op(answer: &Answer, op: &PlannedOp) -> String {
    let slots = |range: &std::ops::Range<u32>| {
        let slots = &answer.slots[range.start as usize..range.end as usize];
        slots.iter().map(|slot| shown_slot(answer, *slot)).collect::<Vec<_>>().join(", ")
    };
    let bare = if op.copy_args { "" } else { " bare" };
    let args: Vec<_> = fields(&answer.args[op.args.start as usize..op.args.end as usize])
        .map(|field| {
            let field = field.expect("well-formed");
            let Value::Bytes(bytes) = field.value else { panic!("an argument") };
            shown_argument(ArgRef { bytes, raw: field.raw })
        })
        .collect();
    let args = if args.is_empty() { String::new() } else { format!(" {{{}}}", args.join(", ")) };
    format!("{}({}) -> {}{bare}{args}", op.op_type, slots(&op.inputs), slots(&op.outputs))
}

fn shown_slot(answer: &Answer, slot: Slot) -> String {
    match slot {
        Slot::Local(k) => {
            let Local { prefix, base, suffix } = answer.locals[k as usize];
            format!("'{prefix}{base:?}{suffix}'")
        }
        _ => format!("{slot:?}"),
    }
}

fn shown_argument(argument: ArgRef) -> String {
    let name = String::from_utf8_lossy(argument.name()).into_owned();
    match (argument.i(), argument.f(), argument.s()) {
        (Some(i), _, _) => format!("{name}: {i}"),
        (_, Some(f), _) => format!("{name}: {f:?}"),
        (_, _, Some(s)) => format!("{name}: {}", String::from_utf8_lossy(s)),
        _ => format!("{name}: {:?}", argument.ints().expect("integers")),
    }
}
