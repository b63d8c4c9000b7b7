//! The least that any such program has to do: look at each name of a net once.
//!
//! The ratio to it can be compared between machines. It shares no code with the core, so that it
//! does not move when the core does.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::hash_table::{Entry, HashTable};

const OP: u64 = 2;
const INPUT: u64 = 1;
const OUTPUT: u64 = 2;
const ARG: u64 = 5;
const N: u64 = 8;
const NETS: u64 = 9;

/// Scans a well-formed net, and those inside it, and interns each input and output by its name, in a
/// table that starts empty. Names are not checked to be UTF-8. Answers how many names there are.
pub fn scan_and_intern(net: &[u8]) -> usize {
    let mut names = Names::default();
    let mut nets = vec![net];
    while let Some(net) = nets.pop() {
        for (field, op) in Fields(net) {
            if field != OP {
                continue;
            }
            for (field, bytes) in Fields(op) {
                match field {
                    INPUT | OUTPUT => names.intern(bytes),
                    ARG => nets.extend(
                        Fields(bytes)
                            .filter(|(field, _)| matches!(*field, N | NETS))
                            .map(|it| it.1),
                    ),
                    _ => {}
                }
            }
        }
    }
    std::hint::black_box(&names.ids).len()
}

/// Names, each once, and the id of every name that was met.
#[derive(Default)]
struct Names<'n> {
    hasher: FixedState,
    table: HashTable<u32>,
    distinct: Vec<&'n [u8]>,
    ids: Vec<u32>,
}

impl<'n> Names<'n> {
    fn intern(&mut self, name: &'n [u8]) {
        let Self { hasher, table, distinct, ids } = self;
        let hash = hasher.hash_one(name);
        let same = |id: &u32| distinct[*id as usize] == name;
        let id = match table.entry(hash, same, |id| hasher.hash_one(distinct[*id as usize])) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(place) => {
                let id = distinct.len() as u32;
                place.insert(id);
                distinct.push(name);
                id
            }
        };
        ids.push(id);
    }
}

/// The fields of a message: number, and bytes where the field has a length.
struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        Some(value)
    }

    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = (u64, &'m [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let bytes = match key & 7 {
            0 => self.varint().map(|_| &[][..]),
            1 => self.take(8),
            2 => {
                let length = self.varint()?;
                self.take(length as usize)
            }
            _ => self.take(4),
        };
        Some((key >> 3, bytes?))
    }
}
