//! The attempt machine: what it hears, what it asks for.

use super::acts::*;
use super::stage::exit;
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::{CommandState, Reason, TaskCause, TaskReason};
use crate::domain::permission::Verdict;
use crate::domain::plan::TaskSpec;
use crate::domain::result::Child;
use crate::domain::time::Timestamp;
use crate::scheduler::attempt::{Attempt, CommandEnded, Effect, Event, Role};
use crate::scheduler::event::EndWhy;

#[test]
fn commands_run_one_after_the_other_then_verify() {
    use Role::{Step, Verify};
    check(
        &verified(&["a", "b"]),
        vec![completed(0), completed(1), completed(2)],
        vec![run(0, Step), run(1, Step), run(2, Verify)],
        AttemptEnd::Succeeded,
    );
}

#[test]
fn the_first_that_does_not_complete_is_the_last() {
    check(
        &verified(&["a", "b", "c"]),
        vec![completed(0), fails(1, Reason::Exit { code: 3 })],
        vec![run(0, Role::Step), run(1, Role::Step)],
        failed(exit(3)),
    );
    check(
        &steps(&["a", "b"]),
        vec![Event::Ended(ended(0, CommandState::Timeout, Some(Reason::Total { limit_ms: 9 })))],
        vec![run(0, Role::Step)],
        AttemptEnd::TimedOut { reason: TaskReason::Command(Reason::Total { limit_ms: 9 }) },
    );
}

#[test]
fn a_failed_verify_is_told_apart() {
    let outcomes = [
        (fails(1, Reason::Exit { code: 1 }), TaskReason::Task(TaskCause::Verify { code: Some(1) })),
        (
            Event::Ended(ended(1, CommandState::Timeout, Some(Reason::Total { limit_ms: 9 }))),
            TaskReason::Command(Reason::Total { limit_ms: 9 }),
        ),
    ];
    for (event, reason) in outcomes {
        check(
            &verified(&["a"]),
            vec![completed(0), event],
            vec![run(0, Role::Step), run(1, Role::Verify)],
            AttemptEnd::VerifyFailed { reason },
        );
    }
}

#[test]
fn a_session_that_ends_with_a_command_is_fine_only_with_the_last() {
    let exits = |index| {
        let end = ended(index, CommandState::Completed, None);
        Event::Ended(CommandEnded { session_ended: true, ..end })
    };
    let step = vec![run(0, Role::Step)];
    check(&steps(&["exit"]), vec![exits(0)], step.clone(), AttemptEnd::Succeeded);
    check(&steps(&["exit", "b"]), vec![exits(0)], step.clone(), command(Reason::ShellEnded));
    check(&verified(&["exit"]), vec![exits(0)], step, command(Reason::ShellEnded));
}

#[test]
fn whose_folder_is_gone_is_ended_and_may_be_tried_again() {
    let missing = || TaskReason::Command(Reason::WorkspaceMissing);
    let end = AttemptEnd::Failed { reason: missing(), permanent: false, environment: true };
    let effects = || {
        let reason = Reason::WorkspaceMissing;
        vec![run(0, Role::Step), Effect::EndCommand { index: 0, reason }]
    };
    // Whatever the command makes of it.
    for last in [fails(0, Reason::WorkspaceMissing), fails(0, Reason::Exit { code: 1 })] {
        check(&steps(&["a", "b"]), vec![Event::WorkspaceMissing, last], effects(), end.clone());
    }
    let mut opening = Attempt::new(&steps(&["a"]));
    assert_eq!(opening.step(Event::Begin, T0), [Effect::OpenSession]);
    assert_eq!(opening.step(Event::WorkspaceMissing, T0), [Effect::CloseSession]);
    let done = Effect::Done { end, survivors: vec![] };
    assert_eq!(opening.step(closed(), T0), [done]);
}

#[test]
fn a_session_that_was_never_asked_for_can_fail_to_open() {
    let mut attempt = Attempt::new(&steps(&["a"]));
    let message = "no worktree".to_owned();
    let effects = attempt.step(Event::OpenFailed { message: message.clone() }, T0);
    let reason = TaskReason::Command(Reason::StartFailed { message });
    let end = AttemptEnd::Failed { reason, permanent: true, environment: true };
    assert_eq!(effects, [Effect::Done { end, survivors: vec![] }]);
}

