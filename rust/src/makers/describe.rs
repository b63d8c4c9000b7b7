//! Rows as text.

use std::fmt::Write;

use super::row::{Case, Line, Makes, Recipe, Row, Step};
use super::words::{Arg, GradientSlot, Guard, Local, Part, Slot};

/// A row, one line a case.
pub(super) fn describe(row: &Row) -> String {
    let mut text = heading(row);
    match &row.recipe {
        Recipe::One(case) => describe_case(row, case, &mut text),
        Recipe::Pick(cases) => cases.iter().for_each(|case| describe_case(row, case, &mut text)),
        Recipe::Rule(_) => text.push_str("  made by a function of its own\n"),
    }
    text
}

/// The operator type with its numbers of inputs and outputs, one line.
pub(super) fn heading(row: &Row) -> String {
    match &row.schema {
        Some(schema) => {
            format!("{} (inputs: {}, outputs: {})\n", row.name, schema.inputs, schema.outputs)
        }
        None => format!("{} (schema unknown)\n", row.name),
    }
}

fn describe_case(row: &Row, case: &Case, text: &mut String) {
    let guards: Vec<_> = case.when.iter().map(guard).collect();
    let when = if guards.is_empty() { String::new() } else { format!("{}: ", guards.join(", ")) };
    let what = match &case.makes {
        Makes::Nothing => "no operator".to_string(),
        Makes::HandsOn => "no operator, every input gets GO(0)".to_string(),
        Makes::One(step) => describe_step(row, step),
        Makes::Several(steps) => {
            steps.iter().map(|step| describe_step(row, step)).collect::<Vec<_>>().join("; ")
        }
        Makes::Refuses(what, _) => format!("error: {what}"),
    };
    let gives = match case.gives {
        Some((input, GradientSlot::Sparse(indices, values))) => {
            format!("; input {input} gets ({}, {})", slot(row, indices), slot(row, values))
        }
        Some((input, GradientSlot::Dense(dense))) => {
            format!("; input {input} gets {}", slot(row, dense))
        }
        Some((_, GradientSlot::None)) | None => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {when}{what}{gives}");
}

fn describe_step(row: &Row, step: &Step) -> String {
    let op_type = step.op_type.unwrap_or(row.gradient);
    let args: Vec<_> = step.args.iter().map(argument).collect();
    let (reads, writes) = (line(row, step.reads), line(row, step.writes));
    let with = if args.is_empty() { String::new() } else { format!(" with {}", args.join(", ")) };
    format!("{op_type}({reads}) -> {writes}{with}")
}

fn line(row: &Row, line: Line) -> String {
    let texts: Vec<_> = match line {
        Line::Slots(slots) => slots.iter().map(|&one| slot(row, one)).collect(),
        Line::Parts(parts) => parts.iter().map(|part| describe_part(row, part)).collect(),
    };
    texts.join(", ")
}

fn describe_part(row: &Row, part: &Part) -> String {
    match part {
        Part::Once(one) => slot(row, *one),
        Part::EachOutput(one) => format!("each output: {}", slot(row, *one)),
        Part::Each(group, slots) => {
            let texts: Vec<_> = slots.iter().map(|&one| slot(row, one)).collect();
            format!("each {group} inputs: {}", texts.join(", "))
        }
    }
}

fn slot(row: &Row, slot: Slot) -> String {
    match (slot, row.local) {
        (Slot::Local(_), Some(Local { prefix, base, suffix })) => {
            format!("'{prefix}' {base:?} '{suffix}'")
        }
        _ => format!("{slot:?}"),
    }
}

fn argument(argument: &Arg) -> String {
    match argument {
        Arg::Int(name, value) => format!("{name} = {value}"),
        Arg::Float(name, value) => format!("{name} = {value:?}"),
        Arg::IntOf(name, from, _) | Arg::FloatOf(name, from, _) => format!("{name} = its {from}"),
        Arg::All => "its arguments".to_string(),
    }
}

fn guard(guard: &Guard) -> String {
    match guard {
        Guard::Inputs(n) => format!("inputs = {n}"),
        Guard::InputsFrom(n) => format!("inputs >= {n}"),
        Guard::Outputs(n) => format!("outputs = {n}"),
        Guard::OutputsFrom(n) => format!("outputs >= {n}"),
        Guard::Set(name) => (*name).to_string(),
        Guard::Unset(name) => format!("not {name}"),
        Guard::Above(name, limit) => format!("{name} > {limit}"),
        Guard::Given(name) => format!("{name} given"),
        Guard::NoGradient(k) => format!("no GO({k})"),
        Guard::DenseGradient(k) => format!("dense GO({k})"),
        Guard::Spare(k) => format!("spare GO({k})"),
        Guard::InPlace(i, o) => format!("I({i}) is O({o})"),
    }
}
