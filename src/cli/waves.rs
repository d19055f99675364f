//! What can be said of a plan before it runs: its waves, who could take each task, and which tasks
//! would reach for the same port.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::ids::{AgentName, Tag};
use crate::domain::plan::{Agent, Plan};
use crate::policy::intentions::overlap;

/// Ports are compared between this many of the tasks that name one; beyond that the first ones
/// stand for the rest.
const SHARERS_MAX: usize = 512;

/// The wave of each task: 0 for those that wait for nothing, one more than its latest dependency
/// otherwise.
pub(super) fn waves(plan: &Plan) -> Vec<usize> {
    let mut waves = vec![0; plan.tasks.len()];
    for task in in_order(plan) {
        let latest = plan.tasks[task].after.iter().map(|dependency| waves[dependency.task] + 1);
        waves[task] = latest.max().unwrap_or(0);
    }
    waves
}

/// Who could take a task that needs these tags. Tasks of large plans need few different sets.
pub(super) struct Takers<'a> {
    agents: &'a [Agent],
    known: HashMap<&'a [Tag], Vec<&'a AgentName>>,
}

impl<'a> Takers<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self { agents: &plan.agents, known: HashMap::new() }
    }

    pub(super) fn of_needs(&mut self, needs: &'a [Tag]) -> &[&'a AgentName] {
        self.known.entry(needs).or_insert_with(|| {
            let carries = |agent: &&Agent| needs.iter().all(|tag| agent.tags.contains(tag));
            self.agents.iter().filter(carries).map(|agent| &agent.name).collect()
        })
    }
}

/// Tasks that mean to have the same and can run at the same time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clash {
    /// `port/*/N`, or `file/GLOB`.
    pub(super) resource: String,
    /// Each of them clashes with at least one other; indices into the plan.
    pub(super) tasks: Vec<usize>,
}

/// Everything that two tasks could reach for at once: ports in the order of their numbers, then
/// files.
pub(super) fn clashes(plan: &Plan) -> Vec<Clash> {
    let mut ports: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let mut globs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, task) in plan.tasks.iter().enumerate() {
        for &port in task.ports.values().filter(|&&port| port != 0) {
            share(ports.entry(port).or_default(), index);
        }
        for glob in &task.writes {
            if globs.len() < SHARERS_MAX || globs.contains_key(&**glob) {
                share(globs.entry(glob).or_default(), index);
            }
        }
    }
    let ports = ports.into_iter().map(|(port, tasks)| (format!("port/*/{port}"), tasks));
    let files = globs.keys().map(|glob| (format!("file/{glob}"), writers(&globs, glob)));
    let mut sharers: Vec<(String, Vec<usize>)> = ports.chain(files).collect();
    sharers.retain(|(_, tasks)| tasks.len() > 1);
    if sharers.is_empty() {
        return Vec::new();
    }
    let order = in_order(plan);
    let mut found: Vec<Clash> = Vec::new();
    for (resource, tasks) in sharers {
        let tasks = overlapping(plan, &order, &tasks);
        // Two globs of the same tasks are told once.
        let is_file = resource.starts_with("file/");
        let is_told = |clash: &Clash| clash.resource.starts_with("file/") && clash.tasks == tasks;
        if tasks.is_empty() || is_file && found.iter().any(is_told) {
            continue;
        }
        found.push(Clash { resource, tasks });
    }
    found
}

fn share(tasks: &mut Vec<usize>, task: usize) {
    if tasks.last() != Some(&task) && tasks.len() < SHARERS_MAX {
        tasks.push(task);
    }
}

/// The tasks that mean to write what a glob may name.
fn writers(globs: &BTreeMap<&str, Vec<usize>>, glob: &str) -> Vec<usize> {
    let alike = globs.iter().filter(|(other, _)| overlap(glob, other));
    let tasks: BTreeSet<usize> = alike.flat_map(|(_, tasks)| tasks.iter().copied()).collect();
    tasks.into_iter().take(SHARERS_MAX).collect()
}

/// Those of `tasks` that can run at the same time as another of them.
///
/// A task has ended before anything that comes after it begins, unless it is a service: that one
/// goes on while they run.
fn overlapping(plan: &Plan, order: &[usize], tasks: &[usize]) -> Vec<usize> {
    let places: HashMap<usize, usize> =
        tasks.iter().enumerate().map(|(place, &task)| (task, place)).collect();
    let words = tasks.len().div_ceil(64);
    // For each task, which of `tasks` have ended before it begins.
    let mut ended = vec![0_u64; plan.tasks.len() * words];
    for &task in order {
        for dependency in &plan.tasks[task].after {
            for word in 0..words {
                ended[task * words + word] |= ended[dependency.task * words + word];
            }
            let is_service = plan.tasks[dependency.task].service.is_some();
            if let Some(place) = places.get(&dependency.task).filter(|_| !is_service) {
                ended[task * words + place / 64] |= 1 << (place % 64);
            }
        }
    }
    let is_before = |first: usize, second: usize| {
        ended[tasks[second] * words + first / 64] >> (first % 64) & 1 == 1
    };
    let clashes = |place: &usize| {
        (0..tasks.len())
            .any(|other| other != *place && !is_before(other, *place) && !is_before(*place, other))
    };
    (0..tasks.len()).filter(clashes).map(|place| tasks[place]).collect()
}

