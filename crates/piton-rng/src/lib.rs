//! Named, counter-based random streams: the same (seed, domain, index) gives the same numbers on any thread in any order.
