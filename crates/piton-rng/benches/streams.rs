//! What a stream costs: `cargo bench -p piton-rng`.

use divan::{Bencher, black_box};
use piton_rng::{Rng, Seed};

fn main() {
    divan::main();
}

/// The sampler's case: a fresh stream for every token, from a domain kept outside the loop, and one draw from it.
#[divan::bench(sample_size = 1000)]
fn stream_and_first_draw(bencher: Bencher<'_, '_>) {
    let domain = Seed(7).domain("sample");
    let mut position = 0;
    bencher.bench_local(|| {
        position += 1;
        domain.stream(black_box([3, 1, position])).next_f64()
    });
}

/// The same with the name hashed each time.
#[divan::bench(sample_size = 1000)]
fn hash_stream_and_first_draw(bencher: Bencher<'_, '_>) {
    let mut position = 0;
    bencher.bench_local(|| {
        position += 1;
        Seed(7).stream(black_box("sample"), [3, 1, position]).next_f64()
    });
}

fn bench_draw<T>(bencher: Bencher<'_, '_>, draw: impl Fn(&mut Rng) -> T) {
    let mut rng = Seed(7).stream("draw", [0; 3]);
    bencher.bench_local(|| draw(&mut rng));
}

#[divan::bench(sample_size = 1000)]
fn next_u64(bencher: Bencher<'_, '_>) {
    bench_draw(bencher, Rng::next_u64);
}

#[divan::bench(sample_size = 1000)]
fn standard_normal(bencher: Bencher<'_, '_>) {
    bench_draw(bencher, Rng::standard_normal);
}

#[divan::bench(sample_size = 1000)]
fn permutation_of_1000(bencher: Bencher<'_, '_>) {
    bench_draw(bencher, |rng| rng.permutation(black_box(1000)));
}
