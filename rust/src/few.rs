//! Maps and sets that hold a handful of things nearly always, and thousands now and then.
//!
//! The blobs of one operator, the seeds of one branch: for so few, looking at each is faster than
//! hashing, and no memory is asked for. From [`FEW`] on an index of hashes is kept beside. What was
//! put in first comes first, whatever the hashes are, as long as nothing is taken out.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How many entries go without an index. Lists that are as short nearly always have room for so many in
/// place, too.
pub const FEW: usize = 8;

/// A map.
#[derive(Clone)]
pub struct Map<K, V> {
    entries: SmallVec<[(K, V); FEW]>,
    /// Where each key stands; empty as long as there are few.
    index: FxHashMap<K, u32>,
}

/// A set.
#[derive(Clone)]
pub struct Set<K> {
    map: Map<K, ()>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { entries: SmallVec::new(), index: FxHashMap::default() }
    }
}

impl<K, V> Map<K, V> {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How much is in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }
}

impl<K: Copy + Eq + Hash, V> Map<K, V> {
    /// An empty map that can take so many entries without growing.
    pub fn with_room(entries: usize) -> Self {
        let mut map = Self::default();
        if entries > FEW {
            map.entries.reserve(entries);
            map.index.reserve(entries);
        }
        map
    }

    #[inline]
    fn position(&self, key: &K) -> Option<usize> {
        if self.index.is_empty() {
            self.entries.iter().position(|(other, _)| other == key)
        } else {
            self.index.get(key).map(|at| *at as usize)
        }
    }

    /// Where a key stands; where it will stand, if it is not there.
    #[inline]
    fn place(&mut self, key: K) -> usize {
        let next = self.entries.len();
        if next > FEW {
            return *self.index.entry(key).or_insert(next as u32) as usize;
        }
        let found = self.entries.iter().position(|(other, _)| *other == key);
        if found.is_none() && next == FEW {
            let keys = self.entries.iter().map(|(key, _)| *key);
            self.index.extend(keys.chain([key]).zip(0..));
        }
        found.unwrap_or(next)
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.position(key).map(|at| &mut self.entries[at].1)
    }

    /// Whether the key is there.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.position(key).is_some()
    }

    /// Puts a value in and hands out the one that the key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.place(key);
        match self.entries.get_mut(at) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.entries.push((key, value));
                None
            }
        }
    }

    /// The value of a key; `value` is put in where there is none.
    pub fn or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let at = self.place(key);
        if at == self.entries.len() {
            self.entries.push((key, value()));
        }
        &mut self.entries[at].1
    }

    /// Takes a key out. The last entry takes its place.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.position(key)?;
        let (_, value) = self.entries.swap_remove(at);
        if !self.index.is_empty() {
            self.index.remove(key);
            if self.entries.len() <= FEW {
                self.index.clear();
            } else if let Some((moved, _)) = self.entries.get(at) {
                self.index.insert(*moved, at as u32);
            }
        }
        Some(value)
    }
}

impl<K: Copy + Eq + Hash, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let (least, most) = entries.size_hint();
        let mut map = Self::with_room(most.unwrap_or(least));
        entries.for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

impl<K> Default for Set<K> {
    fn default() -> Self {
        Self { map: Map::default() }
    }
}

impl<K> Set<K> {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// What is in it.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.map.keys()
    }
}

impl<K: Copy + Eq + Hash> Set<K> {
    /// An empty set that can take so many things without growing.
    pub fn with_room(things: usize) -> Self {
        Self { map: Map::with_room(things) }
    }

    /// Whether something is in it.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// Puts something in and says whether it is new.
    pub fn insert(&mut self, key: K) -> bool {
        self.map.insert(key, ()).is_none()
    }

    /// Takes something out and says whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        self.map.remove(key).is_some()
    }
}

impl<K: Copy + Eq + Hash> FromIterator<K> for Set<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self { map: keys.into_iter().map(|key| (key, ())).collect() }
    }
}

impl<K: Copy + Eq + Hash> Extend<K> for Set<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_of_any_size() {
        let (mut map, mut model) = (Map::default(), BTreeMap::new());
        let mut state = 1_u32;
        for round in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The size goes up and down between nothing and some 40.
            let (key, grows) = (state >> 24 & 63, state >> 16 & 255 < 128 + (round / 500 % 2) * 96);
            if grows {
                assert_eq!(map.insert(key, round), model.insert(key, round));
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
            entries.sort_unstable();
            assert!(entries.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))));
            assert_eq!(map.get(&key), model.get(&key));
            assert_eq!(map.contains_key(&(key ^ 1)), model.contains_key(&(key ^ 1)));
        }
    }

    #[test]
    fn what_is_put_in_first_comes_first() {
        for size in [3, FEW as u32, 1000] {
            let keys = || (0..size).map(|key| key.wrapping_mul(0x9e37_79b9));
            let set: Set<u32> = keys().chain(keys()).collect();
            assert!(set.iter().copied().eq(keys()));
        }
    }
}
