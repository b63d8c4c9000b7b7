//! What the gradient of each operator type is: the table of gradient makers.
//!
//! The table is data. [`words`] explains how it reads; each family of operators has a file of rows.
//! Nothing here knows blob versions or names; control flow is made elsewhere.

// The words of the table read best without the names of their enums.
#![allow(clippy::enum_glob_use)]

use std::collections::HashMap;
use std::sync::OnceLock;

use foldhash::fast::FixedState;

use crate::error::{Error, Kind, Result};

pub mod in_place;
pub mod row;
pub mod schema;
pub mod words;

mod answer;
mod apply;
mod arguments;
mod counts;
mod describe;

mod activation;
mod arithmetic;
mod conv_pool;
mod copy;
mod distance;
mod feature;
mod index;
mod linear;
mod loss;
mod norm;
mod reduce;
mod rnn;
mod segment;
mod shape;
mod tensor_train;
mod vision;
mod without;

#[cfg(test)]
mod tests;

pub use apply::{Choice, Regular};
pub use row::Row;
use words::{Answer, Question};

/// All rows, by family.
const FAMILIES: [&[Row]; 16] = [
    activation::ROWS,
    arithmetic::ROWS,
    conv_pool::ROWS,
    copy::ROWS,
    distance::ROWS,
    feature::ROWS,
    index::ROWS,
    linear::ROWS,
    loss::ROWS,
    norm::ROWS,
    reduce::ROWS,
    rnn::ROWS,
    segment::ROWS,
    shape::ROWS,
    tensor_train::ROWS,
    vision::ROWS,
];

/// The types whose gradient is made with a walk of its own.
const CONTROL: [&str; 3] = ["Do", "If", "While"];

/// What is known about the gradient of an operator type.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A row of the table.
    Maker(&'static Row),
    /// There is no gradient, and asking is no error.
    Silent,
    /// There is no gradient, and asking is an error.
    Forbidden,
    /// The gradient was never written.
    Unimplemented,
    /// Do, If or While.
    Control,
    /// Nothing is known.
    Unknown,
}

struct Table {
    entries: HashMap<&'static [u8], (Entry, Option<&'static Row>), FixedState>,
    names: Vec<&'static str>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let makers = FAMILIES.iter().copied().flatten();
        let silent = without::SILENT.iter();
        let listed =
            |entry, names: &'static [&str]| names.iter().map(move |&name| (name, (entry, None)));
        let all: Vec<_> = makers
            .map(|row| (row.name, (Entry::Maker(row), Some(row))))
            .chain(silent.map(|row| (row.name, (Entry::Silent, Some(row)))))
            .chain(listed(Entry::Forbidden, without::FORBIDDEN))
            .chain(listed(Entry::Unimplemented, without::UNIMPLEMENTED))
            .chain(listed(Entry::Control, &CONTROL))
            .collect();
        let mut names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let entries = all.into_iter().map(|(name, entry)| (name.as_bytes(), entry)).collect();
        Table { entries, names }
    })
}

/// What is known about an operator type.
#[inline]
pub fn lookup(op_type: &[u8]) -> Entry {
    table().entries.get(op_type).map_or(Entry::Unknown, |(entry, _)| *entry)
}

/// All operator types of which something is known, by name.
pub fn every() -> impl Iterator<Item = (&'static str, Entry)> {
    table().names.iter().map(|&name| (name, lookup(name.as_bytes())))
}

/// Checks an operator, other than Do, If and While, and chooses how its gradient is made.
#[inline]
pub fn choose(op_type: &[u8], question: &Question) -> Result<Choice> {
    match table().entries.get(op_type) {
        Some((_, Some(row))) => apply::choose(row, question),
        Some((entry, None)) => Err(refusal(*entry)),
        None => Err(refusal(Entry::Unknown)),
    }
}

/// The gradient of one operator, as it was chosen.
pub fn answer(choice: Choice, question: &Question, answer: &mut Answer) -> Result<()> {
    answer.clear(question.inputs.len());
    choice.carry_out(question, answer)
}

#[cold]
fn refusal(entry: Entry) -> Error {
    match entry {
        Entry::Forbidden => {
            Error::new(Kind::Forbidden, "operators of this type have no gradient, and need one here")
                .hint("keep the operator off the way to a y, or put a StopGradient behind it")
        }
        Entry::Unimplemented => {
            Error::new(Kind::Unimplemented, "the gradient of this operator type was never written")
                .hint("write it with GradientRegistry.RegisterGradient, or put a StopGradient behind the operator")
        }
        Entry::Unknown => Error::new(Kind::NoMaker, "no gradient is known for this operator type")
            .hint("give one with GradientRegistry.RegisterGradient, or put a StopGradient behind the operator"),
        Entry::Control | Entry::Maker(_) | Entry::Silent => {
            Error::new(Kind::Internal, "the gradient of this operator type is not in the table")
        }
    }
}

/// One word on an operator type: `maker`, `none`, `forbidden`, `unimplemented` or `unknown`.
pub fn has_gradient(op_type: &[u8]) -> &'static str {
    match lookup(op_type) {
        Entry::Maker(_) | Entry::Control => "maker",
        Entry::Silent => "none",
        Entry::Forbidden => "forbidden",
        Entry::Unimplemented => "unimplemented",
        Entry::Unknown => "unknown",
    }
}

/// What is known about an operator type, as a text of a few lines.
pub fn describe(op_type: &[u8]) -> String {
    let name = crate::error::shown_name(op_type);
    match table().entries.get(op_type) {
        Some((Entry::Maker(_), Some(row))) => describe::describe(row),
        Some((Entry::Silent, Some(row))) => {
            format!("{}  silently no gradient\n", describe::heading(row))
        }
        Some((Entry::Forbidden, _)) => format!("{name}\n  asking for a gradient is an error\n"),
        Some((Entry::Unimplemented, _)) => format!("{name}\n  the gradient was never written\n"),
        Some((Entry::Control, _)) => format!("{name}\n  made with a backward pass of its own\n"),
        _ => format!("{name}\n  nothing is known\n"),
    }
}
