//! The machine: one command, one event, and what follows from it.
//!
//! ```text
//! pending → (checking) → running ⇄ awaiting → ended
//!                           └────────┴→ ending ─┘   interrupt, +500 ms terminate, +2 s kill
//! ```

use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{Evidence, Note};
use crate::domain::session::{Limit, UnansweredInput};

use super::answer::Answer;
use super::awaiting::{Sight, Wait, describe, judge};
use super::completeness::{certainly_complete_in, ends_in_backslash};
use super::event::{Effect, Event, Fate};
use super::outcome::{masked_failure, of_fate, of_status};
use super::state::{
    Command, EndStep, Ending, LIFE_MS, Outcome, Phase, Question, START_MS, ShellStands,
};

/// A shell that has to be brought back more often than this does not come back.
const NUDGES_MAX: u32 = 20;
/// CPU use that counts as a sign of life: one tick of the kernel's clock.
const LIFE_CPU_MS: u64 = 10;

/// Takes the event at `now_ms` and gives what is to be done, in order.
pub fn step(command: &mut Command, event: Event<'_>, now_ms: u64) -> Vec<Effect> {
    match event {
        Event::Turn => command.turn(),
        Event::Checked { incomplete } => command.checked(incomplete),
        Event::StartFailed { message } => command.start_failed(message),
        Event::Started => command.started(now_ms),
        Event::Output { bytes, stderr } => command.output(bytes, stderr, now_ms),
        Event::InputSent => command.input_sent(now_ms),
        Event::Held { held } => command.hold(held, now_ms),
        Event::Looked { sight, last_line } => command.looked(sight, last_line, now_ms),
        Event::Cpu { used_ms } => command.cpu(used_ms, now_ms),
        Event::Listens => command.listens(),
        Event::Tick => command.tick(now_ms),
        Event::End { reason } => command.end_asked(reason, now_ms),
        Event::Reported { status, pipe_status } => command.reported(status, pipe_status, now_ms),
        Event::ReportLost => command.report_lost(now_ms),
        Event::ShellGone { fate } => command.shell_gone(fate, now_ms),
        Event::Tree { left } => command.tree(left, now_ms),
    }
}

