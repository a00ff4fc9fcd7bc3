//! The block function: Philox4x64 with ten rounds.

const MULTIPLIERS: [u64; 2] = [0xD2E7_470E_E14C_6C93, 0xCA5A_8263_9512_1157];

/// Added to the key between rounds: the golden ratio and the root of three minus one, as 64-bit fractions.
const WEYL: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B];

/// Gives the four words at `counter` under `key`: a bijection of the counter for every key.
///
/// Equal to `numpy.random.Philox(counter=c, key=key).random_raw(4)` with `c + 1 == counter`, since numpy adds one before
/// it draws; the lowest word comes first in both.
#[inline]
#[must_use]
pub fn philox4x64_10(mut counter: [u64; 4], mut key: [u64; 2]) -> [u64; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let (low0, high0) = counter[0].carrying_mul(MULTIPLIERS[0], 0);
        let (low1, high1) = counter[2].carrying_mul(MULTIPLIERS[1], 0);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
    }
    counter
}
