//! (d) From nothing to the first result of a fresh session, and what an idle session costs.

use std::time::Instant;

use crate::house::House;
use crate::measure::{Series, micros, row, target};
use crate::peer::BareBash;

const SESSIONS: usize = 100;
const IDLE: usize = 50;

pub fn run() {
    let house = House::new();
    let mut client = house.client();
    let (mut ours, mut bare, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..SESSIONS {
        let start = Instant::now();
        let mut bash = BareBash::interactive();
        bash.run("true");
        bare.push(micros(start.elapsed()) / 1e3);
        drop(bash);
        let start = Instant::now();
        let result = client.exec(Some(&format!("fresh-{n}")), "true");
        ours.push(micros(start.elapsed()) / 1e3);
        assert_eq!(result.exit_code, Some(0));
        let start = Instant::now();
        let result = client.exec(None, "true");
        ended.push(micros(start.elapsed()) / 1e3);
        assert_eq!(result.exit_code, Some(0));
    }
    let (ours, bare, ended) = (Series::new(ours), Series::new(bare), Series::new(ended));
    let ratio = ours.median() / bare.median();
    row("interactive bash on a PTY, first result", &bare.shown("ms"));
    row("callboard session, first result", &format!("{}, {ratio:.2} × of it", ours.shown("ms")));
    row("callboard session, opened, used, ended", &ended.shown("ms"));
    target("first result within 2 × a bare interactive bash", ratio <= 2.0);
    idle(&house);
}

fn idle(house: &House) {
    let coordinator = house.coordinator();
    let holders: Vec<u32> = below(coordinator).into_iter().flat_map(below).collect();
    let holders: Vec<f64> =
        holders.into_iter().take(IDLE).map(|pid| private_kib(pid) as f64).collect();
    let holders = Series::new(holders);
    row("private memory of a holder", &holders.shown("KiB"));
    row(
        "private memory of the coordinator, all sessions open",
        &format!("{} KiB", private_kib(coordinator)),
    );
    target("at most 2 MB private memory a holder", holders.at(1.0) <= 2048.0);
}

fn below(pid: u32) -> Vec<u32> {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Private memory of a process in KiB.
pub fn private_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}
