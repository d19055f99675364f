//! (b) One command in a warm session, seen by a client over the socket, against a bare bash on a
//! PTY.

use std::time::Instant;

use crate::house::{Client, House};
use crate::measure::{Series, micros, row, target};
use crate::peer::BareBash;

const ROUNDS: usize = 5;
const COMMANDS: usize = 400;

pub fn run() {
    let house = House::new();
    let mut client = house.client();
    let mut bare = BareBash::read_eval();
    let mut interactive = BareBash::interactive();
    for command in ["true", "/bin/true"] {
        let (mut ours, mut least, mut usual) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.extend(times(|| warm(&mut client, command)));
            least.extend(times(|| bare.run(command)));
            usual.extend(times(|| interactive.run(command)));
        }
        let (ours, least, usual) = (Series::new(ours), Series::new(least), Series::new(usual));
        let show = |series: &Series| {
            format!("p50 {:.0} µs, p99 {:.0} µs", series.median(), series.at(0.99))
        };
        row(&format!("{command}: bash read/eval on a PTY (limit)"), &show(&least));
        row(&format!("{command}: interactive bash on a PTY"), &show(&usual));
        let ratio = ours.median() / least.median();
        row(&format!("{command}: callboard"), &format!("{}, {ratio:.2} × the limit", show(&ours)));
        if command == "true" {
            target("p50 of `true` within 4 × the bare limit", ratio <= 4.0);
        }
    }
}

fn warm(client: &mut Client, command: &str) {
    let result = client.exec(Some("keep"), command);
    assert_eq!(result.exit_code, Some(0), "{result:?}");
}

fn times(mut work: impl FnMut()) -> Vec<f64> {
    for _ in 0..20 {
        work();
    }
    (0..COMMANDS)
        .map(|_| {
            let start = Instant::now();
            work();
            micros(start.elapsed())
        })
        .collect()
}
