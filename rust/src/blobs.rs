//! Blob names as dense ids. The only file that knows the suffixes of gradient names.

use std::borrow::Cow;
use std::cell::Cell;
use std::hash::BuildHasher;

use bumpalo::Bump;
use foldhash::fast::RandomState;
use hashbrown::hash_table::{Entry, HashTable};

use crate::error::{Error, Kind, Result};
use crate::memory;

/// How many bytes of nets in pieces are put together for one answer, at the most.
const JOINED_LIMIT: usize = 64 << 20;

/// A blob name. Equal names have equal ids, whatever net they stand in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlobId(pub u32);

impl BlobId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Of a blob whose gradient has no name yet; there are fewer names than these two.
const NOT_YET: BlobId = BlobId(u32::MAX);
/// The same, of a blob whose own name ends as that of a gradient.
const NOT_YET_AGAIN: BlobId = BlobId(u32::MAX - 1);

/// Appended to a blob's name for its gradient.
pub const GRADIENT: &[u8] = b"_grad";
/// Appended for the row indices of a sparse gradient.
pub const INDICES: &[u8] = b"_grad_indices";
/// Appended for the rows of a sparse gradient.
pub const VALUES: &[u8] = b"_grad_values";
/// Appended for a gradient of ones that starts the backward pass.
pub const ONES: &[u8] = b"_autogen_grad";

/// What a name reads.
#[derive(Clone, Copy)]
enum Text<'a> {
    Whole(&'a [u8]),
    /// The name of a blob, and [`GRADIENT`]: most such names are written once and looked at never.
    GradientOf(BlobId),
}

/// All names that one answer has to do with. Names are bytes, UTF-8 or not.
///
/// The name of the gradient of a blob is found through the blob, and has no place among the hashed
/// names unless somebody else has used it: nearly every blob gets a gradient, and nearly none of
/// their names stands anywhere else.
pub struct BlobTable<'a> {
    names: Vec<Cell<Text<'a>>>,
    hashed: HashTable<BlobId>,
    hasher: RandomState,
    /// By id: the name of the gradient; [`NOT_YET`] or [`NOT_YET_AGAIN`] before somebody has asked for it
    /// or used it.
    gradients: Vec<BlobId>,
    /// Names of gradients whose blobs have not come yet, by the hashes of the names of these.
    strays: HashTable<BlobId>,
    bump: &'a Bump,
    /// How many bytes had to be put together.
    joined: Cell<usize>,
    scratch: Vec<u8>,
}

/// The memory of a table without names.
#[derive(Default)]
pub struct TableMemory<'a> {
    names: Vec<Cell<Text<'a>>>,
    hashed: HashTable<BlobId>,
    gradients: Vec<BlobId>,
    scratch: Vec<u8>,
}

impl TableMemory<'_> {
    pub(crate) fn bytes(&self) -> usize {
        let hashed = self.hashed.capacity() * (size_of::<BlobId>() + 1);
        memory::room(&self.names) + memory::room(&self.gradients) + hashed
    }

    /// The same memory, for a table of other lifetime.
    pub(crate) fn renewed<'b>(self) -> TableMemory<'b> {
        let Self { names, hashed, gradients, scratch } = self;
        TableMemory { names: memory::renewed(names), hashed, gradients, scratch }
    }
}

impl<'a> BlobTable<'a> {
    /// An empty table that keeps the names it has to make in `bump`.
    pub fn new(bump: &'a Bump, capacity: usize) -> Self {
        Self::in_memory(bump, TableMemory::default(), capacity)
    }

    /// The same, in memory that has been used before.
    pub fn in_memory(bump: &'a Bump, memory: TableMemory<'a>, capacity: usize) -> Self {
        let TableMemory { mut names, mut hashed, mut gradients, scratch } = memory;
        let hasher = RandomState::default();
        names.reserve(capacity);
        hashed.reserve(capacity, |_| 0);
        gradients.reserve(capacity);
        let (strays, joined) = (HashTable::new(), Cell::new(0));
        Self { names, hashed, hasher, gradients, strays, bump, joined, scratch }
    }

