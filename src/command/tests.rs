//! Tables for the machine: events in, effects and states out.

use super::awaiting::{Poll, Sight, Wait};
use super::event::{Effect, Event, Fate};
use super::state::Command;
use super::step::step;
use crate::domain::ids::CommandId;
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::plan::{InputRule, Ready, StopRule};
use crate::domain::result::{Evidence, Note};
use crate::domain::session::{CommandSpec, Limit, UnansweredInput};

pub(super) fn spec(text: &str) -> CommandSpec {
    CommandSpec {
        ticket: None,
        id: CommandId::new("c"),
        text: text.to_owned(),
        cwd: None,
        limit: Limit::Unlimited,
        input_timeout_ms: 10_000,
        on_input: Vec::new(),
        inputs: Vec::new(),
        unanswered: UnansweredInput::Wait,
        stop_on: Vec::new(),
        merge: false,
        ready: None,
    }
}

/// A machine and its clock.
pub(super) struct Bench {
    pub(super) command: Command,
    now_ms: u64,
}

impl Bench {
    fn pending(spec: CommandSpec) -> Self {
        Self { command: Command::new(spec).unwrap(), now_ms: 1_000 }
    }

    pub(super) fn running(spec: CommandSpec) -> Self {
        let mut bench = Self::pending(spec);
        assert_eq!(bench.at(0, Event::Turn), [Effect::Start]);
        assert_eq!(bench.at(0, Event::Started), []);
        bench
    }

    /// The event, so many ms later.
    pub(super) fn at(&mut self, later_ms: u64, event: Event<'_>) -> Vec<Effect> {
        self.now_ms += later_ms;
        step(&mut self.command, event, self.now_ms)
    }

    /// Lets the next deadline pass; says how far off it was.
    fn deadline(&mut self) -> (u64, Vec<Effect>) {
        let due = self.command.deadline().unwrap();
        let later = due.saturating_sub(self.now_ms);
        assert_eq!(self.at(later.saturating_sub(1), Event::Tick), [], "too early");
        (later, self.at(later.min(1), Event::Tick))
    }

    pub(super) fn looked(&mut self, later_ms: u64, sight: Sight, last_line: &str) -> Vec<Effect> {
        self.at(later_ms, Event::Looked { sight, last_line })
    }

    fn reported(&mut self, status: i32) -> Vec<Effect> {
        self.at(1, Event::Reported { status, pipe_status: None })
    }

    fn end(&self) -> (CommandState, Option<Reason>, Option<i32>) {
        let outcome = self.command.outcome().unwrap();
        (outcome.state, outcome.reason.clone(), outcome.exit_code)
    }
}

pub(super) fn reads(count: u64) -> Sight {
    Sight::Waits(Wait {
        evidence: Evidence::TtyRead,
        secret: false,
        token: (7, count),
        replaced: false,
        poll: None,
    })
}

fn interrupted() -> Event<'static> {
    Event::End { reason: Reason::INTERRUPT }
}

#[test]
fn the_way_to_a_status() {
    let rows: [(i32, CommandState, Option<Reason>); 4] = [
        (0, CommandState::Completed, None),
        (1, CommandState::Failed, Some(Reason::Exit { code: 1 })),
        (127, CommandState::Failed, Some(Reason::Exit { code: 127 })),
        (
            137,
            CommandState::Failed,
            Some(Reason::Signal { signal: "KILL".to_owned(), inferred: true }),
        ),
    ];
    for (status, state, reason) in rows {
        let mut bench = Bench::running(spec("x"));
        assert_eq!(bench.command.state(), CommandState::Running);
        assert_eq!(bench.reported(status), [Effect::Finish]);
        assert_eq!(bench.end(), (state, reason, Some(status)));
        assert!(!bench.command.outcome().unwrap().tree_ended);
    }
}