#[test]
fn a_service_ended_by_us_has_succeeded() {
    check(
        &service(&["build", "serve"]),
        vec![
            completed(0),
            Event::ServiceReady,
            Event::ServiceReady,
            Event::End(EndWhy::ServiceDone),
            fails(1, Reason::INTERRUPT),
        ],
        vec![
            run(0, Role::Step),
            run(1, Role::Service),
            Effect::ServiceReady,
            Effect::EndCommand { index: 1, reason: Reason::INTERRUPT },
        ],
        AttemptEnd::Succeeded,
    );
    for why in [EndWhy::Cancelled, EndWhy::FailFast] {
        check(
            &service(&["serve"]),
            vec![Event::ServiceReady, Event::End(why), fails(0, Reason::INTERRUPT)],
            vec![
                run(0, Role::Service),
                Effect::ServiceReady,
                Effect::EndCommand { index: 0, reason: Reason::INTERRUPT },
            ],
            AttemptEnd::Cancelled,
        );
    }
}

#[test]
fn a_service_that_is_not_ready_in_time_is_ended() {
    let mut task = service(&["serve"]);
    task.limits.timeout_ms = Some(500);
    let at = |ms: i64| Timestamp(1_000 + ms);
    let late = |ready: bool| {
        let mut attempt = Attempt::new(&task);
        let _effects = attempt.step(Event::Begin, at(0));
        let _effects = attempt.step(Event::Opened, at(0));
        if ready {
            let _effects = attempt.step(Event::ServiceReady, at(499));
            assert_eq!(attempt.deadline(), None, "it has no limit once it is ready");
        } else {
            assert_eq!(attempt.deadline(), Some(at(500)));
        }
        (attempt.step(Event::Tick, at(500)), attempt)
    };
    assert_eq!(late(true).0, vec![]);
    let (effects, mut attempt) = late(false);
    assert_eq!(effects, vec![Effect::EndCommand { index: 0, reason: Reason::INTERRUPT }]);
    let _effects = attempt.step(fails(0, Reason::INTERRUPT), at(600));
    let reason = TaskReason::Command(Reason::Total { limit_ms: 500 });
    assert_eq!(
        attempt.step(Event::Closed { survivors: vec![] }, at(601)),
        vec![Effect::Done { end: AttemptEnd::TimedOut { reason }, survivors: vec![] }]
    );
}

#[test]
fn a_service_that_dies_has_failed() {
    let ended = |code, ready| failed(TaskReason::Task(TaskCause::ServiceEnded { code, ready }));
    let signal = || Reason::Signal { signal: "KILL".to_owned(), inferred: false };
    let table = [
        (completed(0), ended(Some(0), false)),
        (fails(0, Reason::Exit { code: 2 }), ended(Some(2), false)),
        (fails(0, signal()), ended(None, false)),
        (
            fails(0, Reason::Stopped { pattern: "panic".to_owned(), reason: None }),
            command(Reason::Stopped { pattern: "panic".to_owned(), reason: None }),
        ),
    ];
    for (event, end) in table {
        check(&service(&["serve"]), vec![event], vec![run(0, Role::Service)], end);
    }
    check(
        &service(&["serve"]),
        vec![Event::ServiceReady, completed(0)],
        vec![run(0, Role::Service), Effect::ServiceReady],
        ended(Some(0), true),
    );
}

#[test]
fn questions_are_passed_on_and_their_limit_is_a_failure() {
    check(
        &steps(&["a", "b"]),
        vec![
            question(),
            Event::Resumed,
            Event::Resumed,
            question(),
            completed(0),
            question(),
            fails(1, Reason::AwaitingInput { prompt: "Go on?".to_owned() }),
        ],
        vec![
            run(0, Role::Step),
            Effect::InputAwaited,
            Effect::InputAnswered,
            Effect::InputAwaited,
            Effect::InputAnswered,
            run(1, Role::Step),
            Effect::InputAwaited,
        ],
        command(Reason::AwaitingInput { prompt: "Go on?".to_owned() }),
    );
}

