//! Who still needs a gradient that another operator is about to overwrite.
//!
//! An operator may hand the gradient of its output on to several inputs, and a caller may give one
//! gradient to several blobs. Their blob is overwritten only when nobody needs it any more; who does
//! is given a copy before.

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::blobs::{self, BlobId};
use crate::few::Map;
use crate::gradient::{Gradient, Ref};
use crate::ssa::VersionId;

/// Versions that need one gradient. It is one nearly always, so that one takes no memory of its own.
pub(crate) enum Holders {
    One(VersionId),
    Several(Box<Turns>),
}

/// Several versions, in the order in which they came to the gradient.
#[derive(Default)]
pub(crate) struct Turns {
    turns: Map<VersionId, u32>,
    next: u32,
}

impl Turns {
    fn push(&mut self, version: VersionId) {
        self.turns.or_insert_with(version, || self.next);
        self.next += 1;
    }
}

impl Holders {
    fn push(&mut self, version: VersionId) {
        match self {
            Holders::One(own) if *own == version => {}
            Holders::One(own) => {
                let mut turns = Turns::default();
                turns.push(*own);
                turns.push(version);
                *self = Holders::Several(Box::new(turns));
            }
            Holders::Several(turns) => turns.push(version),
        }
    }

    /// Takes a version out and says whether there is none left.
    fn remove(&mut self, version: VersionId) -> bool {
        match self {
            Holders::One(own) => *own == version,
            Holders::Several(turns) => {
                turns.turns.remove(&version);
                turns.turns.is_empty()
            }
        }
    }

    fn any(&self, mut is_it: impl FnMut(VersionId) -> bool) -> bool {
        match self {
            Holders::One(own) => is_it(*own),
            Holders::Several(turns) => turns.turns.keys().any(|version| is_it(*version)),
        }
    }

    fn in_order(self) -> impl Iterator<Item = VersionId> {
        let mut turns: SmallVec<[(u32, VersionId); 2]> = match self {
            Holders::One(own) => [(0, own)].into_iter().collect(),
            Holders::Several(turns) => {
                turns.turns.iter().map(|(version, turn)| (*turn, *version)).collect()
            }
        };
        turns.sort_unstable_by_key(|(turn, _)| *turn);
        turns.into_iter().map(|(_, version)| version)
    }
}

/// Who needs the gradient in which blob, by name. Wide nets release thousands of names one by one, so
/// those that nobody needs any more stay until there are no others.
#[derive(Default)]
pub(crate) struct Shared {
    holders: Map<BlobId, Option<Holders>>,
    /// How many names are needed.
    needed: usize,
}

impl Shared {
    /// Nothing, with room for so many names.
    pub(crate) fn with_room(names: usize) -> Self {
        Self { holders: Map::with_room(names), needed: 0 }
    }

    fn is_empty(&self) -> bool {
        self.needed == 0
    }

    fn get(&self, name: BlobId) -> Option<&Holders> {
        self.holders.get(&name)?.as_ref()
    }

    /// Whether anybody needs the gradient in the blob of that name.
    pub(crate) fn contains(&self, name: BlobId) -> bool {
        self.get(name).is_some()
    }

    fn hold(&mut self, name: BlobId, version: VersionId) {
        match self.holders.or_insert_with(name, || None) {
            Some(holders) => holders.push(version),
            nobody => {
                *nobody = Some(Holders::One(version));
                self.needed += 1;
            }
        }
    }

    fn release(&mut self, name: BlobId, version: VersionId) {
        let Some(entry) = self.holders.get_mut(&name) else { return };
        if entry.as_mut().is_some_and(|holders| holders.remove(version)) {
            *entry = None;
            self.forget();
        }
    }

    fn take(&mut self, name: BlobId) -> Option<Holders> {
        let taken = self.holders.get_mut(&name)?.take()?;
        self.forget();
        Some(taken)
    }

    fn forget(&mut self) {
        self.needed -= 1;
        if self.needed == 0 {
            self.holders = Map::default();
        }
    }
}

