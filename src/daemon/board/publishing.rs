//! What tasks publish, what those after them find of it, and contracts that change meanwhile.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::daemon::action::Action;
use crate::daemon::desk::Desk;
use crate::daemon::runs::Run;
use crate::domain::board::BoardEntry;
use crate::domain::board::key::{KeyKind, VALUE_BYTES_MAX};
use crate::domain::event::{AttemptEnd, Event as Record};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::plan::Publication;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::report::classify::STALE;

/// A file of more bytes is not published.
const FILE_MAX: u64 = 64 * 1024 * 1024;

impl Desk {
    /// Puts what a task publishes on the board: all of it, or nothing.
    ///
    /// # Errors
    /// What the attempt came to instead, when a file is not there or not fit.
    pub(in crate::daemon) fn publish(
        &mut self,
        id: &RunId,
        task: usize,
        now: Timestamp,
    ) -> Result<(), AttemptEnd> {
        let Some(run) = self.runs.get(id) else { return Ok(()) };
        let spec = &run.plan.tasks[task];
        if spec.publish.is_empty() {
            return Ok(());
        }
        let folder =
            spec.cwd.as_ref().map_or_else(|| run.plan.root.clone(), |cwd| run.plan.root.join(cwd));
        let writer = crate::domain::board::Writer {
            task: Some(run.label(task)),
            attempt: run.attempt_number(task),
        };
        let mut values = Vec::new();
        for (key, publication) in &spec.publish {
            let value = match publication {
                Publication::Value(value) => Ok(value.clone()),
                Publication::File(file) => content(&folder.join(file)),
            };
            let failed = |message| AttemptEnd::Failed {
                reason: TaskReason::Task(TaskCause::Publish { key: key.clone(), message }),
                permanent: false,
                environment: false,
            };
            values.push((key.clone(), value.map_err(failed)?));
        }
        for (key, value) in values {
            self.post(key, Some(value), writer.clone(), now);
        }
        Ok(())
    }

    /// The keys that a task has published, and those that it has put up itself.
    pub(in crate::daemon) fn published(&self, run: &Run, task: usize) -> Vec<String> {
        let label = run.label(task);
        let state = run.schedule.task(task).map(|view| view.state);
        let told =
            run.plan.tasks[task].publish.keys().filter(|_| state == Some(TaskState::Succeeded));
        let own = self.board.beginning("").filter(|entry| {
            entry.writer.task.as_ref() == Some(&label)
                && KeyKind::of(&entry.key).is_some_and(KeyKind::is_told)
                // A service that runs is observed.
                && !(entry.key.starts_with("service/")
                    && entry.value.as_ref().is_some_and(|value| value["session"].is_string()))
        });
        let mut keys: Vec<String> =
            told.cloned().chain(own.map(|entry| entry.key.clone())).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Where an attempt in this session finds its inputs.
    pub(in crate::daemon) fn inputs_of(
        &self,
        run: &Run,
        task: usize,
        session: &SessionId,
    ) -> PathBuf {
        let spec = &run.plan.tasks[task];
        if spec.after.iter().any(|edge| !run.plan.tasks[edge.task].publish.is_empty()) {
            inputs_file(&self.folders.tmp.join(session.as_str()))
        } else {
            self.folders.inputs.clone()
        }
    }

    /// An attempt begins: what its `after` tasks have published is written down for it, and the
    /// contracts among that it depends on.
    pub(in crate::daemon) fn hand_inputs(&mut self, id: &RunId, task: usize, session: &SessionId) {
        let Some(run) = self.runs.get(id) else { return };
        let file = self.inputs_of(run, task, session);
        let mut inputs = Map::new();
        let mut contracts = Vec::new();
        for edge in &run.plan.tasks[task].after {
            let other = &run.plan.tasks[edge.task];
            let mut values = Map::new();
            for key in other.publish.keys() {
                if let Some(value) = self.board.get(key).and_then(|entry| entry.value.clone()) {
                    values.insert(key.clone(), value);
                }
                if key.starts_with("contract/") {
                    contracts.push(key.clone());
                }
            }
            if !other.publish.is_empty() {
                inputs.insert(other.id.to_string(), Value::Object(values));
            }
        }
        if let Some(live) = self.runs.get_mut(id).and_then(|run| run.attempts.get_mut(&task)) {
            live.contracts.extend(contracts);
        }
        if !inputs.is_empty() {
            let inputs = json!({ "schema_version": SCHEMA_VERSION, "inputs": inputs });
            self.act(Action::WriteInputs { file, inputs });
        }
    }

    /// A contract is about to change: attempts that depend on it may work from what it was.
    pub(in crate::daemon) fn note_contract(&mut self, entry: &BoardEntry, now: Timestamp) {
        if !entry.key.starts_with("contract/") {
            return;
        }
        let Some(standing) = self.board.get(&entry.key) else { return };
        if standing.value == entry.value {
            return;
        }
        let by = entry.writer.task.clone().unwrap_or_else(|| "a person".to_owned());
        let mut stale = Vec::new();
        for run in self.runs.values_mut() {
            let suspects: Vec<usize> = run
                .attempts
                .iter()
                .filter(|(_, live)| live.contracts.contains(&entry.key))
                .map(|(task, _)| *task)
                .collect();
            for task in suspects {
                if entry.writer.task.as_ref() == Some(&run.label(task)) {
                    continue;
                }
                if run.tasks[task].stale.insert(entry.key.clone(), by.clone()).is_none()
                    && let Some(number) = run.attempt_number(task)
                {
                    stale.push(run.attempt_id(task, number));
                }
            }
        }
        for attempt in stale {
            let key = entry.key.clone();
            tracing::warn!(run = %attempt.run, task = %attempt.task, key, "a contract changed while it ran");
            self.record(Record::ContractChanged { attempt, key }, now);
        }
    }

    /// What is to be said of a task's last attempt.
    pub(in crate::daemon) fn stale_remarks(&self, run: &Run, task: usize) -> Vec<String> {
        run.stale_words(task).collect()
    }

    /// The same of all attempts that run, for `status`.
    pub(in crate::daemon) fn stale_lines(&self) -> Vec<String> {
        let runs = self.runs.values();
        let attempts = runs.flat_map(|run| run.attempts.keys().map(move |task| (run, *task)));
        attempts
            .flat_map(|(run, task)| {
                let label = run.label(task);
                run.stale_words(task).map(move |words| format!("{label}: {words}"))
            })
            .collect()
    }
}

impl Run {
    fn stale_words(&self, task: usize) -> impl Iterator<Item = String> {
        self.tasks[task]
            .stale
            .iter()
            .map(|(key, by)| format!("{STALE}: {key} was changed by {by} while it ran"))
    }