#[test]
fn a_question_given_up() {
    let reason = || Reason::AwaitingInput { prompt: "Go on?".to_owned() };
    let asked = || {
        vec![
            run(0, Role::Step),
            Effect::InputAwaited,
            Effect::EndCommand { index: 0, reason: reason() },
        ]
    };
    let given_up = |last| vec![question(), Event::End(EndWhy::Unanswered), last];
    check(&steps(&["a", "b"]), given_up(fails(0, reason())), asked(), needs_input());
    // An answer crossed it: the command failed, completed as the last, completed with more to do.
    let own = fails(0, Reason::Exit { code: 1 });
    check(&steps(&["a"]), given_up(own), asked(), failed(exit(1)));
    check(&steps(&["a"]), given_up(completed(0)), asked(), AttemptEnd::Succeeded);
    let mut events = given_up(completed(0));
    events.push(completed(1));
    let mut effects = asked();
    effects.extend([Effect::InputAnswered, run(1, Role::Step)]);
    check(&steps(&["a", "b"]), events, effects, AttemptEnd::Succeeded);
    // Answered before we said so: nothing happens.
    check(
        &steps(&["a"]),
        vec![question(), Event::Resumed, Event::End(EndWhy::Unanswered), completed(0)],
        vec![run(0, Role::Step), Effect::InputAwaited, Effect::InputAnswered],
        AttemptEnd::Succeeded,
    );
}

#[test]
fn the_environment_is_to_blame() {
    let exits = |code, tail: &str| {
        let end = ended(0, CommandState::Failed, Some(Reason::Exit { code }));
        CommandEnded { stderr_tail: tail.to_owned(), ..end }
    };
    let gives = |reason| ended(0, CommandState::Failed, Some(reason));
    let policy =
        |verdict| Reason::Policy { verdict, rule: None, message: "no such thing".to_owned() };
    let table = [
        // (how it ended, permanent, environment)
        (exits(1, ""), false, false),
        (exits(127, "bash: line 1: cargo: command not found\n"), true, true),
        (exits(127, "sh: 1: cargo: not found"), true, true),
        (exits(127, "bash: ./x: No such file or directory"), true, true),
        (exits(127, "wrong answer"), false, false),
        (exits(1, "bash: cargo: command not found"), false, false),
        (exits(69, ""), false, true),
        (exits(75, ""), false, true),
        (exits(70, ""), false, false),
        (exits(2, "cp: error writing 'x': No space left on device"), false, true),
        (exits(1, "OSError: [Errno 98] Address already in use"), false, true),
        (exits(1, "Error: listen EADDRINUSE: address already in use :::3000"), false, true),
        (gives(Reason::StartFailed { message: "no".to_owned() }), true, true),
        (gives(Reason::WorkspaceMissing), true, true),
        (gives(Reason::Incomplete { message: "quote".to_owned() }), true, false),
        (gives(Reason::INTERRUPT), false, false),
        (gives(policy(Verdict::Deny)), true, false),
    ];
    for (end, permanent, environment) in table {
        let reason = TaskReason::Command(end.reason.clone().unwrap());
        let expected = AttemptEnd::Failed { reason, permanent, environment };
        check(&steps(&["a"]), vec![Event::Ended(end)], vec![run(0, Role::Step)], expected);
    }
}

#[test]
fn a_session_that_does_not_open() {
    let message = "no pty".to_owned();
    let reason = TaskReason::Command(Reason::StartFailed { message: message.clone() });
    let end = AttemptEnd::Failed { reason, permanent: true, environment: true };
    let effects = play(&steps(&["a"]), vec![Event::Begin, Event::OpenFailed { message }]);
    assert_eq!(effects, [Effect::OpenSession, Effect::Done { end, survivors: vec![] }]);
}

