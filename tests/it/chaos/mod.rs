//! Chaos on the real binary: coordinators, holders and clients of a busy run are killed at random
//! moments, and whatever was acknowledged has to hold afterwards.
//!
//! `CHAOS_ROUNDS` says how many rounds (20 by default), `CHAOS_SEED` which one is the first. A
//! round is made of its seed: its manifest, who is killed, and when.

mod checks;
mod round;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use round::{Round, Story};

/// Rounds that run side by side. More would only make all of them slower on a small machine.
const SIDE_BY_SIDE: usize = 2;

#[test]
fn what_was_acknowledged_outlasts_every_kill() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (rounds, first) = (number("CHAOS_ROUNDS", 20), number("CHAOS_SEED", 1));
    let next = AtomicU64::new(first);
    let stories = Mutex::new(Vec::new());
    let failures = Mutex::new(String::new());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + rounds {
                        return;
                    }
                    match std::panic::catch_unwind(|| Round::new(seed).play()) {
                        Ok(Ok(story)) => stories.lock().unwrap().push(story),
                        Ok(Err(words)) => {
                            writeln!(failures.lock().unwrap(), "seed {seed}: {words}").unwrap();
                        }
                        Err(_) => {
                            writeln!(failures.lock().unwrap(), "seed {seed}: see the panic above")
                                .unwrap();
                        }
                    }
                }
            });
        }
    });
    eprintln!("{}", Story::sum(&stories.into_inner().unwrap()));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "CHAOS_SEED=… plays a round again:\n{failures}");
}