impl Command {
    fn turn(&mut self) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Pending) {
            return Vec::new();
        }
        if let Some(offset) = self.spec.text.bytes().position(|byte| byte == 0) {
            let message = format!("NUL at byte offset {offset}: no shell can be given one");
            return self.refuse(Reason::Incomplete { message });
        }
        if certainly_complete_in(self.shell, &self.spec.text) && !ends_in_backslash(&self.spec.text)
        {
            self.phase = Phase::Starting;
            return vec![Effect::Start];
        }
        self.phase = Phase::Checking;
        vec![Effect::Check]
    }

    fn checked(&mut self, incomplete: Option<String>) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Checking) {
            return Vec::new();
        }
        match incomplete {
            Some(message) => self.refuse(Reason::Incomplete { message }),
            None => {
                self.phase = Phase::Starting;
                vec![Effect::Start]
            }
        }
    }

    /// Also after `Started`: the shell itself may not get into the cwd.
    fn start_failed(&mut self, message: String) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Ending(ending) => {
                ending.shell = ShellStands::Idle;
                self.try_finish()
            }
            Phase::Ended(_) => Vec::new(),
            _ => self.refuse(Reason::StartFailed { message }),
        }
    }

    fn started(&mut self, now_ms: u64) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Starting) {
            return Vec::new();
        }
        self.phase = Phase::Running;
        self.clock.started_ms = now_ms;
        self.clock.counting_since_ms = (!self.held).then_some(now_ms);
        if let Limit::Heartbeat { ms, .. } = self.spec.limit {
            // The first look only notes the CPU time from which the next one counts.
            self.clock.look_at_ms = ms.saturating_sub(LIFE_MS).max(START_MS).min(ms);
        }
        Vec::new()
    }

    fn output(&mut self, bytes: &[u8], stderr: bool, now_ms: u64) -> Vec<Effect> {
        self.clock.last_output_ms = Some(now_ms);
        if let Some(answer) = &mut self.answered {
            answer.line_ended |= bytes.contains(&b'\n');
        }
        let mut effects = Vec::new();
        match &mut self.phase {
            Phase::Running => {}
            // Only who is blocked in a read is sure to stay there.
            Phase::Awaiting(question) if question.wait.evidence != Evidence::TtyRead => {
                let answered = self.clock.last_input_ms.is_some_and(|at| at >= question.since_ms);
                self.rounds.runs_by_clock |= question.wait.has_limit() && !answered;
                effects = self.resume(now_ms);
            }
            Phase::Awaiting(question) => question.stirred = true,
            _ => return Vec::new(),
        }
        let watch = &mut self.watch;
        if watch.stops.is_empty() && watch.ready.is_empty() {
            return effects;
        }
        let lines = if stderr { &mut watch.stderr } else { &mut watch.main };
        let (stopped, ready) = lines.search(bytes, &watch.stops, &watch.ready);
        if ready {
            watch.ready.clear();
            effects.push(Effect::TellReady);
        }
        if let Some(rule) = stopped.and_then(|index| self.spec.stop_on.get(index)) {
            let reason =
                Reason::Stopped { pattern: rule.pattern.clone(), reason: rule.reason.clone() };
            effects.extend(self.begin_end(CommandState::Failed, reason, now_ms));
        }
        effects
    }

    fn listens(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Running | Phase::Awaiting(_) => vec![Effect::TellReady],
            _ => Vec::new(),
        }
    }

    fn input_sent(&mut self, now_ms: u64) -> Vec<Effect> {
        self.clock.last_input_ms = Some(now_ms);
        if let Phase::Awaiting(question) = &mut self.phase {
            question.stirred = true;
        }
        Vec::new()
    }

    fn looked(&mut self, sight: Sight, last_line: &str, now_ms: u64) -> Vec<Effect> {
        if sight == Sight::ShellPrompt && self.wants_looks() {
            return self.nudge(now_ms);
        }
        let quiet_ms = self.clock.quiet_ms(now_ms);
        self.rounds.note(sight, quiet_ms, now_ms);
        let wait = judge(sight, last_line, quiet_ms, &self.rounds);
        match (&mut self.phase, wait) {
            (Phase::Running, Some(wait)) => self.asked(wait, last_line, now_ms),
            (Phase::Awaiting(_), None) if sight == Sight::Busy => self.resume(now_ms),
            (Phase::Awaiting(question), Some(wait)) if wait.token != question.wait.token => {
                if question.stirred {
                    let mut effects = self.resume(now_ms);
                    effects.extend(self.asked(wait, last_line, now_ms));
                    return effects;
                }
                // A signal woke it and it went back to the same question.
                question.wait = wait;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn nudge(&mut self, now_ms: u64) -> Vec<Effect> {
        self.nudges += 1;
        if self.nudges <= NUDGES_MAX {
            return vec![Effect::Nudge];
        }
        match &mut self.phase {
            Phase::Ending(ending) => ending.kill_shell(),
            _ => self.give_up_shell(Reason::ShellReplaced, now_ms),
        }
    }

    fn asked(&mut self, wait: Wait, last_line: &str, now_ms: u64) -> Vec<Effect> {
        // A service that has the terminal among its descriptors offers a key or two; it does not ask.
        let offers = self.spec.ready.is_some() && wait.evidence != Evidence::TtyRead;
        if self.held || offers || self.answer_is_taking_effect(wait, last_line, now_ms) {
            return Vec::new();
        }
        let by_rule = self.rule_for(wait, last_line);
        let answer = match by_rule.and_then(|index| self.spec.on_input.get(index)) {
            Some(rule) => Some(rule.send.clone()),
            None => self.inputs.pop_front(),
        };
        if let Some(text) = answer {
            let prompt = last_line.to_owned();
            self.answered = Some(Answer {
                token: wait.token,
                prompt: prompt.clone(),
                text: text.clone(),
                line_ended: false,
            });
            self.clock.last_input_ms = Some(now_ms);
            return vec![Effect::Send { text }, Effect::TellAnswered { prompt }];
        }
        if wait.replaced {
            return self.give_up_shell(Reason::ShellReplaced, now_ms);
        }
        let awaiting = describe(wait, last_line, self.clock.quiet_ms(now_ms));
        match self.spec.unanswered {
            UnansweredInput::Wait => {
                self.clock.stop(now_ms);
                let told = Effect::TellAwaiting { awaiting: awaiting.clone() };
                let question = Question { wait, awaiting, since_ms: now_ms, stirred: false };
                self.phase = Phase::Awaiting(question);
                vec![told]
            }
            UnansweredInput::End => {
                let reason = Reason::AwaitingInput { prompt: last_line.to_owned() };
                let effects = self.begin_end(CommandState::Failed, reason, now_ms);
                if let Phase::Ending(ending) = &mut self.phase {
                    ending.outcome.awaiting = Some(awaiting);
                }
                effects
            }
        }
    }

    fn hold(&mut self, held: bool, now_ms: u64) -> Vec<Effect> {
        if std::mem::replace(&mut self.held, held) == held {
            return Vec::new();
        }
        match &mut self.phase {
            Phase::Running if held => self.clock.stop(now_ms),
            Phase::Running => self.clock.counting_since_ms = Some(now_ms),
            // Whoever is asked now has the whole time to answer.
            Phase::Awaiting(question) if !held => question.since_ms = now_ms,
            _ => {}
        }
        Vec::new()
    }

    fn resume(&mut self, now_ms: u64) -> Vec<Effect> {
        self.phase = Phase::Running;
        self.clock.counting_since_ms = (!self.held).then_some(now_ms);
        vec![Effect::TellResumed]
    }

    fn tick(&mut self, now_ms: u64) -> Vec<Effect> {
        if self.deadline().is_none_or(|due| now_ms < due) {
            return Vec::new();
        }
        match &self.phase {
            Phase::Running => self.limit_reached(now_ms),
            Phase::Awaiting(question) => {
                let mut awaiting = question.awaiting.clone();
                awaiting.idle_ms += now_ms.saturating_sub(question.since_ms);
                let reason = Reason::AwaitingInput { prompt: awaiting.prompt.clone() };
                let effects = self.begin_end(CommandState::Failed, reason, now_ms);
                if let Phase::Ending(ending) = &mut self.phase {
                    ending.outcome.awaiting = Some(awaiting);
                }
                effects
            }
            Phase::Ending(_) => self.end_further(now_ms),
            _ => Vec::new(),
        }
    }

    fn limit_reached(&mut self, now_ms: u64) -> Vec<Effect> {
        let counted = self.clock.counted(now_ms);
        match self.spec.limit {
            Limit::Exact { ms: limit_ms } | Limit::Heartbeat { hard_ms: limit_ms, .. }
                if counted >= limit_ms =>
            {
                self.begin_end(CommandState::Timeout, Reason::Total { limit_ms }, now_ms)
            }
            Limit::Heartbeat { .. } => {
                self.clock.sampling = true;
                vec![Effect::SampleCpu]
            }
            Limit::Exact { .. } | Limit::Unlimited => Vec::new(),
        }
    }

    fn cpu(&mut self, used_ms: u64, now_ms: u64) -> Vec<Effect> {
        self.clock.sampling = false;
        let Limit::Heartbeat { ms: limit_ms, .. } = self.spec.limit else { return Vec::new() };
        if !matches!(self.phase, Phase::Running) {
            return Vec::new();
        }
        let before = self.clock.cpu_before_ms.replace(used_ms);
        if self.clock.look_at_ms < limit_ms {
            self.clock.look_at_ms = limit_ms;
            return Vec::new();
        }
        let silent_ms = now_ms
            .saturating_sub(self.clock.last_output_ms.unwrap_or(0).max(self.clock.started_ms));
        let printed = self.clock.last_output_ms.is_some() && silent_ms <= LIFE_MS;
        let worked = before.is_some_and(|before| used_ms.saturating_sub(before) >= LIFE_CPU_MS);
        if printed || worked {
            self.clock.look_at_ms = self.clock.counted(now_ms) + LIFE_MS;
            return Vec::new();
        }
        let reason = Reason::Silent { limit_ms, last_output_ms: silent_ms };
        self.begin_end(CommandState::Timeout, reason, now_ms)
    }

    fn end_asked(&mut self, reason: Reason, now_ms: u64) -> Vec<Effect> {
        match self.phase {
            Phase::Ending(_) | Phase::Ended(_) => Vec::new(),
            Phase::Running | Phase::Awaiting(_) => {
                self.begin_end(CommandState::Failed, reason, now_ms)
            }
            Phase::Pending | Phase::Checking | Phase::Starting => self.refuse(reason),
        }
    }

    fn reported(&mut self, status: i32, pipes: Option<Vec<i32>>, now_ms: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Running | Phase::Awaiting(_) => {
                let (state, reason) = of_status(status);
                let notes = masked_failure(status, pipes.as_deref()).into_iter().collect();
                let (exit_code, pipe_status) = (Some(status), pipes);
                self.finish(Outcome {
                    exit_code,
                    pipe_status,
                    notes,
                    ..Outcome::plain(state, reason)
                })
            }
            Phase::Ending(ending) => {
                ending.shell = ShellStands::Idle;
                ending.alone_since_ms.get_or_insert(now_ms);
                // The shell may have started more since the last look.
                ending.left = None;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn report_lost(&mut self, now_ms: u64) -> Vec<Effect> {
        match self.phase {
            Phase::Running | Phase::Awaiting(_) => self.give_up_shell(Reason::ShellEnded, now_ms),
            _ => Vec::new(),
        }
    }

    fn shell_gone(&mut self, fate: Fate, now_ms: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Running | Phase::Awaiting(_) | Phase::Starting => {
                let (state, reason, exit_code) = of_fate(fate);
                let mut outcome = Outcome { exit_code, ..Outcome::plain(state, reason) };
                outcome.notes.push(Note::SessionEnded);
                let ending = Ending::new(outcome, EndStep::Terminated, ShellStands::Gone, now_ms);
                self.phase = Phase::Ending(ending);
                vec![Effect::Terminate]
            }
            Phase::Ending(ending) => {
                ending.shell = ShellStands::Gone;
                ending.outcome.notes.push(Note::SessionEnded);
                ending.left = None;
                ending.advance(EndStep::Terminated, now_ms)
            }
            Phase::Pending | Phase::Checking => self.refuse(Reason::SessionClosed),
            Phase::Ended(_) => Vec::new(),
        }
    }

    fn refuse(&mut self, reason: Reason) -> Vec<Effect> {
        self.finish(Outcome::plain(CommandState::Failed, Some(reason)))
    }

    pub(super) fn finish(&mut self, outcome: Outcome) -> Vec<Effect> {
        let awaited = matches!(self.phase, Phase::Awaiting(_));
        self.phase = Phase::Ended(outcome);
        if awaited { vec![Effect::TellResumed, Effect::Finish] } else { vec![Effect::Finish] }
    }
}

impl Outcome {
    pub(super) fn plain(state: CommandState, reason: Option<Reason>) -> Self {
        Self {
            state,
            reason,
            exit_code: None,
            pipe_status: None,
            notes: Vec::new(),
            awaiting: None,
            tree_ended: false,
        }
    }
}
