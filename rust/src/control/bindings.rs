//! The blob bindings of a Do: which inner blob is which outer one.

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::{Map, Set, FEW};
use crate::message::{ArgRef, NetRef};
use crate::ssa::VersionId;

use super::{net_argument, Arguments};

/// What a Do binds, checked.
///
/// Its blobs but for the workspace are numbered: the inputs, then the outputs. An output that is an
/// input as well has the number of the input. So whoever comes from an input or output asks no map.
pub struct Bindings<'a> {
    /// The net.
    pub net: NetRef<'a>,
    /// The blob that holds the workspaces.
    pub workspace: BlobId,
    inputs: usize,
    /// By place among inputs and outputs: the number.
    numbers: SmallVec<[u32; FEW]>,
    /// By number.
    pairs: SmallVec<[Pair; FEW]>,
    by_outer: Map<BlobId, u32>,
    by_inner: Map<BlobId, u32>,
}

/// A binding.
struct Pair {
    outer: BlobId,
    inner: Option<BlobId>,
    /// Where the outer blob stands, as an output if it is one.
    place: u32,
}

impl<'a> Bindings<'a> {
    /// Reads and checks the bindings of a Do.
    pub(super) fn read(
        walk: &mut Walk<'_, '_, 'a>,
        op: usize,
        args: &Arguments<'a>,
    ) -> Result<Self> {
        let net =
            net_argument(walk, args, "net")?.ok_or_else(|| broken("it has no argument net"))?;
        let inner_blobs = only(args, "inner_blobs")?;
        let outer_index = only(args, "outer_blobs_idx")?;
        let inner_blobs: SmallVec<[&'a [u8]; FEW]> = inner_blobs.strings().collect();
        let outer_index = outer_index.ints()?;
        if inner_blobs.is_empty() || outer_index.is_empty() {
            return Err(broken("inner_blobs or outer_blobs_idx is empty"));
        }
        if inner_blobs.len() != outer_index.len() {
            return Err(broken(format!(
                "inner_blobs has {} entries and outer_blobs_idx {}",
                inner_blobs.len(),
                outer_index.len()
            )));
        }
        let mut bindings = Self::number(walk, op, net)?;
        bindings.by_inner = Map::with_room(inner_blobs.len());
        for (inner, index) in inner_blobs.into_iter().zip(outer_index) {
            let inner = walk.session.table.intern(inner);
            bindings.bind(walk, inner, index)?;
        }
        match bindings.pairs.iter().find(|pair| pair.inner.is_none()) {
            Some(pair) => {
                let unbound = walk.session.shown(pair.outer);
                Err(broken(format!("outer blob {unbound:?} is bound to no inner blob")))
            }
            None => Ok(bindings),
        }
    }

    /// The blobs of a Do with their numbers.
    fn number(walk: &Walk<'_, '_, 'a>, op: usize, net: NetRef<'a>) -> Result<Self> {
        let (inputs, outputs) = (walk.net.inputs(op), walk.net.outputs(op));
        let (Some((read_last, inputs)), Some((written_last, outputs))) =
            (inputs.split_last(), outputs.split_last())
        else {
            return Err(broken("it has no input or no output, so no workspace"));
        };
        if read_last != written_last {
            return Err(broken("its last input is not its last output, the workspace"));
        }
        let places = inputs.len() + outputs.len();
        let mut bindings = Self {
            net,
            workspace: *read_last,
            inputs: inputs.len(),
            numbers: SmallVec::with_capacity(places),
            pairs: SmallVec::with_capacity(places),
            by_outer: Map::with_room(places),
            by_inner: Map::default(),
        };
        let twice = |blob, what| {
            let blob = walk.session.shown(blob);
            Err(broken(format!("{blob:?} stands twice among its {what}")))
        };
        for blob in inputs {
            if bindings.add(*blob).0 {
                return twice(*blob, "inputs");
            }
        }
        let mut kept = Set::default();
        for blob in outputs {
            let (met, number) = bindings.add(*blob);
            if met && (number as usize >= inputs.len() || !kept.insert(number)) {
                return twice(*blob, "outputs");
            }
        }
        Ok(bindings)
    }

    /// Numbers the next blob, and says whether it has been met before.
    fn add(&mut self, outer: BlobId) -> (bool, u32) {
        let (next, place) = (self.pairs.len() as u32, self.numbers.len() as u32);
        let number = *self.by_outer.or_insert_with(outer, || next);
        self.numbers.push(number);
        match self.pairs.get_mut(number as usize) {
            Some(pair) => pair.place = place,
            None => self.pairs.push(Pair { outer, inner: None, place }),
        }
        (number != next, number)
    }

    fn bind(&mut self, walk: &Walk<'_, '_, '_>, inner: BlobId, place: i64) -> Result<()> {
        let number = usize::try_from(place).ok().and_then(|place| self.numbers.get(place).copied());
        let number = number.ok_or_else(|| {
            broken(format!(
                "outer_blobs_idx has {place}, and there are {} blobs",
                self.numbers.len()
            ))
        })?;
        if self.by_inner.insert(inner, number).is_some() {
            let inner = walk.session.shown(inner);
            return Err(broken(format!("inner blob {inner:?} is bound twice")));
        }
        let pair = &mut self.pairs[number as usize];
        if pair.inner.replace(inner).is_some() {
            let outer = walk.session.shown(pair.outer);
            return Err(broken(format!("outer blob {outer:?} is bound twice")));
        }
        Ok(())
    }

    /// How many blobs are bound; every number is below.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The number of an input.
    pub fn input(&self, k: usize) -> u32 {
        self.numbers[k]
    }

    /// Whether a number is that of an input.
    pub fn is_input(&self, number: u32) -> bool {
        (number as usize) < self.inputs
    }

    /// The number of the outer blob that an inner one is, if it is bound.
    pub fn number_of(&self, inner: BlobId) -> Option<u32> {
        self.by_inner.get(&inner).copied()
    }

    /// The number of an outer blob, if it is bound.
    pub fn number_of_outer(&self, outer: BlobId) -> Option<u32> {
        self.by_outer.get(&outer).copied()
    }

    /// An outer blob.
    pub fn outer_at(&self, number: u32) -> BlobId {
        self.pairs[number as usize].outer
    }

    /// The inner blob that it is.
    pub fn inner_at(&self, number: u32) -> Option<BlobId> {
        self.pairs[number as usize].inner
    }

    /// The version in which the Do leaves an outer blob.
    pub fn version(&self, walk: &Walk<'_, '_, '_>, op: usize, number: u32) -> VersionId {
        let place = self.pairs[number as usize].place as usize;
        walk.ssa.at[match place.checked_sub(self.inputs) {
            None => walk.net.input_places(op).start + place,
            Some(output) => walk.net.output_places(op).start + output,
        }]
    }

    /// The outer blob that an inner one is, if it is bound.
    pub fn outer(&self, inner: BlobId) -> Option<BlobId> {
        self.number_of(inner).map(|number| self.outer_at(number))
    }

    /// The inner blob that an outer one is.
    pub fn inner(&self, outer: BlobId) -> Option<BlobId> {
        self.number_of_outer(outer).and_then(|number| self.inner_at(number))
    }
}

fn only<'a>(args: &Arguments<'a>, name: &str) -> Result<ArgRef<'a>> {
    let mut found = args.all(name);
    match (found.next(), found.next()) {
        (Some(argument), None) => Ok(argument),
        (None, _) => Err(broken(format!("it has no argument {name}"))),
        _ => Err(broken(format!("it has the argument {name} twice"))),
    }
}

/// The refusal of a Do whose bindings are not in order.
pub fn broken(what: impl Into<String>) -> Error {
    Error::new(Kind::Bindings, what)
        .hint("a Do binds each of its blobs but the workspace to exactly one inner blob")
}
