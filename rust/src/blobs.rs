//! Blob names as dense ids. The only file that knows the suffixes of gradient names.

use std::collections::HashMap;

use bumpalo::Bump;
use foldhash::fast::RandomState;

/// A blob name. Equal names have equal ids, whatever net they stand in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlobId(pub u32);

impl BlobId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Appended to a blob's name for its gradient.
pub const GRADIENT: &[u8] = b"_grad";
/// Appended for the row indices of a sparse gradient.
pub const INDICES: &[u8] = b"_grad_indices";
/// Appended for the rows of a sparse gradient.
pub const VALUES: &[u8] = b"_grad_values";
/// Appended for a gradient of ones that starts the backward pass.
pub const ONES: &[u8] = b"_autogen_grad";

/// All names that one answer has to do with. Names are bytes, UTF-8 or not.
pub struct BlobTable<'a> {
    names: Vec<&'a [u8]>,
    ids: HashMap<&'a [u8], BlobId, RandomState>,
    /// By id: the name of the gradient, once somebody has asked for it.
    gradients: Vec<Option<BlobId>>,
    bump: &'a Bump,
    scratch: Vec<u8>,
}

impl<'a> BlobTable<'a> {
    /// An empty table that keeps the names it has to make in `bump`.
    pub fn new(bump: &'a Bump, capacity: usize) -> Self {
        Self {
            names: Vec::with_capacity(capacity),
            ids: HashMap::with_capacity_and_hasher(capacity, RandomState::default()),
            gradients: Vec::new(),
            bump,
            scratch: Vec::new(),
        }
    }

    /// The arena that names and merged messages live in.
    pub fn bump(&self) -> &'a Bump {
        self.bump
    }

    /// How many names there are; every id is below.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The id of a name.
    #[inline]
    pub fn intern(&mut self, name: &'a [u8]) -> BlobId {
        let next = BlobId(self.names.len() as u32);
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.names.push(name);
        }
        id
    }

    /// The id of a name that does not live as long as the table.
    pub fn intern_copy(&mut self, name: &[u8]) -> BlobId {
        match self.ids.get(name) {
            Some(id) => *id,
            None => self.intern(self.bump.alloc_slice_copy(name)),
        }
    }

    /// The id of a name, if the table has it.
    pub fn get(&self, name: &[u8]) -> Option<BlobId> {
        self.ids.get(name).copied()
    }

    /// The name.
    #[inline]
    pub fn name(&self, id: BlobId) -> &'a [u8] {
        self.names[id.index()]
    }

    /// All names, by id.
    pub fn names(&self) -> &[&'a [u8]] {
        &self.names
    }

    /// The id of `prefix + name + suffix`.
    pub fn affixed(&mut self, prefix: &[u8], id: BlobId, suffix: &[u8]) -> BlobId {
        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        name.extend_from_slice(prefix);
        name.extend_from_slice(self.name(id));
        name.extend_from_slice(suffix);
        let id = self.intern_copy(&name);
        self.scratch = name;
        id
    }

    /// The id of the name of the gradient of a blob.
    #[inline]
    pub fn gradient(&mut self, id: BlobId) -> BlobId {
        if let Some(Some(gradient)) = self.gradients.get(id.index()) {
            return *gradient;
        }
        let gradient = self.suffixed(id, GRADIENT);
        if self.gradients.len() <= id.index() {
            self.gradients.resize(self.names.len(), None);
        }
        self.gradients[id.index()] = Some(gradient);
        gradient
    }

    /// The id of `name + suffix`.
    pub fn suffixed(&mut self, id: BlobId, suffix: &[u8]) -> BlobId {
        self.affixed(b"", id, suffix)
    }
}