    /// Forgets all names, and hands out the memory.
    pub fn into_memory(self) -> TableMemory<'a> {
        let Self { mut names, mut hashed, mut gradients, scratch, .. } = self;
        names.clear();
        hashed.clear();
        gradients.clear();
        TableMemory { names, hashed, gradients, scratch }
    }

    /// The arena that names and merged messages live in.
    pub fn bump(&self) -> &'a Bump {
        self.bump
    }

    /// Bytes that may have been put together, for as long as names live.
    pub fn keep(&self, bytes: Cow<'a, [u8]>) -> &'a [u8] {
        match bytes {
            Cow::Borrowed(bytes) => bytes,
            Cow::Owned(bytes) => {
                self.joined.set(self.joined.get() + bytes.len());
                self.bump.alloc_slice_copy(&bytes)
            }
        }
    }

    /// The bytes of a nested net. A net in pieces is put together, with all that lies inside it: in
    /// nets in pieces that lie inside each other that grows with the square of their number.
    pub fn keep_net(&self, bytes: Cow<'a, [u8]>) -> Result<&'a [u8]> {
        if matches!(bytes, Cow::Owned(_)) && self.joined.get() + bytes.len() > JOINED_LIMIT {
            return Err(Error::new(
                Kind::TooDeep,
                "nets that lie inside each other are in several pieces each, more than can be put \
                 together",
            )
            .hint(
                "give each argument its net in one piece: parse the message and serialize it again",
            ));
        }
        Ok(self.keep(bytes))
    }

    /// How many names there are; every id is below.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    #[inline]
    fn push(&mut self, text: Text<'a>, gradient: BlobId) -> BlobId {
        let id = BlobId(self.names.len() as u32);
        self.names.push(Cell::new(text));
        self.gradients.push(gradient);
        id
    }

    /// The id of a name.
    #[inline]
    pub fn intern(&mut self, name: &'a [u8]) -> BlobId {
        self.intern_kept(name, |_| name)
    }

    /// The id of a name that does not live as long as the table.
    pub fn intern_copy(&mut self, name: &[u8]) -> BlobId {
        self.intern_kept(name, |bump| bump.alloc_slice_copy(name))
    }

    /// The id of a name; `keep` is called if the table must have it for itself.
    #[inline]
    fn intern_kept(&mut self, name: &[u8], keep: impl FnOnce(&'a Bump) -> &'a [u8]) -> BlobId {
        match gradient_of(name) {
            Some(blob) => self.intern_gradient(blob, name, keep),
            None => self.intern_hashed(name, NOT_YET, keep),
        }
    }

    #[inline]
    fn intern_hashed(
        &mut self,
        name: &[u8],
        gradient: BlobId,
        keep: impl FnOnce(&'a Bump) -> &'a [u8],
    ) -> BlobId {
        let hash = self.hasher.hash_one(name);
        let Self { names, hashed, hasher, bump, strays, .. } = self;
        let same = |id: &BlobId| hashed_text(names, *id) == name;
        let entry = hashed.entry(hash, same, |id| hasher.hash_one(hashed_text(names, *id)));
        match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = BlobId(names.len() as u32);
                entry.insert(id);
                let stray = if strays.is_empty() {
                    None
                } else {
                    let is_its = |id: &BlobId| gradient_of(hashed_text(names, *id)) == Some(name);
                    strays.find(hash, is_its).copied()
                };
                let bump = *bump;
                self.push(Text::Whole(keep(bump)), stray.unwrap_or(gradient))
            }
        }
    }

    /// A name that ends as the name of a gradient does is tied to its blob, or waits for it as a stray.
    fn intern_gradient(
        &mut self,
        blob: &[u8],
        name: &[u8],
        keep: impl FnOnce(&'a Bump) -> &'a [u8],
    ) -> BlobId {
        let found = self.get(blob);
        if let Some(gradient) = found.and_then(|blob| self.known_gradient(blob)) {
            return gradient;
        }
        let before = self.len();
        let id = self.intern_hashed(name, NOT_YET_AGAIN, keep);
        match found {
            Some(blob) => self.gradients[blob.index()] = id,
            None if self.len() > before => {
                let Self { names, hasher, strays, .. } = self;
                let hash_of = |id: &BlobId| {
                    hasher.hash_one(gradient_of(hashed_text(names, *id)).unwrap_or_default())
                };
                strays.insert_unique(hasher.hash_one(blob), id, hash_of);
            }
            None => {}
        }
        id
    }

    /// The id of a name, if the table has it.
    pub fn get(&self, name: &[u8]) -> Option<BlobId> {
        self.find(name).or_else(|| {
            let blob = self.find(name.strip_suffix(GRADIENT)?)?;
            self.known_gradient(blob)
        })
    }

    fn find(&self, name: &[u8]) -> Option<BlobId> {
        let hash = self.hasher.hash_one(name);
        self.hashed.find(hash, |id| hashed_text(&self.names, *id) == name).copied()
    }

    /// The name.
    pub fn name(&self, id: BlobId) -> &'a [u8] {
        let text = match self.names[id.index()].get() {
            Text::Whole(text) => return text,
            Text::GradientOf(blob) => self.name(blob),
        };
        let name = self.bump.alloc_slice_fill_copy(text.len() + GRADIENT.len(), 0);
        name[..text.len()].copy_from_slice(text);
        name[text.len()..].copy_from_slice(GRADIENT);
        self.names[id.index()].set(Text::Whole(name));
        name
    }

    /// The name, as it is to be written: in two pieces.
    #[inline]
    pub fn pieces(&self, id: BlobId) -> (&'a [u8], &'static [u8]) {
        match self.names[id.index()].get() {
            Text::Whole(text) => (text, b""),
            Text::GradientOf(blob) => match self.names[blob.index()].get() {
                Text::Whole(text) => (text, GRADIENT),
                Text::GradientOf(_) => (self.name(id), b""),
            },
        }
    }

    /// All names, by id.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.names.len() as u32).map(|id| self.name(BlobId(id)))
    }

    /// The id of `prefix + name + suffix`.
    pub fn affixed(&mut self, prefix: &[u8], id: BlobId, suffix: &[u8]) -> BlobId {
        let name = self.name(id);
        self.joined(&[prefix, name, suffix])
    }

    /// The id of `prefix + name + suffix + number`.
    pub fn numbered(&mut self, prefix: &[u8], id: BlobId, suffix: &[u8], number: u32) -> BlobId {
        let mut digits = [b'0'; 10];
        let (mut start, mut rest) = (9, number);
        while rest > 9 {
            digits[start] += (rest % 10) as u8;
            (start, rest) = (start - 1, rest / 10);
        }
        digits[start] += rest as u8;
        let name = self.name(id);
        self.joined(&[prefix, name, suffix, &digits[start..]])
    }

    fn joined(&mut self, pieces: &[&[u8]]) -> BlobId {
        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        for piece in pieces {
            name.extend_from_slice(piece);
        }
        let id = self.intern_copy(&name);
        self.scratch = name;
        id
    }

    /// The id of the name of the gradient of a blob.
    #[inline]
    pub fn gradient(&mut self, id: BlobId) -> BlobId {
        self.known_gradient(id).unwrap_or_else(|| self.new_gradient(id))
    }

    #[inline]
    fn known_gradient(&self, id: BlobId) -> Option<BlobId> {
        Some(self.gradients[id.index()]).filter(|gradient| *gradient < NOT_YET_AGAIN)
    }

    fn new_gradient(&mut self, id: BlobId) -> BlobId {
        // Only the gradients of hashed names go unhashed, so that one look behind a suffix finds them.
        let gradient = if self.gradients[id.index()] == NOT_YET_AGAIN {
            self.affixed(b"", id, GRADIENT)
        } else {
            self.push(Text::GradientOf(id), NOT_YET_AGAIN)
        };
        self.gradients[id.index()] = gradient;
        gradient
    }

    /// The id of `name + suffix`.
    pub fn suffixed(&mut self, id: BlobId, suffix: &[u8]) -> BlobId {
        if suffix == GRADIENT {
            return self.gradient(id);
        }
        self.affixed(b"", id, suffix)
    }
}

