//! Seeded choices: the same seed and the same thing always give the same draw.

/// A draw for `parts` under `seed`, evenly spread over all `u64`.
pub(super) fn draw(seed: u64, parts: &[&[u8]]) -> u64 {
    // FNV-1a keeps the parts apart by a length byte; the finaliser of splitmix64 spreads the result.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for part in parts {
        for byte in part.iter().chain(&(part.len() as u64).to_le_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Whether a draw falls into a share of 0 (never) to 1 (always).
pub(super) fn within(draw: u64, share: f64) -> bool {
    // 53 bits are what an f64 holds exactly, so 1.0 is never reached and a share of 1 takes all.
    ((draw >> 11) as f64) < share * (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_seed_and_every_part() {
        let base = draw(1, &[b"ab", b"c"]);
        assert_eq!(base, draw(1, &[b"ab", b"c"]));
        assert_ne!(base, draw(2, &[b"ab", b"c"]));
        assert_ne!(base, draw(1, &[b"a", b"bc"]));
    }

    #[test]
    fn shares_are_kept() {
        let hits = (0..10_000_u32)
            .filter(|n| within(draw(7, &[&n.to_le_bytes()]), 0.25))
            .count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!within(0, 0.0));
        assert!(within(u64::MAX, 1.0));
    }
}
