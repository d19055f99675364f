//! Following a run from its submission to its end.
//!
//! One loop hears three things: the wire, Ctrl-C and the passing of time. Whatever happens, it
//! stays until the coordinator says that the run is over, for only then is nothing left of it.
//!
//! ```text
//!   Submit ──► Submitted, Notice … ──► RunEnded
//!   Ctrl-C ──► CancelRun{now: false} … CancelRun{now: true}
//! ```
//!
//! A coordinator that is lost on the way is told as `Lost::Coordinator`: the run goes on with the
//! next one, which is asked with `Begin::Rejoin`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::client::{Connection, WireError};
use super::failure::{Failure, Kind};
use super::inbox::{Event, Inbox};
use super::progress::Progress;
use crate::control::{Answer, Call, FailureKind, Notice, Response, Submit};
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::ids::RunId;
use crate::report::record::RunReport;

/// How often what is shown is brought up to date while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// How long after being told to end at once a coordinator has to have done so; a further Ctrl-C
/// after that leaves it to itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no report of the run's end.
#[derive(Debug)]
pub(super) enum Lost {
    /// The coordinator was on its way out and took no run: another one will.
    Retry,
    /// The coordinator is gone, and the run may be under way.
    Coordinator,
    /// The coordinator knows of no such run.
    Unknown,
    /// Told to the user.
    Failed(Failure),
}

/// How a connection comes to follow a run.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// By asking for it.
    Submit(Box<Submit>),
    /// By going on with one that has ended, or is under way without a client.
    Resume {
        /// Which.
        run: RunId,
        /// Its options, where they are others.
        options: Option<RunOptions>,
        /// The caller's environment.
        env: ClientEnv,
    },
    /// By coming back to it.
    Rejoin {
        /// Which.
        run: RunId,
        /// The caller's environment.
        env: ClientEnv,
    },
}

impl Begin {
    /// The run, where its id is known beforehand.
    pub(super) fn run(&self) -> Option<&RunId> {
        match self {
            Self::Submit(submit) => submit.run.as_ref(),
            Self::Resume { run, .. } | Self::Rejoin { run, .. } => Some(run),
        }
    }

    /// What to ask after the coordinator was lost.
    pub(super) fn again(&self) -> Option<Self> {
        let run = self.run()?.clone();
        let env = match self {
            Self::Submit(submit) => submit.env.clone(),
            Self::Resume { env, .. } | Self::Rejoin { env, .. } => env.clone(),
        };
        Some(Self::Rejoin { run, env })
    }

    fn call(self) -> (Question, Call) {
        match self {
            Self::Submit(submit) => (Question::Submit, Call::Submit { submit }),
            Self::Resume { run, options, env } => {
                (Question::Submit, Call::Resume { run, options, env, detach: false })
            }
            Self::Rejoin { run, env } => (Question::Rejoin, Call::Rejoin { run, env }),
        }
    }
}

impl From<WireError> for Lost {
    fn from(error: WireError) -> Self {
        if super::starter::is_absence(&error) {
            return Self::Retry;
        }
        Self::Failed(error.into())
    }
}

/// Begins to follow a run, and follows it to its end. `interrupts` is how often the person has asked
/// for that already.
///
/// # Errors
/// When the coordinator refuses it or is lost before its end.
pub(super) fn follow(
    connection: &mut Connection,
    begin: Begin,
    interrupts: &mut u32,
    progress: &mut Progress,
    inbox: &mut Inbox,
) -> Result<Box<RunReport>, Lost> {
    inbox.hear_wire(connection)?;
    let mut follower = Follower {
        connection,
        progress,
        chosen: begin.run().cloned(),
        run: None,
        asked: BTreeMap::new(),
        interrupts,
        told_now: None,
    };
    let (question, call) = begin.call();
    follower.send(question, call)?;
    loop {
        if let Some(report) = follower.hear(inbox.next(TICK))? {
            return Ok(report);
        }
    }
}

/// What has been asked, by the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Submit,
    Rejoin,
    /// The whole report, after a gap.
    Report,
    Cancel,
}

struct Follower<'a> {
    connection: &'a mut Connection,
    progress: &'a mut Progress,
    /// The run's id, where it was known before anybody has taken it.
    chosen: Option<RunId>,
    run: Option<RunId>,
    asked: BTreeMap<u64, Question>,
    interrupts: &'a mut u32,
    told_now: Option<Instant>,
}

