//! Following a run from its submission to its end, whatever becomes of its coordinators.
//!
//! One loop hears four things: the wire, Ctrl-C, a coordinator that was looked for, and the passing
//! of time. It stays until a coordinator says that the run is over, for only then is nothing left
//! of it. A coordinator that is lost is followed by another one, which has the run from the journal.
//!
//! ```text
//!   Submit{run} ──► Submitted, Notice … ──► RunEnded
//!        lost before the answer: Submit again, with the same id
//!        lost after it: Rejoin{run} ──► Report, Notice … ──► RunEnded
//!   Ctrl-C ──► CancelRun{now: false} … CancelRun{now: true}
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::client::{Connection, WireError};
use super::failure::{Failure, Kind};
use super::inbox::{Connect, Event, Inbox};
use super::progress::Progress;
use super::starter;
use crate::control::{Answer, Call, Failure as Refusal, FailureKind, Notice, Response, Submit};
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::ids::RunId;
use crate::report::record::RunReport;

/// How often what is shown is brought up to date while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// How long after being told to end at once a coordinator has to have done so; a further Ctrl-C
/// after that leaves it to itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many coordinators are tried one after the other when none of them answers.
pub(super) const TRIES: u32 = 6;

/// The pause before another is tried: none at first, for it cannot be told when a run's next
/// coordinator gives its client up.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a run begins for a client.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// It is new.
    Submit(Box<Submit>),
    /// It goes on.
    Resume {
        /// Which.
        run: RunId,
        /// Its options from now on.
        options: Option<RunOptions>,
        /// The caller's environment, filtered.
        env: ClientEnv,
        /// True when it outlives us.
        detach: bool,
    },
}

impl Begin {
    /// What is asked. Asked again it is the same request, and there is no second run.
    pub(super) fn call(&self) -> Call {
        match self.clone() {
            Self::Submit(submit) => Call::Submit { submit },
            Self::Resume { run, options, env, detach } => {
                Call::Resume { run, options, env, detach }
            }
        }
    }

    fn env(&self) -> &ClientEnv {
        match self {
            Self::Submit(submit) => &submit.env,
            Self::Resume { env, .. } => env,
        }
    }
}

/// The pause before the next try, after so many that came to nothing.
pub(super) fn pause(losses: u32) -> Duration {
    match losses {
        0 | 1 => Duration::ZERO,
        n => (PAUSE * 2_u32.saturating_pow(n - 2)).min(PAUSE_MAX),
    }
}

/// Begins a run and follows it to its end.
///
/// # Errors
/// When it is refused, or no coordinator can be had.
pub(super) fn follow(
    connect: Connect,
    begin: &Begin,
    progress: &mut Progress,
    inbox: &mut Inbox,
) -> Result<Box<RunReport>, Failure> {
    let mut follower = Follower {
        connect,
        begin,
        progress,
        inbox,
        wire: Wire::None,
        run: None,
        asked: BTreeMap::new(),
        interrupts: 0,
        told_now: None,
        losses: 0,
    };
    follower.look()?;
    loop {
        let event = follower.inbox.next(follower.patience());
        if let Some(report) = follower.hear(event)? {
            return Ok(report);
        }
    }
}

/// What has been asked, by the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Begin,
    Rejoin,
    /// The whole report, after a gap.
    Report,
    Cancel,
}

impl Question {
    fn call(self) -> &'static str {
        match self {
            Self::Begin => "submit",
            Self::Rejoin => "rejoin",
            Self::Report => "report",
            Self::Cancel => "cancel_run",
        }
    }
}

/// Where the coordinator is.
enum Wire {
    /// One is being looked for.
    None,
    /// One is looked for then.
    Resting(Instant),
    /// There.
    Open(Connection),
}

struct Follower<'a> {
    connect: Connect,
    begin: &'a Begin,
    progress: &'a mut Progress,
    inbox: &'a mut Inbox,
    wire: Wire,
    run: Option<RunId>,
    asked: BTreeMap<u64, Question>,
    interrupts: u32,
    told_now: Option<Instant>,
    /// How many coordinators were lost since one last answered.
    losses: u32,
}

type Heard = Result<Option<Box<RunReport>>, Failure>;

