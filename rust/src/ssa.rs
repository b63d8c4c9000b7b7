//! Versions: which value of a blob each operator reads and writes.
//!
//! A blob that is read before anything writes it has version 0 from outside; the first write of a
//! blob that nothing has read makes version 0, every other write the next one. That is the
//! numbering of the reference's `IR.Play`.

use crate::blobs::BlobId;
use crate::memory;
use crate::net::Net;

/// One version of one blob of one net.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VersionId(pub u32);

impl VersionId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a version. There are twice as many as operators, so they are small: [`NONE`] stands
/// for no operator and no version.
#[derive(Clone, Copy)]
pub struct Version {
    /// The blob, as the net counts its blobs.
    pub place: u32,
    /// The number of the version.
    pub number: u32,
    writer: u32,
    first_reader: u32,
    before: u32,
}

/// The net has fewer inputs and outputs than this; see [`Net`].
const NONE: u32 = u32::MAX;

impl Version {
    /// The operator that writes it; `None` where it comes from outside.
    #[inline]
    pub fn writer(&self) -> Option<u32> {
        (self.writer != NONE).then_some(self.writer)
    }

    /// The first operator that reads it. A target of the backward pass counts as a reader behind
    /// the last operator.
    #[inline]
    pub fn first_reader(&self) -> Option<u32> {
        (self.first_reader != NONE).then_some(self.first_reader)
    }

    /// The version that it has taken the place of.
    #[inline]
    pub fn before(&self) -> Option<VersionId> {
        (self.before != NONE).then_some(VersionId(self.before))
    }
}

/// Maps the blobs of an answer to numbers: those of the blobs of one net while that net is played, for
/// one.
#[derive(Default)]
pub struct Places {
    net: u32,
    /// By blob: the net that last met it, and its place there.
    met: Vec<(u32, u32)>,
}

impl Places {
    /// Forgets all numbers. There are so many names.
    pub(crate) fn begin(&mut self, table_len: usize) {
        if self.net == u32::MAX {
            *self = Self::default();
        }
        self.net += 1;
        if self.met.len() < table_len {
            self.met.resize(table_len, (0, 0));
        }
    }

    /// The number of a blob.
    #[inline]
    pub(crate) fn get(&self, blob: BlobId) -> Option<u32> {
        let (net, number) = *self.met.get(blob.index())?;
        (net == self.net).then_some(number)
    }

    /// Numbers a blob, whose name may be a new one.
    #[inline]
    pub(crate) fn set(&mut self, blob: BlobId, number: u32) {
        if self.met.len() <= blob.index() {
            self.met.resize(blob.index() + 1, (0, 0));
        }
        self.met[blob.index()] = (self.net, number);
    }

    pub(crate) fn bytes(&self) -> usize {
        memory::room(&self.met)
    }
}

/// The versions of a net.
#[derive(Default)]
pub struct Ssa {
    /// All versions.
    pub versions: Vec<Version>,
    /// The version at each place of [`Net::blobs`].
    pub at: Vec<VersionId>,
    /// The blobs of this net, in the order in which they are met.
    pub blobs: Vec<BlobId>,
    /// The newest version of each of these blobs.
    pub current: Vec<VersionId>,
}

impl Ssa {
    /// Plays a net, with nothing played before. `targets` are blobs that are read behind its end; their places are handed to
    /// `target`.
    #[must_use]
    pub fn play(
        mut self,
        net: &Net<'_>,
        places: &mut Places,
        table_len: usize,
        targets: impl Iterator<Item = BlobId>,
        mut target: impl FnMut(u32),
    ) -> Self {
        places.begin(table_len);
        let ssa = &mut self;
        ssa.versions.reserve(net.blobs().len());
        ssa.at.reserve(net.blobs().len());
        ssa.blobs.reserve(net.blobs().len());
        ssa.current.reserve(net.blobs().len());
        for op in 0..net.ops().len() {
            for blob in net.inputs(op) {
                let read = ssa.read(*blob, places, op as u32);
                ssa.at.push(read);
            }
            for blob in net.outputs(op) {
                let written = ssa.write(*blob, places, op as u32);
                ssa.at.push(written);
            }
        }
        for blob in targets {
            let version = ssa.read(blob, places, net.ops().len() as u32);
            target(ssa.versions[version.index()].place);
        }
        self
    }

