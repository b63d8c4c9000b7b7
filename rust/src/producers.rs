//! Who produces a gradient of which version of a blob: operators that make it, operators that hand
//! it on, the caller who gives it.

use crate::gradient::{Gradient, ValueId};
use crate::memory;
use crate::ssa::VersionId;

/// One gradient of one version, to be added to the others of that version.
#[derive(Clone, Copy)]
pub struct Producer {
    /// The gradient.
    pub gradient: Gradient,
    /// Where it is made, as far as gradient operators make it: the dense value or the indices.
    pub made: Option<ValueId>,
    /// The values of a sparse gradient, where a gradient operator makes them.
    pub made_values: Option<ValueId>,
    /// Whose device it lives on.
    pub origin: Origin,
}

/// Whose device option counts for a gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The forward operator's of this index.
    Forward(u32),
    /// The gradient operator's of this index in the answer.
    Made(u32),
    /// Nobody's: the caller gave the gradient and did not say where it lives.
    Caller,
}

/// The producers of all versions of a net.
#[derive(Default)]
pub struct Producers {
    heads: Vec<Head>,
    entries: Vec<(Producer, u32)>,
}

#[derive(Clone, Copy)]
struct Head {
    first: u32,
    last: u32,
    count: u32,
    /// Whether they have been added up.
    settled: bool,
    /// Whether one of them was made under a name of its own.
    any_made: bool,
}

const END: u32 = u32::MAX;

impl Producers {
    /// No producers yet, for this many versions.
    pub fn start(&mut self, versions: usize) {
        let nobody = Head { first: END, last: END, count: 0, settled: false, any_made: false };
        self.heads.resize(versions, nobody);
        self.entries.reserve(versions);
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.entries.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        memory::room(&self.heads) + memory::room(&self.entries)
    }

    /// Records one.
    pub fn add(&mut self, version: VersionId, producer: Producer) {
        let at = self.entries.len() as u32;
        self.entries.push((producer, END));
        let head = &mut self.heads[version.index()];
        if head.count == 0 {
            head.first = at;
        } else {
            self.entries[head.last as usize].1 = at;
        }
        head.any_made |= producer.made.is_some();
        head.last = at;
        head.count += 1;
    }

    /// How many of a version are still to be added up.
    pub fn waiting(&self, version: VersionId) -> u32 {
        let head = self.heads[version.index()];
        if head.settled {
            0
        } else {
            head.count
        }
    }

    /// Those of a version, in the order in which they were recorded.
    pub fn of(&self, version: VersionId) -> impl Iterator<Item = &Producer> {
        let mut at = self.heads[version.index()].first;
        std::iter::from_fn(move || {
            let (producer, next) = self.entries.get(at as usize)?;
            at = *next;
            Some(producer)
        })
    }

    /// Changes those of a version.
    pub fn change(&mut self, version: VersionId, mut change: impl FnMut(&mut Producer)) {
        let mut at = self.heads[version.index()].first;
        while let Some((producer, next)) = self.entries.get_mut(at as usize) {
            change(producer);
            self.heads[version.index()].any_made |= producer.made.is_some();
            at = *next;
        }
    }

    /// Whether an operator made the dense gradient, or the indices, of one of them.
    pub fn any_made(&self, version: VersionId) -> bool {
        self.heads[version.index()].any_made
    }

    /// Says that those of a version have been added up.
    pub fn settle(&mut self, version: VersionId) {
        self.heads[version.index()].settled = true;
    }
}
