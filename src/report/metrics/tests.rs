//! What is counted, and the page that is made of it.

use super::*;
use crate::domain::ids::CommandId;

fn stamped(at: i64, event: Event) -> Stamped {
    Stamped { at: Timestamp(at), event }
}

fn attempt(number: u32) -> AttemptId {
    AttemptId { run: "r-1".into(), task: "a".into(), attempt: number }
}

fn started(at: i64, number: u32) -> Stamped {
    let (attempt, agent, session) = (attempt(number), "local".into(), "s-1".into());
    stamped(at, Event::AttemptStarted { attempt, agent, session })
}

fn command(state: CommandState, reason: Option<Reason>, duration_ms: u64) -> Stamped {
    let command = CommandId::from("s-1.1");
    let session = "s-1".into();
    let event =
        Event::CommandEnded { session, command, state, reason, exit_code: None, duration_ms };
    stamped(0, event)
}

fn snapshot(tally: Tally) -> Snapshot {
    Snapshot {
        workspace: "odd \"name\"\\\n".to_owned(),
        version: "0.1.0",
        since: Timestamp(1_764_543_600_123),
        tally,
        runs_open: 1,
        tasks: BTreeMap::from([(TaskState::Running, 2)]),
        sessions: BTreeMap::from([("busy", 3)]),
        board_entries: 4,
        inbox: (5, 4096),
        clients: 6,
    }
}

#[test]
fn what_is_recorded_is_counted() {
    let mut tally = Tally::default();
    let failed =
        AttemptEnd::TimedOut { reason: crate::domain::outcome::TaskReason::Command(Reason::Lost) };
    for record in [
        started(1000, 1),
        stamped(3000, Event::AttemptEnded { attempt: attempt(1), end: failed }),
        started(4000, 2),
        stamped(4250, Event::AttemptEnded { attempt: attempt(2), end: AttemptEnd::Succeeded }),
        command(CommandState::Completed, None, 5),
        command(CommandState::Failed, Some(Reason::Exit { code: 3 }), 60_000),
        command(CommandState::Failed, Some(Reason::Exit { code: 4 }), 9_000_000),
    ] {
        tally.note(&record);
    }
    tally.note_commit(7);
    tally.note_commit_time(300);
    let page = render(&snapshot(tally));
    for line in [
        "callboard_attempts_total 2",
        "callboard_attempt_retries_total 1",
        "callboard_attempts_ended_total{end=\"timed_out\"} 1",
        "callboard_attempt_duration_seconds_sum 2.25",
        "callboard_attempt_duration_seconds_bucket{le=\"0.5\"} 1",
        "callboard_attempt_duration_seconds_bucket{le=\"5\"} 2",
        "callboard_commands_total{state=\"failed\",reason=\"exit\"} 2",
        "callboard_commands_total{state=\"completed\",reason=\"\"} 1",
        "callboard_command_duration_seconds_bucket{le=\"0.005\"} 1",
        "callboard_command_duration_seconds_bucket{le=\"7200\"} 2",
        "callboard_command_duration_seconds_bucket{le=\"+Inf\"} 3",
        "callboard_command_duration_seconds_count 3",
        "callboard_journal_events_total 7",
        "callboard_journal_commit_duration_seconds_bucket{le=\"0.0005\"} 1",
        "callboard_tasks{state=\"running\"} 2",
        "callboard_tasks{state=\"blocked\"} 0",
        "callboard_runs_total{outcome=\"succeeded\"} 0",
        "callboard_sessions{state=\"busy\"} 3",
        "process_start_time_seconds 1764543600.123",
        "callboard_build_info{version=\"0.1.0\",workspace=\"odd \\\"name\\\"\\\\\\n\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
}

#[test]
fn a_bound_belongs_to_its_bucket() {
    let mut histogram = Histogram::new(&[0.001, 1.0]);
    for us in [0, 1000, 1001, 1_000_000, 1_000_001, u64::MAX] {
        histogram.observe_us(us);
    }
    assert_eq!(histogram.counts, [2, 2, 2]);
    assert_eq!((histogram.count(), histogram.sum_us), (6, u64::MAX));
}

#[test]
fn an_end_without_a_beginning_is_counted_and_not_timed() {
    let mut tally = Tally::default();
    let end = AttemptEnd::Cancelled;
    tally.note(&stamped(9, Event::AttemptEnded { attempt: attempt(1), end }));
    assert_eq!(tally.attempts_ended["cancelled"], 1);
    assert_eq!(tally.attempt_time.count(), 0);
}