#[test]
fn cancelled_at_every_moment() {
    let task = verified(&["a", "b"]);
    let cancel = || Event::End(EndWhy::Cancelled);
    let done = |end| Effect::Done { end, survivors: vec![] };
    let end_0 = || Effect::EndCommand { index: 0, reason: Reason::INTERRUPT };
    let cancelled = || done(AttemptEnd::Cancelled);

    let effects = play(&task, vec![cancel(), Event::Begin]);
    assert_eq!(effects, [cancelled()]);

    let opening = [Effect::OpenSession, Effect::CloseSession, cancelled()];
    for last in [closed(), Event::OpenFailed { message: "x".to_owned() }] {
        let effects = play(&task, vec![Event::Begin, cancel(), Event::Opened, last]);
        assert_eq!(effects, opening);
    }

    let running =
        [Effect::OpenSession, run(0, Role::Step), end_0(), Effect::CloseSession, cancelled()];
    for last in [fails(0, Reason::INTERRUPT), fails(0, Reason::Exit { code: 1 }), completed(0)] {
        let events = vec![Event::Begin, Event::Opened, cancel(), cancel(), last, closed()];
        assert_eq!(play(&task, events), running);
    }

    // Its session closes without another word.
    let events = vec![Event::Begin, Event::Opened, cancel(), closed(), completed(0)];
    let effects = [Effect::OpenSession, run(0, Role::Step), end_0(), cancelled()];
    assert_eq!(play(&task, events), effects);

    // Closing already: what it had come to stays.
    let failing = fails(0, Reason::Exit { code: 1 });
    let events = vec![Event::Begin, Event::Opened, failing, cancel(), closed()];
    let last = done(failed(exit(1)));
    let effects = [Effect::OpenSession, run(0, Role::Step), Effect::CloseSession, last];
    assert_eq!(play(&task, events), effects);

    // The last command had completed already.
    let events = vec![Event::Begin, Event::Opened, cancel(), completed(0), closed()];
    assert_eq!(play(&steps(&["a"]), events).last(), Some(&done(AttemptEnd::Succeeded)));

    // A request takes the place of our giving up.
    let given_up = Event::End(EndWhy::Unanswered);
    let lost = fails(0, Reason::AwaitingInput { prompt: "Go on?".to_owned() });
    let events = vec![Event::Begin, Event::Opened, question(), given_up, cancel(), lost, closed()];
    assert_eq!(play(&task, events).last(), Some(&cancelled()));
}

#[test]
fn a_session_that_is_over_of_itself() {
    let survivors = vec![Child { pid: 7, command: "sudo sleep".to_owned(), ended: false }];
    let done = |end| Effect::Done { end, survivors: survivors.clone() };
    let closed = || Event::Closed { survivors: survivors.clone() };
    let lost = || Event::Lost { survivors: survivors.clone() };
    let opened = || vec![Event::Begin, Event::Opened];
    let last = |task: &TaskSpec, event| {
        let mut events = opened();
        events.push(event);
        play(task, events).last().cloned()
    };
    let task = steps(&["a"]);
    assert_eq!(last(&task, closed()), Some(done(command(Reason::SessionClosed))));
    assert_eq!(last(&task, lost()), Some(done(command(Reason::Lost))));
    assert_eq!(last(&service(&["s"]), lost()), Some(done(command(Reason::Lost))));
    // What it had come to stays when the holder dies while it closes.
    let mut events = opened();
    events.extend([completed(0), lost(), lost()]);
    assert_eq!(play(&task, events).last(), Some(&done(AttemptEnd::Succeeded)));
}

#[test]
fn commands_of_others_are_not_ours() {
    let events = vec![Event::Begin, Event::Opened, completed(1), completed(0), completed(0)];
    let effects = [Effect::OpenSession, run(0, Role::Step), Effect::CloseSession];
    assert_eq!(play(&steps(&["a"]), events), effects);
    let early = vec![completed(0), question(), Event::Opened, closed()];
    assert_eq!(play(&steps(&["a"]), early.clone()).len(), 1, "closed before it began: over");
    assert_eq!(play(&steps(&["a"]), early[..3].to_vec()), []);
}

