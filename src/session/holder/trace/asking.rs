//! Calls that are held until it is known whether somebody else has what they would change. Only the
//! thread that makes the call waits, and for 250 ms at most.

use std::collections::{HashMap, HashSet};

use super::seen::Seen;
use super::tracer::Tracer;
use crate::domain::result::{How, Note, Touched};
use crate::session::wire::FactBody;

/// How long a call waits for a verdict (design, section 6).
pub(super) const VERDICT_MS: u64 = 250;
/// Calls that are held at a time; the next one goes on, and is told as inferred.
const HELD_MAX: usize = 1024;
/// Resources that are remembered as free for this command.
const CLEARED_MAX: usize = 64 * 1024;

/// What is asked, and who waits for it.
#[derive(Default)]
pub(super) struct Asking {
    /// Others are alive.
    others: bool,
    /// There is somebody to ask.
    has_peer: bool,
    /// Nobody else has these.
    cleared: HashSet<String>,
    /// The open questions: their names, by resource.
    open: HashMap<String, u64>,
    held: Vec<Held>,
    last_request: u64,
}

/// A call that waits.
struct Held {
    id: u64,
    found: Vec<Seen>,
    /// The questions without an answer.
    open: HashSet<u64>,
    until_ms: u64,
}

impl Asking {
    /// True when a touch has to be asked about.
    pub(super) fn is_due(&self) -> bool {
        self.others && self.has_peer
    }

    /// When the first call has waited long enough.
    pub(super) fn due(&self) -> Option<u64> {
        self.held.iter().map(|held| held.until_ms).min()
    }

    /// Another command asks anew.
    pub(super) fn forget(&mut self) {
        self.cleared.clear();
    }

    /// The names of the questions about these; whoever asks about the same waits for the same answer.
    fn questions(&mut self, found: &[Seen]) -> (HashSet<u64>, Vec<(u64, Touched)>) {
        let (mut all, mut new) = (HashSet::new(), Vec::new());
        for seen in found.iter().filter(|seen| !self.cleared.contains(&seen.resource)) {
            let request = self.open.get(&seen.resource).copied().unwrap_or_else(|| {
                self.last_request += 1;
                self.open.insert(seen.resource.clone(), self.last_request);
                let (resource, mode) = (seen.resource.clone(), seen.mode.to_owned());
                new.push((self.last_request, Touched { resource, mode, how: How::Traced }));
                self.last_request
            });
            all.insert(request);
        }
        (all, new)
    }

    fn close(&mut self, request: u64) -> Option<String> {
        let (resource, _) = self.open.iter().find(|(_, open)| **open == request)?;
        let resource = resource.clone();
        self.open.remove(&resource);
        Some(resource)
    }
}

impl Tracer {
    /// Asks about a call, which is held meanwhile.
    pub(super) fn ask(&mut self, id: u64, found: Vec<Seen>, now_ms: u64) {
        if self.asking.held.len() >= HELD_MAX {
            return self.release(id, found, How::Inferred, now_ms);
        }
        let (open, new) = self.asking.questions(&found);
        if open.is_empty() {
            return self.release(id, found, How::Traced, now_ms);
        }
        self.asking.held.push(Held { id, found, open, until_ms: now_ms + VERDICT_MS });
        for (request, touched) in new {
            let command = self.command.clone();
            self.facts.push(FactBody::MayTouch { request, command, touched });
        }
    }

    /// The answer to a question.
    pub(in super::super) fn verdict(&mut self, request: u64, held_by: Option<&str>, now_ms: u64) {
        // One that comes too late is the asker's to follow up.
        let Some(resource) = self.asking.close(request) else { return };
        if held_by.is_none() && self.asking.cleared.len() < CLEARED_MAX {
            self.asking.cleared.insert(resource.clone());
        }
        for mut held in std::mem::take(&mut self.asking.held) {
            let is_asker = held.open.remove(&request);
            match held_by {
                Some(holder) if is_asker => self.refuse(held.id, &resource, holder),
                _ if held.open.is_empty() => self.release(held.id, held.found, How::Traced, now_ms),
                _ => self.asking.held.push(held),
            }
        }
    }

    fn refuse(&mut self, id: u64, resource: &str, holder: &str) {
        if let Some(listener) = &self.listener {
            listener.refuse(id, libc::EBUSY);
        }
        if let Some(command) = self.command.clone() {
            let note = Note::Refused { resource: resource.to_owned(), holder: holder.to_owned() };
            self.facts.push(FactBody::Noted { command, note });
        }
    }

    fn release(&mut self, id: u64, found: Vec<Seen>, how: How, now_ms: u64) {
        if let Some(listener) = &self.listener {
            listener.go_on(id);
        }
        self.went_on(found, how, now_ms);
    }

    /// Others are alive, or not any more.
    pub(in super::super) fn attend(&mut self, others: bool, now_ms: u64) {
        self.asking.others = others;
        if others {
            // Whoever came first holds it, and what is told late came late.
            self.serve(now_ms);
            self.pending.hasten(now_ms);
            self.tell(false, now_ms);
        } else {
            self.release_all(now_ms);
        }
    }

    /// There is a coordinator, or there is none: then calls go on, and what they touch is kept for
    /// the next one.
    pub(in super::super) fn has_peer(&mut self, has_peer: bool, now_ms: u64) {
        let was = std::mem::replace(&mut self.asking.has_peer, has_peer);
        if was && !has_peer {
            self.release_all(now_ms);
        }
    }

    fn release_all(&mut self, now_ms: u64) {
        self.asking.open.clear();
        for held in std::mem::take(&mut self.asking.held) {
            self.release(held.id, held.found, How::Traced, now_ms);
        }
    }

    /// Lets those go on that have waited long enough.
    pub(super) fn expire(&mut self, now_ms: u64) {
        if self.asking.due().is_none_or(|due| due > now_ms) {
            return;
        }
        for held in std::mem::take(&mut self.asking.held) {
            if held.until_ms > now_ms {
                self.asking.held.push(held);
                continue;
            }
            for request in &held.open {
                self.asking.close(*request);
            }
            self.release(held.id, held.found, How::Inferred, now_ms);
        }
    }
}