#[test]
fn before_it_runs() {
    // Plain texts start at once, others are read by the parser first.
    assert_eq!(Bench::pending(spec("echo a")).at(0, Event::Turn), [Effect::Start]);
    let mut checked = Bench::pending(spec("if a; then b; fi"));
    assert_eq!(checked.at(0, Event::Turn), [Effect::Check]);
    assert_eq!(checked.command.state(), CommandState::Pending);
    assert_eq!(checked.at(1, Event::Checked { incomplete: None }), [Effect::Start]);

    let mut incomplete = Bench::pending(spec("if a"));
    assert_eq!(incomplete.at(0, Event::Turn), [Effect::Check]);
    let message = "unexpected end".to_owned();
    let event = Event::Checked { incomplete: Some(message.clone()) };
    assert_eq!(incomplete.at(0, event), [Effect::Finish]);
    assert_eq!(incomplete.end().1, Some(Reason::Incomplete { message }));

    let mut nul = Bench::pending(spec("a\0b"));
    assert_eq!(nul.at(0, Event::Turn), [Effect::Finish]);
    let Some(Reason::Incomplete { message }) = nul.end().1 else { panic!() };
    assert!(message.contains("offset 1"));

    let mut dropped = Bench::pending(spec("a"));
    assert_eq!(dropped.at(0, interrupted()), [Effect::Finish]);
    assert_eq!(dropped.end(), (CommandState::Failed, Some(Reason::INTERRUPT), None));

    let mut nowhere = Bench::pending(spec("a"));
    assert_eq!(nowhere.at(0, Event::Turn), [Effect::Start]);
    assert_eq!(nowhere.at(0, Event::StartFailed { message: "m".to_owned() }), [Effect::Finish]);
    assert_eq!(nowhere.end().1, Some(Reason::StartFailed { message: "m".to_owned() }));
}

#[test]
fn an_ended_command_hears_nothing() {
    let events = || {
        [
            Event::Turn,
            Event::Checked { incomplete: None },
            Event::StartFailed { message: String::new() },
            Event::Started,
            Event::Output { bytes: b"x", stderr: false },
            Event::InputSent,
            Event::Looked { sight: reads(1), last_line: "? " },
            Event::Looked { sight: Sight::ShellPrompt, last_line: "" },
            Event::Cpu { used_ms: 1 },
            Event::Listens,
            Event::Tick,
            interrupted(),
            Event::Reported { status: 3, pipe_status: None },
            Event::ShellGone { fate: Fate::Exited(4) },
            Event::Tree { left: 2 },
        ]
    };
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.reported(0), [Effect::Finish]);
    for event in events() {
        assert_eq!(bench.at(100_000, event.clone()), [], "{event:?}");
    }
    assert_eq!(bench.end().0, CommandState::Completed);
    assert_eq!(bench.command.deadline(), None);
    // Nor can anything but its turn, a refusal or the shell's end move one in the queue.
    for event in events() {
        let mut pending = Bench::pending(spec("x"));
        let effects = pending.at(1, event.clone());
        let moved = match event {
            Event::Turn => vec![Effect::Start],
            Event::StartFailed { .. } | Event::End { .. } | Event::ShellGone { .. } => {
                vec![Effect::Finish]
            }
            _ => Vec::new(),
        };
        assert_eq!(effects, moved, "{event:?}");
    }
}

