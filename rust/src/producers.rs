//! Who produces a gradient of which version of a blob: operators that make it, operators that hand
//! it on, the caller who gives it.

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::gradient::{Body, Gradient, Ref, ValueId};
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

impl Walk<'_, '_, '_> {
    /// Records who makes the gradients of the inputs of an operator.
    ///
    /// `first` is the first gradient operator of this forward operator, `values` the first value.
    pub(crate) fn record(&mut self, op: usize, first: usize, values: u32, g_input: &[Gradient]) {
        let inputs = self.net.input_places(op);
        let stopped = |walk: &Self, k: usize| walk.is_stopped(walk.net.blobs()[inputs.start + k]);
        let is_new = |part: Ref| matches!(part, Ref::Value(value) if value.0 >= values);
        // Which input each new value belongs to, and whether it still waits for being recorded.
        let mut owners: SmallVec<[u32; 32]> = SmallVec::new();
        owners.resize((self.session.values.len() - values) as usize, u32::MAX);
        let mut any_sparse = false;
        for (k, gradient) in g_input.iter().enumerate().take(inputs.len()) {
            any_sparse |= matches!(gradient, Gradient::Sparse(..));
            for part in gradient.parts() {
                if let Ref::Value(value) = part {
                    if is_new(part) && owners[(value.0 - values) as usize] == u32::MAX {
                        owners[(value.0 - values) as usize] = k as u32;
                    }
                }
            }
        }
        let origin = |walk: &Self, at: usize| match walk.out.ops[at].body {
            Body::Given { .. } => Origin::Made(at as u32),
            _ => Origin::Forward(op as u32),
        };
        let mut recorded: SmallVec<[bool; 8]> = SmallVec::new();
        recorded.resize(g_input.len(), false);
        for &sparse in if any_sparse { &[false, true][..] } else { &[false] } {
            for at in first..self.out.ops.len() {
                let outputs: SmallVec<[ValueId; 4]> = self.out.outputs(&self.out.ops[at]).collect();
                for value in outputs.into_iter().filter(|value| value.0 >= values) {
                    let owner = owners[(value.0 - values) as usize] as usize;
                    let Some(&gradient) = g_input.get(owner) else { continue };
                    let is_sparse = matches!(gradient, Gradient::Sparse(..));
                    if recorded[owner] || is_sparse != sparse {
                        continue;
                    }
                    recorded[owner] = true;
                    if stopped(self, owner) {
                        continue;
                    }
                    let made = |part: Ref| match part {
                        Ref::Value(value) if is_new(part) => Some(value),
                        _ => None,
                    };
                    let (made, made_values) = match gradient {
                        Gradient::Sparse(indices, values) => (made(indices), made(values)),
                        _ => (Some(value), None),
                    };
                    let origin = origin(self, at);
                    let version = self.ssa.at[inputs.start + owner];
                    self.producers.add(version, Producer { gradient, made, made_values, origin });
                }
            }
        }
        for (first, value) in std::mem::take(&mut self.again) {
            let owner = owners.get((first.0 - values) as usize).map_or(usize::MAX, |k| *k as usize);
            if owner < inputs.len() && !stopped(self, owner) {
                let gradient = Gradient::Dense(Ref::Value(value));
                let (made, origin) = (Some(value), Origin::Forward(op as u32));
                let version = self.ssa.at[inputs.start + owner];
                self.producers.add(version, Producer { gradient, made, made_values: None, origin });
            }
        }
        for (k, gradient) in g_input.iter().enumerate().take(inputs.len()) {
            if gradient.is_none() || recorded[k] || stopped(self, k) {
                continue;
            }
            let (gradient, version) = (*gradient, self.ssa.at[inputs.start + k]);
            // One gradient for a blob that stands among the inputs twice is one gradient.
            let is_recorded = gradient.parts().any(|part| match part {
                Ref::Value(value) if is_new(part) => {
                    let owner = owners[(value.0 - values) as usize] as usize;
                    owner != k && self.ssa.at.get(inputs.start + owner) == Some(&version)
                }
                _ => false,
            });
            if is_recorded {
                continue;
            }
            let origin = Origin::Forward(op as u32);
            self.producers
                .add(version, Producer { gradient, made: None, made_values: None, origin });
            self.share(gradient, version);
        }
    }
}