#[test]
fn every_phase_that_could_hang_has_a_deadline() {
    let at = |ms: i64| Timestamp(1_000 + ms);
    let mut attempt = Attempt::new(&steps(&["a"]));
    assert_eq!(attempt.deadline(), None);
    let _opens = attempt.step(Event::Begin, T0);
    assert_eq!(attempt.deadline(), Some(at(30_000)));
    assert_eq!(attempt.step(Event::Tick, at(29_999)), []);
    assert_eq!(attempt.step(Event::Tick, at(30_000)), [Effect::CloseSession]);
    assert_eq!(attempt.deadline(), Some(at(50_000)));
    assert_eq!(attempt.step(Event::Tick, at(50_000)), [Effect::KillSession]);
    assert_eq!(attempt.deadline(), None);
    let done = attempt.step(Event::Lost { survivors: vec![] }, at(51_000));
    assert!(matches!(
        &done[..],
        [Effect::Done { end: AttemptEnd::Failed { permanent: true, environment: true, .. }, .. }]
    ));
    assert!(attempt.is_over());

    let mut attempt = Attempt::new(&steps(&["a"]));
    let _opens = attempt.step(Event::Begin, T0);
    let _runs = attempt.step(Event::Opened, T0);
    assert_eq!(attempt.deadline(), None, "its limits are the holder's");
    let _ends = attempt.step(Event::End(EndWhy::Cancelled), T0);
    assert_eq!(attempt.deadline(), Some(at(15_000)));
    assert_eq!(attempt.step(Event::Tick, at(15_000)), [Effect::CloseSession]);
    let done = attempt.step(closed(), at(15_001));
    assert_eq!(done, [Effect::Done { end: AttemptEnd::Cancelled, survivors: vec![] }]);
}

/// An attempt whose session was found by another coordinator: what it hears first, and what follows.
#[test]
fn a_recalled_attempt_goes_on_where_its_session_is() {
    use Role::{Step, Verify};
    let since = Timestamp(400);
    let table = [
        // Only being opened: its commands are given to it from the first on.
        (verified(&["a", "b"]), None, Event::Opened, vec![run(0, Step)]),
        (verified(&["a", "b"]), Some(0), completed(0), vec![run(1, Step)]),
        (verified(&["a", "b"]), Some(1), completed(1), vec![run(2, Verify)]),
        (verified(&["a", "b"]), Some(2), completed(2), vec![Effect::CloseSession]),
        // It has no such command: as if it had been given none.
        (steps(&["a"]), Some(7), Event::Opened, vec![run(0, Step)]),
        // What it was given before is over.
        (steps(&["a", "b"]), Some(1), completed(0), vec![]),
        (steps(&["a"]), Some(0), question(), vec![Effect::InputAwaited]),
        (service(&["a", "b"]), Some(1), Event::ServiceReady, vec![Effect::ServiceReady]),
    ];
    for (task, latest, event, effects) in table {
        let mut attempt = Attempt::recalled(&task, latest, since, T0);
        assert_eq!(attempt.step(event.clone(), T0), effects, "{latest:?} {event:?}");
    }
}

#[test]
fn a_recalled_attempt_keeps_its_deadlines() {
    let mut task = service(&["a", "b"]);
    task.limits.timeout_ms = Some(500);
    let since = Timestamp(400);
    let deadline = |latest| Attempt::recalled(&task, latest, since, T0).deadline();
    assert_eq!(deadline(Some(0)), None, "only a service has to be ready");
    assert_eq!(deadline(Some(1)), Some(Timestamp(900)), "from when it began");
    assert!(deadline(None).is_some_and(|at| at > T0), "a session has to open");
    let mut late = Attempt::recalled(&task, Some(1), since, T0);
    let ends = late.step(Event::Tick, T0);
    assert!(matches!(ends[..], [Effect::EndCommand { index: 1, .. }]), "{ends:?}");
    // Told to end and lost, it is over.
    let mut attempt = Attempt::recalled(&steps(&["a"]), Some(0), since, T0);
    let _ending = attempt.step(Event::End(EndWhy::Cancelled), T0);
    let over = attempt.step(Event::Lost { survivors: vec![] }, T0);
    assert!(matches!(over[..], [Effect::Done { .. }]) && attempt.is_over(), "{over:?}");
}
