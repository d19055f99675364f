//! Tiers: how long a command may take when nobody said (design, section 3; the founding text's
//! 30 s, 5 min, 10 min).

use crate::domain::plan::{Class, TimeLimits};
use crate::domain::session::Limit;

/// No tier, however often its heartbeat was good, lasts longer.
const HARD_MS_MAX: u64 = 2 * 3_600_000;
/// The heartbeat can stretch a tier this far.
const STRETCH: u64 = 10;
/// A tier is raised to this many times the 95th percentile of the same command's earlier runs.
const PERCENTILE_FACTOR: u64 = 3;

/// The tier's limit in ms.
pub fn tier_ms(class: Class) -> u64 {
    match class {
        Class::Quick => 30_000,
        Class::Build => 300_000,
        Class::Test => 600_000,
    }
}

/// The limit of a command: what was asked for, else its tier.
///
/// `p95_ms` is the 95th percentile of the same command's earlier durations, where there are any.
pub fn limit(text: &str, class: Option<Class>, limits: TimeLimits, p95_ms: Option<u64>) -> Limit {
    let tier = || {
        let base = tier_ms(class.unwrap_or_else(|| recognise(text)));
        base.max(p95_ms.unwrap_or(0).saturating_mul(PERCENTILE_FACTOR))
    };
    match (limits.timeout_ms, limits.hard_timeout_ms) {
        (Some(ms), None) => Limit::Exact { ms },
        (Some(ms), Some(hard_ms)) => Limit::Heartbeat { ms, hard_ms },
        (None, Some(hard_ms)) => Limit::Heartbeat { ms: tier().min(hard_ms), hard_ms },
        (None, None) => {
            let ms = tier();
            let hard_ms = ms.saturating_mul(STRETCH).min(HARD_MS_MAX).max(ms);
            Limit::Heartbeat { ms, hard_ms }
        }
    }
}

/// The class of a command by the programs in it: the slowest class that any of them suggests.
///
/// Words are looked at, not parsed: a wrong guess only moves a limit that the heartbeat stretches
/// anyway.
pub fn recognise(text: &str) -> Class {
    let mut found = Class::Quick;
    let mut words = text
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '"' | '\''))
        .filter(|word| !word.is_empty())
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .peekable();
    while let Some(word) = words.next() {
        match class_of(word, words.peek().copied().unwrap_or("")) {
            Some(Class::Test) => return Class::Test,
            Some(class) => found = class,
            None => {}
        }
    }
    found
}

fn class_of(program: &str, argument: &str) -> Option<Class> {
    let class = match program {
        "pytest" | "py.test" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "ctest" | "rspec"
        | "phpunit" | "playwright" | "nextest" | "unittest" => Class::Test,
        "make" | "ninja" | "cmake" | "gcc" | "g++" | "cc" | "clang" | "rustc" | "tsc"
        | "webpack" | "vite" | "docker" | "apt-get" | "apt" | "gradle" | "mvn" | "bazel"
        | "pip" | "pip3" | "uv" | "poetry" | "bundle" | "composer" | "gem" => match argument {
            "test" | "check" | "verify" => Class::Test,
            _ => Class::Build,
        },
        "cargo" | "go" | "npm" | "pnpm" | "yarn" | "dotnet" | "swift" | "mix" | "just" => {
            match argument {
                "test" | "t" | "nextest" | "bench" | "check" => Class::Test,
                "build" | "b" | "install" | "i" | "ci" | "add" | "run" | "fetch" | "publish"
                | "clippy" | "doc" | "compile" | "restore" | "mod" | "get" => Class::Build,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_recognised() {
        for (text, class) in [
            ("ls -la", Class::Quick),
            ("cargo build --release", Class::Build),
            ("cd web && npm ci", Class::Build),
            ("cargo build && cargo test", Class::Test),
            ("/usr/bin/make -j2", Class::Build),
            ("make test", Class::Test),
            ("python3 -m pytest -q", Class::Test),
            ("echo 'done'; git status", Class::Quick),
            ("npm --version", Class::Quick),
        ] {
            assert_eq!(recognise(text), class, "{text}");
        }
    }

    #[test]
    fn what_was_asked_for_wins() {
        let limits = |timeout_ms, hard_timeout_ms| TimeLimits {
            timeout_ms,
            hard_timeout_ms,
            input_timeout_ms: None,
        };
        let of = |limits, p95| limit("ls", None, limits, p95);
        assert_eq!(of(limits(Some(5), None), Some(9_999)), Limit::Exact { ms: 5 });
        assert_eq!(of(limits(Some(5), Some(9)), None), Limit::Heartbeat { ms: 5, hard_ms: 9 });
        assert_eq!(
            of(limits(None, Some(9)), None),
            Limit::Heartbeat { ms: 9, hard_ms: 9 },
            "a hard limit below the tier is the limit"
        );
        assert_eq!(of(limits(None, None), None), Limit::Heartbeat { ms: 30_000, hard_ms: 300_000 });
        assert_eq!(
            of(limits(None, None), Some(20_000)),
            Limit::Heartbeat { ms: 60_000, hard_ms: 600_000 },
            "raised by what the same command took before"
        );
        assert_eq!(
            limit("cargo test", None, limits(None, None), None),
            Limit::Heartbeat { ms: 600_000, hard_ms: 6_000_000 }
        );
        assert_eq!(
            limit("cargo test", None, limits(None, None), Some(1_000_000)),
            Limit::Heartbeat { ms: 3_000_000, hard_ms: 7_200_000 },
            "never beyond two hours"
        );
    }
}
