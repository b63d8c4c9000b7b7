//! Rows of the maker table and the functions that they are written with; see [`super::words`].

use super::answer::{Answer, Question};
use super::schema::{Count, Pairs, Schema, Together, MANY};
use super::words::{Arg, GradientSlot, Guard, Local, Part, Read, Slot};
use crate::error::Result;

/// A maker that fits no other recipe.
pub type Rule = fn(&Question, &mut Answer) -> Result<()>;

/// What the gradient of one operator type is.
#[derive(Debug)]
pub struct Row {
    /// The operator type.
    pub name: &'static str,
    /// How its gradient is made.
    pub recipe: Recipe,
    /// What the forward operator must look like; `None` where nobody knows.
    pub schema: Option<Schema>,
    /// The type of the gradient operators that name none.
    pub gradient: &'static str,
    /// The arguments that guards ask for.
    pub reads: &'static [Read],
    /// The helper blob.
    pub local: Option<Local>,
    /// Whether the forward arguments are copied.
    pub copy_args: bool,
    /// Whether two arguments of one name that differ are refused.
    pub distinct_args: bool,
}

/// How a gradient is made.
#[derive(Debug)]
pub enum Recipe {
    /// Always in the same way.
    One(Case),
    /// In the way of the first case that holds.
    Pick(&'static [Case]),
    /// By a function.
    Rule(Rule),
}

/// One way to make a gradient.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// When it holds.
    pub when: &'static [Guard],
    /// What is made.
    pub makes: Makes,
    /// What an input gets that does not follow from the `GI` that are written.
    pub gives: Option<(u32, GradientSlot)>,
}

/// What a case makes.
#[derive(Clone, Copy, Debug)]
pub enum Makes {
    /// No operator.
    Nothing,
    /// No operator; every input gets the gradient of output 0 itself.
    HandsOn,
    /// One operator.
    One(Step),
    /// Several operators.
    Several(&'static [Step]),
    /// An error: what is wrong, and what to do about it.
    Refuses(&'static str, &'static str),
}

/// One gradient operator.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its type; `None` for the one that the row names.
    pub op_type: Option<&'static str>,
    /// What it reads.
    pub reads: Line,
    /// What it writes.
    pub writes: Line,
    /// The arguments that it has of its own.
    pub args: &'static [Arg],
}

/// What an operator reads or writes.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// Always the same slots.
    Slots(&'static [Slot]),
    /// Loops.
    Parts(&'static [Part]),
}

type Slots = &'static [Slot];
type Parts = &'static [Part];

pub(super) const fn one(
    name: &'static str,
    gradient: &'static str,
    reads: Slots,
    writes: Slots,
) -> Row {
    Row::new(name, gradient, Recipe::One(case(&[], reads, writes)))
}

pub(super) const fn several(name: &'static str, steps: &'static [Step]) -> Row {
    Row::new(name, "", Recipe::One(steps_when(&[], steps)))
}

pub(super) const fn pick(
    name: &'static str,
    gradient: &'static str,
    cases: &'static [Case],
) -> Row {
    Row::new(name, gradient, Recipe::Pick(cases))
}

pub(super) const fn list(
    name: &'static str,
    gradient: &'static str,
    reads: Parts,
    writes: Parts,
) -> Row {
    Row::new(name, gradient, Recipe::One(loops(&[], reads, writes)))
}

pub(super) const fn hands_on(name: &'static str) -> Row {
    Row::new(name, "", Recipe::One(hand_on(&[]))).inputs(1, 1).outputs(1, 1)
}

pub(super) const fn rule(name: &'static str, function: Rule) -> Row {
    Row::new(name, "", Recipe::Rule(function)).inputs(1, 1).outputs(1, 1)
}

/// A type without gradient, with so many inputs and outputs.
pub(super) const fn silent(name: &'static str, inputs: u32, outputs: u32) -> Row {
    Row::new(name, "", Recipe::One(Case::new(&[], Makes::Nothing)))
        .inputs(inputs, inputs)
        .outputs(outputs, outputs)
}

pub(super) const fn step(op_type: &'static str, reads: Slots, writes: Slots) -> Step {
    Step {
        op_type: Some(op_type),
        reads: Line::Slots(reads),
        writes: Line::Slots(writes),
        args: &[],
    }
}

/// One operator of the type that the row names.
pub(super) const fn case(when: &'static [Guard], reads: Slots, writes: Slots) -> Case {
    let (reads, writes) = (Line::Slots(reads), Line::Slots(writes));
    Case::new(when, Makes::One(Step { op_type: None, reads, writes, args: &[] }))
}

/// Several operators.
pub(super) const fn steps_when(when: &'static [Guard], steps: &'static [Step]) -> Case {
    Case::new(when, Makes::Several(steps))
}

/// One operator with loops.
pub(super) const fn loops(when: &'static [Guard], reads: Parts, writes: Parts) -> Case {
    let (reads, writes) = (Line::Parts(reads), Line::Parts(writes));
    Case::new(when, Makes::One(Step { op_type: None, reads, writes, args: &[] }))
}

/// No operator; every input gets the gradient of output 0 itself.
pub(super) const fn hand_on(when: &'static [Guard]) -> Case {
    Case::new(when, Makes::HandsOn)
}

/// No operator.
pub(super) const fn nothing(when: &'static [Guard]) -> Case {
    Case::new(when, Makes::Nothing)
}

/// An error.
pub(super) const fn refuse(when: &'static [Guard], what: &'static str, hint: &'static str) -> Case {
    Case::new(when, Makes::Refuses(what, hint))
}

impl Step {
    pub(super) const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }
}