/// The name of the blob that this is the name of the gradient of.
#[inline]
fn gradient_of(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(GRADIENT)
}

/// The text of a name that has a place among the hashed ones: those are there whole.
#[inline]
fn hashed_text<'a>(names: &[Cell<Text<'a>>], id: BlobId) -> &'a [u8] {
    match names[id.index()].get() {
        Text::Whole(text) => text,
        Text::GradientOf(_) => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_id_however_it_is_come_by() {
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 4);
        let stray = table.intern(b"late_grad");
        let late = table.intern(b"late");
        assert_eq!(table.gradient(late), stray);
        let blob = table.intern(b"x");
        let gradient = table.gradient(blob);
        assert_eq!(table.intern(b"x_grad"), gradient);
        assert_eq!(table.intern_copy(b"x_grad"), gradient);
        assert_eq!(table.get(b"x_grad"), Some(gradient));
        assert_eq!(table.suffixed(blob, GRADIENT), gradient);
        let second = table.gradient(gradient);
        assert_eq!(table.intern(b"x_grad_grad"), second);
        assert_eq!(table.name(second), b"x_grad_grad");
        let given = table.intern(b"y_grad");
        let y = table.intern(b"y");
        assert_eq!(table.gradient(y), given);
    }

    #[test]
    fn a_number_is_written_out() {
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 4);
        let blob = table.intern(b"x");
        for number in [0, 7, 10, 4_294_967_295] {
            let id = table.numbered(b"_", blob, b"_at_", number);
            assert_eq!(table.name(id), format!("_x_at_{number}").as_bytes());
        }
    }

    #[test]
    fn a_stray_finds_its_blob_whichever_comes_when() {
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 4);
        for number in 0..100 {
            table.intern_copy(format!("late{number}_grad").as_bytes());
            table.intern_copy(format!("never{number}_autogen_grad").as_bytes());
        }
        let deep = table.intern(b"late7_grad_grad");
        for number in (0..100).rev() {
            let blob = table.intern_copy(format!("late{number}").as_bytes());
            let gradient = table.gradient(blob);
            assert_eq!(table.name(gradient), format!("late{number}_grad").as_bytes());
            assert_eq!(table.intern_copy(format!("late{number}_grad").as_bytes()), gradient);
        }
        let late = table.intern(b"late7_grad");
        assert_eq!(table.gradient(late), deep);
        assert_eq!(table.len(), 301);
    }

    #[test]
    fn a_name_made_of_suffixes_alone_does_not_go_deep() {
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 4);
        let name = GRADIENT.repeat(2_000_000);
        let id = table.intern(bump.alloc_slice_copy(&name));
        assert_eq!(table.get(&name), Some(id));
    }
}