impl Follower<'_> {
    /// Takes one event in; a report is the run's end.
    fn hear(&mut self, event: Event) -> Heard {
        match event {
            Event::Quiet => {
                self.progress.tick();
                match self.wire {
                    Wire::Resting(until) if until <= Instant::now() => self.look()?,
                    _ => {}
                }
                Ok(None)
            }
            Event::Interrupt => self.interrupted().map(|()| None),
            Event::Connected(Ok(connection)) => self.connected(connection).map(|()| None),
            Event::Connected(Err(failure)) => self.not_connected(failure).map(|()| None),
            Event::Wire(Ok(Response::Notice { notice })) => self.notice(*notice),
            Event::Wire(Ok(Response::Reply { id, answer })) => self.answer(id, *answer),
            Event::Wire(Ok(Response::Refusal { id, failure })) => {
                self.refused(id, failure).map(|()| None)
            }
            Event::Wire(Err(error)) => self.lost(error).map(|()| None),
        }
    }

    fn patience(&self) -> Duration {
        match self.wire {
            Wire::Resting(until) => until.saturating_duration_since(Instant::now()).min(TICK),
            _ => TICK,
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.wire = Wire::None;
        let connect = self.connect.clone();
        self.inbox.look_for(&connect)
    }

    fn connected(&mut self, mut connection: Connection) -> Result<(), Failure> {
        if let Err(error) = self.inbox.hear_wire(&mut connection) {
            return Err(self.left(error.into()));
        }
        self.wire = Wire::Open(connection);
        self.asked.clear();
        match &self.run {
            None => self.send(Question::Begin, self.begin.call()),
            Some(run) => {
                let call = Call::Rejoin { run: run.clone(), env: self.begin.env().clone() };
                self.send(Question::Rejoin, call)
            }
        }
    }

    /// One that was started and died at once may have been killed, as the one before it was: a run
    /// that goes on is worth another try.
    fn not_connected(&mut self, failure: Failure) -> Result<(), Failure> {
        self.losses += 1;
        let may_help = failure.kind == Kind::Coordinator && self.run.is_some();
        if !may_help || self.losses >= TRIES {
            return Err(self.left(failure));
        }
        self.wire = Wire::Resting(Instant::now() + pause(self.losses));
        Ok(())
    }

    fn answer(&mut self, id: u64, answer: Answer) -> Heard {
        let question = self.asked.remove(&id);
        self.losses = 0;
        match (question, answer) {
            (Some(Question::Begin), Answer::Submitted { run, report }) => {
                self.progress.say(&format!("run {run}"));
                self.progress.begin(&report);
                self.run = Some(run);
                if self.interrupts > 0 {
                    self.cancel()?;
                }
                Ok(None)
            }
            // Its tasks are left out: they are asked for, since some may have moved meanwhile.
            (Some(Question::Rejoin), Answer::Report { report }) if report.outcome.is_none() => {
                if self.interrupts > 0 {
                    self.cancel()?;
                }
                self.ask_report().map(|()| None)
            }
            (Some(Question::Report), Answer::Report { report }) if report.outcome.is_none() => {
                self.progress.catch_up(&report);
                Ok(None)
            }
            // It has ended meanwhile. A run whose first answer was lost is met only now.
            (
                Some(Question::Begin | Question::Rejoin | Question::Report),
                Answer::Report { report },
            ) => {
                self.progress.catch_up(&report);
                Ok(Some(report))
            }
            (Some(Question::Cancel), Answer::Cancelling) | (None, _) => Ok(None),
            (Some(question), _) => {
                Err(self.left(WireError::Unexpected { call: question.call() }.into()))
            }
        }
    }

    fn refused(&mut self, id: u64, refusal: Refusal) -> Result<(), Failure> {
        match self.asked.remove(&id) {
            Some(Question::Begin | Question::Rejoin)
                if refusal.kind == FailureKind::ShuttingDown =>
            {
                self.lost(WireError::Refused(refusal))
            }
            Some(Question::Begin) => Err(refusal.into()),
            Some(Question::Rejoin) => Err(self.left(refusal.into())),
            // A run that ended before the refusal says so itself; a report can be asked for.
            _ => {
                self.progress.say(&refusal.message);
                Ok(())
            }
        }
    }

    fn notice(&mut self, notice: Notice) -> Heard {
        match notice {
            Notice::RunEnded { report } if Some(&report.run_id) == self.run.as_ref() => {
                return Ok(Some(report));
            }
            Notice::Gap { .. } => self.ask_report()?,
            other => self.progress.hear(&other),
        }
        Ok(None)
    }

    fn interrupted(&mut self) -> Result<(), Failure> {
        self.interrupts += 1;
        let Wire::Open(connection) = &self.wire else { return self.interrupted_alone() };
        if self.told_now.is_some_and(|at| at.elapsed() > PATIENCE) {
            let message = "left a coordinator that does not end the run".to_owned();
            let hint = format!("look at it with `ps {}`", connection.peer_pid());
            return Err(Failure::new(Kind::Interrupted, message).hint(hint));
        }
        self.progress.say(if self.interrupts == 1 {
            "ending the run; Ctrl-C again ends it at once"
        } else {
            "ending the run at once"
        });
        if self.run.is_some() { self.cancel() } else { Ok(()) }
    }

    /// Interrupted while there is no coordinator.
    fn interrupted_alone(&mut self) -> Result<(), Failure> {
        if self.run.is_none() && self.losses == 0 {
            return Err(Failure::new(Kind::Interrupted, "interrupted before the run began"));
        }
        if self.interrupts > 2 {
            let message = "left the run without a coordinator that could end it";
            let what = self.run.as_ref().map_or_else(
                || "`callboard run ls` shows whether it was begun".to_owned(),
                |run| format!("`callboard run cancel {run}` ends it, if it still goes on"),
            );
            return Err(Failure::new(Kind::Interrupted, message).hint(what));
        }
        self.progress.warn("ending the run as soon as a coordinator is there");
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), Failure> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        let now = self.interrupts > 1;
        if now && self.told_now.is_none() {
            self.told_now = Some(Instant::now());
        }
        self.send(Question::Cancel, Call::CancelRun { run, now })
    }

    fn ask_report(&mut self) -> Result<(), Failure> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        self.send(Question::Report, Call::Report { run })
    }

    fn send(&mut self, question: Question, call: Call) -> Result<(), Failure> {
        let Wire::Open(connection) = &mut self.wire else { return Ok(()) };
        match connection.send(call) {
            Ok(id) => {
                self.asked.insert(id, question);
                Ok(())
            }
            // The reader meets the same end, after what was still said before it.
            Err(WireError::Lost) => Ok(()),
            Err(error) => self.lost(error),
        }
    }

    /// The coordinator is gone: on to the next one. Whatever stopped it, its journal has the run.
    fn lost(&mut self, error: WireError) -> Result<(), Failure> {
        self.losses += 1;
        if !starter::is_absence(&error) || self.losses >= TRIES {
            return Err(self.left(error.into()));
        }
        if self.losses == 1
            && let Some(run) = &self.run
        {
            let text = format!("the coordinator is gone; run {run} goes on with another one");
            self.progress.warn(&text);
        }
        self.told_now = None;
        self.wire = Wire::Resting(Instant::now() + pause(self.losses));
        Ok(())
    }

    /// What a failure means for a run that may go on.
    fn left(&self, failure: Failure) -> Failure {
        let Some(run) = &self.run else { return failure };
        let message = format!("lost the coordinator of run {run}: {}", failure.message);
        let hint = format!(
            "what is known of the run: callboard report {run}; to go on with it: callboard run \
             --resume {run}"
        );
        Failure { message, hint: Some(hint), ..failure }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::{Script, StandIn, ended_report, report, submit};
    use std::sync::Arc;

    use super::follow as follow_run;
    use super::*;
    use crate::domain::outcome::RunOutcome;

    /// Follows a run at one coordinator after the other.
    fn through(scripts: Vec<Script>) -> Result<Box<RunReport>, Failure> {
        interrupted(|_| scripts)
    }

    /// The same; scripts can send interrupts.
    fn interrupted(
        scripts: impl FnOnce(Arc<dyn Fn(usize) + Send + Sync>) -> Vec<Script>,
    ) -> Result<Box<RunReport>, Failure> {
        let mut inbox = Inbox::new();
        let (connect, threads) = StandIn::row(scripts(Arc::new(inbox.interrupter())));
        let mut progress = Progress::Silent;
        let begin = Begin::Submit(Box::new(submit()));
        let followed = follow_run(connect, &begin, &mut progress, &mut inbox);
        drop(inbox);
        threads();
        followed
    }

    fn follow(
        script: impl FnOnce(&mut StandIn) + Send + 'static,
    ) -> Result<Box<RunReport>, Failure> {
        through(vec![Box::new(script)])
    }

    /// A coordinator of which the run is known, and that is lost then.
    fn rejoined_and_lost() -> Script {
        Box::new(|stand_in| {
            rejoined(stand_in);
        })
    }

    fn rejoined(stand_in: &mut StandIn) {
        stand_in.welcome();
        let (id, call) = stand_in.asked();
        assert_eq!(call, Call::Rejoin { run: "R1".into(), env: submit().env });
        stand_in.reply(id, Answer::Report { report: Box::new(report()) });
        let (id, call) = stand_in.asked();
        assert_eq!(call, Call::Report { run: "R1".into() });
        stand_in.reply(id, Answer::Report { report: Box::new(report()) });
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
        let report = follow(|stand_in| {
            submitted(stand_in);
            stand_in.notice(Notice::ServiceReady { run: "R1".into(), task: "a".into() });
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(0)) });
        });
        assert_eq!(report.unwrap().outcome, Some(RunOutcome::Succeeded));
    }

    #[test]
    fn a_gap_brings_the_whole_picture() {
        let report = follow(|stand_in| {
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
    fn an_interrupt_cancels_and_a_second_one_ends_it_now() {
        let report = interrupted(|interrupt| {
            vec![Box::new(move |stand_in| {
                submitted(stand_in);
                for now in [false, true] {
                    interrupt(1);
                    let (id, call) = stand_in.asked();
                    assert_eq!(call, Call::CancelRun { run: "R1".into(), now });
                    stand_in.reply(id, Answer::Cancelling);
                }
                stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(130)) });
            })]
        });
        assert_eq!(report.unwrap().exit_code, Some(130));
    }

    #[test]
    fn a_run_outlives_three_coordinators() {
        let report = through(vec![
            Box::new(submitted),
            rejoined_and_lost(),
            rejoined_and_lost(),
            Box::new(|stand_in| {
                rejoined(stand_in);
                stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(1)) });
            }),
        ]);
        assert_eq!(report.unwrap().exit_code, Some(1));
    }

    #[test]
    fn a_run_that_ended_in_the_gap_has_its_report() {
        let report = through(vec![
            Box::new(submitted),
            Box::new(|stand_in| {
                stand_in.welcome();
                let (id, _) = stand_in.asked();
                stand_in.reply(id, Answer::Report { report: Box::new(ended_report(0)) });
            }),
        ]);
        assert_eq!(report.unwrap().exit_code, Some(0));
    }

    #[test]
    fn a_submission_without_an_answer_is_said_again_and_is_the_same() {
        let again: Script = Box::new(|stand_in| {
            submitted(stand_in);
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(0)) });
        });
        let dies: Script = Box::new(|stand_in| {
            stand_in.welcome();
            let (_, call) = stand_in.asked();
            assert_eq!(call, Call::Submit { submit: Box::new(submit()) });
        });
        assert!(through(vec![dies, again]).is_ok());
    }

    #[test]
    fn when_no_coordinator_can_be_had_the_run_is_named() {
        let failure = follow(submitted).unwrap_err();
        assert_eq!(failure.exit_code(), 5);
        assert!(failure.message.contains("run R1"), "{}", failure.message);
        assert!(failure.hint.unwrap().contains("callboard run --resume R1"));
    }

    #[test]
    fn one_that_is_ending_is_left_for_the_next() {
        let refuse: Script = Box::new(|stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            let message = "ending".to_owned();
            stand_in.refuse(id, Refusal { kind: FailureKind::ShuttingDown, message, hint: None });
        });
        let takes: Script = Box::new(|stand_in| {
            submitted(stand_in);
            stand_in.notice(Notice::RunEnded { report: Box::new(ended_report(0)) });
        });
        assert!(through(vec![refuse, takes]).is_ok());
    }

    #[test]
    fn tries_are_bounded() {
        let dies = || -> Script { Box::new(|stand_in| stand_in.welcome()) };
        let failure = through((0..TRIES).map(|_| dies()).collect()).unwrap_err();
        assert_eq!(failure.kind, Kind::Coordinator);
        let pauses: Vec<_> = (1..10).map(|losses| pause(losses).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn a_refusal_is_told() {
        let failure = follow(|stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            let message = "no space left for the journal".to_owned();
            stand_in.refuse(id, Refusal { kind: FailureKind::Environment, message, hint: None });
        })
        .unwrap_err();
        assert_eq!((failure.kind, failure.exit_code()), (Kind::Machine, 3));
    }
}
