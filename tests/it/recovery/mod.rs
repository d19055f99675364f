//! The coordinator is killed, and another goes on with what it has left: real processes throughout.

mod cases;
mod clients;
mod runs;
mod sessions;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use callboard::domain::event::Event;
use serde_json::Value;

use crate::house::{House, wait_for};

/// A house whose coordinator is killed from time to time.
struct Ward {
    house: House,
}

impl Ward {
    fn new() -> Self {
        Self { house: House::new() }
    }

    fn status(&self) -> Value {
        self.house.call(&["status", "--json"]).json()
    }

    /// The coordinator's pid, once there is one.
    fn coordinator(&self) -> i64 {
        wait_for("a coordinator", || {
            let status = self.status();
            status["coordinator"]["pid"].as_i64().ok_or_else(|| status.to_string())
        })
    }

    /// Kills the coordinator, and waits until it is gone.
    fn kill_coordinator(&self) -> i64 {
        let pid = self.coordinator();
        signal(pid, "KILL");
        wait_for("the coordinator is gone", || {
            let left = state_of(pid);
            if left.is_none() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        pid
    }

    /// Has another coordinator started, as any verb does that needs one.
    fn revive(&self) {
        let called = self.house.call(&["exec", "-c", "true"]);
        assert_eq!(called.code, 0, "{called:?}");
    }

    /// Kills the coordinator and has another started.
    fn succeed(&self) {
        let before = self.kill_coordinator();
        self.revive();
        assert_ne!(self.coordinator(), before);
    }

    /// Starts a detached run of `manifest`.
    fn detach(&self, manifest: &str) -> String {
        self.detach_with(&[], manifest)
    }

    /// The same with more flags.
    fn detach_with(&self, flags: &[&str], manifest: &str) -> String {
        self.house.write("m.toml", manifest);
        let mut args = vec!["run", "m.toml", "--detach", "--json"];
        args.extend(flags);
        let called = self.house.call(&args);
        assert_eq!(called.code, 0, "{called:?}");
        called.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// A run's report as it is now.
    fn report(&self, run: &str) -> Value {
        self.house.call(&["report", run, "--json"]).json()
    }

    /// A run's report, once a coordinator has brought the run to its end.
    fn end_of(&self, run: &str) -> Value {
        wait_for("the run's end", || {
            let line = self.line_of(run);
            let over = line["outcome"].is_string() && line["outcome"] != "incomplete";
            if over { Ok(()) } else { Err(line.to_string()) }
        });
        self.report(run)
    }

    /// What `run ls` says of a run.
    fn line_of(&self, run: &str) -> Value {
        let listed = self.house.call(&["run", "ls", "--json"]).json();
        let lines = listed["runs"].as_array().unwrap();
        let line = lines.iter().find(|line| line["run_id"] == run);
        line.unwrap_or_else(|| panic!("`run ls` lacks {run}: {listed:#}")).clone()
    }

    /// The shells of tasks' sessions, by task.
    fn shells(&self) -> BTreeMap<String, i64> {
        let status = self.status();
        let sessions = status["sessions"].as_array().unwrap();
        let shell = |session: &Value| {
            let task = session["origin"]["task"].as_str()?.rsplit_once('/')?.1.to_owned();
            Some((task, session["pid"].as_i64()?))
        };
        sessions.iter().filter_map(shell).collect()
    }

    /// The holders of all open sessions.
    fn holders(&self) -> Vec<i64> {
        let status = self.status();
        let sessions = status["sessions"].as_array().unwrap();
        let shells = sessions.iter().filter_map(|session| session["pid"].as_i64());
        shells.map(|shell| parent(shell).unwrap()).collect()
    }

    /// Waits until a file of the workspace has so many lines.
    fn lines(&self, file: &str, count: usize) {
        wait_for(&format!("{count} lines in {file}"), || {
            let text = self.house.read(file);
            if text.lines().count() >= count { Ok(()) } else { Err(text) }
        });
    }

    /// Nothing is left to do: once all sessions are over the coordinator is told to end, sooner than
    /// it would by itself, and nothing of the house is left.
    fn end(&self) {
        let pid = wait_for("all sessions are over", || {
            let status = self.status();
            match status["sessions"].as_array().unwrap().is_empty() {
                true => Ok(status["coordinator"]["pid"].as_i64()),
                false => Err(status.to_string()),
            }
        });
        if let Some(pid) = pid {
            signal(pid, "TERM");
        }
        self.house.assert_empties();
    }

    /// The folder of the workspace's state.
    fn state(&self) -> PathBuf {
        let states = std::fs::read_dir(self.house.root().join("state/callboard")).unwrap();
        let mut states = states.flatten().map(|entry| entry.path());
        states
            .find(|state| state.file_name().unwrap().to_string_lossy().starts_with("ws-"))
            .unwrap()
    }

    /// What the journal holds.
    fn journal(&self) -> Vec<Event> {
        let mut events = Vec::new();
        callboard::journal::read(&self.state().join("journal"), &mut |line| {
            events.push(line.event);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        events
    }
}

/// A coordinator in the foreground, ended by pid if a test fails.
struct Served(Child);

impl Served {
    fn start(ward: &Ward) -> Self {
        let mut command = ward.house.command(&["serve"]);
        let served = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("it serves", || {
            let status = ward.status();
            let serves = status["coordinator"]["pid"].as_i64() == Some(i64::from(served.0.id()));
            if serves { Ok(()) } else { Err(status.to_string()) }
        });
        served
    }

    /// Its exit code, once it has ended by itself.
    fn code(&mut self) -> i32 {
        wait_for("the coordinator ends", || {
            self.0.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
        .code()
        .unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn task<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["id"] == id).unwrap_or_else(|| panic!("no task {id}: {report:#}"))
}

fn signal(pid: i64, name: &str) {
    let pid = pid.to_string();
    drop(std::process::Command::new("kill").args([&format!("-{name}"), &pid]).output());
}

/// The state letter of a process that lives.
fn state_of(pid: i64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat[stat.rfind(')')? + 1..].trim_start().chars().next()?;
    (state != 'Z' && state != 'X').then_some(state)
}

fn parent(pid: i64) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}