    /// Its class, where nothing else is known.
    pub(in crate::daemon) fn class_of(&self, task: usize, known: Option<&str>) -> Option<String> {
        let stale = (!self.tasks[task].stale.is_empty()).then_some(STALE);
        known.or(stale).map(str::to_owned)
    }
}

/// The file of a session's inputs, beside its private folder.
pub(in crate::daemon) fn inputs_file(tmp: &Path) -> PathBuf {
    let mut name = tmp.file_name().unwrap_or_default().to_os_string();
    name.push(".inputs.json");
    tmp.with_file_name(name)
}

/// What is published of a file: its JSON, or its text; of a long one its name, size and hash.
fn content(file: &Path) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("`{}`: {error}", file.display());
    let found = std::fs::metadata(file).map_err(failed)?;
    if !found.is_file() || found.len() > FILE_MAX {
        let most = FILE_MAX / 1024 / 1024;
        return Err(format!("`{}` is no file of at most {most} MiB", file.display()));
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(FILE_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let value = match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => Some(value),
        Err(_) => String::from_utf8(bytes.clone()).ok().map(Value::String),
    };
    // A little is left for what goes with it.
    if let Some(value) = value.filter(|value| value.to_string().len() <= VALUE_BYTES_MAX) {
        return Ok(value);
    }
    let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({ "file": file.to_string_lossy(), "bytes": bytes.len(), "sha256": sha256 }))
}

/// Contracts that changed while attempts ran, as the journal has it.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Stale(BTreeMap<(RunId, String), BTreeMap<String, String>>);

impl Stale {
    /// Takes one record in.
    pub(in crate::daemon) fn fold(&mut self, event: &Record) {
        match event {
            Record::AttemptStarted { attempt, .. } => {
                self.0.remove(&(attempt.run.clone(), attempt.task.to_string()));
            }
            Record::ContractChanged { attempt, key } => {
                let task = (attempt.run.clone(), attempt.task.to_string());
                self.0.entry(task).or_default().insert(key.clone(), "another task".to_owned());
            }
            _ => {}
        }
    }

    /// Gives runs back what is known of their attempts; the rest is forgotten.
    pub(in crate::daemon) fn hand_to(self, runs: &mut BTreeMap<RunId, Run>) {
        for ((run, task), stale) in self.0 {
            let Some(run) = runs.get_mut(&run) else { continue };
            let at = run.plan.tasks.iter().position(|spec| spec.id.as_str() == task);
            if let Some(at) = at {
                run.tasks[at].stale = stale;
            }
        }
    }
}
