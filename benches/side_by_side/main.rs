//! Benchmarks side by side: each figure beside a peer's or the bare limit's, taken in turn in one
//! run, as a ratio with median and spread.
//!
//! `cargo bench --bench side_by_side [-- dispatch|roundtrip|bulk|fresh|growth]`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "a benchmark prints its figures and stops at the first surprise"
)]

mod bulk;
mod dispatch;
mod fresh;
mod growth;
mod house;
mod measure;
mod peer;
mod roundtrip;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, run) in [
        ("dispatch", dispatch::run as fn()),
        ("roundtrip", roundtrip::run),
        ("bulk", bulk::run),
        ("fresh", fresh::run),
        ("growth", growth::run),
    ] {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            println!("{name}");
            run();
        }
    }
}
