//! From nothing to a coordinator that listens, and back.
//!
//! The order matters. The lock comes first: nothing else may be touched without it. The journal
//! is replayed before the board is opened, which is a fold of it. The socket comes last, so that
//! whoever can connect is served.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::clock::Clock;
use super::crew::Crew;
use super::desk::{Desk, Folders};
use super::doors;
use super::history::History;
use super::http::{self, Http, HttpOptions};
use super::inbox::{Event, INBOX_EVENTS_MAX};
use super::ownership::{self, Owner, TakeError};
use super::ports::Posted;
use super::reports;
use super::stage::start_stage;
use super::touches::Watching;
use super::workspace::{Places, Workspace, WorkspaceError};
use super::{adoption, compaction, coordinator};
use crate::board::{Board, BoardError};
use crate::domain::board::replica::Replica;
use crate::domain::event::{Event as Record, Stamped};
use crate::domain::ids::{RunId, WorkspaceId};
use crate::domain::time::Timestamp;
use crate::journal::snapshot::Reach;
use crate::journal::{AppendError, Journal, JournalError};
use crate::scheduler::recall::Recall;
use crate::session::identity;
use crate::session::machine::means;

/// Between two tries to take a workspace from one that is ending.
const TAKE_PAUSE: Duration = Duration::from_millis(5);

/// What to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The workspace's root.
    pub root: PathBuf,
    /// True when a client started it: it ends once nobody needs it.
    pub for_client: bool,
    /// Where to serve over HTTP; `None` for nowhere.
    pub http: Option<HttpOptions>,
    /// How long to wait for a coordinator that hands over.
    pub patience: Duration,
}

