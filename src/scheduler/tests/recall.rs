//! Recalls as tables: records in, and what the run is then.

use std::collections::BTreeMap;

use super::plans::{plan, spec, task};
use super::stage::{Stage, exit, failed, jobs, needs_input};
use crate::domain::conflict::Answer;
use crate::domain::event::{AttemptEnd, CancelWhy, Event as Fact, RunOptions};
use crate::domain::ids::{AttemptId, RunId};
use crate::domain::outcome::{RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::plan::{Dependency, Plan, TaskSpec, When};
use crate::domain::time::Timestamp;
use crate::domain::worktree::Returned;
use crate::scheduler::event::{Effect, Event};
use crate::scheduler::recall::{RESUMABLE_MAX, Recall, SUCCEEDED_MAX, Unfit};
use crate::scheduler::{Schedule, WaitsOn};

fn submitted(run: &str, plan: &Plan, open_ended: bool) -> Fact {
    Fact::RunSubmitted {
        run: run.into(),
        plan: Box::new(plan.clone()),
        options: jobs(4),
        selected: None,
        allowed: BTreeMap::new(),
        detached: true,
        open_ended,
        origin: None,
        parent: None,
    }
}

fn attempt(task: &str, attempt: u32) -> AttemptId {
    AttemptId { run: "r".into(), task: task.into(), attempt }
}

fn started(task: &str, number: u32) -> Fact {
    let session = format!("s-{task}.{number}").as_str().into();
    Fact::AttemptStarted { attempt: attempt(task, number), agent: "local".into(), session }
}

fn ended(task: &str, number: u32, end: AttemptEnd) -> Fact {
    Fact::AttemptEnded { attempt: attempt(task, number), end }
}

fn over(run: &str, outcome: RunOutcome) -> Fact {
    Fact::RunEnded { run: run.into(), outcome, exit_code: 1, counts: BTreeMap::new() }
}

fn added(task: TaskSpec, others: &[&str]) -> Fact {
    let after_others = others.iter().map(|other| (*other).to_owned()).collect();
    Fact::TaskAdded { run: "r".into(), task: Box::new(task), after_others, ticket: None }
}

fn settled(task: usize, state: TaskState, reason: TaskReason) -> Fact {
    Fact::TaskSettled { run: "r".into(), task, state, reason: Some(reason) }
}

/// A run `r` of this plan, and what was recorded of it, a second each.
fn fold(plan: &Plan, open_ended: bool, facts: &[Fact]) -> Recall {
    let mut recall = Recall::default();
    recall.fold(Timestamp(0), &submitted("r", plan, open_ended));
    for (at, fact) in (1..).zip(facts) {
        recall.fold(Timestamp(at * 1_000), fact);
    }
    recall
}

/// The same on a stage; nothing is decided yet.
fn recalled(plan: Plan, facts: &[Fact]) -> Stage {
    let run = fold(&plan, false, facts).take(&"r".into()).unwrap();
    let mut stage = Stage::new(plan, &jobs(4));
    stage.schedule = run.schedule;
    stage.now = Timestamp(1_000_000);
    stage
}

#[test]
fn what_does_not_fit_is_told_and_changes_nothing() {
    let plan = plan(vec![task("a"), task("b").after("a")]);
    let unknown = |task: &str| Unfit::NoSuchTask(task.to_owned());
    let behind =
        |on| TaskSpec { after: vec![Dependency { task: on, when: When::Success }], ..spec("c") };
    let back = Unfit::AttemptsGoBack { task: "a".to_owned(), attempt: 2, latest: 3 };
    let never = Unfit::NeverStarted { task: "a".to_owned(), attempt: 4 };
    let other_agent = Fact::AttemptStarted {
        attempt: attempt("a", 4),
        agent: "nobody".into(),
        session: "s".into(),
    };
    let resumed =
        Fact::RunResumed { run: "r".into(), options: RunOptions::default(), detached: false };
    let table = [
        (submitted("r", &plan, false), Unfit::RunKnown),
        (resumed, Unfit::RunOpen),
        (started("x", 1), unknown("x")),
        (ended("x", 1, AttemptEnd::Succeeded), unknown("x")),
        (Fact::TaskCancelled { run: "r".into(), task: 2 }, unknown("2")),
        (Fact::TaskRetried { run: "r".into(), task: 9 }, unknown("9")),
        (settled(5, TaskState::Failed, exit(1)), unknown("5")),
        (other_agent, Unfit::NoSuchAgent("nobody".to_owned())),
        (started("a", 2), back),
        (ended("a", 4, AttemptEnd::Succeeded), never),
        (Fact::TaskRetried { run: "r".into(), task: 0 }, Unfit::NotSettled("a".to_owned())),
        (added(behind(7), &[]), unknown("7")),
        (added(TaskSpec { priority: 1, ..spec("a") }, &[]), Unfit::TaskKnown("a".to_owned())),
    ];
    let sound = fold(&plan, true, &[started("a", 3)]);
    for (fact, why) in table {
        let recall = fold(&plan, true, &[started("a", 3), fact.clone()]);
        let (misfits, count) = recall.misfits();
        assert_eq!(misfits.iter().map(|misfit| &misfit.why).collect::<Vec<_>>(), [&why]);
        assert_eq!((count, misfits[0].at), (1, Timestamp(2_000)), "{fact:?}");
        assert!(!why.to_string().is_empty());
        let (before, after) = (sound.run(&"r".into()).unwrap(), recall.run(&"r".into()).unwrap());
        assert_eq!(after.running(), before.running(), "{fact:?}");
        assert_eq!(after.schedule.counts(), before.schedule.counts(), "{fact:?}");
        assert_eq!(after.plan.tasks.len(), 2);
    }
    let gone = fold(&plan, true, &[over("r", RunOutcome::Failed), started("b", 1)]);
    assert_eq!(gone.misfits().0[0].why, Unfit::RunEnded);
    assert!(fold(&plan, true, &[over("other", RunOutcome::Failed)]).misfits().0.is_empty());
}

#[test]
fn nothing_is_decided_before_the_recall_is_over() {
    let tasks = vec![task("a").retries(1), task("b"), task("c")];
    let mut run = recalled(plan(tasks), &[started("a", 1), ended("a", 1, failed())]);
    assert_eq!(run.state("a"), TaskState::Retrying);
    assert_eq!(run.schedule.next_deadline(), None);
    assert!(run.schedule.step(Event::Tick, Timestamp(i64::MAX)).is_empty());
    let started = ["start a#2 on local", "start b#1 on local", "start c#1 on local"];
    assert_eq!(run.hear(Event::GoOn), started);
}

#[test]
fn a_run_that_has_nothing_left_ends_at_once() {
    let table = [
        (vec![ended("a", 1, AttemptEnd::Succeeded)], "Succeeded 0"),
        (vec![ended("a", 1, failed())], "Failed 1"),
        (vec![ended("a", 1, needs_input())], "Escalated 4"),
        (
            vec![
                Fact::RunCancelled { run: "r".into(), why: CancelWhy::ClientLost },
                ended("a", 1, AttemptEnd::Cancelled),
            ],
            "Cancelled 130",
        ),
        (
            vec![
                Fact::TaskCancelled { run: "r".into(), task: 0 },
                ended("a", 1, AttemptEnd::Cancelled),
            ],
            "Incomplete 3",
        ),
    ];
    for (facts, outcome) in table {
        let facts: Vec<Fact> = [started("a", 1)].into_iter().chain(facts).collect();
        let mut run = recalled(plan(vec![task("a")]), &facts);
        assert_eq!(run.hear(Event::GoOn), [outcome], "{facts:?}");
        assert!(run.hear(Event::GoOn).is_empty());
    }
}

#[test]
fn an_attempt_that_was_being_ended_is_known_to_be() {
    let tasks = vec![task("a"), task("b").retries(3), task("c").after("b")];
    let facts =
        [started("a", 1), started("b", 1), Fact::TaskCancelled { run: "r".into(), task: 1 }];
    let mut run = recalled(plan(tasks), &facts);
    assert!(run.hear(Event::GoOn).is_empty());
    assert!(run.view("b").ending.is_some() && run.view("a").ending.is_none());
    assert_eq!(
        run.fails("b"),
        ["b cancelled", "c skipped: b cancelled"],
        "no retry is spent on it"
    );
}

#[test]
fn a_lost_attempt_spends_a_retry_and_is_no_stumble() {
    let mut run = recalled(plan(vec![task("a").retries(1)]), &[started("a", 1)]);
    let lost = || AttemptEnd::Failed {
        reason: TaskReason::Command(crate::domain::outcome::Reason::Lost),
        permanent: false,
        environment: false,
    };
    assert_eq!(run.ends("a", lost()), ["a retrying"]);
    assert!(run.hear(Event::GoOn).is_empty());
    assert_eq!(run.wait(), ["start a#2 on local"]);
    assert_eq!(run.ends("a", lost()), ["a failed", "Failed 1"]);
    assert_eq!((run.view("a").attempts, run.view("a").class), (2, None));
}

/// The request that ended it was our own, and is on no record; how the task was settled is.
#[test]
fn a_service_that_failed_while_it_was_ended_stays_failed() {
    let tasks = || plan(vec![task("api").service().retries(2), task("a").after("api")]);
    let facts = [
        started("api", 1),
        Fact::AttemptReady { attempt: attempt("api", 1) },
        started("a", 1),
        ended("a", 1, AttemptEnd::Succeeded),
        ended("api", 1, failed()),
        settled(0, TaskState::Failed, exit(1)),
    ];
    let mut run = recalled(tasks(), &facts);
    assert_eq!(run.view("api").retries_spent, 0);
    assert_eq!(run.hear(Event::GoOn), ["Failed 1"]);
    let mut run = recalled(tasks(), &facts[..5]);
    assert_eq!(run.state("api"), TaskState::Retrying, "nobody knows why it ended");
    assert!(matches!(&run.hear(Event::GoOn)[..], [start] if start == "start api#2 on local"));
}

#[test]
fn what_was_settled_from_outside_stays_so() {
    let reason =
        TaskReason::Task(TaskCause::Dependency { task: "q/x".into(), state: TaskState::TimedOut });
    let after_a =
        TaskSpec { after: vec![Dependency { task: 0, when: When::Success }], ..spec("b") };
    let facts = [
        added(spec("a"), &["q/x"]),
        added(after_a, &[]),
        settled(0, TaskState::Skipped, reason.clone()),
        added(spec("c"), &["q/y"]),
        added(spec("d"), &["q/z"]),
        started("d", 1),
        over("r", RunOutcome::Cancelled),
    ];
    let mut recall = fold(&plan(vec![]), true, &facts[..6]);
    let run = recall.take(&"r".into()).unwrap();
    let state = |task| run.schedule.task(task).unwrap().state;
    let states = [TaskState::Skipped, TaskState::Skipped, TaskState::Blocked, TaskState::Running];
    assert_eq!([0, 1, 2, 3].map(state), states);
    assert_eq!(run.schedule.task(0).unwrap().reason, Some(&reason));
    // Reopened it has not met the conditions either, and takes no more tasks.
    let mut facts = facts.to_vec();
    facts.insert(6, ended("d", 1, AttemptEnd::Cancelled));
    let resumed = Fact::RunResumed { run: "r".into(), options: jobs(1), detached: true };
    let recall = fold(&plan(vec![]), true, &[&facts[..], &[resumed]].concat());
    let run = &mut { recall }.take(&"r".into()).unwrap();
    assert!(!run.schedule.is_open());
    let effects = run.schedule.step(Event::GoOn, Timestamp(99_000));
    let starts: Vec<_> =
        effects.iter().filter(|effect| matches!(effect, Effect::Start { .. })).collect();
    assert!(matches!(starts[..], [Effect::Start { task: 3, attempt: 2, .. }]), "{starts:?}");
    let end = AttemptEnd::Succeeded;
    let event = Event::AttemptEnded { task: 3, attempt: 2, end };
    let effects = run.schedule.step(event, Timestamp(99_000));
    assert!(matches!(
        effects.last(),
        Some(Effect::RunEnded { outcome: RunOutcome::Incomplete, .. })
    ));
}

#[test]
fn only_the_latest_runs_are_remembered_once_they_have_ended() {
    let mut recall = Recall::default();
    let plan = plan(vec![task("a")]);
    let mut tell = |at: usize, run: &str, outcomes: &[RunOutcome]| {
        let at = Timestamp(i64::try_from(at).unwrap());
        recall.fold(at, &submitted(run, &plan, false));
        for outcome in outcomes {
            recall.fold(at, &over(run, *outcome));
        }
    };
    tell(0, "open", &[]);
    // Of a run that is only remembered by name a snapshot keeps beginning and ends.
    tell(1, "twice", &[RunOutcome::Failed, RunOutcome::Failed]);
    for n in 0..100 {
        tell(n + 2, &format!("good{n}"), &[RunOutcome::Succeeded]);
        if n < RESUMABLE_MAX - 1 {
            tell(n + 2, &format!("bad{n}"), &[RunOutcome::Cancelled]);
        }
    }
    let names: Vec<&str> = recall.ended().map(RunId::as_str).collect();
    assert_eq!(names.len(), RESUMABLE_MAX + SUCCEEDED_MAX);
    assert_eq!((names[0], names[1], names[RESUMABLE_MAX - 1]), ("twice", "bad0", "bad62"));
    assert_eq!(names[RESUMABLE_MAX], "good84");
    assert!(recall.run(&"twice".into()).is_some(), "it has ended once");
    recall.fold(Timestamp(999), &submitted("last", &plan, false));
    recall.fold(Timestamp(999), &over("last", RunOutcome::Incomplete));
    assert!(recall.run(&"twice".into()).is_none() && recall.run(&"bad0".into()).is_some());
    assert!(recall.run(&"open".into()).is_some_and(|run| run.ended.is_none()));
    // What is taken up again is no longer among them.
    recall.fold(Timestamp(999), &Fact::TaskRetried { run: "bad0".into(), task: 0 });
    assert_eq!(recall.ended().count(), RESUMABLE_MAX + SUCCEEDED_MAX, "it was never settled");
    let options = RunOptions::default();
    let resumed = Fact::RunResumed { run: "bad0".into(), options, detached: true };
    recall.fold(Timestamp(999), &resumed);
    assert_eq!(recall.ended().count(), RESUMABLE_MAX + SUCCEEDED_MAX - 1);
    assert_eq!(recall.open().count(), 2);
}

#[test]
fn a_reopened_run_does_what_is_left() {
    let tasks = vec![
        task("done"),
        task("bad"),
        task("asks"),
        task("cut"),
        task("api").service(),
        task("after_bad").after("bad"),
        task("after_asks").after("asks"),
        task("after_cut").after("cut").after("api"),
        task("only_done").after("done"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(9));
    let _started = run.begin();
    let _ready = run.ready("api");
    for (id, end) in [
        ("done", AttemptEnd::Succeeded),
        ("bad", failed()),
        ("asks", needs_input()),
        ("only_done", AttemptEnd::Succeeded),
    ] {
        let _words = run.ends(id, end);
    }
    let _ending = run.hear(Event::CancelRun { why: CancelWhy::ClientLost });
    for id in ["cut", "api"] {
        let _words = run.ends(id, AttemptEnd::Cancelled);
    }
    assert_eq!(run.schedule.outcome(), Some(RunOutcome::Cancelled));
    let mut words = run.hear(Event::Reopen { options: jobs(1) });
    words.retain(|word| !word.ends_with(" blocked"));
    // Their escalation went with the run, so `asks` and what is behind it go again as well.
    assert_eq!(words, ["after_bad skipped: bad failed", "start asks#2 on local"]);
    assert_eq!(run.ok("asks"), ["asks succeeded", "start cut#2 on local"]);
    assert_eq!(run.ok("cut"), ["cut succeeded", "start api#2 on local"]);
    assert_eq!(run.ready("api"), ["start after_asks#1 on local"]);
    assert_eq!(run.ok("after_asks"), ["after_asks succeeded", "start after_cut#1 on local"]);
    assert_eq!(run.ok("after_cut"), ["after_cut succeeded", "end api#2 ServiceDone"]);
    assert_eq!(run.ok("api"), ["api succeeded", "Failed 1"], "what failed stays failed");
}

#[test]
fn a_task_that_is_tried_again_has_its_services() {
    let tasks = vec![
        task("db").service(),
        task("api").service().after("db"),
        task("build"),
        task("test").after("api"),
        task("e2e").after("api").after("build"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(9));
    let _started = run.begin();
    let _ready = [run.ready("db"), run.ready("api")];
    let _failed = [run.fails("build"), run.fails("test")];
    let _ended = [run.ok("api"), run.ok("db")];
    assert_eq!(run.schedule.outcome(), Some(RunOutcome::Failed));
    let retry = |run: &mut Stage, id: &str| {
        let task = run.place(id);
        let mut words = run.hear(Event::RetryTask { task });
        words.retain(|word| !word.ends_with(" blocked"));
        words
    };
    assert_eq!(retry(&mut run, "test"), ["start db#2 on local"]);
    assert_eq!(run.ready("db"), ["start api#2 on local"]);
    assert_eq!(run.ready("api"), ["start test#2 on local"]);
    assert_eq!(retry(&mut run, "build"), ["start build#2 on local"], "they run");
    assert_eq!(run.ok("build"), ["build succeeded", "start e2e#1 on local"]);
    assert_eq!(run.ok("e2e"), ["e2e succeeded"]);
    assert_eq!(run.ok("test")[0], "test succeeded");
}

#[test]
fn what_needs_a_client_waits_for_one() {
    let tasks = vec![task("a"), task("b").priority(1), task("c").after("a"), task("d")];
    let mut run = recalled(plan(tasks), &[started("d", 1)]);
    assert!(run.hear(Event::Withhold { tasks: vec![0, 1, 2, 77] }).is_empty());
    assert!(run.hear(Event::GoOn).is_empty());
    let waits: Vec<_> = run.schedule.waiting().map(|wait| (wait.task, wait.on)).collect();
    let client = |task| (task, WaitsOn::Client);
    assert_eq!(waits, [client(0), client(1), (2, WaitsOn::Tasks(vec![0]))]);
    assert_eq!(run.ok("d"), ["d succeeded"], "the run waits, too");
    assert_eq!(run.hear(Event::Release), ["start b#1 on local", "start a#1 on local"]);
    assert_eq!(run.ok("a"), ["a succeeded", "start c#1 on local"]);
    let mut run = recalled(plan(vec![task("a")]), &[]);
    let _withheld = run.hear(Event::Withhold { tasks: vec![0] });
    assert!(run.hear(Event::GoOn).is_empty());
    let cancelled = run.hear(Event::CancelRun { why: CancelWhy::ClientLost });
    assert_eq!(cancelled, ["a cancelled", "Cancelled 130"]);
}

#[test]
fn a_task_that_comes_too_late_ends_with_the_rest() {
    for (end, state) in [(true, "b cancelled"), (false, "b skipped: fail fast")] {
        let options = RunOptions { fail_fast: true, ..jobs(4) };
        let mut run = Stage::new(plan(vec![task("a"), task("x")]), &options);
        run.schedule = Schedule::new(&run.plan, None, &options).open_ended();
        let _started = run.begin();
        let _ending = if end {
            run.hear(Event::CancelRun { why: CancelWhy::Requested })
        } else {
            run.fails("x")
        };
        assert!(!run.schedule.is_open() && run.schedule.may_add(&spec("b")).is_err());
        run.plan.tasks.push(spec("b"));
        let words = run.hear(Event::Add { task: Box::new(spec("b")), outside: 0 });
        assert_eq!(words, ["b blocked", state]);
    }
}

#[test]
fn what_was_being_merged_is_known_to_be() {
    let returning = |number| Fact::AttemptReturning { attempt: attempt("a", number) };
    let returned = Returned {
        branch: "callboard/r/a".to_owned(),
        commit: None,
        into: None,
        merged: None,
        held: None,
    };
    let told = Fact::AttemptReturned { attempt: attempt("a", 1), returned: returned.clone() };
    let facts = [started("a", 1), returning(1), told, ended("a", 1, AttemptEnd::Succeeded)];
    let run_after = |count: usize| {
        let plan = plan(vec![task("a"), task("b")]);
        let mut recall = fold(&plan, false, &facts[..count]);
        recall.take(&"r".into()).unwrap()
    };
    assert!(run_after(1).returning.is_empty());
    for count in [2, 3] {
        let recalled = run_after(count);
        assert_eq!(recalled.returning.get(&0), Some(&1));
        assert_eq!(recalled.running().len(), 1);
    }
    let over = run_after(4);
    assert!(over.returning.is_empty());
    assert_eq!(over.returned.get(&0), Some(&returned));
}

fn raised(id: &str, task: usize) -> Fact {
    Fact::EscalationRaised {
        escalation: id.into(),
        run: "r".into(),
        task,
        cause: "input".to_owned(),
        to: "person".to_owned(),
        story: String::new(),
        prompt: Some("Go on?".to_owned()),
        deadline: None,
    }
}

fn resolved(id: &str, answer: Answer) -> Fact {
    let (escalation, run, by) = (id.into(), "r".into(), "person".to_owned());
    Fact::EscalationResolved { escalation, run, answer, by }
}

#[test]
fn an_answer_is_recalled_once_and_holds() {
    let plan = plan(vec![task("a"), task("b")]);
    let begun = || vec![started("a", 1), ended("a", 1, needs_input()), raised("e-1", 0)];
    for end in [None, Some(over("r", RunOutcome::Escalated))] {
        let has_ended = end.is_some();
        let mut facts = begun();
        facts.extend(end);
        facts.push(resolved("e-1", Answer::Skip));
        // Told again, and a second answer: the first holds.
        facts.extend([raised("e-1", 0), resolved("e-1", Answer::Retry)]);
        let run = fold(&plan, false, &facts).take(&"r".into()).unwrap();
        let state = run.schedule.task(0).unwrap().state;
        assert_eq!((state, run.ended.is_some()), (TaskState::Skipped, has_ended));
        assert_eq!(run.questions.len(), 1);
        let question = &run.questions[0];
        assert_eq!(question.answer.as_ref().unwrap().answer, Answer::Skip);
        assert_eq!((question.attempt, question.is_open(&run.schedule)), (1, false));
    }
    let open = fold(&plan, false, &begun()).take(&"r".into()).unwrap();
    assert!(open.questions[0].is_open(&open.schedule));
    let retried = [begun(), vec![Fact::TaskRetried { run: "r".into(), task: 0 }]].concat();
    let withdrawn = fold(&plan, false, &retried).take(&"r".into()).unwrap();
    assert!(!withdrawn.questions[0].is_open(&withdrawn.schedule));
    let unknown = [begun(), vec![resolved("e-9", Answer::Fail)]].concat();
    let recall = fold(&plan, false, &unknown);
    assert_eq!(recall.misfits().0[0].why, Unfit::NeverAsked("e-9".to_owned()));
}