impl Walk<'_, '_, '_> {
    /// Remembers that `version` needs a gradient that is not its alone.
    pub(crate) fn share(&mut self, gradient: Gradient, version: VersionId) {
        for part in gradient.parts() {
            if let Ref::Value(value) = part {
                self.shared.hold(self.session.values.nominal(value), version);
            }
        }
    }

    /// Whether anybody but operator `op` still needs the gradient in the blob called `name`.
    pub(crate) fn is_needed_by_others(&self, op: usize, name: BlobId) -> bool {
        self.shared.get(name).is_some_and(|holders| {
            holders.any(|version| {
                let writer = self.ssa.versions[version.index()].writer();
                writer.is_none_or(|writer| (writer as usize) < op)
            })
        })
    }

    /// Whether a gradient of an output of `op` was made by this walk and is needed by `op` alone.
    pub(crate) fn is_spare(&self, op: usize, gradient: Gradient) -> bool {
        let Gradient::Dense(Ref::Value(value)) = gradient else { return false };
        !self.lenient
            && value.0 >= self.first_value
            && !self.is_needed_by_others(op, self.session.values.nominal(value))
    }

    /// Whether anything is needed by more than the operator that comes next.
    pub(crate) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The gradients of the outputs of an operator have served: their blobs may be overwritten.
    pub(crate) fn release(&mut self, op: usize) {
        if self.shared.is_empty() {
            return;
        }
        for place in self.net.output_places(op) {
            let version = self.ssa.at[place];
            let found = self.found[self.ssa.versions[version.index()].place as usize];
            if found.version != version {
                continue;
            }
            for part in found.gradient.parts() {
                let name = self.session.values.nominal_ref(part);
                self.shared.release(name, version);
            }
        }
    }

    /// Called before a gradient Do, If or While, and what belongs to it, is appended.
    pub(crate) fn protect_outputs(&mut self, op: usize, outputs: &[Ref], changes: &[Ref]) {
        let is_needed = |part: &Ref| match part {
            Ref::Value(value) => self.shared.contains(self.session.values.nominal(*value)),
            Ref::Blob(_) => false,
        };
        if self.shared.is_empty() || !outputs.iter().chain(changes).any(is_needed) {
            return;
        }
        let mut targets = Map::with_room(self.net.input_places(op).len());
        for place in self.net.input_places(op) {
            let name = self.session.table.gradient(self.net.blobs()[place]);
            targets.insert(name, self.ssa.at[place]);
        }
        for part in outputs.iter().chain(changes) {
            let Ref::Value(value) = *part else { continue };
            let name = self.session.values.nominal(value);
            let target = targets.get(&name).copied();
            if !target.is_some_and(|version| self.is_split(version)) {
                self.protect(op, name, target);
            }
        }
    }

    /// Called before operator `op` has something written to a blob called `name`: whoever still needs
    /// the gradient in it gets a copy. `target` is the version whose gradient is about to be written.
    pub(crate) fn protect(&mut self, op: usize, name: BlobId, target: Option<VersionId>) {
        if self.shared.is_empty() {
            return;
        }
        let Some(holders) = self.shared.take(name) else { return };
        for version in holders.in_order() {
            let holder = self.ssa.versions[version.index()];
            if Some(version) == target || holder.writer() == Some(op as u32) {
                self.shared.hold(name, version);
                continue;
            }
            let is_pending = holder.writer().is_none_or(|writer| (writer as usize) < op);
            if is_pending {
                self.copy_for(op, name, version);
            }
        }
    }

    fn copy_for(&mut self, op: usize, name: BlobId, version: VersionId) {
        let holds = |part: Ref, walk: &Self| matches!(part, Ref::Value(value) if walk.session.values.nominal(value) == name);
        let place = self.ssa.versions[version.index()].place;
        let found = self.found[place as usize];
        let current = if found.version == version { found.gradient } else { Gradient::None };
        let mut waiting: SmallVec<[Gradient; 2]> = SmallVec::new();
        if self.producers.waiting(version) > 0 {
            waiting.extend(self.producers.of(version).map(|producer| producer.gradient));
        }
        waiting.push(current);
        let Some(part) =
            waiting.into_iter().flat_map(Gradient::parts).find(|part| holds(*part, self))
        else {
            return;
        };
        let suffix = match current {
            Gradient::Sparse(indices, _) if indices == part => blobs::INDICES,
            Gradient::Sparse(..) => blobs::VALUES,
            _ => blobs::GRADIENT,
        };
        let blob = self.ssa.blob(version);
        let mut copy_name = self.session.table.suffixed(blob, suffix);
        if self.shared.contains(copy_name) {
            let suffix = [b"_", self.session.table.name(name), b"_DEDUP"].concat();
            copy_name = self.session.table.suffixed(blob, &suffix);
        }
        let copy = self.session.values.add(copy_name);
        self.session.values.set_copy(copy, part);
        let device = self.device(op);
        self.out.copy(part, copy, false, device, Some(op as u32));
        let replace = |old: Ref| if old == part { Ref::Value(copy) } else { old };
        if found.version == version {
            self.found[place as usize].gradient = current.map(replace);
        }
        self.producers.change(version, |producer| {
            producer.gradient = producer.gradient.map(replace);
            if producer.made.is_none() && producer.gradient == Gradient::Dense(Ref::Value(copy)) {
                producer.made = Some(copy);
            }
        });
    }
}
