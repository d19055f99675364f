//! Tasks that mean to write or bind the same run one after the other, and each has its turn.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::plans::{agent, of_specs, spec};
use super::stage::{Stage, failed, jobs};
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::TaskState;
use crate::domain::plan::{Dependency, Ready, Service, TaskSpec, When};
use crate::domain::time::Timestamp;
use crate::policy::intentions::Intention;
use crate::scheduler::WaitsOn;
use crate::scheduler::event::Event;

fn writes(id: &str, globs: &[&str]) -> TaskSpec {
    TaskSpec { writes: globs.iter().map(|glob| (*glob).to_owned()).collect(), ..spec(id) }
}

fn binds(id: &str, port: u16) -> TaskSpec {
    TaskSpec { ports: [("web".to_owned(), port)].into(), ..spec(id) }
}

fn stage(tasks: Vec<TaskSpec>) -> Stage {
    Stage::new(of_specs(vec![agent("local", &[], 64)], tasks), &jobs(64))
}

#[test]
fn what_overlaps_runs_one_after_the_other() {
    let mut run = stage(vec![
        writes("a", &["src/**"]),
        writes("b", &["src/lib.rs"]),
        writes("c", &["docs/**"]),
        binds("d", 80),
        binds("e", 80),
        binds("f", 0),
        binds("g", 0),
    ]);
    let started = run.begin();
    let all = ["a#1", "c#1", "d#1", "f#1", "g#1"];
    assert_eq!(started, all.map(|one| format!("start {one} on local")));
    let wait = run.schedule.wait(1).unwrap();
    let resource = "file/src/lib.rs".to_owned();
    assert_eq!(wait.on, WaitsOn::Overlap { task: 0, resource });
    assert_eq!(run.ok("a"), ["a succeeded", "start b#1 on local"]);
    assert_eq!(run.ok("d"), ["d succeeded", "start e#1 on local"]);
}

/// One that wants much is not passed for ever by those that want little.
#[test]
fn who_is_ready_first_goes_first() {
    let mut run = stage(vec![
        writes("x", &["a"]),
        writes("much", &["a", "b"]),
        TaskSpec { priority: 0, ..writes("little", &["b"]) },
    ]);
    assert_eq!(run.begin(), ["start x#1 on local"], "`little` waits behind `much`");
    assert_eq!(run.ok("x"), ["x succeeded", "start much#1 on local"]);
    assert_eq!(run.ok("much"), ["much succeeded", "start little#1 on local"]);
    assert_eq!(run.ok("little"), ["little succeeded", "Succeeded 0"]);
}

#[test]
fn a_service_is_in_nobodys_way_that_comes_after_it() {
    let service = Service { ready: Ready::Port(80) };
    let server = TaskSpec { service: Some(service), ..binds("server", 80) };
    let after = vec![Dependency { task: 0, when: When::Success }];
    let client = TaskSpec { after, ..binds("client", 80) };
    let mut run = stage(vec![server, binds("other", 80), client]);
    assert_eq!(run.begin(), ["start server#1 on local"]);
    assert_eq!(run.ready("server"), ["start client#1 on local"]);
    assert_eq!(run.state("other"), TaskState::Ready, "it waits for the service's end");
    let words = run.ok("client");
    assert_eq!(words, ["client succeeded", "end server#1 ServiceDone"]);
    let words = run.ok("server");
    assert_eq!(words, ["server succeeded", "start other#1 on local"]);
    assert_eq!(run.ok("other"), ["other succeeded", "Succeeded 0"]);
}

/// Random tasks that want random things: no two of them ever run at once, all of them end, and who
/// waits is passed only by those that it does not overlap with.
#[test]
fn no_two_that_overlap_ever_run_at_once_and_all_have_their_turn() {
    for seed in 0..300 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let count = rng.random_range(2..10_usize);
        let tasks: Vec<TaskSpec> = (0..count)
            .map(|n| {
                let mut task = spec(&format!("t{n}"));
                let globs = ["a", "b", "c/**", "c/d", "**"];
                for glob in globs {
                    if rng.random_bool(0.15) {
                        task.writes.push(glob.to_owned());
                    }
                }
                if rng.random_bool(0.3) {
                    task.ports.insert("p".to_owned(), rng.random_range(0..3));
                }
                task.retries = rng.random_range(0..3);
                task.priority = rng.random_range(0..2);
                if n > 0 && rng.random_bool(0.3) {
                    let on = rng.random_range(0..n);
                    task.after.push(Dependency { task: on, when: When::Done });
                }
                task
            })
            .collect();
        let intentions: Vec<Intention> = tasks.iter().map(Intention::of).collect();
        let mut run = stage(tasks);
        let _started = run.begin();
        for _ in 0..1_000 {
            let running: Vec<usize> =
                (0..count).filter(|task| run.schedule.attempt(*task).is_some()).collect();
            for (at, one) in running.iter().enumerate() {
                for other in &running[at + 1..] {
                    let shared = intentions[*one].shared_with(&intentions[*other]);
                    assert_eq!(shared, None, "seed {seed}: {one} {other}");
                }
            }
            if running.is_empty() {
                let Some(at) = run.schedule.next_deadline() else { break };
                run.now = at;
                let _woken = run.hear(Event::Tick);
                continue;
            }
            let task = running[rng.random_range(0..running.len())];
            let attempt = run.schedule.attempt(task).unwrap();
            let end = if rng.random_bool(0.3) { failed() } else { AttemptEnd::Succeeded };
            run.now = Timestamp(run.now.0 + rng.random_range(0..100));
            let _effects = run.hear(Event::AttemptEnded { task, attempt, end });
        }
        assert!(run.schedule.outcome().is_some(), "seed {seed}: it never ends");
        for task in 0..count {
            assert!(run.schedule.task(task).unwrap().state.is_terminal(), "seed {seed}: {task}");
        }
    }
}
