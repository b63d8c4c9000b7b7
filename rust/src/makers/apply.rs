//! A row, a forward operator and the gradients of its outputs make an answer.

use super::answer::{Answer, Question};
use super::arguments::Values;
use super::row::{Case, Line, Makes, Recipe, Row, Step};
use super::words::{Form, GradientSlot, Guard, Part, Slot};
use crate::error::{Error, Kind, Result};

/// What a row does about an operator.
#[derive(Clone, Copy)]
pub struct Choice {
    row: &'static Row,
    /// The case; `None` for a function.
    case: Option<&'static Case>,
}

/// Checks an operator and finds the case of a row that holds for it.
pub(super) fn choose(row: &'static Row, q: &Question) -> Result<Choice> {
    if let Some(schema) = &row.schema {
        schema.check(q)?;
    }
    let has_args = q.op.has_more && (row.distinct_args || !row.reads.is_empty());
    let case = match &row.recipe {
        Recipe::One(case) if !has_args => Some(case),
        Recipe::Rule(_) if !has_args => None,
        recipe => {
            let values = Values::read(row.reads, row.distinct_args, q)?;
            match recipe {
                Recipe::One(case) => Some(case),
                Recipe::Pick(cases) => Some(row.first_that_holds(cases, q, &values)?),
                Recipe::Rule(_) => None,
            }
        }
    };
    Ok(Choice { row, case })
}

/// A gradient that is one operator without arguments of its own.
#[derive(Clone, Copy, Debug)]
pub struct Regular {
    /// Its type.
    pub op_type: &'static str,
    /// What it reads.
    pub reads: &'static [Slot],
    /// What it writes.
    pub writes: &'static [Slot],
    /// Whether the arguments of the forward operator go over.
    pub copy_args: bool,
}

impl Choice {
    /// What is made, if it is one operator and the inputs get what it writes. Whether the slots are
    /// there is not checked.
    #[inline]
    pub fn regular(&self) -> Option<Regular> {
        let Case { makes: Makes::One(step), gives: None, .. } = self.case? else { return None };
        let (Line::Slots(reads), Line::Slots(writes), []) = (step.reads, step.writes, step.args)
        else {
            return None;
        };
        let op_type = step.op_type.unwrap_or(self.row.gradient);
        Some(Regular { op_type, reads, writes, copy_args: self.row.copy_args })
    }

    /// Puts down what is made in an empty answer.
    pub(super) fn carry_out(&self, q: &Question, answer: &mut Answer) -> Result<()> {
        match (self.case, &self.row.recipe) {
            (Some(case), _) => self.row.make(case, q, answer),
            (None, Recipe::Rule(function)) => function(q, answer),
            (None, _) => Err(Error::new(Kind::Internal, "a row has no case")),
        }
    }
}

impl Row {
    fn first_that_holds(
        &self,
        cases: &'static [Case],
        q: &Question,
        values: &Values,
    ) -> Result<&'static Case> {
        for case in cases {
            let mut holds = true;
            for guard in case.when {
                holds = holds && self.holds(*guard, q, values)?;
            }
            if holds {
                return Ok(case);
            }
        }
        Err(Error::new(Kind::Refused, "no form of the gradient fits this operator"))
    }

    fn holds(&self, guard: Guard, q: &Question, values: &Values) -> Result<bool> {
        let (inputs, outputs) = (q.inputs.len(), q.outputs.len());
        let value = |name| values.value(self.reads, name);
        Ok(match guard {
            Guard::Inputs(n) => inputs == n as usize,
            Guard::InputsFrom(n) => inputs >= n as usize,
            Guard::Outputs(n) => outputs == n as usize,
            Guard::OutputsFrom(n) => outputs >= n as usize,
            Guard::Set(name) => value(name) != 0,
            Guard::Unset(name) => value(name) == 0,
            Guard::Above(name, limit) => value(name) > limit,
            Guard::Given(name) => values.given(self.reads, name),
            Guard::NoGradient(k) => q.form(k)? == Form::None,
            Guard::DenseGradient(k) => q.form(k)? == Form::Dense,
            Guard::Spare(k) => q.spare.get(k as usize).copied().unwrap_or_default(),
            Guard::InPlace(i, o) => q.in_place(i as usize, o as usize),
        })
    }

    fn make(&self, case: &Case, q: &Question, answer: &mut Answer) -> Result<()> {
        answer.locals.extend(self.local);
        match &case.makes {
            Makes::Nothing => {}
            Makes::HandsOn => {
                q.check(Slot::GO(0))?;
                answer.g_input.fill(GradientSlot::Dense(Slot::GO(0)));
            }
            Makes::One(step) => self.step(step, q, answer)?,
            Makes::Several(steps) => {
                for step in *steps {
                    self.step(step, q, answer)?;
                }
            }
            Makes::Refuses(what, hint) => return Err(Error::new(Kind::Refused, *what).hint(*hint)),
        }
        if let Some((input, gradient)) = case.gives {
            match gradient {
                GradientSlot::None => {}
                GradientSlot::Dense(slot) => q.check(slot)?,
                GradientSlot::Sparse(indices, values) => {
                    q.check(indices)?;
                    q.check(values)?;
                }
            }
            answer.g_input[input as usize] = gradient;
        }
        Ok(())
    }

    #[inline]
    fn step(&self, step: &Step, q: &Question, answer: &mut Answer) -> Result<()> {
        if !step.args.is_empty() {
            answer.arguments(q, step.args);
        }
        let op_type = step.op_type.unwrap_or(self.gradient);
        match (step.reads, step.writes) {
            (Line::Slots(reads), Line::Slots(writes)) => {
                let (reads, writes) = (reads.iter().copied(), writes.iter().copied());
                answer.push(q, op_type, self.copy_args, reads, writes)
            }
            (reads, writes) => {
                answer.push(q, op_type, self.copy_args, unrolled(reads, q), unrolled(writes, q))
            }
        }
    }
}

/// The slots of a line with its loops gone through.
fn unrolled<'q>(line: Line, q: &'q Question) -> impl Iterator<Item = Slot> + 'q {
    let (slots, parts) = match line {
        Line::Slots(slots) => (slots, [].as_slice()),
        Line::Parts(parts) => ([].as_slice(), parts),
    };
    let (inputs, outputs) = (q.inputs.len() as u32, q.outputs.len() as u32);
    slots.iter().copied().chain(parts.iter().flat_map(move |part| {
        let (slots, step, rounds) = match part {
            Part::Once(slot) => (std::slice::from_ref(slot), 1, 1),
            Part::Each(group, slots) => (*slots, *group, inputs / group),
            Part::EachOutput(slot) => (std::slice::from_ref(slot), 1, outputs),
        };
        (0..rounds).flat_map(move |round| slots.iter().map(move |slot| slot.plus(round * step)))
    }))
}
