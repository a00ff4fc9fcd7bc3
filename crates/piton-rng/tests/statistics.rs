//! The draws have the distributions they are named after. Streams are fixed, so these pass always or never.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use piton_rng::Seed;

/// Pearson's statistic of equally likely cells.
fn chi_square(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
}

/// One draw from each of many streams, the sampler's case. 27.88 is the 99.9 % point at 9 degrees of freedom.
#[test]
fn first_draws_of_neighbouring_streams_are_uniform() {
    let ten = NonZeroU64::new(10).unwrap();
    for axis in 0..3 {
        let mut counts = [0; 10];
        for i in 0..100_000 {
            let mut index = [0; 3];
            index[axis] = i;
            counts[usize::try_from(Seed(1).domain("u").stream(index).below(ten)).unwrap()] += 1;
        }
        assert!(chi_square(&counts) < 27.88, "axis {axis}: {counts:?}");
    }
}

/// 49.73 is the 99.9 % point at 23 degrees of freedom.
#[test]
fn every_order_of_four_is_equally_likely() {
    let domain = Seed(2).domain("order");
    let mut counts: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
    for i in 0..24_000 {
        *counts.entry(domain.stream([i, 0, 0]).permutation(4)).or_default() += 1;
    }
    let counts: Vec<u32> = counts.into_values().collect();
    assert_eq!(counts.len(), 24);
    assert!(chi_square(&counts) < 49.73, "{counts:?}");
}

/// Shares below these points are those of the normal table; 0.0025 is five standard errors of 10^6 draws.
#[test]
fn normals_follow_the_normal_table() {
    let mut rng = Seed(3).stream("normal", [0; 3]);
    let normals: Vec<f64> = (0..1_000_000).map(|_| rng.standard_normal()).collect();
    for (point, share) in
        [(-1.959_964, 0.025), (-0.674_490, 0.25), (0.0, 0.5), (1.0, 0.841_345), (2.326_348, 0.99)]
    {
        let below = normals.iter().filter(|&&x| x < point).count() as f64 / 1e6;
        assert!((below - share).abs() < 0.0025, "below {point}: {below}, expected {share}");
    }
    assert_eq!(rng.position(), 2_000_000);
}

#[test]
fn an_order_of_nothing_draws_nothing() {
    let mut rng = Seed(4).stream("order", [0; 3]);
    assert!(rng.permutation(0).is_empty());
    assert_eq!(rng.permutation(1), [0]);
    assert_eq!(rng.position(), 0);
}
