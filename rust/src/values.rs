//! The values that a backward pass makes or is given, and what each is called.
//!
//! A gradient operator does not name the blobs that it writes. It writes *values*, and a value gets
//! its final name when the answer is written out: a summand of an accumulation is renamed by one
//! assignment, whatever reads it and however deep inside a branch it is made.

use rustc_hash::FxHashMap;
use smallvec::{smallvec, SmallVec};

use crate::blobs::{BlobId, BlobTable};
use crate::gradient::{Ref, ValueId};
use crate::memory;

/// How a value finally gets its name.
#[derive(Clone, Copy)]
enum Name {
    Plain(BlobId),
    /// The name of another value.
    Same(ValueId),
    /// `_<name>_autosplit_<count>`: a summand of an accumulation.
    Split {
        of: Ref,
        count: u32,
    },
}

/// Of a value that has the name that it was made under.
const AS_MADE: u32 = u32::MAX;

/// All values of an answer.
#[derive(Default)]
pub struct Values {
    nominal: Vec<BlobId>,
    /// By value: [`AS_MADE`], or the place of its name among the others. Most are as they were made.
    names: Vec<u32>,
    others: Vec<Name>,
    /// Copies, and the names of what they are copies of.
    copies: FxHashMap<ValueId, BlobId>,
    /// Which value another one has the name of; naming forgets it.
    same: FxHashMap<ValueId, ValueId>,
    /// Row indices that a gradient operator makes, and a forward blob of their type and rank.
    like: FxHashMap<ValueId, BlobId>,
}

impl Values {
    /// How many values there are; every id is below.
    pub fn len(&self) -> u32 {
        self.names.len() as u32
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.others.clear();
        self.nominal.clear();
        self.copies.clear();
        self.same.clear();
        self.like.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        let maps = self.copies.capacity() + self.same.capacity() + self.like.capacity();
        let names = memory::room(&self.names) + memory::room(&self.others);
        names + memory::room(&self.nominal) + maps * size_of::<[u32; 3]>()
    }

