//! The crew carries out what the desk has decided: it holds the links to the holders, the
//! clients' queues, the stage and the board, and decides nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::action::{Action, ExecForm};
use super::board::publishing::inputs_file;
use super::board::watchers::Watchers;
use super::clients::Clients;
use super::desk::Folders;
use super::inbox::{ConnectionId, Event};
use super::rejoining::{lost_ticket, unknown_ticket};
use super::sessions::{Asker, EXEC_KEEP};
use super::shelf::{Entry, Writers};
use super::stage::{make_private, start_stage};
use super::story::CommandStory;
use super::worktrees::repository::Repository;
use super::worktrees::watch::Watch;
use super::{adoption, probe, reading, reports, retention, shelf};
use crate::board::Board;
use crate::control::{Answer, Failure, FailureKind, Response};
use crate::domain::board::key::covers;
use crate::domain::board::{BoardEntry, BoardView, Version};
use crate::domain::ids::{SessionId, WorkspaceId};
use crate::domain::process::ProcessIdentity;
use crate::domain::session::SessionSpec;
use crate::domain::time::Timestamp;
use crate::session::identity;
use crate::session::link::{Asks, Facts, HolderLink, Stage};
use crate::session::shells::driver_folder;
use crate::session::sweep;
use crate::session::wire::{Ask, Fact, FactBody};

/// Transcripts of more bytes than this are read on another thread than the loop's.
const READ_INLINE_MAX: u64 = 16 * 1024;

/// Holds everything that actions are carried out with.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) workspace: WorkspaceId,
    pub(super) folders: Folders,
    pub(super) stage: Stage,
    pub(super) board: Board,
    pub(super) inbox: mpsc::Sender<Event>,
    links: HashMap<SessionId, Link>,
    clients: Clients,
    records: Writers,
    pub(super) repository: Repository,
    /// Held while the journal is being tidied.
    tidying: retention::Turn,
    /// True while the board has entries that its snapshot file lacks.
    board_changed: bool,
    /// Who follows the board.
    watchers: Watchers,
    /// What our word counts with holders that others made.
    epoch: u64,
}

#[derive(Debug)]
struct Link {
    asks: Asks,
    /// Tries a service's URL; ends with the link.
    probe: Option<JoinHandle<()>>,
    /// Looks after its worktree; ends with the link, too.
    watch: Option<Watch>,
}

