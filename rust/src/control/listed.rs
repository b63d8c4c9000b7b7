//! The blobs that a Do, If or While lists, numbered.
//!
//! Of wide operators each blob is asked for many times over. So what is known of one lies at its
//! number, and the number is found in a table that has a place for each name.

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::few::FEW;
use crate::ssa::{Places, VersionId};

/// The blobs that an operator lists, each with its versions: inputs first, as they are met.
pub(super) struct Listed {
    places: Places,
    versions: SmallVec<[Versions; FEW]>,
}

/// The versions of a blob that an operator has to do with.
#[derive(Clone, Copy)]
struct Versions {
    blob: BlobId,
    /// The one it reads, if the blob is an input.
    read: Option<VersionId>,
    /// The one it leaves, if the blob is an output.
    written: Option<VersionId>,
}

impl Listed {
    /// Numbers the blobs of an operator, in the memory that nets are played in.
    pub(super) fn new(walk: &mut Walk<'_, '_, '_>, op: usize) -> Self {
        let mut places = std::mem::take(&mut walk.session.places);
        places.begin(walk.session.table.len());
        let (inputs, outputs) = (walk.net.input_places(op), walk.net.output_places(op));
        let versions = SmallVec::with_capacity(inputs.len() + outputs.len());
        let mut listed = Self { places, versions };
        for place in inputs {
            let number = listed.number(walk.net.blobs()[place]);
            listed.versions[number].read = Some(walk.ssa.at[place]);
        }
        for place in outputs {
            let number = listed.number(walk.net.blobs()[place]);
            listed.versions[number].written = Some(walk.ssa.at[place]);
        }
        listed
    }

    /// The number of a blob, whether the operator lists it or not.
    pub(super) fn number(&mut self, blob: BlobId) -> usize {
        if let Some(number) = self.find(blob) {
            return number;
        }
        let number = self.versions.len();
        self.places.set(blob, number as u32);
        self.versions.push(Versions { blob, read: None, written: None });
        number
    }

    /// The number of a blob that has one.
    #[inline]
    pub(super) fn find(&self, blob: BlobId) -> Option<usize> {
        self.places.get(blob).map(|number| number as usize)
    }

    /// How many blobs have numbers.
    pub(super) fn len(&self) -> usize {
        self.versions.len()
    }

    /// The blob of a number.
    pub(super) fn blob(&self, number: usize) -> BlobId {
        self.versions[number].blob
    }

    fn versions(&self, blob: BlobId) -> Versions {
        let nothing = Versions { blob, read: None, written: None };
        self.find(blob).map_or(nothing, |number| self.versions[number])
    }

    /// The version of an input.
    pub(super) fn read(&self, blob: BlobId) -> Option<VersionId> {
        self.versions(blob).read
    }

    /// The version that the operator leaves a blob in.
    pub(super) fn left(&self, blob: BlobId) -> Option<VersionId> {
        let Versions { read, written, .. } = self.versions(blob);
        written.or(read)
    }

    /// Whether a blob has been there before the operator, as far as the net tells.
    pub(super) fn is_known_before(&self, walk: &Walk<'_, '_, '_>, blob: BlobId) -> bool {
        let Versions { read, written, .. } = self.versions(blob);
        read.is_some() || written.is_some_and(|version| walk.ssa.number(version) > 0)
    }

    /// Gives the memory back.
    pub(super) fn done(self, walk: &mut Walk<'_, '_, '_>) {
        walk.session.places = self.places;
    }
}
