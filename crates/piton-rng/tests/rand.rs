//! Feature `rand`: the traits of `rand_core` draw the same words.
#![cfg(feature = "rand")]

use piton_rng::Seed;
use rand_core::Rng as _;

#[test]
fn rand_core_draws_the_same_words() {
    let stream = || Seed(1).stream("a", [0; 3]);
    let mut ours = stream();
    let words = [ours.next_u64(), ours.next_u64()];
    fn word(mut rng: impl rand_core::Rng) -> u64 {
        rng.next_u64()
    }
    assert_eq!(word(stream()), words[0]);
    let mut bytes = [0; 11];
    stream().fill_bytes(&mut bytes);
    assert_eq!(bytes[..8], words[0].to_le_bytes());
    assert_eq!(bytes[8..], words[1].to_le_bytes()[..3]);
}
