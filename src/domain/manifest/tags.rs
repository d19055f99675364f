//! Who carries which tags.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::findings::Findings;
use super::read::At;
use super::words::{listed, shown};
use crate::domain::plan::Agent;

/// The agents by the tags that they carry.
pub(super) struct Carriers<'a> {
    agents: &'a [Agent],
    by_tag: BTreeMap<&'a str, Vec<usize>>,
    /// Sets of tags that some agent carries whole: most tasks need one of a few.
    carried: HashSet<Vec<String>>,
}

impl<'a> Carriers<'a> {
    pub(super) fn of(agents: &'a [Agent]) -> Self {
        let mut by_tag: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, agent) in agents.iter().enumerate() {
            for tag in &agent.tags {
                by_tag.entry(tag.as_str()).or_default().push(index);
            }
        }
        Self { agents, by_tag, carried: HashSet::new() }
    }

    /// Says so when no agent carries all of `needs`.
    pub(super) fn check(&mut self, needs: &[At<String>], findings: &mut Findings<'_>) {
        let Some(first) = needs.first() else { return };
        let wanted: Vec<String> = needs.iter().map(|tag| tag.value.clone()).collect();
        if self.carried.contains(&wanted) {
            return;
        }
        // Each agent that carries a wanted tag, with how many it carries.
        let mut held: HashMap<usize, usize> = HashMap::new();
        for tag in &wanted {
            for agent in self.by_tag.get(tag.as_str()).into_iter().flatten() {
                *held.entry(*agent).or_default() += 1;
            }
        }
        if held.values().any(|count| *count == wanted.len()) {
            self.carried.insert(wanted);
            return;
        }
        let nearest = self.nearest(&held, &wanted);
        let mut unknown = false;
        for tag in needs.iter().filter(|tag| !self.by_tag.contains_key(tag.value.as_str())) {
            unknown = true;
            let meant = findings.did_you_mean(&tag.value, self.by_tag.keys().copied());
            let hint = meant.or_else(|| nearest.clone()).unwrap_or_else(|| self.all());
            let message = format!("no agent carries the tag `{}`", shown(&tag.value));
            findings.absent(tag.span.clone(), message, hint);
        }
        if !unknown {
            let all = listed(wanted.iter().map(String::as_str), "and");
            let message = format!("no agent carries all of {all}");
            findings.absent(first.span.clone(), message, nearest.unwrap_or_else(|| self.all()));
        }
    }

    /// The agents that carry the most, and what they lack.
    fn nearest(&self, held: &HashMap<usize, usize>, wanted: &[String]) -> Option<String> {
        const NAMED_MAX: usize = 3;
        let most = held.values().max()?;
        let mut best: Vec<usize> =
            held.iter().filter(|(_, count)| *count == most).map(|(agent, _)| *agent).collect();
        best.sort_unstable();
        let more = best.len().saturating_sub(NAMED_MAX);
        let mut parts: Vec<String> = Vec::new();
        for agent in best.into_iter().take(NAMED_MAX).map(|index| &self.agents[index]) {
            let tags: HashSet<&str> = agent.tags.iter().map(|tag| tag.as_str()).collect();
            let lacks = wanted.iter().map(String::as_str).filter(|tag| !tags.contains(tag));
            let name = shown(agent.name.as_str());
            parts.push(format!("`{name}`, which lacks {}", listed(lacks, "and")));
        }
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Some(format!("nearest: {}{more}", parts.join("; ")))
    }

    /// What there is, for a tag that is like none of it.
    fn all(&self) -> String {
        const NAMED_MAX: usize = 20;
        let mut tags: Vec<&str> = self.by_tag.keys().copied().collect();
        if tags.is_empty() {
            return match self.agents {
                [only] => format!(
                    "the only agent is `{}`, which carries no tags: name agents in an agents.toml",
                    shown(only.name.as_str())
                ),
                _ => "the agents carry no tags at all".to_owned(),
            };
        }
        tags.truncate(NAMED_MAX);
        format!("carried are {}", listed(tags, "and"))
    }
}
