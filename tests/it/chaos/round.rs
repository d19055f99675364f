//! One round: a run, its kills, and its end.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use super::checks;
use crate::house::House;

/// How long a round may take from its first kill on.
const ROUND_MAX: Duration = Duration::from_secs(120);
/// How long a client that is to end by itself may take.
const CLIENT_MAX: Duration = Duration::from_secs(60);

/// What is known of a task of the manifest.
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) retries: u64,
}

/// A round that is being played.
pub(super) struct Round {
    seed: u64,
    rng: StdRng,
    pub(super) house: House,
    pub(super) planned: Vec<Planned>,
    pub(super) story: Story,
    /// Tasks that somebody was told to have succeeded.
    pub(super) acknowledged: Vec<String>,
    /// The client that follows the run, if one does.
    client: Option<Child>,
}

/// What happened in a round, in figures.
#[derive(Clone, Default)]
pub(super) struct Story {
    pub(super) coordinators: u64,
    pub(super) holders: u64,
    pub(super) clients: u64,
    pub(super) tasks: u64,
    pub(super) attempts: u64,
    pub(super) resumed: u64,
    /// From a coordinator's death to the next one's first answer, in ms.
    pub(super) gaps_ms: Vec<u64>,
}

impl Story {
    /// The figures of all rounds in a line.
    pub(super) fn sum(stories: &[Self]) -> String {
        let of = |count: fn(&Self) -> u64| stories.iter().map(count).sum::<u64>();
        let mut gaps: Vec<u64> = stories.iter().flat_map(|story| story.gaps_ms.clone()).collect();
        gaps.sort_unstable();
        let at = |percent: usize| {
            gaps.get((gaps.len() * percent / 100).min(gaps.len().saturating_sub(1)))
        };
        let ms = |percent| at(percent).map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        format!(
            "chaos: {} rounds whole; killed {} coordinators, {} holders, {} clients; {} tasks in {} \
             attempts; {} runs resumed; back after {} (median), {} (p99)",
            stories.len(),
            of(|story| story.coordinators),
            of(|story| story.holders),
            of(|story| story.clients),
            of(|story| story.tasks),
            of(|story| story.attempts),
            of(|story| story.resumed),
            ms(50),
            ms(99),
        )
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Coordinator,
    Holder,
    Client,
}

impl Round {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let house = House::new();
        let planned = write_manifest(&house, &mut rng);
        let story = Story { tasks: planned.len() as u64, ..Story::default() };
        Self { seed, rng, house, planned, story, acknowledged: Vec::new(), client: None }
    }

    pub(super) fn play(mut self) -> Result<Story, String> {
        let attached = self.rng.random_bool(0.5);
        let run = self.begin(attached)?;
        let kills = self.rng.random_range(2..=5);
        for _ in 0..kills {
            let pause = self.rng.random_range(10..400);
            std::thread::sleep(Duration::from_millis(pause));
            self.note_acknowledged(&run);
            let victim = match self.rng.random_range(0..10) {
                0..5 => Victim::Coordinator,
                5..8 => Victim::Holder,
                _ => Victim::Client,
            };
            self.kill(victim, &run);
        }
        let report = self.end(&run)?;
        checks::all(&mut self, &run, &report)?;
        Ok(self.story.clone())
    }

    /// Starts the run, and waits until it is acknowledged.
    fn begin(&mut self, attached: bool) -> Result<String, String> {
        let flags = ["run", "m.toml", "--json", "--jobs", "4", "--detach"];
        if !attached {
            let called = self.house.call(&flags);
            return match called.code {
                0 => Ok(called.json()["run_id"].as_str().unwrap_or_default().to_owned()),
                _ => Err(format!("the run was not taken: {called:?}")),
            };
        }
        self.client = Some(self.house.command(&flags[..5]).spawn().map_err(|e| e.to_string())?);
        self.until("the run is known", |round| {
            let listed = round.house.call(&["run", "ls", "--json"]);
            let run = listed.json()["runs"][0]["run_id"].as_str().map(str::to_owned);
            run.ok_or(listed.stdout)
        })
    }