    pub(crate) fn clear(&mut self) {
        self.versions.clear();
        self.at.clear();
        self.blobs.clear();
        self.current.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        let ids = memory::room(&self.at) + memory::room(&self.blobs) + memory::room(&self.current);
        memory::room(&self.versions) + ids
    }

    fn place(&mut self, blob: BlobId, places: &mut Places) -> (u32, bool) {
        let met = &mut places.met[blob.index()];
        if met.0 == places.net {
            return (met.1, false);
        }
        let place = self.blobs.len() as u32;
        *met = (places.net, place);
        self.blobs.push(blob);
        (place, true)
    }

    fn add(&mut self, place: u32, number: u32, writer: u32) -> VersionId {
        let id = VersionId(self.versions.len() as u32);
        let before = self.current.get(place as usize).map_or(NONE, |version| version.0);
        self.versions.push(Version { place, number, writer, first_reader: NONE, before });
        match self.current.get_mut(place as usize) {
            Some(current) => *current = id,
            None => self.current.push(id),
        }
        id
    }

    #[inline]
    fn read(&mut self, blob: BlobId, places: &mut Places, reader: u32) -> VersionId {
        let (place, new) = self.place(blob, places);
        let id = if new { self.add(place, 0, NONE) } else { self.current[place as usize] };
        let version = &mut self.versions[id.index()];
        version.first_reader = version.first_reader.min(reader);
        id
    }

    #[inline]
    fn write(&mut self, blob: BlobId, places: &mut Places, writer: u32) -> VersionId {
        let (place, new) = self.place(blob, places);
        let number = if new { 0 } else { self.number(self.current[place as usize]) + 1 };
        self.add(place, number, writer)
    }

    /// The number of a version.
    pub fn number(&self, version: VersionId) -> u32 {
        self.versions[version.index()].number
    }

    /// The blob of a version.
    pub fn blob(&self, version: VersionId) -> BlobId {
        self.blobs[self.versions[version.index()].place as usize]
    }

    /// The newest version of the blob of `version`.
    pub fn newest(&self, version: VersionId) -> VersionId {
        self.current[self.versions[version.index()].place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::BlobTable;
    use crate::testing::net_of;
    use bumpalo::Bump;

    fn numbers(ops: &[(&str, &[&str], &[&str])]) -> Vec<u32> {
        let bytes = net_of(ops);
        let bump = Bump::new();
        let mut table = BlobTable::new(&bump, 8);
        let net = Net::read(crate::message::NetRef { bytes: &bytes }, &mut table)
            .expect("a well-formed net");
        let mut places = Places::default();
        let ssa = Ssa::default().play(&net, &mut places, table.len(), std::iter::empty(), |_| ());
        ssa.at.iter().map(|version| ssa.number(*version)).collect()
    }

    #[test]
    fn a_first_write_is_version_0_and_a_write_over_something_is_the_next_one() {
        assert_eq!(numbers(&[("Relu", &["x"], &["y"]), ("Relu", &["y"], &["y"])]), [0, 0, 0, 1]);
        assert_eq!(numbers(&[("Relu", &["x"], &["x"]), ("Relu", &["x"], &["x"])]), [0, 1, 1, 2]);
    }

    #[test]
    fn a_repeated_output_is_written_twice() {
        assert_eq!(numbers(&[("Two", &[], &["y", "y"]), ("Relu", &["y"], &["z"])]), [0, 1, 1, 0]);
    }
}
