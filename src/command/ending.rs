//! The end of a command's tree, step by step, and of a shell that does not answer.

use crate::domain::outcome::{CommandState, Reason};

use super::event::Effect;
use super::state::{Command, EndStep, Ending, Outcome, Phase, ShellStands};

/// From the interrupt to the request to end.
const TERMINATE_AFTER_MS: u64 = 500;
/// From there to the kill.
const KILL_AFTER_MS: u64 = 2_000;
/// When the shell is gone nothing is owed to what it left behind but a short notice.
const ORPHANS_KILL_AFTER_MS: u64 = 500;
/// How long a shell with nothing left to wait for may take to answer.
const SHELL_ANSWERS_MS: u64 = 900;
/// What outlives a kill for so long cannot be killed by us.
const GIVE_UP_AFTER_MS: u64 = 2_000;

impl Command {
    pub(super) fn tree(&mut self, left: usize, now_ms: u64) -> Vec<Effect> {
        let Phase::Ending(ending) = &mut self.phase else { return Vec::new() };
        ending.left = Some(left);
        if left == 0 {
            ending.alone_since_ms.get_or_insert(now_ms);
            return self.try_finish();
        }
        // Whatever is born to a tree that is being killed is killed, too.
        if ending.step == EndStep::Killed { vec![Effect::Kill] } else { Vec::new() }
    }

    /// Begins to end the command's tree.
    pub(super) fn begin_end(
        &mut self,
        state: CommandState,
        reason: Reason,
        now_ms: u64,
    ) -> Vec<Effect> {
        // The status after our own interrupt is not the command's; 130 is what an interrupted
        // one is known by.
        let exit_code = matches!(reason, Reason::Interrupted { .. }).then_some(130);
        // What grows must not go on growing while it is asked to end.
        let at_once = matches!(&reason, Reason::Quota { resource, .. } if grows(resource));
        let outcome = Outcome { exit_code, ..Outcome::plain(state, Some(reason)) };
        // It has the time that all three steps would have taken, to be gone and to be given up.
        let (first, since_ms) = match at_once {
            true => (EndStep::Killed, now_ms + KILL_AFTER_MS),
            false => (EndStep::Interrupted, now_ms),
        };
        let mut ending = Ending::new(outcome, first, ShellStands::Busy, since_ms);
        let awaited = matches!(self.phase, Phase::Awaiting(_));
        let mut effects = vec![Effect::Interrupt];
        if at_once {
            ending.alone_since_ms = Some(since_ms);
            effects.push(Effect::Kill);
        }
        self.phase = Phase::Ending(ending);
        if awaited {
            effects.insert(0, Effect::TellResumed);
        }
        effects
    }

    /// Ends a command whose shell will not come back.
    pub(super) fn give_up_shell(&mut self, reason: Reason, now_ms: u64) -> Vec<Effect> {
        let outcome = Outcome::plain(CommandState::Failed, Some(reason));
        let ending = Ending::new(outcome, EndStep::Terminated, ShellStands::Killed, now_ms);
        self.phase = Phase::Ending(ending);
        vec![Effect::KillShell, Effect::Terminate]
    }

    pub(super) fn end_further(&mut self, now_ms: u64) -> Vec<Effect> {
        let Phase::Ending(ending) = &mut self.phase else { return Vec::new() };
        let mut effects = Vec::new();
        if ending.shell_is_overdue(now_ms) {
            effects.extend(ending.kill_shell());
        }
        if ending.next_step_at().is_some_and(|due| now_ms >= due) {
            match ending.step {
                EndStep::Interrupted => {
                    ending.need(EndStep::Terminated);
                    effects.extend(ending.advance(EndStep::Terminated, now_ms));
                }
                EndStep::Terminated => {
                    ending.alone_since_ms.get_or_insert(now_ms);
                    ending.need(EndStep::Killed);
                    effects.extend(ending.advance(EndStep::Killed, now_ms));
                }
                EndStep::Killed => {
                    // The rest is named by the session as what could not be ended.
                    ending.left = Some(0);
                    effects.extend(self.try_finish());
                }
            }
        }
        effects
    }

    pub(super) fn try_finish(&mut self) -> Vec<Effect> {
        let Phase::Ending(ending) = &self.phase else { return Vec::new() };
        let settled = matches!(ending.shell, ShellStands::Idle | ShellStands::Gone);
        if !settled || ending.left != Some(0) {
            return Vec::new();
        }
        let mut outcome = ending.outcome.clone();
        if let Some(Reason::Interrupted { signal }) = &mut outcome.reason {
            *signal = Some(ending.took().to_owned());
        }
        self.finish(Outcome { tree_ended: true, ..outcome })
    }
}

/// True for what a command may take more of at every moment until it is gone.
fn grows(resource: &str) -> bool {
    ["memory", "processes"].contains(&resource)
}

impl Ending {
    /// The name of the last signal that was needed.
    fn took(&self) -> &'static str {
        match self.needed {
            EndStep::Interrupted => "INT",
            EndStep::Terminated => "TERM",
            EndStep::Killed => "KILL",
        }
    }

    pub(super) fn new(outcome: Outcome, step: EndStep, shell: ShellStands, now_ms: u64) -> Self {
        Self {
            outcome,
            step,
            needed: step,
            since_ms: now_ms,
            shell,
            alone_since_ms: None,
            left: None,
        }
    }

    /// What is left makes the step necessary. Nothing may be: then only the shell is waited for.
    fn need(&mut self, step: EndStep) {
        if self.left != Some(0) {
            self.needed = self.needed.max(step);
        }
    }

    pub(super) fn advance(&mut self, step: EndStep, now_ms: u64) -> Vec<Effect> {
        if self.step >= step {
            return Vec::new();
        }
        self.step = step;
        self.since_ms = now_ms;
        vec![if step == EndStep::Killed { Effect::Kill } else { Effect::Terminate }]
    }

    pub(super) fn kill_shell(&mut self) -> Vec<Effect> {
        if self.shell != ShellStands::Busy {
            return Vec::new();
        }
        self.shell = ShellStands::Killed;
        self.needed = EndStep::Killed;
        vec![Effect::KillShell]
    }

    fn shell_is_overdue(&self, now_ms: u64) -> bool {
        self.shell_due().is_some_and(|due| now_ms >= due)
    }

    fn shell_due(&self) -> Option<u64> {
        let alone = self.alone_since_ms.filter(|_| self.shell == ShellStands::Busy)?;
        Some(alone + SHELL_ANSWERS_MS)
    }

    /// `None` once nothing is left to end.
    fn next_step_at(&self) -> Option<u64> {
        if self.left == Some(0) && self.shell != ShellStands::Busy {
            return None;
        }
        let after = match self.step {
            EndStep::Interrupted => TERMINATE_AFTER_MS,
            EndStep::Terminated if self.shell == ShellStands::Gone => ORPHANS_KILL_AFTER_MS,
            EndStep::Terminated => KILL_AFTER_MS,
            EndStep::Killed => GIVE_UP_AFTER_MS,
        };
        Some(self.since_ms + after)
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        match (self.shell_due(), self.next_step_at()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (due, None) | (None, due) => due,
        }
    }
}
