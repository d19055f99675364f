//! The coordinator's loop, three beats: *select → decide → commit and perform*. While a commit is
//! under way events pile up in the inbox, and the next round takes them all: that is the group
//! commit, and the only batching there is.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::action::{Action, Decision};
use super::clock::Clock;
use super::counting;
use super::crew::Crew;
use super::desk::{Desk, NO_ROOM};
use super::http::Measures;
use super::inbox::{Event, INBOX_EVENTS_MAX};
use crate::domain::event::Stamped;
use crate::journal::{AppendError, Commit, Journal};
use crate::report::metrics::Tally;

/// How many events one round takes in at most.
const ROUND_EVENTS_MAX: usize = 512;
/// How often the board's snapshot file, and whoever follows the board and is behind, are brought up to
/// date while nothing else asks for it.
const BOARD_REFRESH: Duration = Duration::from_millis(50);
/// How long records that nothing waits for may stay in memory. With the journal's own 35 ms they
/// are on the disk within 50.
const BACKLOG_WAIT: Duration = Duration::from_millis(10);

/// Runs until the desk says that it is over.
///
/// # Errors
/// When a durable record cannot be written: nothing may be done then that the journal lacks.
pub(super) async fn run(
    mut desk: Desk,
    crew: Crew,
    journal: Journal,
    clock: Clock,
    mut inbox: mpsc::Receiver<Event>,
    mut measures: Measures,
) -> Result<(), AppendError> {
    let mut settler = Settler::new(crew, &journal);
    let mut refresh = tokio::time::interval(BOARD_REFRESH);
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // What follows from what an earlier coordinator has left.
    settler.settle(desk.decide()).await?;
    while !desk.is_over(clock.now()) {
        settler.look_for_room(&mut desk);
        let deadline = desk.next_deadline().map(|at| clock.instant(at)).into_iter();
        let deadline = deadline.chain(settler.due).min();
        tokio::select! {
            biased;
            // First: a question is cheap, and few can wait.
            Some(reply) = measures.recv() => {
                let depth = (inbox.len() as u64, INBOX_EVENTS_MAX as u64);
                let (tally, entries) = (settler.tally.clone(), settler.crew.board.key_count());
                // Whoever asked may have given up.
                drop(reply.send(Box::new(desk.snapshot(tally, entries, depth))));
            }
            event = inbox.recv() => {
                let Some(event) = event else { break };
                take(&mut desk, &mut settler.crew, event, &clock);
                for _ in 1..ROUND_EVENTS_MAX {
                    let Ok(event) = inbox.try_recv() else { break };
                    take(&mut desk, &mut settler.crew, event, &clock);
                }
            }
            () = until(deadline) => {}
            _ = refresh.tick(), if settler.crew.has_news() => {
                settler.crew.refresh_board();
                settler.crew.catch_up();
            }
        }
        desk.tick(clock.now());
        settler.settle(desk.decide()).await?;
        if settler.due.is_some_and(|due| due <= Instant::now()) {
            settler.flush().await?;
        }
    }
    settler.flush().await?;
    settler.crew.part().await;
    Ok(())
}

fn take(desk: &mut Desk, crew: &mut Crew, event: Event, clock: &Clock) {
    crew.meet(&event);
    desk.hear(event, clock.now());
}

/// Commits, then acts.
struct Settler<'a> {
    crew: Crew,
    journal: &'a Journal,
    /// Records that nothing waits for. They go to the disk with the next that something does, or
    /// soon: waking the journal's thread for each would cost every command more than its own
    /// work.
    backlog: Vec<Stamped>,
    /// When they go at the latest.
    due: Option<Instant>,
    /// Those that were sent on their way last. Whatever is acknowledged behind them needs them, too.
    sent: Option<Commit>,
    /// What has been counted.
    tally: Tally,
}

impl<'a> Settler<'a> {
    fn new(crew: Crew, journal: &'a Journal) -> Self {
        Self { crew, journal, backlog: Vec::new(), due: None, sent: None, tally: Tally::default() }
    }

    /// Commit, then act. The board, which remembers how far it is folded, waits for its records as
    /// whatever is durable does; and so does the acknowledgement of what a holder has said.
    async fn settle(&mut self, decision: Decision) -> Result<(), AppendError> {
        let Decision { records, durable, actions } = decision;
        for record in &records {
            self.tally.note(record);
            counting::log(&record.event);
        }
        // A session may open while its attempt's start is on its way to the disk: nothing runs in
        // it before it says that it is open, and that is heard in a later round.
        let (early, actions): (Vec<Action>, Vec<Action>) =
            actions.into_iter().partition(Action::may_come_early);
        for action in early {
            self.crew.perform(action, 0);
        }
        let waits = durable || actions.iter().any(Action::needs_its_records);
        let mut first_seq = 0;
        if waits && !(self.backlog.is_empty() && records.is_empty()) {
            let mut group = std::mem::take(&mut self.backlog);
            let before = group.len() as u64;
            group.extend(records);
            self.due = None;
            self.tally.note_commit(group.len());
            let began = Instant::now();
            first_seq = self.journal.append(group, durable).await?.first_seq + before;
            self.sent_has_arrived().await?;
            let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.tally.note_commit_time(took);
        } else if !records.is_empty() {
            self.backlog.extend(records);
            self.due.get_or_insert_with(|| Instant::now() + BACKLOG_WAIT);
        }
        for action in actions {
            self.crew.perform(action, first_seq);
        }
        Ok(())
    }

    /// Sends the backlog on its way. Nobody waits for it, unless the one before is still going.
    async fn flush(&mut self) -> Result<(), AppendError> {
        self.due = None;
        let backlog = std::mem::take(&mut self.backlog);
        if !backlog.is_empty() {
            self.sent_has_arrived().await?;
            self.tally.note_commit(backlog.len());
            self.sent = Some(self.journal.append(backlog, false));
        }
        Ok(())
    }

    async fn sent_has_arrived(&mut self) -> Result<(), AppendError> {
        match self.sent.take() {
            Some(sent) => sent.await.map(drop),
            None => Ok(()),
        }
    }

    /// Tells the desk whether anything can be begun.
    fn look_for_room(&self, desk: &mut Desk) {
        let room = self.journal.has_room();
        match (desk.has_room, room) {
            (true, false) => tracing::error!("{NO_ROOM}; what is under way goes on"),
            (false, true) => tracing::info!("there is room on the disk again"),
            _ => {}
        }
        desk.has_room = room;
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