/// The tasks, each after all that it comes after. A checked plan has no cycle.
fn in_order(plan: &Plan) -> Vec<usize> {
    let mut open: Vec<usize> = plan.tasks.iter().map(|task| task.after.len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); plan.tasks.len()];
    for (index, task) in plan.tasks.iter().enumerate() {
        for dependency in &task.after {
            followers[dependency.task].push(index);
        }
    }
    let mut order: Vec<usize> = (0..plan.tasks.len()).filter(|&task| open[task] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for &follower in &followers[order[next]] {
            open[follower] -= 1;
            if open[follower] == 0 {
                order.push(follower);
            }
        }
        next += 1;
    }
    order
}

/// `task` and all that comes after it, directly or not: for `--from`.
pub(super) fn downstream(plan: &Plan, task: usize) -> Vec<usize> {
    let mut reached = vec![false; plan.tasks.len()];
    reached[task] = true;
    for index in in_order(plan) {
        if plan.tasks[index].after.iter().any(|dependency| reached[dependency.task]) {
            reached[index] = true;
        }
    }
    (0..reached.len()).filter(|&index| reached[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::manifest::{File, Sources, check};

    fn plan(text: &str) -> Plan {
        let manifest = File { name: "m.toml", bytes: text.as_bytes() };
        let agents = "[[agent]]\nname = \"w\"\ntags = [\"a\", \"b\"]\n\
                      [[agent]]\nname = \"v\"\ntags = [\"a\"]\n";
        check(&Sources {
            manifest,
            agents: Some(File { name: "agents.toml", bytes: agents.as_bytes() }),
            base: std::path::Path::new("/w"),
            root_override: None,
            variables: &BTreeMap::new(),
            passed: &|_| true,
            local_capacity: 1,
        })
        .unwrap()
    }

    fn task(id: &str, after: &str, rest: &str) -> String {
        format!("[[task]]\nid = \"{id}\"\nafter = [{after}]\nrun = \"true\"\n{rest}\n")
    }

    #[test]
    fn a_wave_begins_when_the_latest_dependency_ends() {
        let text = [
            task("check", "\"lint\", \"build\"", ""),
            task("lint", "", ""),
            task("build", "\"fetch\"", ""),
            task("fetch", "", ""),
        ]
        .concat();
        assert_eq!(waves(&plan(&text)), [2, 0, 1, 0]);
    }

    #[test]
    fn a_taker_carries_every_tag() {
        let text = [task("x", "", "needs = [\"a\"]"), task("y", "", "needs = [\"b\", \"a\"]")];
        let plan = plan(&text.concat());
        let mut takers = Takers::of(&plan);
        let names = |names: &[&AgentName]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(names(takers.of_needs(&plan.tasks[0].needs)), ["w", "v"]);
        assert_eq!(names(takers.of_needs(&plan.tasks[1].needs)), ["w"]);
        assert_eq!(names(takers.of_needs(&[])), ["w", "v"]);
    }

    #[test]
    fn ports_clash_where_tasks_overlap() {
        const PORT: &str = "ports = { web = 3000 }";
        const OTHER: &str = "ports = { web = 3001 }";
        let service = format!("{PORT}\nservice = {{ ready = \"port:web\" }}");
        for (tasks, clashing) in [
            (vec![task("a", "", PORT), task("b", "", PORT)], vec![0, 1]),
            (vec![task("a", "", PORT), task("b", "\"a\"", PORT)], vec![]),
            (vec![task("a", "", PORT), task("b", "", OTHER)], vec![]),
            (vec![task("a", "", &service), task("b", "\"a\"", PORT)], vec![0, 1]),
            (vec![task("a", "", PORT), task("b", "\"a\"", &service)], vec![]),
            (
                // a, then b; c beside both.
                vec![task("a", "", PORT), task("b", "\"a\"", PORT), task("c", "", PORT)],
                vec![0, 1, 2],
            ),
            (vec![task("a", "", PORT), task("m", "\"a\"", ""), task("b", "\"m\"", PORT)], vec![]),
            (
                vec![task("a", "", "writes = [\"x/**\"]"), task("b", "", "writes = [\"x/y\"]")],
                vec![0, 1],
            ),
            (vec![task("a", "", "writes = [\"x/**\"]"), task("b", "", "writes = [\"y\"]")], vec![]),
        ] {
            let text = tasks.concat();
            let found = clashes(&plan(&text));
            let found: Vec<_> = found.into_iter().flat_map(|clash| clash.tasks).collect();
            assert_eq!(found, clashing, "{text}");
        }
    }

    #[test]
    fn downstream_holds_the_task_and_what_follows() {
        let text = [
            task("d", "\"b\", \"c\"", ""),
            task("a", "", ""),
            task("b", "\"a\"", ""),
            task("c", "", ""),
        ]
        .concat();
        assert_eq!(downstream(&plan(&text), 1), [0, 1, 2]);
        assert_eq!(downstream(&plan(&text), 3), [0, 3]);
    }
}