#[test]
fn an_exact_limit() {
    let mut bench = Bench::running(CommandSpec { limit: Limit::Exact { ms: 700 }, ..spec("x") });
    // Printing does not move it.
    assert_eq!(bench.at(600, Event::Output { bytes: b"x", stderr: false }), []);
    assert_eq!(bench.deadline(), (100, vec![Effect::Interrupt]));
    assert_eq!(bench.reported(130), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(bench.end(), (CommandState::Timeout, Some(Reason::Total { limit_ms: 700 }), None));
    assert!(bench.command.outcome().unwrap().tree_ended);
}

#[test]
fn the_heartbeat_looks_again_every_ten_seconds() {
    let heartbeat = Limit::Heartbeat { ms: 30_000, hard_ms: 300_000 };
    let mut bench = Bench::running(CommandSpec { limit: heartbeat, ..spec("x") });
    let cpu = |used_ms| Event::Cpu { used_ms };
    // CPU time counts from ten seconds before the first look.
    assert_eq!(bench.deadline(), (20_000, vec![Effect::SampleCpu]));
    assert_eq!(bench.at(0, cpu(500)), []);
    assert_eq!(bench.deadline(), (10_000, vec![Effect::SampleCpu]));
    assert_eq!(bench.at(0, cpu(510)), []);
    assert_eq!(bench.deadline(), (10_000, vec![Effect::SampleCpu]));
    // Idle, but it printed within the time.
    assert_eq!(bench.at(0, Event::Output { bytes: b"x", stderr: true }), []);
    assert_eq!(bench.at(0, cpu(511)), []);
    assert_eq!(bench.deadline(), (10_000, vec![Effect::SampleCpu]));
    assert_eq!(bench.at(1, cpu(515)), [Effect::Interrupt]);
    assert_eq!(bench.reported(130), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    let reason = Reason::Silent { limit_ms: 30_000, last_output_ms: 10_001 };
    assert_eq!(bench.end(), (CommandState::Timeout, Some(reason), None));
}

#[test]
fn the_hard_limit_ends_the_heartbeat() {
    let heartbeat = Limit::Heartbeat { ms: 2_000, hard_ms: 15_000 };
    let mut bench = Bench::running(CommandSpec { limit: heartbeat, ..spec("x") });
    assert_eq!(bench.deadline(), (1_000, vec![Effect::SampleCpu]), "the first second is left out");
    assert_eq!(bench.at(0, Event::Cpu { used_ms: 0 }), []);
    for (wait, used_ms) in [(1_000, 100), (10_000, 200)] {
        assert_eq!(bench.deadline(), (wait, vec![Effect::SampleCpu]));
        assert_eq!(bench.at(0, Event::Cpu { used_ms }), []);
    }
    assert_eq!(bench.deadline(), (3_000, vec![Effect::Interrupt]));
    assert_eq!(bench.reported(130), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(bench.end().1, Some(Reason::Total { limit_ms: 15_000 }));
}

#[test]
fn ending_goes_step_by_step() {
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.at(0, interrupted()), [Effect::Interrupt]);
    assert!(bench.command.is_ending());
    assert_eq!(bench.at(0, interrupted()), [], "once is enough");
    assert_eq!(bench.at(1, Event::Tree { left: 2 }), []);
    assert_eq!(bench.deadline(), (499, vec![Effect::Terminate]));
    assert_eq!(bench.at(0, Event::Tree { left: 1 }), []);
    assert_eq!(bench.deadline(), (2_000, vec![Effect::Kill]));
    // Whatever is born to it now is killed, too.
    assert_eq!(bench.at(5, Event::Tree { left: 1 }), [Effect::Kill]);
    assert_eq!(bench.reported(137), []);
    assert_eq!(bench.at(1, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(bench.end(), (CommandState::Failed, Some(took("KILL")), Some(130)));
}

#[test]
fn what_grows_beyond_its_limit_is_killed_at_once() {
    for resource in ["memory", "processes"] {
        let reason = Reason::Quota { resource: resource.to_owned(), limit: 64 };
        let mut bench = Bench::running(spec("x"));
        let ended = bench.at(0, Event::End { reason: reason.clone() });
        assert_eq!(ended, [Effect::Interrupt, Effect::Kill], "{resource}");
        assert_eq!(bench.at(5, Event::Tree { left: 3 }), [Effect::Kill]);
        assert_eq!(bench.reported(130), []);
        assert_eq!(bench.at(5, Event::Tree { left: 0 }), [Effect::Finish]);
        assert_eq!(bench.end(), (CommandState::Failed, Some(reason.clone()), None));
        // A shell that does not come back is part of what grows.
        let mut busy = Bench::running(spec("x"));
        assert_eq!(busy.at(0, Event::End { reason: reason.clone() }).len(), 2);
        assert_eq!(busy.at(5, Event::Tree { left: 9 }), [Effect::Kill]);
        assert_eq!(busy.deadline(), (2_895, vec![Effect::KillShell]));
        let killed = Event::ShellGone { fate: Fate::Signalled(9) };
        assert_eq!(busy.at(1, killed), []);
        assert_eq!(busy.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
        assert_eq!(busy.end().1, Some(reason));
        assert!(busy.command.outcome().unwrap().notes.contains(&Note::SessionEnded));
    }
    let reason = Reason::Quota { resource: "cpu".to_owned(), limit: 1_000 };
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.at(0, Event::End { reason }), [Effect::Interrupt]);
}

fn took(signal: &str) -> Reason {
    Reason::Interrupted { signal: Some(signal.to_owned()) }
}

#[test]
fn an_interrupted_command_says_what_that_took() {
    // What is left of the tree after each step, and the signal that was needed.
    for (left, signal) in
        [(&[0][..], "INT"), (&[1, 0], "TERM"), (&[1, 1, 0], "KILL"), (&[2, 1, 0], "KILL")]
    {
        let mut bench = Bench::running(spec("x"));
        assert_eq!(bench.at(0, interrupted()), [Effect::Interrupt]);
        assert_eq!(bench.reported(130), []);
        let mut effects = Vec::new();
        for (step, &left) in left.iter().enumerate() {
            if step > 0 {
                let (_, further) = bench.deadline();
                assert_eq!(further, [[Effect::Terminate, Effect::Kill][step - 1].clone()]);
            }
            effects = bench.at(1, Event::Tree { left });
        }
        assert_eq!(effects, [Effect::Finish], "{signal}");
        assert_eq!(bench.end().1, Some(took(signal)));
    }
    // A shell that dies of the interrupt needed no more than that.
    let mut dies = Bench::running(spec("x"));
    assert_eq!(dies.at(0, interrupted()), [Effect::Interrupt]);
    let gone = Event::ShellGone { fate: Fate::Exited(130) };
    assert_eq!(dies.at(5, gone), [Effect::Terminate]);
    assert_eq!(dies.at(1, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(dies.end().1, Some(took("INT")));
}

#[test]
fn a_shell_that_does_not_answer_goes_too() {
    // Nothing runs below it: it has its time from then on.
    let mut alone = Bench::running(spec("x"));
    assert_eq!(alone.at(0, interrupted()), [Effect::Interrupt]);
    assert_eq!(alone.at(10, Event::Tree { left: 0 }), []);
    assert_eq!(alone.deadline().1, [Effect::Terminate]);
    assert_eq!(alone.deadline(), (410, vec![Effect::KillShell]));
    let killed = Event::ShellGone { fate: Fate::Signalled(9) };
    assert_eq!(alone.at(1, killed.clone()), []);
    assert_eq!(alone.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!((alone.end().1, alone.end().2), (Some(took("KILL")), Some(130)));
    assert!(alone.command.outcome().unwrap().notes.contains(&Note::SessionEnded));

    // A tree that will not go either.
    let mut stubborn = Bench::running(spec("x"));
    assert_eq!(stubborn.at(0, interrupted()), [Effect::Interrupt]);
    assert_eq!(stubborn.at(0, Event::Tree { left: 1 }), []);
    assert_eq!(stubborn.deadline().1, [Effect::Terminate]);
    assert_eq!(stubborn.deadline().1, [Effect::Kill]);
    assert_eq!(stubborn.deadline(), (900, vec![Effect::KillShell]));
    assert_eq!(stubborn.at(0, killed), []);
    assert_eq!(stubborn.at(0, Event::Tree { left: 1 }), [Effect::Kill]);
    // What cannot be killed is given up, and named by the session.
    assert_eq!(stubborn.deadline(), (1_100, vec![Effect::Finish]));
}

#[test]
fn the_shells_end_is_the_commands() {
    for (fate, code, reason) in [
        (Fate::Exited(0), 0, None),
        (Fate::Exited(3), 3, Some(Reason::Exit { code: 3 })),
        (
            Fate::Signalled(9),
            137,
            Some(Reason::Signal { signal: "KILL".to_owned(), inferred: false }),
        ),
    ] {
        let mut bench = Bench::running(spec("x"));
        assert_eq!(bench.at(5, Event::ShellGone { fate }), [Effect::Terminate]);
        assert_eq!(bench.at(1, Event::Tree { left: 1 }), []);
        assert_eq!(bench.deadline(), (499, vec![Effect::Kill]));
        assert_eq!(bench.at(1, Event::Tree { left: 0 }), [Effect::Finish]);
        let (_, ended, exit_code) = bench.end();
        assert_eq!((ended, exit_code), (reason, Some(code)));
        assert_eq!(bench.command.outcome().unwrap().notes, [Note::SessionEnded]);
    }
}

#[test]
fn clocks_stand_still_while_input_is_awaited() {
    let mut bench = Bench::running(CommandSpec { limit: Limit::Exact { ms: 1_000 }, ..spec("x") });
    let told = bench.looked(400, reads(1), "Name: ");
    let [Effect::TellAwaiting { awaiting }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&*awaiting.prompt, awaiting.idle_ms), ("Name: ", 400));
    assert_eq!(bench.command.state(), CommandState::AwaitingInput);
    // Told once; another wake-up without output or input is the same question.
    assert_eq!(bench.looked(2_000, reads(1), "Name: "), []);
    assert_eq!(bench.looked(10, reads(2), "Name: "), []);
    assert_eq!(bench.at(0, Event::InputSent), []);
    // Half a line: it still waits.
    assert_eq!(bench.looked(10, reads(2), "Name: "), []);
    assert_eq!(bench.looked(10, Sight::Busy, "Name: bob"), [Effect::TellResumed]);
    assert_eq!(bench.command.state(), CommandState::Running);
    assert_eq!(bench.deadline(), (600, vec![Effect::Interrupt]));
}

#[test]
fn what_only_may_wait_goes_on_with_the_next_output() {
    let polls = |round, limit_ms| {
        let poll = Poll { limit_ms, company: false, keys: true, cpu_ms: 0 };
        let Sight::Waits(wait) = reads(round) else { panic!() };
        Sight::Waits(Wait { evidence: Evidence::TtyPoll, poll: Some(poll), ..wait })
    };
    for (limit_ms, answered, asks_again) in
        [(None, false, true), (Some(5_000), false, false), (Some(5_000), true, true)]
    {
        let mut bench = Bench::running(spec("x"));
        assert_eq!(bench.looked(400, polls(1, limit_ms), "").len(), 1);
        assert_eq!(bench.command.state(), CommandState::AwaitingInput);
        if answered {
            assert_eq!(bench.at(10, Event::InputSent), []);
        }
        let redraw = Event::Output { bytes: b"redrawn", stderr: false };
        assert_eq!(bench.at(3_000, redraw), [Effect::TellResumed]);
        // What redraws by itself goes by its own clock, and its time limits run on.
        let again = bench.looked(400, polls(2, limit_ms), "");
        assert_eq!(again.len(), usize::from(asks_again), "{limit_ms:?} {answered}");
    }
    // A service that has the terminal among its descriptors offers a key or two.
    let ready = Some(Ready::Log("up".to_owned()));
    let mut service = Bench::running(CommandSpec { ready, ..spec("x") });
    assert_eq!(service.looked(60_000, polls(1, None), "h: help"), []);
    // A read that is still the same goes on in spite of output.
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.looked(400, reads(1), "Name: ").len(), 1);
    assert_eq!(bench.at(10, Event::Output { bytes: b"note", stderr: false }), []);
    assert_eq!(bench.looked(15, reads(1), "Name: note"), []);
}

#[test]
fn the_next_question_is_another_one() {
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.looked(20, reads(1), "A? ").len(), 1);
    assert_eq!(bench.at(5, Event::InputSent), []);
    let effects = bench.looked(20, reads(2), "B? ");
    assert_eq!(effects.len(), 2);
    assert_eq!(effects[0], Effect::TellResumed);
    let Effect::TellAwaiting { awaiting } = &effects[1] else { panic!() };
    assert_eq!(awaiting.prompt, "B? ");
    assert_eq!(bench.reported(0), [Effect::TellResumed, Effect::Finish]);
}

#[test]
fn a_report_that_never_comes_ends_the_shell() {
    let mut bench = Bench::running(spec("x"));
    assert_eq!(bench.at(50, Event::ReportLost), [Effect::KillShell, Effect::Terminate]);
    assert_eq!(bench.at(1, Event::ShellGone { fate: Fate::Signalled(9) }), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(bench.end(), (CommandState::Failed, Some(Reason::ShellEnded), None));
}

#[test]
fn a_question_without_an_answer() {
    let mut at_once = Bench::running(CommandSpec { unanswered: UnansweredInput::End, ..spec("x") });
    assert_eq!(at_once.looked(20, reads(1), "Key: "), [Effect::Interrupt]);
    let mut late = Bench::running(spec("x"));
    assert_eq!(late.looked(20, reads(1), "Key: ").len(), 1);
    assert_eq!(late.deadline(), (10_000, vec![Effect::TellResumed, Effect::Interrupt]));
    for mut bench in [at_once, late] {
        assert_eq!(bench.reported(130), []);
        assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
        let reason = Reason::AwaitingInput { prompt: "Key: ".to_owned() };
        assert_eq!(bench.end(), (CommandState::Failed, Some(reason), None));
        assert!(bench.command.outcome().unwrap().awaiting.is_some());
    }
}

#[test]
fn patterns_in_the_output() {
    let mut bench = Bench::running(CommandSpec {
        stop_on: vec![StopRule { pattern: "^fatal".to_owned(), reason: None }],
        ready: Some(Ready::Log("listening".to_owned())),
        ..spec("x")
    });
    let output = |bytes, stderr| Event::Output { bytes, stderr };
    assert_eq!(bench.at(1, output(b"not fatal\nlis", false)), []);
    // The other stream's lines do not join this one's.
    assert_eq!(bench.at(1, output(b"tening\n", true)), []);
    assert_eq!(bench.at(1, output(b"tening\n", false)), [Effect::TellReady]);
    assert_eq!(bench.at(1, output(b"listening\n", false)), [], "told once");
    assert_eq!(bench.at(1, output(b"fatal", true)), [Effect::Interrupt]);
    assert_eq!(bench.reported(130), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    let reason = Reason::Stopped { pattern: "^fatal".to_owned(), reason: None };
    assert_eq!(bench.end(), (CommandState::Failed, Some(reason), None));
}

#[test]
fn a_shell_at_its_own_prompt_is_brought_back_or_given_up() {
    let mut bench = Bench::running(spec("x"));
    for _ in 0..20 {
        assert_eq!(bench.looked(15, Sight::ShellPrompt, ""), [Effect::Nudge]);
    }
    let given_up = [Effect::KillShell, Effect::Terminate];
    assert_eq!(bench.looked(15, Sight::ShellPrompt, ""), given_up);
    assert_eq!(bench.at(1, Event::ShellGone { fate: Fate::Signalled(9) }), []);
    assert_eq!(bench.at(0, Event::Tree { left: 0 }), [Effect::Finish]);
    assert_eq!(bench.end().1, Some(Reason::ShellReplaced));
}

#[test]
fn bad_patterns_are_said_before_anything_runs() {
    let bad = InputRule { pattern: "(".to_owned(), send: String::new() };
    let command = Command::new(CommandSpec { on_input: vec![bad], ..spec("x") });
    assert!(command.err().is_some_and(|message| message.contains("`(`")));
}

#[test]
fn while_a_person_has_the_terminal_no_clock_runs_and_nothing_is_asked() {
    let limit = Limit::Exact { ms: 100 };
    let inputs = vec!["agent\n".to_owned()];
    let mut bench = Bench::running(CommandSpec { limit, inputs, ..spec("x") });
    assert_eq!(bench.at(40, Event::Held { held: true }), []);
    assert_eq!(bench.command.deadline(), None);
    assert_eq!(bench.looked(5_000, reads(1), "Key: "), [], "the person answers");
    assert_eq!(bench.at(0, Event::Held { held: false }), []);
    assert_eq!(bench.deadline(), (60, vec![Effect::Interrupt]));
}

#[test]
fn a_question_that_a_person_has_seen_is_asked_anew() {
    let limit = Limit::Exact { ms: 100 };
    let mut bench = Bench::running(CommandSpec { limit, ..spec("x") });
    assert!(matches!(bench.looked(10, reads(1), "Key: ")[..], [Effect::TellAwaiting { .. }]));
    assert_eq!(bench.at(9_000, Event::Held { held: true }), []);
    assert_eq!(bench.command.deadline(), None);
    // Answered by the person: it goes on, and its clock stands still all the same.
    assert_eq!(bench.at(1, Event::InputSent), []);
    assert_eq!(bench.looked(9_000, Sight::Busy, "Key: "), [Effect::TellResumed]);
    assert_eq!(bench.command.deadline(), None);
    assert_eq!(bench.at(500, Event::Held { held: false }), []);
    assert_eq!(bench.command.deadline().map(|due| due - bench.now_ms), Some(90));
    assert!(matches!(bench.looked(10, reads(3), "Next: ")[..], [Effect::TellAwaiting { .. }]));
    assert_eq!(bench.at(9_000, Event::Held { held: true }), []);
    assert_eq!(bench.at(20_000, Event::Held { held: false }), []);
    let (later, effects) = bench.deadline();
    assert_eq!((later, effects.len()), (10_000, 2), "the whole input limit again");
}

#[test]
fn a_command_that_starts_in_a_persons_hands_counts_from_the_hand_back() {
    let limit = Limit::Exact { ms: 100 };
    let mut bench = Bench::pending(CommandSpec { limit, ..spec("x") });
    assert_eq!(bench.at(0, Event::Turn), [Effect::Start]);
    assert_eq!(bench.at(0, Event::Held { held: true }), []);
    assert_eq!(bench.at(0, Event::Started), []);
    assert_eq!(bench.command.deadline(), None);
    assert_eq!(bench.at(700, Event::Held { held: false }), []);
    assert_eq!(bench.deadline(), (100, vec![Effect::Interrupt]));
}
