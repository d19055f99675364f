//! The end of a session: everything in it is asked to go, then made to.

use rustix::process::Signal;

use crate::command::event::Event;
use crate::domain::outcome::Reason;
use crate::domain::result::Child;
use crate::session::wire::FactBody;

use super::session::Session;
use super::shell::Doing;
use super::tree::signal_all;

/// How long an idle shell may take to end by itself: its EXIT trap runs.
const LEAVE_MS: u64 = 2_000;
/// How long a shell that was interrupted may take to become idle.
const BECOMES_IDLE_MS: u64 = 200;
/// From the request to the kill.
const GRACE_MS: u64 = 2_000;
/// What outlives the kill for so long cannot be ended by us.
const GIVE_UP_AFTER_MS: u64 = 2_000;
/// How often the tree is looked at.
const LOOK_EVERY_MS: u64 = 5;

/// A session on its way out.
pub(super) struct Closing {
    step: Step,
    /// When the step was taken.
    since_ms: u64,
    due_ms: Option<u64>,
    over: bool,
}

/// How far it has gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The idle shell ends by itself.
    Leaving,
    /// Everything is asked to end; after its time it is killed.
    Terminated,
}

impl Closing {
    /// Something has died: see whether that was the last.
    pub(super) fn look_at(&mut self, now_ms: u64) {
        if !self.over {
            self.due_ms = Some(now_ms);
        }
    }

    /// True when it is time to look.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// When it is time to look.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }
}

impl Session {
    /// The same as `close`, because a coordinator wants it.
    pub(super) fn close_as_told(&mut self, now_ms: u64) {
        self.told_to_close |= self.closing.is_none();
        self.close(now_ms);
    }

    /// Begins to end everything in the session.
    pub(super) fn close(&mut self, now_ms: u64) {
        if self.closing.is_some() {
            return;
        }
        let leaves = self.shell.let_go();
        let step = if leaves { Step::Leaving } else { Step::Terminated };
        self.closing = Some(Closing { step, since_ms: now_ms, due_ms: Some(now_ms), over: false });
        self.drop_judge();
        for command in std::mem::take(&mut self.queue) {
            self.tell_unstarted(command.spec(), Reason::SessionClosed);
        }
        self.feed(Event::End { reason: Reason::SessionClosed }, now_ms);
        if !leaves {
            self.ask_all_to_end();
        }
    }

    fn ask_all_to_end(&self) {
        let processes = self.tree.everything();
        signal_all(&processes, Signal::TERM);
        if !processes.is_empty() && !matches!(self.shell.doing, Doing::Gone(_)) {
            // An interactive bash ignores TERM; HUP it hands on to its jobs.
            self.signal_shell(Signal::HUP);
            self.signal_shell(Signal::CONT);
        }
    }

    /// Looks what is left, and goes on.
    pub(super) fn close_further(&mut self, now_ms: u64) {
        let processes = self.tree.everything();
        let shell_gone = matches!(self.shell.doing, Doing::Gone(_));
        let Some(closing) = &mut self.closing else { return };
        closing.due_ms = Some(now_ms + LOOK_EVERY_MS);
        let age_ms = now_ms.saturating_sub(closing.since_ms);
        let leaving = closing.step == Step::Leaving;
        let give_up = !leaving && age_ms >= GRACE_MS + GIVE_UP_AFTER_MS;
        if (processes.is_empty() && shell_gone) || give_up {
            if self.active.is_some() && !give_up {
                // Its machine sees the empty tree next.
                self.look_at_tree(now_ms);
                if self.active.is_some() {
                    return;
                }
            }
            self.tell_closed(&processes, now_ms);
            return;
        }
        if leaving {
            if shell_gone || age_ms >= LEAVE_MS {
                closing.step = Step::Terminated;
                closing.since_ms = now_ms;
                self.ask_all_to_end();
            }
            return;
        }
        let is_late = age_ms >= GRACE_MS;
        if is_late {
            signal_all(&processes, Signal::KILL);
        }
        // One that was interrupted ends by itself, too.
        let leaves = self.shell.let_go();
        let hopeless = self.active.is_none() || age_ms >= BECOMES_IDLE_MS;
        if !shell_gone && (is_late || (processes.is_empty() && hopeless && !leaves)) {
            self.signal_shell(Signal::KILL);
        }
    }

    fn tell_closed(&mut self, left: &[super::proc::Process], now_ms: u64) {
        self.end_stay(Err(Reason::SessionClosed), now_ms);
        self.read_terminals(now_ms);
        self.tell_growth();
        if let Some(closing) = &mut self.closing {
            closing.over = true;
            closing.due_ms = None;
        }
        self.quota.end();
        // Private to the session: what cannot be removed now nobody can use either.
        if std::fs::remove_dir(&self.spec.tmp).is_err() {
            drop(std::fs::remove_dir_all(&self.spec.tmp));
        }
        let survivors = left
            .iter()
            .map(|process| Child { pid: process.pid, command: process.command(), ended: false })
            .collect();
        self.facts.push(FactBody::Closed { survivors });
    }

    /// True once nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.over) && self.facts.is_empty()
    }
}
