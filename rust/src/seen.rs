//! Which blobs and values have been met: a table of each, for as many as there are.

use crate::gradient::Ref;

/// A set of references that is emptied at no cost, for long lists that are gone through once.
#[derive(Default)]
pub struct Seen {
    round: u32,
    /// By id: the last round that met it.
    blobs: Vec<u32>,
    values: Vec<u32>,
}

impl Seen {
    /// Forgets all.
    pub fn begin(&mut self) {
        if self.round == u32::MAX {
            *self = Self::default();
        }
        self.round += 1;
    }

    /// Puts something in and says whether it is new.
    #[inline]
    pub fn insert(&mut self, part: Ref) -> bool {
        let (rounds, at) = match part {
            Ref::Blob(blob) => (&mut self.blobs, blob.index()),
            Ref::Value(value) => (&mut self.values, value.0 as usize),
        };
        if rounds.len() <= at {
            // Ids are dense, so that many more come near this one.
            rounds.resize((at + 1).next_power_of_two(), 0);
        }
        std::mem::replace(&mut rounds[at], self.round) != self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::BlobId;
    use crate::gradient::ValueId;

    #[test]
    fn what_has_been_met_is_known_until_the_next_round() {
        let mut seen = Seen::default();
        for _ in 0..3 {
            seen.begin();
            for id in [0, 7, 100, 3] {
                assert!(seen.insert(Ref::Blob(BlobId(id))));
                assert!(seen.insert(Ref::Value(ValueId(id))));
                assert!(!seen.insert(Ref::Blob(BlobId(id))));
            }
        }
    }
}
