//! (a) 1,000 no-op tasks, two at a time, each in a session of its own, the durable journal on.

use crate::house::House;
use crate::measure::{Series, row, seconds, target};
use crate::peer::{find, shell};

const TASKS: usize = 1_000;
const ROUNDS: usize = 3;

type Peer = (&'static str, &'static str, usize, fn(usize) -> bool);

/// Name, program, tasks, how to run them.
const PEERS: &[Peer] = &[
    ("xargs -P2 sh -c true", "xargs", TASKS, |n| {
        shell(&format!("seq {n} | xargs -P2 -I{{}} sh -c true"))
    }),
    ("GNU parallel -j2", "parallel", TASKS, |n| shell(&format!("seq {n} | parallel -j2 true"))),
    ("GNU parallel -j2 --joblog", "parallel", TASKS, |n| {
        shell(&format!("log=$(mktemp); seq {n} | parallel -j2 --joblog $log true; rm -f $log"))
    }),
    ("task-spooler, 2 slots", "tsp", TASKS, |n| {
        shell(&format!(
            "export TS_SOCKET=$(mktemp -u) TS_MAXFINISHED=2000; tsp -S 2; \
             for i in $(seq {n}); do tsp -n true >/dev/null; done; while tsp -l | grep -qE 'running|queued'; do sleep 0.01; done; tsp -K"
        ))
    }),
    // Its daemon looks every 300 ms: 100 tasks are as long as anybody wants to wait.
    ("pueue, 2 slots, 100 tasks", "pueue", 100, |n| {
        shell(&format!(
            "d=$(mktemp -d); export XDG_RUNTIME_DIR=$d XDG_DATA_HOME=$d XDG_CONFIG_HOME=$d; pueued -d >/dev/null && \
             pueue parallel 2 && for i in $(seq {n}); do pueue add -- true >/dev/null; done; pueue wait -q; pueue shutdown; rm -rf $d"
        ))
    }),
];

pub fn run() {
    let house = House::new();
    let tasks: String =
        (0..TASKS).map(|n| format!("[[task]]\nid = \"t{n}\"\nrun = \"true\"\n")).collect();
    house.write("many.toml", &tasks);
    let mut ours = Vec::new();
    let mut theirs: Vec<(&Peer, Vec<f64>)> = Vec::new();
    for peer in PEERS {
        if find(peer.1).is_none() {
            row(peer.0, "skipped: not on this machine");
        } else {
            theirs.push((peer, Vec::new()));
        }
    }
    for _ in 0..ROUNDS {
        let took = seconds(|| assert!(house.call(&["run", "many.toml", "--jobs", "2", "--quiet"])));
        ours.push(TASKS as f64 / took);
        for (peer, rates) in &mut theirs {
            let took = seconds(|| {
                peer.3(peer.2);
            });
            rates.push(peer.2 as f64 / took);
        }
    }
    let ours = Series::new(ours);
    row("callboard run --jobs 2", &ours.shown("tasks/s"));
    for (peer, rates) in theirs {
        let rates = Series::new(rates);
        let ratio = ours.median() / rates.median();
        row(peer.0, &format!("{}, callboard is {ratio:.2} of it", rates.shown("tasks/s")));
        if peer.0.ends_with("--joblog") {
            target("at least as many tasks a second as GNU parallel with a job log", ratio >= 1.0);
        }
    }
}