impl Crew {
    /// A crew with nobody to serve yet.
    pub(super) fn new(
        workspace: WorkspaceId,
        folders: Folders,
        stage: Stage,
        board: Board,
        epoch: u64,
        inbox: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            epoch,
            workspace,
            repository: Repository::new(folders.worktrees(), inbox.clone()),
            folders,
            stage,
            board,
            inbox,
            links: HashMap::new(),
            clients: Clients::default(),
            records: Writers::default(),
            tidying: retention::Turn::default(),
            board_changed: true,
            watchers: Watchers::default(),
        }
    }

    /// Looks at an event before the desk hears it: whom it brings and whom it takes away.
    pub(super) fn meet(&mut self, event: &Event) {
        self.clients.meet(event);
        if let Event::Gone { connection } = event {
            self.watchers.remove(*connection);
        }
    }

    /// Lets the clients have what waits for them, for as long as they take it.
    pub(super) async fn part(self) {
        self.clients.part().await;
    }

    /// Carries one action out. `first_seq` is the number that the decision's first record has in
    /// the journal.
    pub(super) fn perform(&mut self, action: Action, first_seq: u64) {
        match action {
            Action::Respond { connection, response } => self.clients.respond(connection, response),
            Action::Open { spec, then } => self.open(*spec, then),
            Action::FailOpen { session, message } => self.report_failed_open(session, message),
            Action::Tell { session, ask } => self.tell(session, ask),
            Action::Probe { session, command, url } => {
                if let Some(link) = self.links.get_mut(&session) {
                    let inbox = self.inbox.clone();
                    link.probe = Some(tokio::spawn(async move {
                        probe::http_ready(&url).await;
                        drop(inbox.send(Event::HttpReady { session, command }).await);
                    }));
                }
            }
            Action::Forget { session, tmp } => self.forget(&session, tmp),
            Action::Sweep { session, dead, kept } => self.sweep(session, dead, kept),
            Action::Kill { session, holder } => self.kill(&session, holder),
            Action::AnswerExec { connection, request, story, form, end } => {
                self.answer_exec(connection, request, story, form, end);
            }
            Action::AnswerShelved { asker, session } => self.answer_shelved(asker, session),
            Action::Shelve { folder, entries } => self.shelve(&folder, &entries),
            Action::Tidy { open, retention_ms, orphans, now } => {
                self.tidy(open, retention_ms, orphans, now);
            }
            Action::SendReport { connection, request, draft } => {
                let board = self.view();
                self.clients.answer(connection, request, true, move || {
                    Ok(Answer::Report { report: Box::new(reports::build(*draft, board)) })
                });
            }
            Action::ReadReport { connection, request, run } => {
                let file = reports::file(&self.folders.runs, &run);
                self.clients.answer(connection, request, true, move || {
                    let report = reports::read(&file).map_err(|error| Failure {
                        kind: FailureKind::Environment,
                        message: format!("the report of run `{run}` cannot be read: {error}"),
                        hint: None,
                    })?;
                    Ok(Answer::Report { report: Box::new(report) })
                });
            }
            Action::SetReportAside { run } => {
                reports::set_aside(&reports::file(&self.folders.runs, &run))
            }
            Action::Git(job) => self.repository.take(job),
            Action::Watch { session, attempt, folder } => {
                if let Some(link) = self.links.get_mut(&session) {
                    link.watch = Some(Watch::begin(attempt, folder, self.inbox.clone()));
                }
            }
            Action::FinishRun { draft, followers } => self.finish_run(*draft, followers),
            Action::SendBoard { asker, told } => {
                let mut entries = self.view().entries;
                entries.retain(|entry| covers(&told, &entry.key));
                let view = Box::new(BoardView::of(self.workspace.clone(), entries));
                let answer = Box::new(Answer::Board { view });
                let reply = Response::Reply { id: asker.request, answer };
                self.clients.respond(asker.connection, reply);
            }
            Action::WatchBoard { asker, told, since } => self.watch(asker, told, since),
            Action::WriteInputs { file, inputs } => {
                let written = crate::board::snapshot::write(&file, &inputs);
                if let Err(error) = written {
                    tracing::warn!(file = %file.display(), %error, "a task's inputs cannot be written");
                }
            }
            Action::Post { entry, record } => self.post(first_seq + record as u64, entry),
        }
    }

    fn kill(&mut self, session: &SessionId, holder: Option<ProcessIdentity>) {
        // Its link's end is what tells that it is gone.
        self.links.remove(session);
        let transcript = self.folders.sessions.join(session.as_str());
        if let Some(holder) = holder.or_else(|| sweep::holder_of(&transcript)) {
            let killed = identity::signal(&holder, rustix::process::Signal::KILL);
            tracing::warn!(%session, ?killed, "killed a holder that did not close its session");
        }
    }

    fn sweep(&self, session: SessionId, dead: Option<ProcessIdentity>, mut kept: Vec<i32>) {
        let inbox = self.inbox.clone();
        kept.extend(i32::try_from(self.stage.pid()));
        tokio::task::spawn_blocking(move || {
            // Whatever is a child of ours and not among these is taken for a stray.
            let _no_git_runs = crate::worktree::pause();
            let survivors = sweep::strays(&session, dead.as_ref(), &kept);
            drop(inbox.blocking_send(Event::Swept { session, survivors }));
        });
    }

    fn answer_exec(
        &mut self,
        connection: ConnectionId,
        request: u64,
        story: Box<CommandStory>,
        form: ExecForm,
        end: u64,
    ) {
        let long = reading::bytes(&story) > READ_INLINE_MAX;
        let from = story.record.started.map(|(_, offset)| offset);
        self.clients.answer(connection, request, long, move || {
            let result = Box::new(reading::result(&story));
            Ok(match form {
                ExecForm::Ran => Answer::Ran { result },
                ExecForm::Waited => Answer::Waited { result, from, end },
                ExecForm::Interrupted => Answer::Interrupted { result: Some(result) },
            })
        });
    }

    fn answer_shelved(&mut self, asker: Asker, session: SessionId) {
        let sessions = self.folders.sessions.clone();
        self.clients.answer(asker.connection, asker.request, true, move || {
            let record = shelf::read(&sessions, &session).ok();
            let result =
                record.and_then(|record| record.result(0, EXEC_KEEP, Timestamp::default()));
            // A session's folder is made before its holder is, and stays for the retention.
            let was_made = sessions.join(session.as_str()).exists();
            let unknown = || if was_made { lost_ticket() } else { unknown_ticket() };
            result.map(|result| Answer::Ran { result: Box::new(result) }).ok_or_else(unknown)
        });
    }

    /// Looks for orphans and old transcripts, away from the loop.
    fn tidy(&mut self, open: Vec<SessionId>, retention_ms: u64, orphans: bool, now: Timestamp) {
        let (sessions, socket) = (self.folders.sessions.clone(), self.folders.socket.clone());
        let (journal, turn) = (self.folders.journal.clone(), self.tidying.clone());
        self.repository.look_for_leftovers(&open);
        if orphans {
            let known = open.iter().cloned().collect();
            tokio::spawn(adoption::close_stragglers(self.folders.doors.clone(), self.epoch, known));
        }
        tokio::task::spawn_blocking(move || {
            if orphans {
                sweep::orphans_of(&socket);
            }
            let open = open.into_iter().collect();
            retention::tidy(&turn, &sessions, &open, &journal, retention_ms, now);
        });
    }

    /// True while the snapshot file or somebody who follows the board lacks something.
    pub(super) fn has_news(&self) -> bool {
        self.board_changed || self.watchers.are_behind()
    }

    /// Lets a client follow the board: the answer, then what it lacks.
    fn watch(&mut self, asker: Asker, told: String, since: Option<Version>) {
        let since = since.filter(|since| self.board.reaches(since));
        let answer = Box::new(Answer::WatchingBoard { whole: since.is_none() });
        let reply = Response::Reply { id: asker.request, answer };
        self.clients.respond(asker.connection, reply);
        if let Some(responses) = self.clients.outlet(asker.connection) {
            self.watchers.add(asker.connection, responses, told, since);
            self.watchers.catch_up(&self.board);
        }
    }

    /// Brings those who follow the board and have fallen behind up to date.
    pub(super) fn catch_up(&mut self) {
        self.watchers.catch_up(&self.board);
    }

    /// Brings the board's snapshot file up to date.
    pub(super) fn refresh_board(&mut self) {
        if !std::mem::take(&mut self.board_changed) {
            return;
        }
        let view = self.view();
        if let Err(error) = crate::board::snapshot::write(&self.folders.board, &view) {
            tracing::warn!(%error, "the board's snapshot cannot be written");
            self.board_changed = true;
        }
    }

    fn tell(&mut self, session: SessionId, ask: Ask) {
        if matches!(ask, Ask::Run { .. }) {
            // What it runs reads a board that has all that came before.
            self.refresh_board();
        }
        if let Some(link) = self.links.get(&session)
            && link.asks.send(&ask).is_err()
        {
            // It is gone, or has not read for a long time: without its link it ends itself.
            tracing::warn!(%session, "a holder does not take what it is asked");
            self.links.remove(&session);
        }
    }

    fn open(&mut self, spec: SessionSpec, then: Vec<Ask>) {
        if !then.is_empty() {
            self.refresh_board();
        }
        let id = spec.id.clone();
        if let Err(message) = self.get_holder(spec, then) {
            self.report_failed_open(id, message);
        }
    }

    fn get_holder(&mut self, spec: SessionSpec, then: Vec<Ask>) -> Result<(), String> {
        for folder in [&spec.transcript, &spec.tmp] {
            make_private(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        }
        let holder = match self.stage.open() {
            Ok(holder) => holder,
            Err(error) => {
                tracing::warn!(%error, "the stage is gone; starting another");
                self.stage = start_stage().map_err(|e| format!("cannot start the stage: {e}"))?;
                self.stage.open().map_err(|e| format!("cannot get a holder: {e}"))?
            }
        };
        let id = spec.id.clone();
        tokio::spawn(forward(id.clone(), holder.facts, self.inbox.clone()));
        let asks = holder.asks;
        for ask in std::iter::once(Ask::Open { spec: Box::new(spec) }).chain(then) {
            asks.send(&ask).map_err(|e| format!("cannot tell a holder what to open: {e}"))?;
        }
        self.links.insert(id, Link { asks, probe: None, watch: None });
        Ok(())
    }

    /// Takes on the link of a holder that was adopted.
    pub(super) fn adopt(&mut self, id: SessionId, link: HolderLink) {
        tokio::spawn(forward(id.clone(), link.facts, self.inbox.clone()));
        self.links.insert(id, Link { asks: link.asks, probe: None, watch: None });
    }

    /// Says that a session could not be opened, as its holder would have.
    fn report_failed_open(&self, session: SessionId, message: String) {
        let fact = Fact { seq: 1, body: FactBody::OpenFailed { message } };
        let inbox = self.inbox.clone();
        tokio::spawn(async move { drop(inbox.send(Event::Fact { session, fact }).await) });
    }

    fn forget(&mut self, session: &SessionId, tmp: PathBuf) {
        if let Some(link) = self.links.remove(session) {
            // All of it is on record: the holder need not wait for another coordinator.
            drop(link.asks.send(&Ask::Ack { through: u64::MAX }));
            if let Some(probe) = link.probe {
                probe.abort();
            }
        }
        // Only a holder that was killed leaves it.
        drop(std::fs::remove_dir_all(driver_folder(&tmp)));
        drop(std::fs::remove_file(inputs_file(&tmp)));
        // Its holder has removed it by now, unless it was killed. Removing is quick for an empty
        // folder and may be long for a full one.
        match std::fs::remove_dir(&tmp) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => {
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = std::fs::remove_dir_all(&tmp) {
                        tracing::warn!(folder = %tmp.display(), %error, "cannot remove a session's private folder");
                    }
                });
            }
        }
    }

    fn shelve(&mut self, folder: &Path, entries: &[Entry]) {
        // A session that could not even get its folder leaves nothing.
        if let Err(error) = self.records.append(folder, entries)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %folder.display(), %error, "a session's record cannot be written");
        }
    }

    fn post(&mut self, seq: u64, entry: BoardEntry) {
        self.board_changed = true;
        let key = entry.key.clone();
        let told = (!self.watchers.is_empty()).then(|| entry.clone());
        match self.board.apply(seq, entry) {
            Ok(applied) if applied.changed => {
                told.iter().for_each(|entry| self.watchers.tell(entry));
            }
            Ok(_) => {}
            Err(error) => tracing::error!(key, %error, "the board does not take an entry"),
        }
    }

    pub(super) fn view(&self) -> BoardView {
        self.board.view(&self.workspace).unwrap_or_else(|error| {
            tracing::error!(%error, "the board cannot be read");
            BoardView::of(self.workspace.clone(), Vec::new())
        })
    }
}

async fn forward(session: SessionId, mut facts: Facts, inbox: mpsc::Sender<Event>) {
    while let Some(fact) = facts.recv().await {
        let closed = matches!(fact.body, FactBody::Closed { .. } | FactBody::OpenFailed { .. });
        if inbox.send(Event::Fact { session: session.clone(), fact }).await.is_err() || closed {
            return;
        }
    }
    drop(inbox.send(Event::LinkLost { session }).await);
}
