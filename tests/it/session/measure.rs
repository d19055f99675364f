//! Figures, by hand: `cargo test --release --test it -- --ignored --nocapture measure`.

use std::time::{Duration, Instant};

use callboard::domain::session::Limit;
use callboard::session::wire::FactBody;

use super::house::{command, open_on, stage, with};

fn percentile(times: &mut [f64], of_hundred: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * of_hundred / 100]
}

#[test]
#[ignore = "figures, not a check"]
fn measure() {
    with(async {
        let stage = stage();
        let mut fresh = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            let mut session = open_on(stage.clone()).await.unwrap();
            let id = session.begin(command("", "true")).await;
            session
                .until(|fact| {
                    matches!(fact, FactBody::Ended { end } if end.command == id).then_some(())
                })
                .await;
            fresh.push(began.elapsed().as_secs_f64() * 1e3);
            session.close().await;
        }
        println!(
            "fresh to first result: p50 {:.2} ms, p99 {:.2}",
            percentile(&mut fresh, 50),
            percentile(&mut fresh, 99)
        );
        let mut session = open_on(stage.clone()).await.unwrap();
        for text in ["true", "/bin/true", "echo hello"] {
            let mut warm = Vec::new();
            for _ in 0..1000 {
                let began = Instant::now();
                let id = session.begin(command("", text)).await;
                session
                    .until(|fact| {
                        matches!(fact, FactBody::Ended { end } if end.command == id).then_some(())
                    })
                    .await;
                warm.push(began.elapsed().as_secs_f64() * 1e6);
                session.facts.clear();
            }
            println!(
                "warm `{text}`: p50 {:.0} µs, p99 {:.0}",
                percentile(&mut warm, 50),
                percentile(&mut warm, 99)
            );
        }
        for pid in [session.holder, session.shell, i32::try_from(stage.pid()).unwrap()] {
            let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
            let lines: Vec<_> = rollup
                .lines()
                .filter(|line| line.starts_with("Private") || line.starts_with("Pss:"))
                .collect();
            println!("{pid}: {lines:?}");
        }
        if let Ok(text) = std::env::var("CB_BULK") {
            let before = rss(session.holder);
            let began = Instant::now();
            let id = session.begin(command("", &text)).await;
            let end = session
                .until(|fact| match fact {
                    FactBody::Ended { end } if end.command == id => Some(end.clone()),
                    _ => None,
                })
                .await;
            let bytes = end.span.raw_end - end.span.raw_start;
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "bulk: {bytes} bytes, {:.1} MB/s; holder RSS {before} → {} KiB",
                bytes as f64 / seconds / 1e6,
                rss(session.holder)
            );
        }
        session.close().await;
    });
}

#[test]
#[ignore = "figures, not a check"]
fn measure_idle_sessions() {
    const SESSIONS: usize = 200;
    const WATCHED: Duration = Duration::from_secs(10);
    with(async {
        let stage = stage();
        for text in ["", "read -p 'Name: ' x", "read -e x", "sleep 600"] {
            let mut sessions = Vec::new();
            for _ in 0..SESSIONS {
                let mut session = open_on(stage.clone()).await.unwrap();
                if !text.is_empty() {
                    let mut idle = command("", text);
                    idle.limit = Limit::Exact { ms: 600_000 };
                    session.begin(idle).await;
                }
                sessions.push(session);
            }
            // They settle first.
            tokio::time::sleep(WATCHED).await;
            let used = || sessions.iter().map(|session| runtime_ns(session.holder)).sum::<u64>();
            let before = used();
            tokio::time::sleep(WATCHED).await;
            let part = (used() - before) as f64 / WATCHED.as_nanos() as f64;
            println!("{SESSIONS} sessions with `{text}`: {:.3} % of a core", part * 100.0);
            for session in sessions {
                session.close().await;
            }
        }
    });
}

/// What a process of one thread has had of processors.
fn runtime_ns(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    stat.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

fn rss(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "figures, not a check"]
fn measure_shells() {
    for (name, shell) in callboard::domain::session::Shell::ALL {
        with(async {
            let (mut fresh, mut warm) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let began = Instant::now();
                let Some(mut session) = super::shells::open_with(shell).await else { return };
                session.run("true").await;
                fresh.push(began.elapsed().as_secs_f64() * 1e3);
                for _ in 0..50 {
                    let began = Instant::now();
                    let id = session.begin(command("", "true")).await;
                    session
                        .until(|fact| {
                            matches!(fact, FactBody::Ended { end } if end.command == id)
                                .then_some(())
                        })
                        .await;
                    warm.push(began.elapsed().as_secs_f64() * 1e3);
                }
                session.close().await;
            }
            println!(
                "{name}: fresh {:.2} ms, warm {:.3} ms (medians, stage started anew for each)",
                percentile(&mut fresh, 50),
                percentile(&mut warm, 50)
            );
        });
    }
}
