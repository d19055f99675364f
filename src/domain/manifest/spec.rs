//! From a draft with its defaults to a task of the plan: what lies between the values of one task.

use std::collections::BTreeMap;

use super::answers::ReadyWhen;
use super::findings::Findings;
use super::read::At;
use super::task::Draft;
use super::words::{listed, shown};
use crate::domain::ids::{Tag, TaskId};
use crate::domain::plan::{Dependency, Ready, Service, TaskSpec, TimeLimits};
use crate::domain::worktree::MergeWay;

/// Makes the task, as far as the draft allows.
pub(super) fn finish(
    draft: Draft,
    after: Vec<Dependency>,
    findings: &mut Findings<'_>,
) -> TaskSpec {
    check_work(&draft, findings);
    check_limits(&draft, findings);
    check_service(&draft, findings);
    check_merge(&draft, findings);
    let ports = draft.ports.unwrap_or_default();
    let service = draft.service.and_then(|ready| service(ready, &ports, findings));
    let needs = draft.needs.unwrap_or_default();
    TaskSpec {
        id: TaskId::new(draft.id.map(|id| id.value).unwrap_or_default()),
        needs: needs.into_iter().map(|tag| Tag::new(tag.value)).collect(),
        after,
        run: draft.work.run,
        cwd: draft.cwd,
        env: draft.env,
        env_pass: draft.env_pass.unwrap_or_default(),
        ports,
        priority: draft.priority.unwrap_or_default(),
        class: draft.class,
        limits: TimeLimits {
            timeout_ms: draft.timeout.map(|limit| limit.value),
            hard_timeout_ms: draft.hard_timeout.map(|limit| limit.value),
            input_timeout_ms: draft.input_timeout.map(|limit| limit.value),
        },
        resources: draft.resources.unwrap_or_default(),
        retries: draft.retries.unwrap_or_default(),
        on_input: draft.on_input.unwrap_or_default(),
        stop_on: draft.stop_on.unwrap_or_default(),
        service,
        verify: draft.verify,
        shell: draft.shell,
        shell_profile: draft.shell_profile.unwrap_or_default(),
        tracing: draft.tracing.unwrap_or_default(),
        writes: draft.writes.unwrap_or_default(),
        artifacts: draft.artifacts.unwrap_or_default(),
        policy: draft.policy.unwrap_or_default(),
        publish: draft.publish.unwrap_or_default(),
        isolation: draft.isolation.unwrap_or_default(),
        merge: draft.merge.map(|merge| merge.value).unwrap_or_default(),
    }
}

/// Exactly one of `run`, `prompt` and `shard`.
fn check_work(draft: &Draft, findings: &mut Findings<'_>) {
    match draft.work.given.as_slice() {
        [] => {
            let hint = "add run = \"…\"".to_owned();
            findings.absent(draft.header.clone(), "the task has nothing to `run`", hint);
        }
        [_] => {}
        [(first, _), rest @ ..] => {
            for (key, span) in rest {
                let message = format!("a task has one of `{first}` and `{key}`, not both");
                findings.wrong(span.clone(), message);
            }
        }
    }
}

fn check_limits(draft: &Draft, findings: &mut Findings<'_>) {
    let (Some(soft), Some(hard)) = (&draft.timeout, &draft.hard_timeout) else { return };
    if hard.value < soft.value {
        // Said of the one that is the task's own, if one is and the other is not.
        let at = if hard.span.start > soft.span.start { hard } else { soft };
        findings.wrong(at.span.clone(), "`hard_timeout` is less than `timeout`");
    }
}

/// What a service cannot have, since nothing would come of it. A limit that stands in `[defaults]`
/// is meant for the other tasks.
fn check_service(draft: &Draft, findings: &mut Findings<'_>) {
    let Some(service) = &draft.service else { return };
    if draft.verify.is_some() {
        let hint = "make it a task of its own that comes `after` this one".to_owned();
        let message = "a service has no `verify`: its session is busy with it";
        findings.absent(service.span.clone(), message, hint);
    }
    let own = draft.hard_timeout.as_ref().filter(|limit| limit.span.start > draft.header.start);
    if let (Some(limit), [_]) = (own, draft.work.run.as_slice()) {
        let hint = "`timeout` is the time it has to become ready".to_owned();
        let message = "a service has no `hard_timeout`: it runs until it is ended";
        findings.absent(limit.span.clone(), message, hint);
    }
}

/// How a worktree comes back, where there is none, or none that could.
fn check_merge(draft: &Draft, findings: &mut Findings<'_>) {
    let isolated = draft.isolation.is_some_and(|isolation| !isolation.is_shared());
    // What stands in `[defaults]` is meant for the other tasks.
    let kept = draft.merge.as_ref().filter(|merge| merge.value == MergeWay::Keep);
    let own = kept.filter(|merge| merge.span.start > draft.header.start);
    if let (false, Some(merge)) = (isolated, own) {
        let hint = "add isolation = \"worktree\"".to_owned();
        findings.absent(merge.span.clone(), "the task has no worktree to `merge`", hint);
    }
    if let (true, None, Some(service)) = (isolated, kept, &draft.service) {
        let hint = "write merge = \"keep\"".to_owned();
        let message =
            "a service in a worktree ends with its run: nothing is left then to merge it for";
        findings.absent(service.span.clone(), message, hint);
    }
}

fn service(
    ready: At<ReadyWhen>,
    ports: &BTreeMap<String, u16>,
    findings: &mut Findings<'_>,
) -> Option<Service> {
    let name = match ready.value {
        ReadyWhen::Known(ready) => return Some(Service { ready }),
        ReadyWhen::Port(name) => name,
    };
    if let Some(port) = ports.get(&name) {
        return Some(Service { ready: Ready::Port(*port) });
    }
    let known = || ports.keys().map(String::as_str);
    let hint = findings.did_you_mean(&name, known()).unwrap_or_else(|| match ports.len() {
        0 => format!("add ports = {{ {} = 8080 }}", shown(&name)),
        _ => format!("`ports` has {}", listed(known(), "and")),
    });
    let message = format!("`ready`: no port `{}` in `ports`", shown(&name));
    findings.absent(ready.span, message, hint);
    None
}
