//! Who holds what (design, section 6). Nothing is locked beforehand: the first live party to touch a
//! resource holds it until its process tree is gone, and a later touch by another live one is a
//! conflict.
//!
//! A file is held by its path. A folder counts only when it is renamed or removed: then all below it
//! is meant. A port is held by its number where one of the two addresses is every address.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::domain::conflict::Party;
use crate::domain::result::Touched;
use crate::domain::time::Timestamp;

/// How many resources are held at most. What is touched beyond that is nobody's, and counted.
pub const HELD_MAX: usize = 200_000;

/// What a touch means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It was nobody's, and is the party's now.
    Taken,
    /// It was the party's already, or somebody has said that it may.
    Own,
    /// Another live party holds it.
    Held {
        /// Who.
        by: Party,
        /// What exactly that one holds: the resource itself, or one above or below it.
        resource: String,
        /// Since when.
        since: Timestamp,
    },
    /// Too much is held already: nothing is known of it.
    Unknown,
}

/// Who holds what in a workspace.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    held: BTreeMap<String, Held>,
    /// What each party holds; whoever is alive has an entry.
    parties: BTreeMap<Party, BTreeSet<String>>,
    /// Resources that are nobody's to a party.
    exempt: BTreeMap<Party, BTreeSet<String>>,
    /// How many touches were not noted for want of room.
    unknown: u64,
}

#[derive(Clone, Debug)]
struct Held {
    by: Party,
    since: Timestamp,
    /// It is gone or elsewhere, with all below it.
    whole: bool,
}

impl Holdings {
    /// A party is alive from now on.
    pub fn begin(&mut self, party: Party) {
        self.parties.entry(party).or_default();
    }

    /// How many parties are alive.
    pub fn alive(&self) -> usize {
        self.parties.len()
    }

    /// Somebody has decided that the party may have a resource, whoever holds it.
    pub fn exempt(&mut self, party: Party, resource: String) {
        self.exempt.entry(party).or_default().insert(resource);
    }

    /// A party's process tree is gone: what it held is free.
    pub fn end(&mut self, party: &Party) -> Vec<String> {
        self.exempt.remove(party);
        let freed: Vec<String> = self.parties.remove(party).into_iter().flatten().collect();
        for resource in &freed {
            self.held.remove(resource);
        }
        freed
    }

    /// A party no longer needs one resource: a port that it has closed.
    pub fn release(&mut self, party: &Party, resource: &str) -> bool {
        let is_held = self.held.get(resource).is_some_and(|held| held.by == *party);
        if is_held {
            self.held.remove(resource);
            if let Some(own) = self.parties.get_mut(party) {
                own.remove(resource);
            }
        }
        is_held
    }

    /// A party touches something, or is about to. Whoever is not alive touches nothing: a straggler
    /// holds nothing and is in nobody's way.
    pub fn touch(&mut self, party: &Party, touched: &Touched, now: Timestamp) -> Claim {
        let Some(own) = self.parties.get(party) else { return Claim::Unknown };
        let resource = &touched.resource;
        let whole = takes_all_below(touched);
        if own.contains(resource) {
            if whole && let Some(held) = self.held.get_mut(resource) {
                held.whole = true;
            }
            return match self.other_below(party, touched) {
                Some(claim) if whole => claim,
                _ => Claim::Own,
            };
        }
        if self.exempt.get(party).is_some_and(|free| free.contains(resource)) {
            return Claim::Own;
        }
        if let Some(claim) = self.other(party, touched) {
            return claim;
        }
        if self.held.len() >= HELD_MAX {
            self.unknown = self.unknown.saturating_add(1);
            return Claim::Unknown;
        }
        let held = Held { by: party.clone(), since: now, whole };
        self.held.insert(resource.clone(), held);
        if let Some(own) = self.parties.get_mut(party) {
            own.insert(resource.clone());
        }
        Claim::Taken
    }

    /// Whether nobody holds a resource, nor one above or below it that would be in the way.
    pub fn is_free(&self, resource: &str) -> bool {
        let touched = Touched {
            resource: resource.to_owned(),
            mode: "write".to_owned(),
            how: crate::domain::result::How::Traced,
        };
        self.blocking(None, &touched).is_none()
    }

    /// Who holds a resource.
    pub fn holder(&self, resource: &str) -> Option<(&Party, Timestamp)> {
        self.held.get(resource).map(|held| (&held.by, held.since))
    }

    /// What a party holds.
    pub fn held_by(&self, party: &Party) -> impl Iterator<Item = &str> {
        self.parties.get(party).into_iter().flatten().map(String::as_str)
    }

    fn other(&self, party: &Party, touched: &Touched) -> Option<Claim> {
        self.blocking(Some(party), touched).map(|(resource, held)| claim(resource, held))
    }

    fn other_below(&self, party: &Party, touched: &Touched) -> Option<Claim> {
        self.below(Some(party), &touched.resource).map(|(resource, held)| claim(resource, held))
    }

    /// What is in the way of a touch by somebody else than its holder.
    fn blocking(&self, party: Option<&Party>, touched: &Touched) -> Option<(&String, &Held)> {
        let resource = touched.resource.as_str();
        let is_others = |held: &Held| party != Some(&held.by);
        let itself = self.held.get_key_value(resource).filter(|(_, held)| is_others(held));
        if itself.is_some() {
            return itself;
        }
        if let Some(port) = port_of(resource) {
            return self.port(party, port);
        }
        let above = ancestors(resource).find_map(|folder| {
            self.held.get_key_value(folder).filter(|(_, held)| held.whole && is_others(held))
        });
        if above.is_some() || !takes_all_below(touched) {
            return above;
        }
        self.below(party, resource)
    }

    fn below(&self, party: Option<&Party>, folder: &str) -> Option<(&String, &Held)> {
        let prefix = format!("{folder}/");
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.held
            .range(from)
            .take_while(|(resource, _)| resource.starts_with(&prefix))
            .find(|(_, held)| party != Some(&held.by))
    }

    fn port(
        &self,
        party: Option<&Party>,
        (host, number): (&str, &str),
    ) -> Option<(&String, &Held)> {
        let from = (Bound::Included("port/".to_owned()), Bound::Unbounded);
        self.held.range(from).take_while(|(resource, _)| resource.starts_with("port/")).find(
            |(resource, held)| {
                port_of(resource).is_some_and(|(other, taken)| {
                    taken == number && (other == host || is_any(other) || is_any(host))
                }) && party != Some(&held.by)
            },
        )
    }
}

fn claim(resource: &str, held: &Held) -> Claim {
    Claim::Held { by: held.by.clone(), resource: resource.to_owned(), since: held.since }
}

/// Renaming and removing are all that counts of folders, and mean all that is below.
fn takes_all_below(touched: &Touched) -> bool {
    touched.resource.starts_with("file/") && ["rename", "remove"].contains(&&*touched.mode)
}

/// Host and number of `port/<host>/<n>`.
fn port_of(resource: &str) -> Option<(&str, &str)> {
    resource.strip_prefix("port/")?.rsplit_once('/')
}

fn is_any(host: &str) -> bool {
    ["0.0.0.0", "::", "*"].contains(&host)
}

/// The folders of a file's key, nearest first; `file/` itself is none.
fn ancestors(resource: &str) -> impl Iterator<Item = &str> {
    let mut rest = resource.starts_with("file/").then_some(resource);
    std::iter::from_fn(move || {
        let (folder, _) = rest?.rsplit_once('/')?;
        rest = Some(folder);
        (folder != "file").then_some(folder)
    })
}

#[cfg(test)]
#[path = "holdings_tests.rs"]
mod tests;