/// Why a workspace cannot be served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its folders.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Its lock.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// Its journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A record that has to be durable is not.
    #[error("cannot go on without a journal: {0}")]
    Append(#[from] AppendError),
    /// Its board.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The address that HTTP is to be served at.
    #[error("cannot serve HTTP at {address}: {source}")]
    Http {
        /// Where.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything that the system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ServeError {
    /// True when the disk has refused what the board needed: it is full, or read-only.
    pub fn is_the_disks(&self) -> bool {
        let Self::Board(error) = self else { return false };
        error.is_the_disks()
    }
}

fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> ServeError {
    move |source| ServeError::Io { doing, source }
}

/// Owns the workspace until nobody needs it, or SIGTERM or SIGINT.
///
/// One that a client started and finds the workspace owned by another has nothing to do: the
/// client will talk to that one.
///
/// # Errors
/// When the workspace cannot be taken or served, or the journal fails.
pub fn serve(options: &ServeOptions) -> Result<(), ServeError> {
    let places = Places::from_env(|name| std::env::var_os(name))?;
    let workspace = Workspace::open(&places, &options.root, None)?;
    let owner = match take(&workspace, options.patience) {
        Err(TakeError::Held(_)) if options.for_client => return Ok(()),
        Err(TakeError::Io { source, .. }) if is_read_only(&source) => {
            let root = workspace.root().to_owned();
            return Err(WorkspaceError::ReadOnly { root }.into());
        }
        taken => taken?,
    };
    let http = options.http.map(|http| {
        let refused = |source| ServeError::Http { address: http.address, source };
        http::open(workspace.state(), &http).map_err(refused)
    });
    let http = http.transpose()?;
    // What a dead holder leaves behind becomes ours, to be ended.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| io("becoming a subreaper")(error.into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io("starting the runtime"))?;
    let served = runtime.block_on(serve_owned(&workspace, owner, http, options.for_client));
    // Blocking work that still goes on, such as removing a session's folder, is not cut off.
    runtime.shutdown_timeout(Duration::from_secs(5));
    served
}

/// Takes the workspace; from one that is ending, within `patience`.
fn take(workspace: &Workspace, patience: Duration) -> Result<Owner, TakeError> {
    let started = Instant::now();
    loop {
        let now = Clock::start(Timestamp::default()).now();
        match ownership::take(workspace, env!("CARGO_PKG_VERSION"), now) {
            Err(TakeError::Held(_) | TakeError::HeldUnknown { .. })
                if started.elapsed() < patience =>
            {
                std::thread::sleep(TAKE_PAUSE);
            }
            taken => return taken,
        }
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn no_socket(workspace: &Workspace, source: std::io::Error) -> WorkspaceError {
    let path = workspace.socket();
    match source.kind() {
        std::io::ErrorKind::AlreadyExists => {
            WorkspaceError::Strange { path, what: "is not the coordinator's socket".to_owned() }
        }
        _ => WorkspaceError::Io { doing: "opening the socket", path, source },
    }
}

fn compact(workspace: &Workspace) {
    match compaction::compact_when_due(&workspace.journal(), Reach::End) {
        Ok(true) => tracing::info!("took a snapshot of the journal"),
        Ok(false) => {}
        // Without one the journal itself is read; what is wrong with that is told there.
        Err(error) => tracing::warn!(%error, "no snapshot of the journal can be taken"),
    }
}

async fn serve_owned(
    workspace: &Workspace,
    mut owner: Owner,
    http: Option<Http>,
    for_client: bool,
) -> Result<(), ServeError> {
    compact(workspace);
    let mut history = History::default();
    let (journal, replay) = Journal::open(&workspace.journal(), |line| history.fold(line))?;
    if let Some(torn) = &replay.torn {
        tracing::warn!(segment = %torn.segment.display(), bytes = torn.bytes, "cut a torn tail off the journal");
    }
    let clock = Clock::start(history.last_at);
    let (mut board, remark) = open_board(workspace, &history, replay.last_seq)?;
    history.board.clear();
    let id = workspace_id(workspace);
    let folders = folders(workspace);
    let started = Stamped {
        at: clock.now(),
        event: Record::CoordinatorStarted {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    let epoch = journal.append(vec![started], true).await?.first_seq;
    let stage = start_stage().map_err(io("starting the stage"))?;
    let listener = owner.listen().map_err(|error| no_socket(workspace, error))?;
    listener.set_nonblocking(true).map_err(io("opening the socket"))?;
    let listener =
        tokio::net::UnixListener::from_std(listener).map_err(io("opening the socket"))?;
    write_inputs(&folders.inputs).map_err(io("writing the inputs file"))?;
    let version = board.tick(clock.now());
    let mut replica = Replica::default();
    for entry in board.replica("")? {
        replica.merge(entry);
    }
    let posted = Posted::of(&board.view(&id)?);
    // Whoever connects meanwhile waits to be accepted.
    let (left, links) = adoption::adopt(&folders, epoch, history.expected()).await;
    adoption::clear_private(&folders.tmp, &left);
    let (sender, inbox) = mpsc::channel(INBOX_EVENTS_MAX);
    let mut crew = Crew::new(id.clone(), folders.clone(), stage, board, epoch, sender.clone());
    for (session, link) in links {
        crew.adopt(session, link);
    }
    let recall = std::mem::take(&mut history.recall);
    tell_misfits(&recall);
    let unreported = unreported(&recall, &folders.runs);
    let here = identity::own().map_err(io("reading /proc"))?;
    let mut desk = Desk::new(id, folders, history, version, clock.now(), for_client)
        .of_user(rustix::process::getuid().as_raw())
        .remarking(remark.into_iter().collect())
        .watching(Watching::of(workspace.resources(), means()))
        .with_board(replica)
        .at(here);
    desk.recover(recall, &unreported, left, posted, clock.now());
    let doors = tokio::spawn(doors::listen(listener, sender.clone()));
    let signals = tokio::spawn(watch_signals(sender));
    let (serving, measures) = http.map(Http::serve).unzip();
    // Without a server nobody asks.
    let measures = measures.unwrap_or_else(|| mpsc::channel(1).1);
    // A task of its own: what others have for it is heard in the same turn of the runtime. Whatever
    // the runtime waits for itself first asks the kernel once more for events.
    let ended = tokio::spawn(coordinator::run(desk, crew, journal, clock, inbox, measures)).await;
    drop(serving);
    doors.abort();
    signals.abort();
    drop(owner);
    match ended {
        Ok(ended) => Ok(ended?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(io("running the coordinator")(std::io::Error::other(error))),
        },
    }
}

/// Says in the log what of the journal's records makes no sense.
fn tell_misfits(recall: &Recall) {
    let (misfits, count) = recall.misfits();
    for misfit in misfits {
        let (run, at) = (&misfit.run, misfit.at.0);
        tracing::warn!(%run, at, why = %misfit.why, "a record of the journal does not fit, and is passed over");
    }
    if count > misfits.len() as u64 {
        tracing::warn!(count, "more records of the journal do not fit");
    }
}

/// The runs that ended right before an earlier coordinator was lost: they have no report yet.
fn unreported(recall: &Recall, runs: &Path) -> BTreeSet<RunId> {
    let lacks_report = |run: &&RunId| !reports::file(runs, run).exists();
    recall.ended().filter(lacks_report).cloned().collect()
}

/// Opens the board and brings it up to date with the journal. With it goes what its user should
/// know, if anything.
fn open_board(
    workspace: &Workspace,
    history: &History,
    last_seq: u64,
) -> Result<(Board, Option<String>), ServeError> {
    let (mut board, recovered) = Board::open(&workspace.board(), workspace.key())?;
    let mut remark = recovered.map(|recovered| {
        tracing::warn!(cause = recovered.cause, "the board cannot be used as it is");
        format!(
            "the board could not be opened and was made anew from the journal: nothing is lost; the \
             old one is `{}`",
            recovered.aside.display()
        )
    });
    if board.folded_to() > last_seq {
        remark = Some(format!(
            "the journal ends at record {last_seq}, and the board knew {}: records at the journal's \
             end are lost, and the board was made anew from what is left",
            board.folded_to()
        ));
        board.clear()?;
    }
    if let Some(remark) = &remark {
        tracing::warn!("{remark}");
    }
    let folded_to = board.folded_to();
    for (seq, entry) in history.board.iter().filter(|(seq, _)| *seq > folded_to) {
        board.apply(*seq, entry.clone())?;
    }
    // A removal that the journal's snapshot has left out.
    let known: HashSet<&str> = history.board.iter().map(|(_, entry)| entry.key.as_str()).collect();
    board.retain(|key| known.contains(key))?;
    board.collect(history.last_at)?;
    Ok((board, remark))
}

fn folders(workspace: &Workspace) -> Folders {
    let runtime = workspace.runtime();
    Folders {
        root: workspace.root().to_owned(),
        sessions: workspace.state().join("sessions"),
        profiles: workspace.state().join("profiles"),
        journal: workspace.journal(),
        runs: workspace.state().join("runs"),
        tmp: runtime.join("t"),
        doors: workspace.doors(),
        socket: workspace.socket(),
        board: runtime.join("board.json"),
        inputs: runtime.join("inputs.json"),
    }
}

/// The name in front of the key in the state folder's own.
fn workspace_id(workspace: &Workspace) -> WorkspaceId {
    let folder = workspace.state().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = folder.strip_suffix(&format!("-{}", workspace.key())).unwrap_or(&folder);
    WorkspaceId::new(name)
}

/// What tasks find in `CALLBOARD_INPUTS` that come after none which publishes anything: they can rely
/// on the file and its shape all the same.
fn write_inputs(file: &Path) -> std::io::Result<()> {
    std::fs::write(file, "{\"schema_version\":1,\"inputs\":{}}\n")
}

async fn watch_signals(inbox: mpsc::Sender<Event>) {
    let (Ok(mut term), Ok(mut int), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hangup.recv() => {}
        }
        if inbox.send(Event::Terminate).await.is_err() {
            return;
        }
    }
}
