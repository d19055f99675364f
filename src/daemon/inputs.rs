//! What is typed into a session, on its way to the holder, and the receipt on its way back.

use super::desk::Desk;
use super::pending::{What, Wish};
use super::session_calls::not_open;
use super::sessions::{Asker, Session, SessionState};
use crate::control::{Answer, Echo};
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::key::{Input, Refused, Written};
use crate::domain::result::Evidence;
use crate::domain::time::Timestamp;
use crate::policy::claim::Operation;
use crate::session::wire::Ask;

/// How long a command has to take in what was typed, before it is said to wait again. Its holder
/// looks after 15 ms, and at most 250 ms apart.
const SETTLE_MS: u64 = 300;

impl Desk {
    pub(super) fn input(
        &mut self,
        asker: Asker,
        id: &SessionId,
        command: Option<CommandId>,
        input: Input,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get(id) else {
            return self.refuse_asker(asker, not_open(id));
        };
        if session.state == SessionState::Closing {
            let written = Written { written: 0, refused: Some(Refused::Closed) };
            let offset = session.end;
            let answer = Answer::Written { written, offset };
            return self.reply(asker.connection, asker.request, answer);
        }
        if let Err(failure) = self.may(id, &Operation::Input, now) {
            return self.refuse_asker(asker, failure);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.is_taken_over() {
            // It would come when the person leaves, long after whoever sends it has given up.
            let written = Written { written: 0, refused: Some(Refused::Claimed) };
            let answer = Answer::Written { written, offset: session.end };
            return self.reply(asker.connection, asker.request, answer);
        }
        session.used = now;
        self.inputs += 1;
        let number = self.inputs;
        let what = What::Receipt {
            number,
            command: session.running().map(|record| record.id.clone()),
            offset: session.end,
            echo: echo(session, &input),
        };
        if self.wish(id, Wish { asker, what, due: None }) {
            self.tell(id, Ask::Input { request: number, command, input });
        }
    }

    /// A holder tells what has become of an input.
    pub(super) fn input_taken(
        &mut self,
        id: &SessionId,
        receipt: u64,
        written: &Written,
        now: Timestamp,
    ) {
        let (taken, kept): (Vec<Wish>, Vec<Wish>) = self.pending.take(id).into_iter().partition(
            |wish| matches!(wish.what, What::Receipt { number, .. } if number == receipt),
        );
        self.pending.put_back(id, kept);
        for Wish { asker, what, .. } in taken {
            let What::Receipt { command, offset, echo, .. } = what else { continue };
            if written.written > 0 {
                self.typed(id, command.as_ref(), echo, now);
            }
            let answer = Answer::Written { written: written.clone(), offset };
            self.reply(asker.connection, asker.request, answer);
        }
    }

    /// Something was typed: what is known of the command's waiting is of before.
    fn typed(
        &mut self,
        id: &SessionId,
        command: Option<&CommandId>,
        echo: Option<Echo>,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.used = now;
        if let Some(echo) = echo {
            session.note_echo(echo);
        }
        let record = command.and_then(|command| session.command(command));
        if let Some(record) = record.filter(|record| record.awaiting.is_some()) {
            record.settles_at = Some(now.plus_ms(SETTLE_MS));
        }
        self.changed(id, now);
    }
}

/// What the terminal will show of an input: only where a program reads in line mode with the echo
/// on is that known. A program that shows by itself what it reads is no terminal's echo.
fn echo(session: &Session, input: &Input) -> Option<Echo> {
    let (Input::Text { text } | Input::Paste { text }) = input else { return None };
    let awaiting = session.running()?.awaiting.as_ref()?;
    let echoed = !awaiting.secret && awaiting.evidence == Evidence::TtyRead;
    echoed.then(|| Echo { offset: session.end, text: text.clone() })
}
