//! The boundary after a command: its last bytes are read, its terminal put right, its end told.

use std::net::IpAddr;

use crate::command::event::Event;
use crate::domain::ids::CommandId;
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::plan::Ready;
use crate::domain::result::Note;
use crate::domain::session::CommandSpec;
use crate::session::wire::{CommandEnd, FactBody, Listener, Span};
use crate::transcript::index::Stream;

use super::ports::listening;
use super::proc;
use super::session::{Active, Session, Started};
use super::shell::Doing;

impl Session {
    /// Closes the running command and tells its end.
    pub(super) fn finish(&mut self, now_ms: u64) {
        self.drop_checker();
        // Whatever still asks has gone, or will not read.
        self.answers.stop();
        if self.active.as_ref().is_some_and(|active| active.started.is_some()) {
            self.read_terminals(now_ms);
        }
        let Some(active) = self.active.take() else { return };
        self.looks.stop();
        self.tree_due_ms = None;
        self.interrupt_by_ms = None;
        match active.started {
            Some(started) => self.tell_ended(&active, started, now_ms),
            None => {
                let reason = active.command.outcome().and_then(|outcome| outcome.reason.clone());
                if let Some(reason) = reason {
                    self.tell_unstarted(active.command.spec(), reason);
                }
            }
        }
        if matches!(self.shell.doing, Doing::Gone(_)) {
            self.close(now_ms);
        }
    }

    fn tell_ended(&mut self, active: &Active, started: Started, now_ms: u64) {
        let Some(outcome) = active.command.outcome().cloned() else { return };
        let spec = active.command.spec();
        let tracer = &mut self.tracer;
        let children =
            self.tree.end(outcome.tree_ended, &self.shell.path, &mut || tracer.serve(now_ms));
        let mut notes = outcome.notes;
        notes.extend(self.tracer.end(now_ms));
        self.facts.append(&mut self.tracer.take_facts());
        notes.extend(self.put_terminals_right());
        let (cwd, exists) = self.shell.cwd();
        if !exists {
            notes.push(Note::CwdMissing { path: cwd.clone() });
        }
        notes.extend(self.stay_note());
        let mut unstored = Vec::new();
        if let Some((message, left)) = self.capture.take_faults() {
            notes.push(Note::CaptureDegraded { message });
            unstored = left;
        }
        if children.iter().any(|child| !child.ended) {
            self.ports.watch_leftovers(now_ms);
        }
        if let Some(profile) = self.profile.take() {
            notes.extend(profile.remarks.into_iter().map(|message| Note::Profile { message }));
        }
        let span = Span {
            raw_start: started.raw,
            raw_end: self.capture.raw_end(),
            idx_start: started.idx,
            idx_end: self.capture.idx_end(),
        };
        self.capture.end();
        // Bash's own line end is nobody's.
        if let Some(bytes) = self.newline.take() {
            self.capture.append(Stream::Main, 0, self.clock.micros(), bytes);
        }
        self.end_is_told();
        let end = Box::new(CommandEnd {
            command: spec.id.clone(),
            state: outcome.state,
            reason: outcome.reason,
            exit_code: outcome.exit_code,
            pipe_status: outcome.pipe_status,
            cwd,
            started_at: Some(started.at),
            duration_ms: now_ms.saturating_sub(started.at_ms),
            children,
            notes,
            awaiting: outcome.awaiting,
            span,
            merged: spec.merge,
            unstored,
        });
        self.facts.push(FactBody::Ended { end });
    }

    /// Reports a command that never ran.
    pub(super) fn tell_unstarted(&mut self, spec: &CommandSpec, reason: Reason) {
        let notes = self.stay_note().into_iter().collect();
        self.tell_never_ran(spec.id.clone(), spec.merge, reason, notes);
    }

    /// Reports what never began, be it a command or a stay.
    pub(super) fn tell_never_ran(
        &mut self,
        command: CommandId,
        merged: bool,
        reason: Reason,
        notes: Vec<Note>,
    ) {
        let (raw, idx) = (self.capture.raw_end(), self.capture.idx_end());
        let late = matches!(reason, Reason::Total { .. });
        let end = Box::new(CommandEnd {
            command,
            state: if late { CommandState::Timeout } else { CommandState::Failed },
            reason: Some(reason),
            exit_code: None,
            pipe_status: None,
            cwd: self.shell.cwd().0,
            started_at: None,
            duration_ms: 0,
            children: Vec::new(),
            notes,
            awaiting: None,
            span: Span { raw_start: raw, raw_end: raw, idx_start: idx, idx_end: idx },
            merged,
            unstored: Vec::new(),
        });
        self.facts.push(FactBody::Ended { end });
    }

    /// Tells on which ports the session's processes listen, and whether the service is ready.
    pub(super) fn look_at_ports(&mut self, now_ms: u64) {
        let mut processes = self.tree.everything();
        // A service may have taken the shell's place.
        processes.extend(proc::process(self.shell.pid));
        let ports = listening(&processes);
        self.look_for_readiness(&ports, now_ms);
        let alone = self.active.is_none() && !self.tree.prune();
        self.ports.looked(alone, now_ms);
        if let Some(ports) = self.ports.changed(ports) {
            let hosts = ports.iter().filter_map(|it| Some((it.host.parse().ok()?, it.port)));
            hosts.for_each(|(host, port): (IpAddr, u16)| self.tracer.listens((host, port).into()));
            self.facts.push(FactBody::Listening { ports });
        }
    }

    fn look_for_readiness(&mut self, ports: &[Listener], now_ms: u64) {
        if self.ports.is_ready {
            return;
        }
        let Some(active) = &self.active else { return };
        let Some(Ready::Port(wanted)) = active.command.spec().ready else { return };
        let own: Vec<i32> = self.tree.born().iter().map(|process| process.pid).collect();
        let listens = ports.iter().any(|listener| {
            listener.port == wanted
                && (own.contains(&listener.pid) || listener.pid == self.shell.pid)
        });
        if listens {
            self.ports.is_ready = true;
            self.feed(Event::Listens, now_ms);
        }
    }
}
