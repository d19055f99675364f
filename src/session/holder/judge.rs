//! The policy's word on a command before its turn. The reader of scripts recurses, and there are
//! texts on which it takes for ever; so all but short and flat ones are read by a child that may
//! fail, and whose failure is an "ask".

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::domain::ids::CommandId;
use crate::domain::outcome::Reason;
use crate::domain::permission::{Permissions, Verdict};
use crate::policy::{self, Judgement};

use super::super::os::{process, spawn};
use super::checker::write_whole;
use super::session::Session;

/// A script that takes longer to read is asked for.
const JUDGE_MS_MAX: u64 = 2_000;
/// A judgement is no longer than this.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// What the policy has said, and is being asked.
#[derive(Default)]
pub(super) struct Judging {
    /// The command that may have its turn.
    allowed: Option<CommandId>,
    /// The one that is being looked at.
    pub(super) child: Option<Child>,
}

/// A child that reads a script.
pub(super) struct Child {
    pub(super) pid: i32,
    pub(super) said: OwnedFd,
    command: CommandId,
    answer: Vec<u8>,
    pub(super) due_ms: u64,
}

impl Session {
    /// True when the next command may have its turn: the policy has allowed it, or there is none.
    pub(super) fn may_start(&mut self, now_ms: u64) -> bool {
        if self.spec.policy.is_empty() {
            return true;
        }
        let Some(next) = self.queue.front() else { return false };
        let (command, text) = (next.spec().id.clone(), next.spec().text.clone());
        if self.judging.allowed.as_ref() == Some(&command) {
            return true;
        }
        match &self.judging.child {
            Some(child) if child.command == command => return false,
            // One that was asked about and has been dropped since.
            Some(_) => self.drop_judge(),
            None => {}
        }
        if policy::is_quickly_read(&text) {
            self.judged(&command, judge(&self.spec.policy, &text));
            return self.judging.allowed.as_ref() == Some(&command);
        }
        match Child::start(&self.spec.policy, &text, command.clone(), now_ms) {
            Ok(child) => {
                self.tree.own(child.pid);
                self.judging.child = Some(child);
            }
            Err(error) => self.judged(&command, unread(&format!("no process for it: {error}"))),
        }
        false
    }

    /// Takes what the child says, or gives up on it.
    pub(super) fn take_judgement(&mut self, now_ms: u64) {
        let Some(child) = &mut self.judging.child else { return };
        let over = child.listen();
        if !over && child.due_ms > now_ms {
            return;
        }
        let judgement = serde_json::from_slice(&child.answer).unwrap_or_else(|_| {
            unread(if over { "its reader gave up on it" } else { "it takes too long to read" })
        });
        let command = child.command.clone();
        self.drop_judge();
        self.judged(&command, judgement);
    }

    fn judged(&mut self, command: &CommandId, judgement: Judgement) {
        if judgement.verdict == Verdict::Allow {
            self.judging.allowed = Some(command.clone());
            return;
        }
        let Judgement { verdict, rule, reason } = judgement;
        let index = self.queue.iter().position(|queued| queued.spec().id == *command);
        if let Some(refused) = index.and_then(|index| self.queue.remove(index)) {
            let reason = Reason::Policy { verdict, rule, message: reason };
            self.tell_unstarted(refused.spec(), reason);
        }
    }

    /// Stops a child that is not needed any more.
    pub(super) fn drop_judge(&mut self) {
        if let Some(child) = self.judging.child.take() {
            drop(process::signal(child.pid, rustix::process::Signal::KILL, || true));
        }
    }
}

impl Child {
    fn start(
        layers: &[Permissions],
        text: &str,
        command: CommandId,
        now_ms: u64,
    ) -> io::Result<Self> {
        let (said, saying) = std::io::pipe()?;
        let pid = spawn::fork(|| {
            process::limit_reader(JUDGE_MS_MAX / 1_000);
            let answer = serde_json::to_vec(&judge(layers, text)).unwrap_or_default();
            let saying = OwnedFd::from(saying);
            i32::from(write_whole(&saying, &answer).is_err())
        })?;
        let said = OwnedFd::from(said);
        rustix::io::ioctl_fionbio(said.as_fd(), true)?;
        Ok(Self { pid, said, command, answer: Vec::new(), due_ms: now_ms + JUDGE_MS_MAX })
    }

    /// Reads what it says; true once it has said all.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; 1024];
        loop {
            match rustix::io::read(&self.said, &mut buffer) {
                Ok(0) => return true,
                Ok(got) => {
                    let room = ANSWER_BYTES_MAX.saturating_sub(self.answer.len());
                    self.answer.extend_from_slice(&buffer[..got.min(room)]);
                }
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

pub(super) fn judge(layers: &[Permissions], text: &str) -> Judgement {
    policy::judge(&layers.iter().collect::<Vec<_>>(), text)
}

pub(super) fn unread(why: &str) -> Judgement {
    let reason = format!("what it would run cannot be told beforehand: {why}");
    Judgement { verdict: Verdict::Ask, rule: None, reason }
}