    /// Remembers what `report` says has succeeded: that is said to somebody, and has to hold.
    fn note_acknowledged(&mut self, run: &str) {
        let called = self.house.call(&["report", run, "--json"]);
        if called.code == 2 || called.stdout.is_empty() {
            return;
        }
        let report = called.json();
        for task in report["tasks"].as_array().into_iter().flatten() {
            let id = task["id"].as_str().unwrap_or_default().to_owned();
            if task["state"] == "succeeded" && !self.acknowledged.contains(&id) {
                self.acknowledged.push(id);
            }
        }
    }

    fn kill(&mut self, victim: Victim, run: &str) {
        match victim {
            Victim::Coordinator => self.kill_coordinator(),
            Victim::Holder => self.kill_holder(),
            Victim::Client => self.kill_client(run),
        }
    }

    fn kill_coordinator(&mut self) {
        let status = self.house.call(&["status", "--json"]).json();
        let Some(pid) = status["coordinator"]["pid"].as_i64() else { return };
        signal(pid, "KILL");
        self.story.coordinators += 1;
        let killed = Instant::now();
        if self.client.is_none() {
            // Nobody's client brings the next one: any verb that needs one does.
            drop(self.house.call(&["exec", "-c", "true"]));
        } else {
            let back = self.until("the client starts another coordinator", |round| {
                let status = round.house.call(&["status", "--json"]).json();
                let now = status["coordinator"]["pid"].as_i64().filter(|now| *now != pid);
                let over = round
                    .client
                    .as_mut()
                    .is_none_or(|client| !matches!(client.try_wait(), Ok(None)));
                if now.is_some() || over { Ok(()) } else { Err(status.to_string()) }
            });
            if back.is_err() {
                return;
            }
        }
        let gap = killed.elapsed().as_millis();
        self.story.gaps_ms.push(u64::try_from(gap).unwrap_or(u64::MAX));
    }

    fn kill_holder(&mut self) {
        let status = self.house.call(&["status", "--json"]).json();
        let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
        let shells: Vec<i64> = sessions.iter().filter_map(|s| s["pid"].as_i64()).collect();
        if shells.is_empty() {
            return;
        }
        let shell = shells[self.rng.random_range(0..shells.len())];
        if let Some(holder) = holder_of(shell) {
            signal(holder, "KILL");
            self.story.holders += 1;
        }
    }

    /// Kills the client; the run that it takes along goes on with the next.
    fn kill_client(&mut self, run: &str) {
        let Some(mut client) = self.client.take() else { return };
        drop(client.kill());
        drop(client.wait());
        self.story.clients += 1;
        self.resume(run);
    }

    fn resume(&mut self, run: &str) {
        let flags = ["run", "--resume", run, "--json"];
        if let Ok(client) = self.house.command(&flags).spawn() {
            self.client = Some(client);
            self.story.resumed += 1;
        }
    }