impl Case {
    const fn new(when: &'static [Guard], makes: Makes) -> Self {
        Self { when, makes, gives: None }
    }

    /// The step, where there is just one; anything else does not compile.
    const fn step(&self) -> Step {
        match self.makes {
            Makes::One(step) => step,
            _ => panic!("this is no case of one operator"),
        }
    }

    pub(super) const fn args(mut self, args: &'static [Arg]) -> Self {
        self.makes = Makes::One(self.step().args(args));
        self
    }

    /// One operator of another type than the row names.
    pub(super) const fn op_type(mut self, op_type: &'static str) -> Self {
        self.makes = Makes::One(Step { op_type: Some(op_type), ..self.step() });
        self
    }

    pub(super) const fn gives(mut self, input: u32, gradient: GradientSlot) -> Self {
        self.gives = Some((input, gradient));
        self
    }
}

impl Row {
    const fn new(name: &'static str, gradient: &'static str, recipe: Recipe) -> Self {
        let schema = Some(super::counts::of(&recipe));
        let (local, reads) = (None, &[] as &[Read]);
        Self { name, recipe, schema, gradient, reads, local, copy_args: true, distinct_args: false }
    }

    /// The case, where there is just one; anything else does not compile.
    const fn case(&self) -> Case {
        match self.recipe {
            Recipe::One(case) => case,
            _ => panic!("this row picks one of several cases"),
        }
    }

    pub(super) const fn args(mut self, args: &'static [Arg]) -> Self {
        self.recipe = Recipe::One(self.case().args(args));
        self
    }

    pub(super) const fn gives(mut self, input: u32, gradient: GradientSlot) -> Self {
        self.recipe = Recipe::One(self.case().gives(input, gradient));
        self
    }

    pub(super) const fn bare(mut self) -> Self {
        self.copy_args = false;
        self
    }

    pub(super) const fn distinct_args(mut self) -> Self {
        self.distinct_args = true;
        self
    }

    pub(super) const fn reading(mut self, reads: &'static [Read]) -> Self {
        self.reads = reads;
        self
    }

    pub(super) const fn local(
        mut self,
        prefix: &'static str,
        base: Slot,
        suffix: &'static str,
    ) -> Self {
        self.local = Some(Local { prefix, base, suffix });
        self
    }

    const fn with(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    const fn known(&self) -> Schema {
        match self.schema {
            Some(schema) => schema,
            None => Schema::of(Count::Between(0, MANY), Count::Between(0, MANY)),
        }
    }

    /// Nobody knows the schema.
    pub(super) const fn unchecked(mut self) -> Self {
        self.schema = None;
        self
    }

    pub(super) const fn inputs(self, least: u32, most: u32) -> Self {
        self.input_count(Count::Between(least, most))
    }

    pub(super) const fn outputs(self, least: u32, most: u32) -> Self {
        self.output_count(Count::Between(least, most))
    }

    pub(super) const fn input_count(self, inputs: Count) -> Self {
        let schema = Schema { inputs, ..self.known() };
        self.with(schema)
    }

    pub(super) const fn output_count(self, outputs: Count) -> Self {
        let schema = Schema { outputs, ..self.known() };
        self.with(schema)
    }

    pub(super) const fn together(self, together: Together) -> Self {
        let schema = Schema { together, ..self.known() };
        self.with(schema)
    }

    pub(super) const fn required(self, argument: &'static str) -> Self {
        let schema = Schema { required: Some(argument), ..self.known() };
        self.with(schema)
    }

    pub(super) const fn in_place(self) -> Self {
        self.may_share(Pairs::These(&[(0, 0)]))
    }

    pub(super) const fn in_place_anywhere(self) -> Self {
        self.may_share(Pairs::All)
    }

    pub(super) const fn may_share(self, may_share: Pairs) -> Self {
        let schema = Schema { may_share, ..self.known() };
        self.with(schema)
    }

    pub(super) const fn must_share(self, must_share: Pairs) -> Self {
        let schema = Schema { must_share, ..self.known() };
        self.with(schema)
    }
}