    /// Makes room for so many more values.
    pub fn reserve(&mut self, more: usize) {
        self.names.reserve(more);
        self.nominal.reserve(more);
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A new value that is called `name` unless it is renamed.
    pub fn add(&mut self, name: BlobId) -> ValueId {
        let id = ValueId(self.len());
        self.names.push(AS_MADE);
        self.nominal.push(name);
        id
    }

    #[inline]
    fn how(&self, value: ValueId) -> Name {
        match self.names[value.0 as usize] {
            AS_MADE => Name::Plain(self.nominal(value)),
            other => self.others[other as usize],
        }
    }

    fn set(&mut self, value: ValueId, name: Name) {
        match &mut self.names[value.0 as usize] {
            place if *place == AS_MADE => {
                *place = self.others.len() as u32;
                self.others.push(name);
            }
            other => self.others[*other as usize] = name,
        }
    }

    /// The name that a value was made under.
    pub fn nominal(&self, value: ValueId) -> BlobId {
        self.nominal[value.0 as usize]
    }

    /// The name that a reference was made under.
    pub fn nominal_ref(&self, of: Ref) -> BlobId {
        match of {
            Ref::Blob(blob) => blob,
            Ref::Value(value) => self.nominal(value),
        }
    }

    /// Makes a value a summand of an accumulation called `sum`.
    pub fn split(&mut self, value: ValueId, sum: Option<ValueId>, count: u32) {
        let of = match sum {
            Some(sum) if self.nominal(sum) == self.nominal(value) => Ref::Value(sum),
            _ => Ref::Blob(self.nominal(value)),
        };
        self.set(value, Name::Split { of, count });
    }

    /// Lets a value have the name of another one.
    pub fn same(&mut self, value: ValueId, other: ValueId) {
        if value != other {
            self.set(value, Name::Same(other));
            self.same.insert(value, other);
        }
    }

    /// Says that a value is a copy.
    pub fn set_copy(&mut self, copy: ValueId, of: Ref) {
        let name = self.original(of);
        self.copies.insert(copy, name);
    }

    /// The name that a reference was made under, or that it is a copy of.
    pub fn original(&self, of: Ref) -> BlobId {
        match of {
            Ref::Value(value) => {
                self.copies.get(&value).copied().unwrap_or_else(|| self.nominal(value))
            }
            Ref::Blob(blob) => blob,
        }
    }

    /// Whether two values are one: the same, or two sides of one.
    pub fn is_same(&self, one: ValueId, other: ValueId) -> bool {
        one == other || self.root(one) == self.root(other)
    }

    /// A reference with the value that it has the name of in place of its own.
    pub fn canonical(&self, part: Ref) -> Ref {
        match part {
            Ref::Value(value) => Ref::Value(self.root(value)),
            Ref::Blob(_) => part,
        }
    }

    fn root(&self, mut value: ValueId) -> ValueId {
        while let Some(&other) = self.same.get(&value) {
            value = other;
        }
        value
    }

    /// Whether a value is a summand of an accumulation.
    pub fn is_summand(&self, value: ValueId) -> bool {
        matches!(self.how(value), Name::Split { .. })
    }

    /// The name of a value as it would be if nothing were renamed any more.
    pub fn provisional(&mut self, value: ValueId, table: &mut BlobTable<'_>) -> BlobId {
        let mut counts: SmallVec<[u32; 8]> = SmallVec::new();
        let mut at = value;
        let mut name = loop {
            match self.how(at) {
                Name::Plain(name) => break name,
                Name::Same(other) => at = other,
                Name::Split { of, count } => {
                    counts.push(count);
                    match of {
                        Ref::Blob(name) => break name,
                        Ref::Value(other) => at = other,
                    }
                }
            }
        };
        for count in counts.into_iter().rev() {
            name = split_name(table, name, count);
        }
        name
    }

    /// A forward blob that has the type and the rank of these row indices, if one is known.
    pub fn like(&self, indices: Ref) -> Option<BlobId> {
        match indices {
            Ref::Blob(blob) => Some(blob),
            Ref::Value(value) => self.like.get(&value).copied(),
        }
    }

    /// Says which forward blob has the type and the rank of these row indices.
    pub fn set_like(&mut self, indices: ValueId, blob: Option<BlobId>) {
        if let Some(blob) = blob {
            self.like.insert(indices, blob);
        }
    }

    /// The final name of a value. Only to be asked when nothing is renamed any more.
    #[inline]
    pub fn name(&mut self, value: ValueId, table: &mut BlobTable<'_>) -> BlobId {
        match self.how(value) {
            Name::Plain(name) => name,
            _ => self.find_name(value, table),
        }
    }

    #[inline(never)]
    fn find_name(&mut self, value: ValueId, table: &mut BlobTable<'_>) -> BlobId {
        // Names refer to each other as deep as nets are nested: no recursion here.
        let mut waiting: SmallVec<[ValueId; 8]> = smallvec![value];
        let mut known = None;
        while let Some(&value) = waiting.last() {
            let name = match (self.how(value), known.take()) {
                (Name::Plain(name), _) | (Name::Same(_), Some(name)) => name,
                (Name::Split { of: Ref::Blob(name), count }, _)
                | (Name::Split { count, .. }, Some(name)) => split_name(table, name, count),
                (Name::Same(other) | Name::Split { of: Ref::Value(other), .. }, None) => {
                    waiting.push(other);
                    continue;
                }
            };
            self.set(value, Name::Plain(name));
            known = Some(name);
            waiting.pop();
        }
        match self.how(value) {
            Name::Plain(name) => name,
            _ => self.nominal(value),
        }
    }

    /// The final name of a reference.
    #[inline]
    pub fn name_of(&mut self, of: Ref, table: &mut BlobTable<'_>) -> BlobId {
        match of {
            Ref::Blob(blob) => blob,
            Ref::Value(value) => self.name(value, table),
        }
    }
}

fn split_name(table: &mut BlobTable<'_>, name: BlobId, count: u32) -> BlobId {
    table.numbered(b"_", name, b"_autosplit_", count)
}
