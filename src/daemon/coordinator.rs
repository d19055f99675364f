//! The coordinator's loop, three beats: *select → decide → commit and perform*. While a commit is
//! under way events pile up in the inbox, and the next round takes them all: that is the group
//! commit, and the only batching there is.

use std::time::Duration;

use tokio::sync::mpsc;

use super::action::{Action, Decision};
use super::clock::Clock;
use super::crew::Crew;
use super::desk::Desk;
use super::inbox::Event;
use crate::journal::{AppendError, Journal};

/// How many events one round takes in at most.
const ROUND_EVENTS_MAX: usize = 512;
/// How often the board's snapshot file is brought up to date while nothing else asks for it.
const BOARD_REFRESH_MS: u64 = 100;

/// Runs until the desk says that it is over.
///
/// # Errors
/// When a durable record cannot be written: nothing may be done then that the journal lacks.
pub(super) async fn run(
    mut desk: Desk,
    mut crew: Crew,
    journal: Journal,
    clock: Clock,
    mut inbox: mpsc::Receiver<Event>,
) -> Result<(), AppendError> {
    let mut refresh = tokio::time::interval(Duration::from_millis(BOARD_REFRESH_MS));
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !desk.is_over(clock.now()) {
        let deadline = desk.next_deadline().map(|at| clock.instant(at).into());
        tokio::select! {
            biased;
            event = inbox.recv() => {
                let Some(event) = event else { return Ok(()) };
                take(&mut desk, &mut crew, event, &clock);
                for _ in 1..ROUND_EVENTS_MAX {
                    let Ok(event) = inbox.try_recv() else { break };
                    take(&mut desk, &mut crew, event, &clock);
                }
            }
            () = until(deadline) => {}
            _ = refresh.tick() => crew.refresh_board(),
        }
        desk.tick(clock.now());
        settle(desk.decide(), &mut crew, &journal).await?;
    }
    Ok(())
}

fn take(desk: &mut Desk, crew: &mut Crew, event: Event, clock: &Clock) {
    crew.meet(&event);
    desk.hear(event, clock.now());
}

/// Commit, then act. Records that nothing waits for are on their way to the disk when their
/// actions are carried out; the board, which remembers how far it is folded, waits for its own.
async fn settle(decision: Decision, crew: &mut Crew, journal: &Journal) -> Result<(), AppendError> {
    let Decision { records, durable, actions } = decision;
    let mut first_seq = 0;
    if !records.is_empty() {
        let waits = durable || actions.iter().any(|action| matches!(action, Action::Post { .. }));
        let commit = journal.append(records, durable);
        if waits {
            first_seq = commit.await?.first_seq;
        }
    }
    for action in actions {
        crew.perform(action, first_seq);
    }
    Ok(())
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
