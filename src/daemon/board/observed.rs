//! What is observed of sessions besides ports: services in the background, and files.

use std::collections::BTreeMap;

use serde_json::json;

use crate::daemon::desk::Desk;
use crate::daemon::sessions::Owner;
use crate::domain::board::Writer;
use crate::domain::conflict::Touches;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::time::Timestamp;
use crate::session::wire::Listener;

/// So many files are on the board at most; a file more is not put up.
const FILES_MAX: usize = 5_000;

impl Desk {
    /// The services that a session's background processes are, by what they listen on. A task that is
    /// a service has its own entry.
    pub(in crate::daemon) fn background_services(
        &mut self,
        id: &SessionId,
        ports: &[Listener],
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get(id) else { return };
        let name = match &session.owner {
            Owner::Attempt { service: true, .. } => return,
            Owner::Attempt { run, task, .. } => {
                let run = self.runs.get(run);
                run.map_or_else(|| id.to_string(), |run| run.plan.tasks[*task].id.to_string())
            }
            _ => session.name().map_or_else(|| id.to_string(), str::to_owned),
        };
        let mut due: BTreeMap<String, serde_json::Value> = BTreeMap::new();
        for Listener { port, pid, .. } in ports {
            let value = json!({ "session": id, "pid": pid, "port": port });
            due.entry(format!("service/{name}:{port}")).or_insert(value);
        }
        let known = self.services_of(id);
        let writer = self.writer_of(id);
        for key in known.into_iter().filter(|key| !due.contains_key(key)) {
            self.post(key, None, writer.clone(), now);
        }
        for (key, value) in due {
            if self.board.get(&key).and_then(|entry| entry.value.as_ref()) != Some(&value) {
                self.post(key, Some(value), writer.clone(), now);
            }
        }
    }

    fn services_of(&self, id: &SessionId) -> Vec<String> {
        let is_its = |value: &serde_json::Value| {
            value["session"] == json!(id) && value.get("port").is_some()
        };
        let services = self.board.beginning("service/");
        services
            .filter(|entry| entry.value.as_ref().is_some_and(is_its))
            .map(|entry| entry.key.clone())
            .collect()
    }

    /// Files that a session's processes were seen to change.
    pub(in crate::daemon) fn post_files(
        &mut self,
        id: &SessionId,
        touches: &Touches,
        now: Timestamp,
    ) {
        let writer = self.writer_of(id);
        let mut room = FILES_MAX.saturating_sub(self.board.beginning("file/").count());
        for touched in &touches.touched {
            if !touched.resource.starts_with("file/") {
                continue;
            }
            let value = json!({ "mode": touched.mode, "how": touched.how, "session": id });
            match self.board.get(&touched.resource) {
                Some(known) if known.value.as_ref() == Some(&value) => continue,
                Some(_) => {}
                None if room == 0 => continue,
                None => room -= 1,
            }
            self.post(touched.resource.clone(), Some(value), writer.clone(), now);
        }
    }

    /// A run has ended: its files are nobody's any more.
    pub(in crate::daemon) fn release_files(&mut self, run: &RunId, now: Timestamp) {
        let of_run = format!("{run}/");
        self.take_files(now, |writer, _| {
            writer.task.as_ref().is_some_and(|task| task.starts_with(&of_run))
        });
    }

    /// A session outside of any run is over: so are its files.
    pub(in crate::daemon) fn release_session_files(&mut self, id: &SessionId, now: Timestamp) {
        self.take_files(now, |writer, session| writer.task.is_none() && *session == json!(id));
    }

    fn take_files(&mut self, now: Timestamp, due: impl Fn(&Writer, &serde_json::Value) -> bool) {
        let files = self.board.beginning("file/").filter(|entry| {
            entry.value.as_ref().is_some_and(|value| due(&entry.writer, &value["session"]))
        });
        let files: Vec<(String, Writer)> =
            files.map(|entry| (entry.key.clone(), entry.writer.clone())).collect();
        for (key, writer) in files {
            self.post(key, None, writer, now);
        }
    }

    /// Takes down what earlier coordinators' sessions and runs have left on the board.
    pub(in crate::daemon) fn take_down_stale(&mut self, now: Timestamp) {
        let is_open = |value: &serde_json::Value| match value["session"].as_str() {
            Some(session) => self.sessions.contains_key(&SessionId::new(session)),
            None => true,
        };
        let run_goes_on = |writer: &Writer| {
            let run =
                writer.task.as_ref().and_then(|task| task.split_once('/')).map(|(run, _)| run);
            run.is_some_and(|run| {
                self.runs.get(&RunId::new(run)).is_some_and(|r| r.ended.is_none())
            })
        };
        let files = self.board.beginning("file/").filter(|entry| {
            !run_goes_on(&entry.writer) && !entry.value.as_ref().is_some_and(is_open)
        });
        let services = self.board.beginning("service/");
        let services = services.filter(|entry| !entry.value.as_ref().is_some_and(is_open));
        let stale: Vec<(String, Writer)> =
            files.chain(services).map(|entry| (entry.key.clone(), entry.writer.clone())).collect();
        for (key, writer) in stale {
            self.post(key, None, writer, now);
        }
        self.recall_locks();
        self.check_locks(now);
    }
}
