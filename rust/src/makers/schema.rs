//! What a forward operator must look like before its gradient is looked for.

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::FixedState;

use super::answer::Question;
use super::arguments::find;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};

/// As many inputs or outputs as one likes.
pub const MANY: u32 = u32::MAX;

/// Operators with so many inputs and outputs look up shared names in a table.
const WIDE: usize = 8;

/// A number of inputs or outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// From the one to the other, both included.
    Between(u32, u32),
    /// One of these.
    OneOf(&'static [u32]),
    /// A multiple, 0 not included.
    Times(u32),
}

impl Count {
    fn allows(self, count: usize) -> bool {
        match self {
            Count::Between(least, most) => {
                count >= least as usize && (count <= most as usize || most == MANY)
            }
            Count::OneOf(counts) => counts.iter().any(|&one| one as usize == count),
            Count::Times(factor) => count > 0 && count % factor as usize == 0,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count::Between(0, MANY) => f.write_str("any number"),
            Count::Between(least, MANY) => write!(f, "{least} or more"),
            Count::Between(least, most) if least == most => write!(f, "{least}"),
            Count::Between(least, most) => write!(f, "{least} to {most}"),
            Count::OneOf(counts) => {
                let texts: Vec<_> = counts.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(" or "))
            }
            Count::Times(factor) => write!(f, "a multiple of {factor}"),
        }
    }
}

/// A limit on inputs and outputs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    /// None.
    Free,
    /// So many more inputs than outputs.
    MoreInputs(u32),
    /// The outputs are a multiple of the inputs.
    OutputsTimesInputs,
}

/// Which outputs may or must carry the name of which inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// These pairs of input and output.
    These(&'static [(u32, u32)]),
    /// All pairs.
    All,
    /// Input k + 1 and output k.
    Next,
}

impl Pairs {
    fn has(self, input: usize, output: usize) -> bool {
        match self {
            Pairs::These(pairs) => {
                pairs.iter().any(|&(i, o)| i as usize == input && o as usize == output)
            }
            Pairs::All => true,
            Pairs::Next => input == output + 1,
        }
    }
}

/// The schema of an operator type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schema {
    /// How many inputs there must be.
    pub inputs: Count,
    /// How many outputs there must be.
    pub outputs: Count,
    /// How the two go together.
    pub together: Together,
    /// An argument that must be there.
    pub required: Option<&'static str>,
    /// The names that an output may share with an input.
    pub may_share: Pairs,
    /// The names that an output must share with an input.
    pub must_share: Pairs,
}

impl Schema {
    /// So many inputs and outputs, no name shared.
    pub const fn of(inputs: Count, outputs: Count) -> Self {
        Self {
            inputs,
            outputs,
            together: Together::Free,
            required: None,
            may_share: Pairs::These(&[]),
            must_share: Pairs::These(&[]),
        }
    }

    /// Refuses an operator that breaks the schema.
    #[inline]
    pub(super) fn check(&self, q: &Question) -> Result<()> {
        let (inputs, outputs) = (q.inputs.len(), q.outputs.len());
        if !self.inputs.allows(inputs) {
            return Err(wrong_count("inputs", inputs, self.inputs));
        }
        if !self.outputs.allows(outputs) {
            return Err(wrong_count("outputs", outputs, self.outputs));
        }
        if self.together != Together::Free {
            self.check_together(inputs, outputs)?;
        }
        if let Some(name) = self.required {
            if find(q, name).is_none() {
                return Err(broken(format!("the argument {name} is missing"))
                    .hint(format!("give the operator the argument {name}")));
            }
        }
        self.check_shared_names(q)
    }

    fn check_together(&self, inputs: usize, outputs: usize) -> Result<()> {
        let (fits, rule) = match self.together {
            Together::Free => (true, String::new()),
            Together::MoreInputs(more) => (
                inputs == outputs + more as usize,
                match more {
                    0 => "as many inputs as outputs".to_string(),
                    more => format!("{more} more input than outputs"),
                },
            ),
            Together::OutputsTimesInputs => {
                let fits = inputs > 0 && outputs % inputs == 0;
                (fits, "a number of outputs that is a multiple of the inputs".to_string())
            }
        };
        if fits {
            return Ok(());
        }
        Err(broken(format!("the operator has {inputs} inputs and {outputs} outputs"))
            .hint(format!("its schema wants {rule}")))
    }

    fn check_shared_names(&self, q: &Question) -> Result<()> {
        if self.may_share != Pairs::All {
            if q.inputs.len().min(q.outputs.len()) <= WIDE {
                for (i, input) in q.inputs.iter().enumerate() {
                    for (o, output) in q.outputs.iter().enumerate() {
                        if input == output {
                            self.check_shared_name(i, o)?;
                        }
                    }
                }
            } else {
                self.check_many_shared_names(q)?;
            }
        }
        match self.must_share {
            Pairs::These(pairs) => {
                pairs.iter().try_for_each(|&(i, o)| check_enforced(q, i as usize, o as usize))
            }
            Pairs::Next => (0..q.outputs.len()).try_for_each(|o| check_enforced(q, o + 1, o)),
            Pairs::All => Ok(()),
        }
    }

    /// The same for many inputs and outputs, in linear time: an input fits at most one output by rule,
    /// so that of outputs with one name the first that does not fit is soon met.
    fn check_many_shared_names(&self, q: &Question) -> Result<()> {
        let mut first: HashMap<BlobId, usize, FixedState> = HashMap::default();
        let mut later = vec![usize::MAX; q.outputs.len()];
        for (o, output) in q.outputs.iter().enumerate().rev() {
            later[o] = first.insert(*output, o).unwrap_or(usize::MAX);
        }
        for (i, input) in q.inputs.iter().enumerate() {
            let mut o = first.get(input).copied().unwrap_or(usize::MAX);
            while o != usize::MAX {
                self.check_shared_name(i, o)?;
                o = later[o];
            }
        }
        Ok(())
    }

    fn check_shared_name(&self, input: usize, output: usize) -> Result<()> {
        if self.may_share.has(input, output) || self.must_share.has(input, output) {
            return Ok(());
        }
        Err(broken(format!("output {output} has the name of input {input}"))
            .hint("this operator type cannot work in place there, so give the output another name"))
    }
}

fn check_enforced(q: &Question, input: usize, output: usize) -> Result<()> {
    let both_there = input < q.inputs.len() && output < q.outputs.len();
    if !both_there || q.in_place(input, output) {
        return Ok(());
    }
    Err(broken(format!("output {output} has another name than input {input}"))
        .hint("this operator type works in place there, so give both one name"))
}

fn broken(what: String) -> Error {
    Error::new(Kind::Schema, what)
}

#[cold]
fn wrong_count(noun: &str, count: usize, wanted: Count) -> Error {
    let shown = noun.strip_suffix('s').filter(|_| count == 1).unwrap_or(noun);
    broken(format!("the operator has {count} {shown}")).hint(format!("its schema wants {wanted}"))
}
