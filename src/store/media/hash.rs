//! Checksums, made while a file is written.

use sha2::{Digest, Sha256};

use crate::model::Checksum;

/// A checksum in the making.
#[derive(Clone, Debug)]
pub(super) enum Hash {
    Blake3(Box<blake3::Hasher>),
    Sha256(Sha256),
}

impl Hash {
    pub(super) fn new(checksum: Checksum) -> Self {
        match checksum {
            Checksum::Blake3 => Self::Blake3(Box::default()),
            Checksum::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// `blake3:…` or `sha256:…`, in lower-case hexadecimal.
    pub(super) fn finish(self) -> String {
        match self {
            Self::Blake3(hasher) => format!("blake3:{}", hasher.finalize().to_hex()),
            Self::Sha256(hasher) => {
                let digits = hasher.finalize();
                let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("sha256:{digits}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_of_abc_are_those_of_their_standards() {
        for (checksum, expected) in [
            (
                Checksum::Blake3,
                "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
            (
                Checksum::Sha256,
                "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let mut hash = Hash::new(checksum);
            hash.update(b"a");
            hash.update(b"bc");
            assert_eq!(hash.finish(), expected);
        }
    }
}
