//! Clients' own names for their requests: one that asks again, because it does not know whether it
//! was heard, is told of the run that was made then.

use std::collections::VecDeque;

use crate::domain::ids::RunId;

/// How many are remembered: the latest. A client asks again within seconds.
const TICKETS_MAX: usize = 256;
/// A longer one is no ticket.
const TICKET_BYTES_MAX: usize = 64;

/// The tickets of runs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tickets(VecDeque<(String, RunId)>);

impl Tickets {
    /// The run that was made for it.
    pub(super) fn find(&self, ticket: &str) -> Option<&RunId> {
        self.0.iter().rev().find(|(known, _)| known == ticket).map(|(_, run)| run)
    }

    /// Remembers whose it is.
    pub(super) fn note(&mut self, ticket: Option<&str>, run: &RunId) {
        let Some(ticket) = ticket.filter(|ticket| is_one(ticket)) else { return };
        if self.0.len() == TICKETS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((ticket.to_owned(), run.clone()));
    }
}

/// Whether it can be remembered.
pub(super) fn is_one(ticket: &str) -> bool {
    !ticket.is_empty() && ticket.len() <= TICKET_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let mut tickets = Tickets::default();
        tickets.note(None, &"r-0".into());
        tickets.note(Some(""), &"r-0".into());
        tickets.note(Some(&"x".repeat(65)), &"r-0".into());
        assert!(tickets.0.is_empty());
        for n in 0..=TICKETS_MAX {
            tickets.note(Some(&format!("t{n}")), &RunId::new(format!("r-{n}")));
        }
        assert_eq!(tickets.find("t0"), None);
        assert_eq!(tickets.find("t1"), Some(&"r-1".into()));
        assert_eq!(tickets.0.len(), TICKETS_MAX);
    }
}
