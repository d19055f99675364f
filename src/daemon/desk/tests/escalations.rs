//! Escalations at the desk: independent of each other, and answered once.

use super::*;
use crate::control::{EscalationCall, EscalationLine, EscalationState, Submit};
use crate::domain::conflict::Answer as Word;
use crate::domain::event::{AttemptEnd, ClientEnv, RunOptions};
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::plan::{AdapterKind, Agent, Plan, TaskSpec};
use crate::scheduler::event::Event as Step;

const MINUTES_MS: u64 = 60_000;

fn plan(ids: &[&str]) -> Plan {
    let agent = Agent {
        name: "crew".into(),
        tags: Vec::new(),
        adapter: AdapterKind::Shell,
        capacity: 8,
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        policy: Default::default(),
        resources: Default::default(),
    };
    Plan {
        workspace_id: None,
        root: "/".into(),
        agents: vec![agent],
        default_env: BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Shell::default(),
        tasks: ids.iter().map(|id| TaskSpec::new(id, &["true"])).collect(),
    }
}

impl Table {
    fn submit(&mut self, ids: &[&str]) -> RunId {
        let submit = Submit {
            plan: plan(ids),
            selected: None,
            options: RunOptions { jobs: 8, ..RunOptions::default() },
            env: ClientEnv::default(),
            run: None,
            detach: true,
        };
        let actions = self.ask(Call::Submit { submit: Box::new(submit) });
        let run = actions.iter().find_map(|action| match action {
            Action::Respond { response: Response::Reply { answer, .. }, .. } => match &**answer {
                Answer::Submitted { run, .. } => Some(run.clone()),
                _ => None,
            },
            _ => None,
        });
        run.unwrap_or_else(|| panic!("{actions:?}"))
    }

    /// An attempt ends with a question that nobody has answered; what is recorded of it.
    fn asks(&mut self, run: &RunId, task: usize, secret: bool) -> Vec<Fact> {
        let cause = TaskCause::Input { prompt: "Go on?".to_owned(), secret };
        let end = AttemptEnd::NeedsInput { reason: TaskReason::Task(cause) };
        let attempt = self.desk.runs[run].schedule.task(task).unwrap().attempts;
        self.desk.run_step(run, Step::AttemptEnded { task, attempt, end }, self.now);
        let decision = self.desk.decide();
        assert!(decision.durable);
        decision.records.into_iter().map(|record| record.event).collect()
    }

    fn escalations(&mut self, call: EscalationCall) -> Result<Vec<EscalationLine>, Failure> {
        let actions = self.ask(Call::Escalation { escalation: call });
        let mut answers = actions.into_iter().filter_map(|action| match action {
            Action::Respond { response: Response::Reply { answer, .. }, .. } => match *answer {
                Answer::Escalations { escalations } => Some(Ok(escalations)),
                _ => None,
            },
            Action::Respond { response: Response::Refusal { failure, .. }, .. } => {
                Some(Err(failure))
            }
            _ => None,
        });
        answers.next().unwrap()
    }

    fn resolve(&mut self, line: &EscalationLine, answer: Word) -> Result<EscalationLine, Failure> {
        let call = EscalationCall::Resolve { escalation: line.id.clone(), answer };
        self.escalations(call).map(|mut lines| lines.remove(0))
    }

    fn listed(&mut self) -> Vec<EscalationLine> {
        self.escalations(EscalationCall::List).unwrap()
    }
}

#[test]
fn orc_49_one_that_nobody_answers_holds_up_no_other() {
    let mut table = Table::new();
    let run = table.submit(&["a", "b", "c"]);
    let records = table.asks(&run, 0, false);
    assert!(matches!(
        records[..],
        [Fact::TaskSettled { .. }, Fact::EscalationRaised { task: 0, .. }]
    ));
    table.pass(11 * MINUTES_MS);
    let first = table.listed().remove(0);
    assert_eq!(first.state, EscalationState::Unanswered, "its deadline is over, and it shows");
    table.asks(&run, 1, false);
    let lines = table.listed();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1].state, EscalationState::Open);
    assert_ne!(lines[0].id, lines[1].id);
    let second = table.resolve(&lines[1], Word::Fail).unwrap();
    assert_eq!(second.state, EscalationState::Answered);
    assert_eq!(table.listed()[0].state, EscalationState::Unanswered);
    // One that comes late is as good.
    let first = table.resolve(&first, Word::Retry).unwrap();
    assert_eq!((first.answer.as_deref(), first.by.as_deref()), (Some("retry"), Some("person")));
    assert_eq!(table.desk.runs[&run].schedule.task(0).unwrap().attempts, 2);
}

#[test]
fn an_escalation_is_answered_once_and_only_by_what_is_an_answer_to_it() {
    let mut table = Table::new();
    let run = table.submit(&["a", "b", "c"]);
    table.asks(&run, 0, false);
    table.asks(&run, 1, true);
    let lines = table.listed();
    let input = || Word::Input { text: "y\n".to_owned() };
    for (line, answer, why) in [
        (&lines[0], Word::Force, "conflict"),
        (&lines[0], Word::Wait, "conflict"),
        (&lines[1], input(), "secret"),
    ] {
        let failure = table.resolve(line, answer).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.message.contains(why), "{failure:?}");
    }
    table.resolve(&lines[0], input()).unwrap();
    let failure = table.resolve(&lines[0], Word::Fail).unwrap_err();
    assert!(failure.message.contains("answered already: input, by person"), "{failure:?}");
    // Tried again by hand: the question is withdrawn.
    table.desk.run_step(&run, Step::RetryTask { task: 1 }, table.now);
    assert_eq!(table.listed()[1].state, EscalationState::Withdrawn);
    let failure = table.resolve(&lines[1], Word::Skip).unwrap_err();
    assert!(failure.message.contains("does not wait"), "{failure:?}");
    let unknown = EscalationCall::Resolve { escalation: "e-none".into(), answer: Word::Skip };
    assert_eq!(table.escalations(unknown).unwrap_err().kind, FailureKind::NotFound);
    // The question that was answered gets the same answer in the attempts that follow.
    let rules = crate::daemon::escalations::answers_given(&table.desk.runs[&run].questions, 0);
    assert_eq!(rules.len(), 1);
    assert_eq!((rules[0].pattern.as_str(), rules[0].send.as_str()), (r"Go on\?", "y\n"));
}

#[test]
fn status_and_reports_name_the_escalation() {
    let mut table = Table::new();
    let run = table.submit(&["a", "b"]);
    table.asks(&run, 0, false);
    let id = table.listed().remove(0).id;
    let waiting = table.desk.waiting();
    let line = waiting.iter().find(|line| line.what.ends_with("/a")).unwrap();
    assert!(line.on.contains(id.as_str()), "{line:?}");
    assert_eq!(line.deadline, Some(table.now.plus_ms(10 * MINUTES_MS)));
    table.escalations(EscalationCall::Resolve { escalation: id, answer: Word::Skip }).unwrap();
    let draft = table.desk.report_draft(&run, table.now).unwrap();
    assert_eq!(draft.report.escalations[0].answer.as_deref(), Some("skip"));
    let a = table.desk.runs[&run].schedule.task(0).unwrap();
    assert_eq!(a.state, TaskState::Skipped);
}