impl Follower<'_> {
    /// Takes one event in; a report is the run's end.
    fn hear(&mut self, event: Event) -> Result<Option<Box<RunReport>>, Lost> {
        match event {
            Event::Quiet => {
                self.progress.tick();
                Ok(None)
            }
            Event::Interrupt => self.interrupted().map(|()| None),
            Event::Wire(Ok(Response::Notice { notice })) => self.notice(*notice),
            Event::Wire(Ok(Response::Reply { id, answer })) => self.answer(id, *answer),
            Event::Wire(Ok(Response::Refusal { id, failure })) => match self.asked.remove(&id) {
                Some(Question::Submit) => Err(WireError::Refused(failure).into()),
                Some(Question::Rejoin) if failure.kind == FailureKind::NotFound => {
                    Err(Lost::Unknown)
                }
                Some(Question::Rejoin) => Err(WireError::Refused(failure).into()),
                // A run that ended before the refusal says so itself; a report can be asked for.
                _ => {
                    self.progress.say(&failure.message);
                    Ok(None)
                }
            },
            Event::Wire(Err(error)) => Err(self.lost(error)),
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) -> Result<Option<Box<RunReport>>, Lost> {
        let question = self.asked.remove(&id);
        match (question, answer) {
            (Some(Question::Submit), Answer::Submitted { run, report }) => {
                self.progress.say(&format!("run {run}"));
                self.progress.begin(&report);
                self.run = Some(run);
                if *self.interrupts > 0 {
                    self.cancel()?;
                }
                Ok(None)
            }
            (Some(Question::Rejoin), Answer::Report { report }) => {
                if report.outcome.is_some() {
                    return Ok(Some(report));
                }
                self.run = Some(report.run_id.clone());
                // The counts of those who followed it from its beginning.
                self.ask_report()?;
                if *self.interrupts > 0 {
                    self.cancel()?;
                }
                Ok(None)
            }
            (Some(Question::Report), Answer::Report { report }) => {
                if report.outcome.is_some() {
                    return Ok(Some(report));
                }
                self.progress.begin(&report);
                Ok(None)
            }
            (Some(Question::Cancel), Answer::Cancelling) | (None, _) => Ok(None),
            (Some(question), _) => {
                let call = match question {
                    Question::Submit => "submit",
                    Question::Rejoin => "rejoin",
                    Question::Report => "report",
                    Question::Cancel => "cancel_run",
                };
                Err(WireError::Unexpected { call }.into())
            }
        }
    }

    fn notice(&mut self, notice: Notice) -> Result<Option<Box<RunReport>>, Lost> {
        match notice {
            Notice::RunEnded { report } if Some(&report.run_id) == self.run.as_ref() => {
                return Ok(Some(report));
            }
            Notice::Gap { .. } => self.ask_report()?,
            other => self.progress.hear(&other),
        }
        Ok(None)
    }

    fn interrupted(&mut self) -> Result<(), Lost> {
        *self.interrupts += 1;
        if self.told_now.is_some_and(|at| at.elapsed() > PATIENCE) {
            let message = "left a coordinator that does not end the run".to_owned();
            let hint = format!("look at it with `ps {}`", self.connection.peer_pid());
            return Err(Lost::Failed(Failure::new(Kind::Interrupted, message).hint(hint)));
        }
        self.progress.say(if *self.interrupts == 1 {
            "ending the run; Ctrl-C again ends it at once"
        } else {
            "ending the run at once"
        });
        if self.run.is_some() { self.cancel() } else { Ok(()) }
    }

    fn cancel(&mut self) -> Result<(), Lost> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        let now = *self.interrupts > 1;
        if now && self.told_now.is_none() {
            self.told_now = Some(Instant::now());
        }
        self.send(Question::Cancel, Call::CancelRun { run, now })
    }

    fn ask_report(&mut self) -> Result<(), Lost> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        self.send(Question::Report, Call::Report { run })
    }

    fn send(&mut self, question: Question, call: Call) -> Result<(), Lost> {
        match self.connection.send(call) {
            Ok(id) => {
                self.asked.insert(id, question);
                Ok(())
            }
            // The reader meets the same end, after what was still said before it.
            Err(WireError::Lost) if self.run.is_some() => Ok(()),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: WireError) -> Lost {
        let is_gone = matches!(error, WireError::Lost);
        match &self.run {
            _ if is_gone && (self.run.is_some() || self.chosen.is_some()) => Lost::Coordinator,
            None => error.into(),
            Some(run) => Lost::Failed(
                Failure::new(
                    Kind::Coordinator,
                    format!("lost the coordinator while run {run} went on: {error}"),
                )
                .hint(format!("what is known of the run: callboard report {run}")),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::{StandIn, ended_report, report, submit};
    use super::*;
    use crate::control::Failure as Refusal;
    use crate::domain::outcome::RunOutcome;

    /// Follows a run at a coordinator that keeps to `script`; `interrupts` come at once.
    fn followed(
        interrupts: usize,
        script: impl FnOnce(&mut StandIn) + Send + 'static,
    ) -> Result<Box<RunReport>, Lost> {
        let (folder, socket, thread) = StandIn::start(script);
        let mut connection = Connection::open(&socket).unwrap();
        let mut inbox = Inbox::new();
        (0..interrupts).for_each(|_| inbox.interrupt());
        let (mut progress, mut told) = (Progress::Silent, 0);
        let begin = Begin::Submit(Box::new(submit()));
        let followed = follow(&mut connection, begin, &mut told, &mut progress, &mut inbox);
        drop(connection);
        thread.join().unwrap();
        drop(folder);
        followed
    }

    fn submitted(stand_in: &mut StandIn) {
        stand_in.welcome();
        let (id, call) = stand_in.asked();
        assert!(matches!(call, Call::Submit { .. }), "{call:?}");
        let report = Box::new(report());
        stand_in.reply(id, Answer::Submitted { run: "R1".into(), report });
    }

    #[test]
    fn a_run_is_followed_to_its_end() {
        let report = followed(0, |stand_in| {
            submitted(stand_in);
            stand_in.notice(Notice::ServiceReady { run: "R1".into(), task: "a".into() });
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(0)) });
        });
        assert_eq!(report.unwrap().outcome, Some(RunOutcome::Succeeded));
    }

    #[test]
    fn a_gap_brings_the_whole_picture() {
        let report = followed(0, |stand_in| {
            submitted(stand_in);
            stand_in.notice(Notice::Gap { missed: 7 });
            let (id, call) = stand_in.asked();
            assert_eq!(call, Call::Report { run: "R1".into() });
            stand_in.reply(id, Answer::Report { report: Box::new(report()) });
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(0)) });
        });
        assert!(report.is_ok());
    }

    #[test]
    fn an_interrupt_cancels_and_the_client_stays() {
        let report = followed(1, |stand_in| {
            submitted(stand_in);
            let (id, call) = stand_in.asked();
            assert_eq!(call, Call::CancelRun { run: "R1".into(), now: false });
            stand_in.reply(id, Answer::Cancelling);
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(130)) });
        });
        assert_eq!(report.unwrap().exit_code, Some(130));
    }

    #[test]
    fn a_second_interrupt_ends_it_now() {
        let report = followed(2, |stand_in| {
            submitted(stand_in);
            let (id, call) = stand_in.asked();
            assert_eq!(call, Call::CancelRun { run: "R1".into(), now: true });
            stand_in.reply(id, Answer::Cancelling);
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(130)) });
        });
        assert_eq!(report.unwrap().exit_code, Some(130));
    }

    #[test]
    fn a_coordinator_that_dies_leaves_the_run_to_the_next() {
        assert!(matches!(followed(0, submitted), Err(Lost::Coordinator)));
    }

    #[test]
    fn one_that_is_ending_is_left_for_the_next() {
        let refuse = |stand_in: &mut StandIn| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            let message = "ending".to_owned();
            stand_in.refuse(id, Refusal { kind: FailureKind::ShuttingDown, message, hint: None });
        };
        assert!(matches!(followed(0, refuse), Err(Lost::Retry)));
        let die = |stand_in: &mut StandIn| stand_in.welcome();
        assert!(matches!(followed(0, die), Err(Lost::Retry)));
    }

    #[test]
    fn a_refusal_is_told() {
        let lost = followed(0, |stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            let message = "no space left for the journal".to_owned();
            stand_in.refuse(id, Refusal { kind: FailureKind::Environment, message, hint: None });
        });
        let Err(Lost::Failed(failure)) = lost else { panic!("{lost:?}") };
        assert_eq!((failure.kind, failure.exit_code()), (Kind::Machine, 3));
    }
}
