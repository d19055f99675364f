//! What has to hold after a round.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use callboard::domain::event::{AttemptEnd, Event};
use serde_json::Value;

use super::round::Round;

/// All of it; the first that does not hold is told.
pub(super) fn all(round: &mut Round, run: &str, report: &Value) -> Result<(), String> {
    let told = told(report);
    round.story.attempts = told.values().map(|task| task.attempts).sum();
    acknowledged_stays(round, &told)?;
    budgets_hold(round, &told)?;
    let journal = read_journal(round, run)?;
    nothing_succeeds_twice(&journal)?;
    journal_and_report_agree(&journal, &told)?;
    nothing_ran_unrecorded(round, &journal)?;
    nothing_is_left(round)
}

struct Told {
    state: String,
    attempts: u64,
}

fn told(report: &Value) -> BTreeMap<String, Told> {
    let tasks = report["tasks"].as_array().into_iter().flatten();
    let told = tasks.map(|task| {
        let state = task["state"].as_str().unwrap_or_default().to_owned();
        let attempts = task["attempts"].as_u64().unwrap_or_default();
        (task["id"].as_str().unwrap_or_default().to_owned(), Told { state, attempts })
    });
    told.collect()
}

fn acknowledged_stays(round: &Round, told: &BTreeMap<String, Told>) -> Result<(), String> {
    for id in &round.acknowledged {
        let state = told.get(id).map_or("missing", |task| &task.state);
        if state != "succeeded" {
            return Err(format!("{id} was told to have succeeded, and is {state}"));
        }
    }
    Ok(())
}

fn budgets_hold(round: &Round, told: &BTreeMap<String, Told>) -> Result<(), String> {
    if told.len() != round.planned.len() {
        return Err(format!("{} tasks were planned, {} told", round.planned.len(), told.len()));
    }
    for planned in &round.planned {
        let Some(task) = told.get(&planned.id) else {
            return Err(format!("{} is missing", planned.id));
        };
        if !["succeeded", "failed", "skipped", "cancelled", "timed_out"].contains(&&*task.state) {
            return Err(format!("{} has not ended: {}", planned.id, task.state));
        }
        // Each client that was killed cancelled what ran, and going on gave it another try.
        let budget = 1 + planned.retries + round.story.resumed;
        if task.attempts > budget {
            return Err(format!("{} had {} attempts of {budget}", planned.id, task.attempts));
        }
    }
    Ok(())
}

/// What the journal says of each task.
#[derive(Default)]
struct Recorded {
    started: Vec<u32>,
    succeeded: Vec<u32>,
}

fn read_journal(round: &Round, run: &str) -> Result<BTreeMap<String, Recorded>, String> {
    let mut tasks: BTreeMap<String, Recorded> = BTreeMap::new();
    callboard::journal::read(&round.journal()?, &mut |line| {
        match line.event {
            Event::AttemptStarted { attempt, .. } if attempt.run.as_str() == run => {
                tasks.entry(attempt.task.to_string()).or_default().started.push(attempt.attempt);
            }
            Event::AttemptEnded { attempt, end: AttemptEnd::Succeeded }
                if attempt.run.as_str() == run =>
            {
                tasks.entry(attempt.task.to_string()).or_default().succeeded.push(attempt.attempt);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| format!("the journal does not hold: {error}"))?;
    Ok(tasks)
}

fn nothing_succeeds_twice(journal: &BTreeMap<String, Recorded>) -> Result<(), String> {
    for (task, recorded) in journal {
        if recorded.succeeded.len() > 1 {
            return Err(format!("{task} succeeded in attempts {:?}", recorded.succeeded));
        }
        let mut numbers = recorded.started.clone();
        numbers.dedup();
        let counted: Vec<u32> = (1..).take(recorded.started.len()).collect();
        if numbers != counted {
            return Err(format!("{task}'s attempts are numbered {:?}", recorded.started));
        }
    }
    Ok(())
}

fn journal_and_report_agree(
    journal: &BTreeMap<String, Recorded>,
    told: &BTreeMap<String, Told>,
) -> Result<(), String> {
    for (task, told) in told {
        let none = Recorded::default();
        let recorded = journal.get(task).unwrap_or(&none);
        if recorded.started.len() as u64 != told.attempts {
            return Err(format!(
                "{task}: {} attempts told, {:?} recorded",
                told.attempts, recorded.started
            ));
        }
        if (told.state == "succeeded") == recorded.succeeded.is_empty() {
            return Err(format!("{task} is {}, recorded {:?}", told.state, recorded.succeeded));
        }
    }
    Ok(())
}

/// Every line that a task has written belongs to a recorded attempt, each attempt began once, and
/// a task that has succeeded was done.
fn nothing_ran_unrecorded(
    round: &Round,
    journal: &BTreeMap<String, Recorded>,
) -> Result<(), String> {
    let log = round.house.read("log");
    let mut seen: BTreeMap<(&str, u32, &str), usize> = BTreeMap::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let (Some(task), Some(attempt), Some(word)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("a torn line in the log: {line:?}"));
        };
        let attempt: u32 = attempt.parse().map_err(|_| format!("no attempt in {line:?}"))?;
        *seen.entry((task, attempt, word)).or_default() += 1;
        if !journal.get(task).is_some_and(|recorded| recorded.started.contains(&attempt)) {
            return Err(format!("{task} ran in attempt {attempt}, which nobody recorded"));
        }
    }
    if let Some(((task, attempt, word), times)) = seen.iter().find(|(_, times)| **times > 1) {
        return Err(format!("attempt {attempt} of {task} {word} {times} times"));
    }
    for (task, recorded) in journal {
        for attempt in &recorded.succeeded {
            if !seen.contains_key(&(task, *attempt, "done")) {
                return Err(format!("attempt {attempt} of {task} succeeded and was never done"));
            }
        }
    }
    Ok(())
}

fn nothing_is_left(round: &Round) -> Result<(), String> {
    round.house.assert_empties();
    let mut left = leftovers(round.house.root());
    if !left.is_empty() {
        // One that was killed when nothing was left to do has no successor yet: the next that comes
        // along takes away what it left.
        round.house.write("after.toml", "[[task]]\nid = 'after'\nrun = 'true'\n");
        let called = round.house.call(&["run", "after.toml"]);
        if called.code != 0 {
            return Err(format!("nothing runs any more: {called:?}"));
        }
        round.house.assert_empties();
        left = leftovers(round.house.root());
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

/// Sockets, and private folders of sessions.
fn leftovers(root: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::FileTypeExt as _;
    let mut found = Vec::new();
    let mut folders = vec![root.join("run"), root.join("tmp"), root.join("state")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_socket() {
                found.push(path.display().to_string());
            } else if kind.is_dir() {
                if folder.ends_with("t") {
                    found.push(path.display().to_string());
                }
                folders.push(path);
            }
        }
    }
    found
}
