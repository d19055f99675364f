//! The end of a run: its report is built and written down, away from the loop.

use super::crew::Crew;
use super::inbox::{ConnectionId, Event};
use super::reports;
use super::story::ReportDraft;

impl Crew {
    /// Builds the report of a run that has ended, and writes it down: `Event::RunReported`.
    pub(super) fn finish_run(&mut self, draft: ReportDraft, followers: Vec<ConnectionId>) {
        let board = self.view();
        let runs = self.folders.runs.clone();
        let inbox = self.inbox.clone();
        let has_worktrees = draft.report.tasks.iter().any(|task| task.worktree.is_some());
        let finish = move || {
            let report = reports::build(draft, board);
            if let Err(error) = reports::write(&reports::file(&runs, &report.run_id), &report) {
                tracing::error!(run = %report.run_id, %error, "the run's report cannot be written");
            }
            let report = Box::new(report);
            drop(inbox.blocking_send(Event::RunReported { report, followers }));
        };
        if has_worktrees {
            // Behind the removals: it names what was kept.
            self.repository.then(finish);
        } else {
            tokio::task::spawn_blocking(finish);
        }
    }
}
