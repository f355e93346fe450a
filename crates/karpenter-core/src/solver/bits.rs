//! Fixed-size bit sets: "which instance types satisfy this" is an AND of a few words.

use smallvec::SmallVec;

/// A set of small integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits {
    words: SmallVec<[u64; 4]>,
}

impl Bits {
    pub(crate) fn none(len: usize) -> Self {
        Self { words: SmallVec::from_elem(0, len.div_ceil(64)) }
    }

    pub(crate) fn all(len: usize) -> Self {
        let mut bits = Self { words: SmallVec::from_elem(u64::MAX, len.div_ceil(64)) };
        if !len.is_multiple_of(64)
            && let Some(last) = bits.words.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    /// Makes room for `len` members.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.words.len() < len.div_ceil(64) {
            self.words.resize(len.div_ceil(64), 0);
        }
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    pub(crate) fn and_with(&mut self, other: &Self) {
        for (word, mask) in self.words.iter_mut().zip(&other.words) {
            *word &= mask;
        }
    }

    pub(crate) fn or_with(&mut self, other: &Self) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.and_with(other);
        result
    }

    /// Whether the two have a member in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(word, mask)| word & mask != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The only member, when there is exactly one.
    pub(crate) fn single(&self) -> Option<usize> {
        let mut members = self.iter();
        let first = members.next()?;
        members.next().is_none().then_some(first)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    index * 64 + bit
                })
            })
        })
    }
}
