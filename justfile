# `just` alone lists what there is.
default:
    @just --list

# Formats everything.
fmt:
    cargo fmt

# The lint of CI, word for word; a test compares the two.
lint:
    cargo fmt --check
    cargo clippy --all-targets --locked -- -D warnings

# All tests.
test:
    cargo test

# The scheduler's simulated runs alone.
sim:
    cargo test --lib scheduler::

# The tests that hold files which are made from the code, making them anew.
bless:
    BLESS=1 cargo test

# Licences, sources, bans and advisories; needs cargo-deny.
deny:
    cargo deny --locked check

# The documentation of every item, private ones included.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked --document-private-items

# The comparisons in benches/; they skip what the machine does not have.
bench:
    cargo bench --locked

# Kills coordinators, holders and clients at random, 200 rounds, and simulates crashes, 10,000 seeds.
chaos:
    CHAOS_ROUNDS=200 CHAOS_SEEDS=10000 cargo test chaos -- --nocapture
