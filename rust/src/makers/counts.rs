//! The numbers of inputs and outputs that the slots of a row speak of.
//!
//! All of it runs while the crate is compiled.

use super::row::{Case, Line, Makes, Recipe, Step};
use super::schema::{Count, Schema, MANY};
use super::words::{GradientSlot, Part, Slot};

/// What has been met so far.
#[derive(Clone, Copy)]
struct Met {
    inputs: u32,
    outputs: u32,
    /// The size of the groups in which inputs are looped over.
    group: u32,
}

/// The schema that a recipe asks for: one more input and output than the highest that it names, or
/// whole groups of inputs where it loops over them.
pub(super) const fn of(recipe: &Recipe) -> Schema {
    let mut met = Met { inputs: 0, outputs: 0, group: 0 };
    match recipe {
        Recipe::One(case) => met = met.case(case),
        Recipe::Pick(cases) => {
            let mut k = 0;
            while k < cases.len() {
                met = met.case(&cases[k]);
                k += 1;
            }
        }
        Recipe::Rule(_) => {}
    }
    let inputs = match met.group {
        0 => Count::Between(met.inputs, met.inputs),
        1 => Count::Between(1, MANY),
        group => Count::Times(group),
    };
    Schema::of(inputs, Count::Between(met.outputs, met.outputs))
}

impl Met {
    const fn case(mut self, case: &Case) -> Self {
        match case.makes {
            Makes::One(step) => self = self.step(&step),
            Makes::Several(steps) => {
                let mut k = 0;
                while k < steps.len() {
                    self = self.step(&steps[k]);
                    k += 1;
                }
            }
            Makes::Nothing | Makes::HandsOn | Makes::Refuses(..) => {}
        }
        match case.gives {
            Some((_, GradientSlot::Dense(slot))) => self.slot(slot),
            Some((_, GradientSlot::Sparse(indices, values))) => self.slot(indices).slot(values),
            Some((_, GradientSlot::None)) | None => self,
        }
    }

    const fn step(self, step: &Step) -> Self {
        self.line(step.reads).line(step.writes)
    }

    const fn line(mut self, line: Line) -> Self {
        let mut k = 0;
        match line {
            Line::Slots(slots) => {
                while k < slots.len() {
                    self = self.slot(slots[k]);
                    k += 1;
                }
            }
            Line::Parts(parts) => {
                while k < parts.len() {
                    match parts[k] {
                        Part::Once(slot) => self = self.slot(slot),
                        Part::Each(group, _) => self.group = group,
                        Part::EachOutput(_) => {}
                    }
                    k += 1;
                }
            }
        }
        self
    }

    const fn slot(mut self, slot: Slot) -> Self {
        match slot {
            Slot::I(k) | Slot::Shape(k) | Slot::GI(k) | Slot::GiIndices(k) | Slot::GiValues(k) => {
                if self.inputs <= k {
                    self.inputs = k + 1;
                }
            }
            Slot::O(k) | Slot::GO(k) | Slot::GoIndices(k) | Slot::GoValues(k) => {
                if self.outputs <= k {
                    self.outputs = k + 1;
                }
            }
            Slot::Local(_) => {}
        }
        self
    }
}
