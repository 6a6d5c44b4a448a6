//! Merkle trees by RFC 6962. Leaves and nodes are hashed under different prefixes, so that neither
//! passes for the other. A tree's root stands for all leaves in their order. A path proves that one
//! leaf is among them.
//!
//! The functions take hashes of leaves ([`leaf_hash`]) and do not know the leaves' contents.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// Hash of a leaf.
#[must_use]
pub fn leaf_hash(bytes: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(bytes).finalize().into()
}

/// Hash of a node over two others.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The frontier of a growing tree: the roots of its full subtrees, the largest first, one per set
/// bit of its size. A frontier suffices to add a leaf and to compute the root.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MerkleFrontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl MerkleFrontier {
    /// Number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds a leaf by its hash.
    pub fn push_leaf(&mut self, leaf: Hash) {
        let mut peak = leaf;
        for _ in 0..self.size.trailing_ones() {
            let left = self.peaks.pop().unwrap_or_default();
            peak = node_hash(&left, &peak);
        }
        self.peaks.push(peak);
        self.size += 1;
    }

    /// Root of the tree. Without leaves it is SHA-256 of the empty text.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else {
            return Sha256::digest([]).into();
        };
        peaks.fold(*last, |right, left| node_hash(left, &right))
    }

    /// Bytes of the frontier for storage. The size is stored beside them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.peaks.concat()
    }

    /// Reads the bytes of [`MerkleFrontier::to_bytes`]. `None` if they do not fit this size.
    #[must_use]
    pub fn from_bytes(size: u64, bytes: &[u8]) -> Option<Self> {
        let (peaks, []) = bytes.as_chunks::<32>() else {
            return None;
        };
        let fits = u32::try_from(peaks.len()) == Ok(size.count_ones());
        fits.then(|| Self { size, peaks: peaks.to_vec() })
    }
}

impl FromIterator<Hash> for MerkleFrontier {
    fn from_iter<I: IntoIterator<Item = Hash>>(leaves: I) -> Self {
        let mut frontier = Self::default();
        leaves.into_iter().for_each(|leaf| frontier.push_leaf(leaf));
        frontier
    }
}

/// Ranges of leaves whose roots form the path of a leaf, the lowest first.
#[must_use]
pub fn sibling_ranges(index: u64, size: u64) -> Vec<Range<u64>> {
    let mut low = 0;
    let mut high = size;
    let mut stretches = Vec::new();
    while high.saturating_sub(low) > 1 && index < size {
        let middle = low + left_of(high - low);
        if index < middle {
            stretches.push(middle..high);
            high = middle;
        } else {
            stretches.push(low..middle);
            low = middle;
        }
    }
    stretches.reverse();
    stretches
}

/// Number of leaves in the left subtree of a tree of at least two leaves: the largest power of two
/// below `size`.
const fn left_of(size: u64) -> u64 {
    1 << (u64::BITS - 1 - (size - 1).leading_zeros())
}

/// Path of a leaf in a tree whose leaves are all at hand.
#[must_use]
pub fn sibling_path(leaves: &[Hash], index: u64) -> Vec<Hash> {
    let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let size = u64::try_from(leaves.len()).unwrap_or(u64::MAX);
    let root_of = |Range { start, end }| {
        leaves[at(start)..at(end)].iter().copied().collect::<MerkleFrontier>().root()
    };
    sibling_ranges(index, size).into_iter().map(root_of).collect()
}

/// Root that a leaf and its path lead to. `None` if no tree of this size has such a path (RFC 9162,
/// section 2.1.3.2).
#[must_use]
pub fn root_by_path(index: u64, size: u64, leaf: Hash, path: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let stretches = sibling_ranges(index, size);
    if stretches.len() != path.len() {
        return None;
    }
    let climb = |below: Hash, (stretch, other): (Range<u64>, &Hash)| {
        if stretch.start > index { node_hash(&below, other) } else { node_hash(other, &below) }
    };
    Some(stretches.into_iter().zip(path).fold(leaf, climb))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The leaves of the test vectors of Certificate Transparency (RFC 6962's own implementation).
    const LEAVES: [&str; 8] = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];

    const ROOTS: [&str; 9] = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    fn leaves() -> Vec<Hash> {
        LEAVES.iter().map(|bytes| leaf_hash(&hex::decode(bytes).unwrap())).collect()
    }

    #[test]
    fn g3_roots_match_certificate_transparency() {
        for (size, root) in ROOTS.iter().enumerate() {
            let tree: MerkleFrontier = leaves().into_iter().take(size).collect();
            assert_eq!(hex::encode(tree.root()), *root, "{size}");
            let size = u64::try_from(size).unwrap();
            assert_eq!(MerkleFrontier::from_bytes(size, &tree.to_bytes()), Some(tree));
        }
    }

    #[test]
    fn g3_only_its_path_proves_a_leaf() {
        let all: Vec<Hash> = (0..70_u8).map(|n| leaf_hash(&[n])).collect();
        for size in 1..=70 {
            let tree = &all[..size];
            let root = tree.iter().copied().collect::<MerkleFrontier>().root();
            for (index, leaf) in tree.iter().enumerate() {
                let index = u64::try_from(index).unwrap();
                let size = u64::try_from(size).unwrap();
                let path = sibling_path(tree, index);
                assert_eq!(root_by_path(index, size, *leaf, &path), Some(root), "{index}/{size}");
                let elsewhere = root_by_path(index + 1, size, *leaf, &path);
                assert_ne!(elsewhere, Some(root), "{index}/{size}");
                assert_ne!(root_by_path(index, size, node_hash(leaf, leaf), &path), Some(root));
                let longer = [path, vec![root]].concat();
                assert_eq!(root_by_path(index, size, *leaf, &longer), None);
            }
        }
    }

    #[test]
    fn a_frontier_of_another_size_is_refused() {
        for (size, bytes) in [(1, 0), (1, 31), (1, 33), (1, 64), (2, 64), (3, 32), (0, 32)] {
            assert_eq!(MerkleFrontier::from_bytes(size, &vec![0; bytes]), None, "{size} {bytes}");
        }
        assert_eq!(sibling_ranges(3, 2), []);
        assert_eq!(root_by_path(0, 0, [0; 32], &[]), None);
    }
}
