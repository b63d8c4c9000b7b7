//! The words that the maker table is written in.
//!
//! A row says what the gradient of one operator type is. `one` is the plainest form:
//!
//! ```text
//! one("FC", "FCGradient", &[I(0), I(1), GO(0)], &[GI(1), GI(2), GI(0)]),
//! ```
//!
//! The gradient of an FC is one operator, an `FCGradient`, that reads both inputs and the gradient of the
//! output, and writes the gradients of the three inputs. What the inputs get follows from the `GI` that
//! are written; `.gives(0, Sparse(I(1), GiValues(0)))` says so where they get something else.
//!
//! | form | for |
//! | --- | --- |
//! | `one(type, gradient type, reads, writes)` | one operator, always the same |
//! | `several(type, steps)` | several operators, always the same |
//! | `pick(type, gradient type, cases)` | the first `case` whose [`Guard`]s all hold |
//! | `list(type, gradient type, reads, writes)` | loops over inputs and outputs, see [`Part`] |
//! | `hands_on(type)` | no operator: every input gets the gradient of output 0 itself |
//! | `rule(type, function)` | whatever else; the function stands below the table |
//!
//! The forward operator's arguments are copied to every gradient operator, behind its own ([`Arg`]),
//! unless the row is `.bare()`. `.distinct_args()` refuses two arguments of one name that differ,
//! `.reading(&[..])` names the arguments that guards ask for ([`Read`]).
//!
//! The schema of the forward operator is checked first. Its counts are those that the slots of the row
//! speak of, unless `.inputs(least, most)`, `.outputs(least, most)` and the like say otherwise;
//! `.in_place()` allows input 0 to be output 0.

pub use super::answer::{Answer, PlannedOp, Question};

/// A blob that a gradient operator reads or writes, seen from the forward operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Input k of the forward operator.
    I(u32),
    /// Output k of the forward operator.
    O(u32),
    /// The gradient of output k, which must be dense.
    GO(u32),
    /// The indices of the gradient of output k, which must be sparse.
    GoIndices(u32),
    /// The values of the gradient of output k, which must be sparse.
    GoValues(u32),
    /// The gradient of input k: its name with `_grad` behind it.
    GI(u32),
    /// The indices of a sparse gradient of input k.
    GiIndices(u32),
    /// The values of a sparse gradient of input k.
    GiValues(u32),
    /// Input k, read for its shape alone: it may have been overwritten by the operator itself.
    Shape(u32),
    /// A helper blob, an index into [`Answer::locals`].
    Local(u32),
}

impl Slot {
    /// The same slot, so many places further on.
    pub(super) fn plus(self, places: u32) -> Slot {
        match self {
            Slot::I(k) => Slot::I(k + places),
            Slot::O(k) => Slot::O(k + places),
            Slot::GO(k) => Slot::GO(k + places),
            Slot::GoIndices(k) => Slot::GoIndices(k + places),
            Slot::GoValues(k) => Slot::GoValues(k + places),
            Slot::GI(k) => Slot::GI(k + places),
            Slot::GiIndices(k) => Slot::GiIndices(k + places),
            Slot::GiValues(k) => Slot::GiValues(k + places),
            Slot::Shape(k) => Slot::Shape(k + places),
            Slot::Local(k) => Slot::Local(k + places),
        }
    }
}

/// A helper blob: its name is that of `base` between two texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Local {
    /// In front of the name.
    pub prefix: &'static str,
    /// The blob whose name it is made from.
    pub base: Slot,
    /// Behind the name.
    pub suffix: &'static str,
}

/// What an input gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GradientSlot {
    /// No gradient.
    None,
    /// A dense gradient; `Dense(GO(0))` hands on the output's own.
    Dense(Slot),
    /// A sparse gradient: indices and values.
    Sparse(Slot, Slot),
}

/// What kind of gradient an output has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// There is none.
    None,
    /// One blob.
    Dense,
    /// Indices and values.
    Sparse,
}

/// A piece of what an operator of a `list` reads or writes.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// One slot.
    Once(Slot),
    /// The slots once for each whole group of so many inputs: `Each(4, &[I(0), I(2)])` is
    /// I(0), I(2), I(4), I(6), ...
    Each(u32, &'static [Slot]),
    /// The slot once for each output.
    EachOutput(Slot),
}

/// What a case asks. A case without guards always holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// There are just so many inputs.
    Inputs(u32),
    /// There are so many inputs or more.
    InputsFrom(u32),
    /// There are just so many outputs.
    Outputs(u32),
    /// There are so many outputs or more.
    OutputsFrom(u32),
    /// The argument is not 0.
    Set(&'static str),
    /// The argument is 0.
    Unset(&'static str),
    /// The argument is larger than this.
    Above(&'static str, i64),
    /// The argument is there.
    Given(&'static str),
    /// The output has no gradient.
    NoGradient(u32),
    /// The output has a dense gradient.
    DenseGradient(u32),
    /// The gradient of the output is nobody else's: it may be overwritten.
    Spare(u32),
    /// The input carries the name of the output.
    InPlace(u32, u32),
}

/// An argument that guards ask for. Of several with one name the first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// A yes or no, and what it is where it is missing; must have the field `i`.
    Flag(&'static str, bool),
    /// An integer of 32 bits, and what it is where it is missing; must have the field `i`.
    Int(&'static str, i64),
    /// The field `i` whatever it is, 0 where there is none.
    Raw(&'static str),
}

impl Read {
    /// The name of the argument.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Read::Flag(name, _) | Read::Int(name, _) | Read::Raw(name) => name,
        }
    }
}

/// An argument that a gradient operator has of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// An integer.
    Int(&'static str, i64),
    /// A float.
    Float(&'static str, f32),
    /// The integer of a forward argument, and what it is where that is missing.
    IntOf(&'static str, &'static str, i64),
    /// The float of a forward argument, and what it is where that is missing.
    FloatOf(&'static str, &'static str, f32),
    /// All forward arguments, in this place.
    All,
}
