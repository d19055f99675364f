//! What tasks are to each other: unique ids, dependencies that exist, no cycles.

use std::collections::HashMap;
use std::ops::Range;

use super::findings::Findings;
use super::graph::cycles;
use super::task::{Draft, Link};
use super::words::shown;
use crate::domain::plan::{Dependency, When};

/// Resolves `after` of every draft to indices, in the drafts' order.
pub(super) fn link(drafts: &[Draft], findings: &mut Findings<'_>) -> Vec<Vec<Dependency>> {
    let index = index(drafts, findings);
    let mut all = Vec::with_capacity(drafts.len());
    for (own, draft) in drafts.iter().enumerate() {
        all.push(dependencies(own, draft, &index, findings));
    }
    tell_cycles(drafts, &all, findings);
    all
}

fn index<'d>(drafts: &'d [Draft], findings: &mut Findings<'_>) -> HashMap<&'d str, usize> {
    let mut index: HashMap<&str, usize> = HashMap::with_capacity(drafts.len());
    for (own, draft) in drafts.iter().enumerate() {
        let Some(id) = &draft.id else { continue };
        match index.get(id.value.as_str()) {
            Some(first) => {
                let span = drafts[*first].id.as_ref().map_or(0, |id| id.span.start);
                let line = findings.text.line(span);
                let message =
                    format!("task `{}` is there already, on line {line}", shown(&id.value));
                let hint = "give it an id of its own".to_owned();
                findings.wrong_hinted(id.span.clone(), message, hint);
            }
            None => {
                index.insert(&id.value, own);
            }
        }
    }
    index
}

fn dependencies(
    own: usize,
    draft: &Draft,
    index: &HashMap<&str, usize>,
    findings: &mut Findings<'_>,
) -> Vec<Dependency> {
    let mut dependencies: Vec<Dependency> = Vec::new();
    // What was asked of each task, so that a list of thousands costs no square.
    let mut asked: HashMap<usize, Vec<When>> = HashMap::new();
    for Link { task, when } in draft.after.as_deref().unwrap_or_default() {
        let Some(&target) = index.get(task.value.as_str()) else {
            unknown(draft, &task.value, task.span.clone(), index, findings);
            continue;
        };
        if target == own {
            let message = format!("task `{}` waits for itself", shown(&task.value));
            findings.wrong_hinted(task.span.clone(), message, "take it out".to_owned());
            continue;
        }
        let known = asked.entry(target).or_default();
        if known.contains(when) {
            continue;
        }
        known.push(*when);
        if known.contains(&When::Success) && known.contains(&When::Failure) {
            let message =
                format!("`{}` cannot both succeed and fail for this task", shown(&task.value));
            let hint = "one of the two, or when = \"done\"".to_owned();
            findings.wrong_hinted(task.span.clone(), message, hint);
        }
        dependencies.push(Dependency { task: target, when: *when });
    }
    dependencies
}

fn unknown(
    draft: &Draft,
    task: &str,
    span: Range<usize>,
    index: &HashMap<&str, usize>,
    findings: &mut Findings<'_>,
) {
    let own = draft.id.as_ref().map_or("", |id| id.value.as_str());
    // In the manifest's order, so that of two equally near ids the same one is always named.
    let mut known: Vec<(usize, &str)> = Vec::new();
    if !findings.speller.is_spent() {
        known = index.iter().map(|(id, at)| (*at, *id)).filter(|(_, id)| *id != own).collect();
        known.sort_unstable();
    }
    let hint = findings.did_you_mean(task, known.into_iter().map(|(_, id)| id));
    let message = match own {
        "" => format!("unknown task `{}` in `after`", shown(task)),
        own => format!("unknown task `{}` in `after` of `{}`", shown(task), shown(own)),
    };
    findings.absent(span, message, hint);
}

fn tell_cycles(drafts: &[Draft], all: &[Vec<Dependency>], findings: &mut Findings<'_>) {
    let edges: Vec<Vec<usize>> =
        all.iter().map(|after| after.iter().map(|entry| entry.task).collect()).collect();
    let found = cycles(&edges);
    let id = |task: usize| drafts[task].id.as_ref().map_or("", |id| id.value.as_str());
    for (count, cycle) in found.cycles.iter().enumerate() {
        let (Some(&first), Some(&second)) = (cycle.first(), cycle.get(1)) else { continue };
        let path: Vec<String> = cycle.iter().chain([&first]).map(|task| shown(id(*task))).collect();
        let mut hint = "each waits for the next: take one `after` out".to_owned();
        if count + 1 == found.cycles.len() && found.omitted > 0 {
            hint = format!("{hint}; there are at least {} more cycles", found.omitted);
        }
        let links = drafts[first].after.as_deref().unwrap_or_default();
        let span = links
            .iter()
            .find(|link| link.task.value == id(second))
            .map_or_else(|| drafts[first].header.clone(), |link| link.task.span.clone());
        findings.wrong_hinted(span, format!("dependency cycle: {}", path.join(" -> ")), hint);
    }
}