    /// Waits for the run's end, resuming it as often as its client was killed too early.
    fn end(&mut self, run: &str) -> Result<Value, String> {
        let started = Instant::now();
        loop {
            if started.elapsed() > ROUND_MAX {
                let status = self.house.call(&["status"]);
                return Err(format!("run {run} does not end:\n{}{}", status.stdout, status.stderr));
            }
            if let Some(client) = self.client.take() {
                self.client_ends(client)?;
            }
            let called = self.house.call(&["report", run, "--json"]);
            if called.stdout.is_empty() {
                return Err(format!("run {run} has no report: {called:?}"));
            }
            let report = called.json();
            let at_rest = self.house.call(&["status", "--json"]).json()["coordinator"].is_null();
            match report["outcome"].as_str() {
                Some("succeeded" | "failed" | "environment") => return Ok(report),
                // Its client was killed, or the coordinator while nobody was there.
                Some("cancelled" | "incomplete") | None if at_rest => self.resume(run),
                Some("cancelled") => self.resume(run),
                Some("escalated") => return Err(format!("nothing asks, and yet: {report:#}")),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn client_ends(&mut self, mut client: Child) -> Result<(), String> {
        let started = Instant::now();
        while matches!(client.try_wait(), Ok(None)) {
            if started.elapsed() > CLIENT_MAX {
                drop(client.kill());
                drop(client.wait());
                let status = self.house.call(&["status"]);
                let told = self.last_events();
                return Err(format!("a client does not end:\n{}{told}", status.stdout));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for a predicate.
    fn until<T>(
        &mut self,
        what: &str,
        mut probe: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let started = Instant::now();
        loop {
            match probe(self) {
                Ok(value) => return Ok(value),
                Err(words) if started.elapsed() > CLIENT_MAX => {
                    return Err(format!("waited in vain until {what}: {words}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// The end of the journal, for whoever reads of a failure.
    fn last_events(&self) -> String {
        let mut lines = std::collections::VecDeque::new();
        let Ok(journal) = self.journal() else { return String::new() };
        let _read = callboard::journal::read(&journal, &mut |line| {
            if !matches!(line.event, callboard::domain::event::Event::RunSubmitted { .. }) {
                lines.push_back(format!("{} {:?}\n", line.seq, line.event));
            }
            if lines.len() > 60 {
                lines.pop_front();
            }
            std::ops::ControlFlow::Continue(())
        });
        lines.into_iter().collect()
    }

    /// The journal's folder.
    pub(super) fn journal(&self) -> Result<PathBuf, String> {
        let states = self.house.root().join("state/callboard");
        let states = std::fs::read_dir(&states).map_err(|error| error.to_string())?;
        let journals = states.flatten().map(|entry| entry.path().join("journal"));
        let mut found: Vec<PathBuf> = journals.filter(|journal| journal.exists()).collect();
        found.retain(|journal| !journal.to_string_lossy().contains("private"));
        found.pop().ok_or_else(|| format!("seed {}: no journal", self.seed))
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if let Some(mut client) = self.client.take() {
            drop(client.kill());
            drop(client.wait());
        }
    }
}

fn signal(pid: i64, name: &str) {
    let pid = pid.to_string();
    drop(std::process::Command::new("kill").args([&format!("-{name}"), &pid]).output());
}

/// The holder above a session's shell.
fn holder_of(shell: i64) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{shell}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let line = std::fs::read(format!("/proc/{parent}/cmdline")).ok()?;
    (line.split(|byte| *byte == 0).nth(1) == Some(b"__stage")).then_some(parent)
}

/// A manifest in layers: each task says when it begins and when it is done, some fail at first,
/// some for good, and all have retries enough for the holders that are killed.
fn write_manifest(house: &House, rng: &mut StdRng) -> Vec<Planned> {
    let mut text = String::new();
    let mut planned: Vec<Planned> = Vec::new();
    let tasks = rng.random_range(10..25);
    for n in 0..tasks {
        let id = format!("t{n}");
        let retries = rng.random_range(0..4);
        let ms = rng.random_range(0..250);
        writeln!(text, "[[task]]\nid = \"{id}\"\nretries = {retries}").unwrap();
        if n > 2 && rng.random_bool(0.6) {
            let after = rng.random_range(0..n);
            let when = if rng.random_bool(0.7) { "success" } else { "done" };
            writeln!(text, "after = [{{ task = \"t{after}\", when = \"{when}\" }}]").unwrap();
        }
        let end = match rng.random_range(0..10) {
            0 => "exit 3",
            1 => "[ $CALLBOARD_ATTEMPT -ge 2 ] || exit 4",
            _ => "true",
        };
        let step = |word: &str| format!("echo \\\"{id} $CALLBOARD_ATTEMPT {word}\\\" >> log");
        writeln!(
            text,
            "run = [\"{}\", \"sleep 0.{ms:03}; {end}\", \"{}\"]",
            step("begins"),
            step("done")
        )
        .unwrap();
        planned.push(Planned { id, retries });
    }
    house.write("m.toml", &text);
    house.write(
        "agents.toml",
        "[[agent]]\nname = \"crew\"\ntags = []\nadapter = \"shell\"\ncapacity = 4\n",
    );
    planned
}
