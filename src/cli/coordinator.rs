//! The doors between the command line and the daemon: where a workspace's coordinator is, and
//! becoming one. This is the one file of the command line that knows the daemon.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::client::{self, Connection, WireError};
use super::failure::{Failure, Kind, reason};
use super::sources::{current_folder, load_agents, real_folder};
use super::starter::{connect_or_start, is_absence, is_kept, kept_environment};
use super::{log, output};
use crate::control::{Answer, Call};
use crate::daemon;
use crate::daemon::http::{HttpOptions, HttpPlace};
use crate::daemon::litter::{self, LitterError, RETENTION_MS};
pub(super) use crate::daemon::litter::{Collection, Kept, Litter};
use crate::daemon::ownership::{self, TakeError, held};
use crate::daemon::serve::{ServeError, ServeOptions, serve};
use crate::daemon::shelf;
pub(super) use crate::daemon::shelf::{Expired, Shelved, results};
use crate::daemon::workspace::{Places, Workspace, WorkspaceError};
use crate::domain::ids::SessionId;
use crate::report::checkup::{self, Checkup};
use crate::session::{door, machine};

/// Where a verb looks for what is there, and what it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Around {
    /// The root.
    pub(super) root: PathBuf,
    /// Its workspace, if it is one already.
    pub(super) place: Option<Place>,
}

/// A workspace as the command line sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its root, absolute.
    pub(super) root: PathBuf,
    /// Where its coordinator keeps the journal and the reports.
    pub(super) state: PathBuf,
    /// Where its coordinator listens.
    pub(super) socket: PathBuf,
    /// Where its sessions wait while it has none.
    pub(super) doors: PathBuf,
}

impl Place {
    /// What its coordinators say.
    #[must_use]
    pub(super) fn log(&self) -> PathBuf {
        self.state.join(log::LOG)
    }

    /// Connects to its coordinator; `None` when none runs.
    ///
    /// # Errors
    /// When one runs that cannot be talked to.
    pub(super) fn connect(&self) -> Result<Option<Connection>, Failure> {
        match Connection::open(&self.socket) {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to its coordinator, and starts one where none runs.
    ///
    /// # Errors
    /// When none can be started in time, or one runs that cannot be talked to.
    pub(super) fn connect_or_start(&self) -> Result<Connection, Failure> {
        connect_or_start(self)
    }
}

impl From<Workspace> for Place {
    fn from(workspace: Workspace) -> Self {
        Self {
            root: workspace.root().to_owned(),
            state: workspace.state().to_owned(),
            socket: workspace.socket(),
            doors: workspace.doors(),
        }
    }
}

/// What sessions have left in the state folder.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    sessions: PathBuf,
    doors: PathBuf,
}

impl Shelf {
    /// That of a workspace.
    #[must_use]
    pub(super) fn of(place: &Place) -> Self {
        Self { sessions: place.state.join("sessions"), doors: place.doors.clone() }
    }

    /// True for a session that goes on and waits for a coordinator.
    #[must_use]
    pub(super) fn is_waiting(&self, id: &SessionId) -> bool {
        door::file(&self.doors, id).exists()
    }

    /// A session's folder.
    #[must_use]
    pub(super) fn folder(&self, id: &SessionId) -> PathBuf {
        self.sessions.join(id.as_str())
    }

    /// A session's record; `None` where it has left none.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub(super) fn read(&self, id: &SessionId) -> Result<Option<Shelved>, Failure> {
        match shelf::read(&self.sessions, id) {
            Ok(shelved) => Ok(Some(shelved)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::file(&self.folder(id), "read", &error)),
        }
    }

    /// All sessions that have left something.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(super) fn ids(&self) -> Result<Vec<SessionId>, Failure> {
        shelf::ids(&self.sessions).map_err(|error| Failure::file(&self.sessions, "read", &error))
    }

    /// The sessions whose retention is over.
    ///
    /// # Errors
    /// When their list cannot be read.
    pub(super) fn expired(&self) -> Result<Vec<Expired>, Failure> {
        shelf::expired(&self.sessions)
            .map_err(|error| Failure::file(&self.sessions, "read", &error))
    }
}

/// The workspace in `root`, made one if it is not yet. `name` is the manifest's id, if it has one.
///
/// # Errors
/// When it cannot be used.
pub(super) fn open(root: &Path, name: Option<&str>) -> Result<Place, Failure> {
    Ok(Workspace::open(&places()?, root, name)?.into())
}

/// The workspace that a command in `folder` belongs to: the one around it, or else the user's
/// private one.
///
/// # Errors
/// When it cannot be used.
pub(super) fn for_command(folder: &Path) -> Result<Place, Failure> {
    let places = places()?;
    let root = match places.discover(folder) {
        Some(root) => root,
        None => places.private_root()?,
    };
    Ok(Workspace::open(&places, &root, None)?.into())
}

/// What there is in the root that was told, or else around here, or else in the user's private
/// workspace. Makes nothing but the latter's folder.
///
/// # Errors
/// When the root cannot be looked at.
pub(super) fn look(told: Option<&Path>) -> Result<Around, Failure> {
    let places = places()?;
    let root = match told {
        Some(root) => real_folder(root)?,
        None => match places.discover(&current_folder()?) {
            Some(root) => root,
            None => places.private_root()?,
        },
    };
    let place = Workspace::look(&places, &root)?.map(Place::from);
    Ok(Around { root, place })
}

/// The machine and the workspace that was told, or is around here, looked at. Makes nothing.
///
/// # Errors
/// When what was told is no folder.
pub(super) fn check_up(told: Option<&Path>, fix: bool) -> Result<Checkup, Failure> {
    let told = told.map(real_folder).transpose()?;
    let mut findings = checkup::judge(&machine::look());
    let (root, found) = daemon::checkup::look(told.as_deref(), &current_folder()?, fix)?;
    findings.extend(found);
    Ok(Checkup::of(root.map(|root| root.display().to_string()), findings))
}

/// The root of the workspace around `folder`, if there is one.
///
/// # Errors
/// When nothing says where workspaces keep their state.
pub(super) fn root_around(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    Ok(places()?.discover(folder))
}

fn places() -> Result<Places, Failure> {
    Ok(Places::from_env(|name| std::env::var_os(name))?)
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        let kind = match &error {
            WorkspaceError::NoRoot { .. } | WorkspaceError::BadName(_) => Kind::Usage,
            _ => Kind::Machine,
        };
        Self::new(kind, error.to_string())
    }
}

/// How a coordinator comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// A client started it.
    ForClient,
    /// By hand, where none runs.
    First,
    /// By hand, in the place of one that runs.
    InPlace,
}

/// How long a coordinator that hands over may take to end.
const REPLACE_MAX: Duration = Duration::from_secs(15);
/// How many that have come in between are displaced as well.
const REPLACED_MAX: usize = 5;

/// Becomes the workspace's coordinator until its work is done. One that a client started leaves
/// the client's terminal first, and either way the caller's environment.
///
/// # Errors
/// When it cannot serve.
pub(super) fn become_coordinator(
    root: PathBuf,
    how: Start,
    http: Option<SocketAddr>,
) -> Result<(), Failure> {
    let for_client = how == Start::ForClient;
    if for_client {
        // Refused only to the leader of a process group, as when a person tries this by hand.
        let _still_attached = rustix::process::setsid();
    }
    shed_environment()?;
    let http = http.map(|address| HttpOptions { address, told: tell_http });
    let mut patience = Duration::ZERO;
    for _ in 0..REPLACED_MAX {
        if how == Start::InPlace && displace(&root)? {
            patience = REPLACE_MAX;
        }
        let options = ServeOptions { root: root.clone(), for_client, patience, http };
        return match serve(&options) {
            // Another client's has slipped in between.
            Err(ServeError::Take(TakeError::Held(_))) if how == Start::InPlace => continue,
            Err(error @ ServeError::Take(TakeError::Held(_))) => {
                Err(Failure::new(Kind::Coordinator, error.to_string())
                    .hint("`callboard serve --replace` takes its place: runs and sessions go on"))
            }
            Err(ServeError::Http { address, source }) => Err(no_http(address, &source)),
            served => served.map_err(no_coordinator),
        };
    }
    let message = "one coordinator after the other has come in between".to_owned();
    Err(Failure::new(Kind::Coordinator, message).hint("call again"))
}

/// Has the coordinator that runs leave everything to the next one. False when none runs.
fn displace(root: &Path) -> Result<bool, Failure> {
    let Some(place) = Workspace::look(&places()?, root)?.map(Place::from) else { return Ok(false) };
    match client::hand_over(&place.socket) {
        Ok(()) => Ok(true),
        Err(error) if is_absence(&error) => Ok(held(root).is_some()),
        Err(error) => Err(error.into()),
    }
}

fn no_coordinator(error: ServeError) -> Failure {
    match error {
        ServeError::Journal(error) => error.into(),
        ServeError::Append(error) => error.into(),
        ServeError::Workspace(error) => error.into(),
        ServeError::Io { doing, source } => {
            Failure::new(Kind::Machine, format!("{doing}: {}", reason(&source)))
        }
        ServeError::Take(error @ TakeError::Io { .. }) => {
            Failure::new(Kind::Machine, error.to_string())
                .hint("it has to be a plain file of yours: move away what is in its place")
        }
        error if error.is_the_disks() => Failure::new(Kind::Machine, error.to_string())
            .hint("`callboard doctor` says what is wrong with the state folder's disk"),
        error => Failure::new(Kind::Coordinator, error.to_string()),
    }
}

/// What the workspace keeps longer than it has to; removed with `apply`.
///
/// # Errors
/// When it cannot be looked at or removed, or nobody can tell who has the workspace.
pub(super) fn collect(told: Option<&Path>, apply: bool) -> Result<Collection, Failure> {
    let around = look(told)?;
    let Some(workspace) = Workspace::look(&places()?, &around.root)? else {
        let schema_version = crate::domain::result::SCHEMA_VERSION;
        return Ok(Collection {
            schema_version,
            applied: apply,
            bytes: 0,
            items: Vec::new(),
            kept: Vec::new(),
        });
    };
    let agents = load_agents(None, &around.root)?;
    let retention_ms = agents.session_defaults.retention_ms.unwrap_or(RETENTION_MS);
    let (open, _turn) = match around.place.as_ref().map(Place::connect).transpose()?.flatten() {
        Some(mut connection) => (open_sessions(&mut connection)?, None),
        // Without one nobody may begin to use what is being removed.
        None if apply => {
            let now = super::verbs::session::reading::now();
            let taken = ownership::take(&workspace, env!("CARGO_PKG_VERSION"), now);
            let turn = taken.map_err(|error| {
                Failure::new(Kind::Coordinator, error.to_string()).hint("call again in a moment")
            })?;
            (HashSet::new(), Some(turn))
        }
        None => (HashSet::new(), None),
    };
    litter::collect(&workspace, open, retention_ms, apply).map_err(|error| match error {
        LitterError::Journal(error) => error.into(),
        LitterError::Io { path, source } => Failure::file(&path, "look after", &source),
    })
}

fn open_sessions(connection: &mut Connection) -> Result<HashSet<SessionId>, Failure> {
    match connection.ask(Call::ListSessions)? {
        Answer::Sessions { sessions } => {
            Ok(sessions.into_iter().map(|session| session.session_id).collect())
        }
        _ => Err(WireError::Unexpected { call: "list sessions" }.into()),
    }
}

fn tell_http(place: &HttpPlace) {
    output::note(format!(
        "HTTP at {}; its token is in `{}`\n",
        place.url,
        place.token_file.display()
    ));
}

fn no_http(address: SocketAddr, error: &std::io::Error) -> Failure {
    let message = format!("cannot serve HTTP at {address}: {}", reason(error));
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "another process has that port: name another one, or 0 for any",
        ErrorKind::PermissionDenied => "ports below 1024 are the system's: name a higher one",
        ErrorKind::AddrNotAvailable => "that address is not one of this machine's",
        _ => "the address and the state folder have to be usable",
    };
    Failure::new(Kind::Machine, message).hint(hint)
}

/// Executes this program anew when its environment holds more than it may: what `/proc` shows of
/// a process is what it was started with, whatever it removes later.
fn shed_environment() -> Result<(), Failure> {
    if std::env::vars_os().all(|(name, _)| is_kept(&name)) {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe")
        .arg0("callboard")
        .args(std::env::args_os().skip(1))
        .env_clear()
        .envs(kept_environment())
        .exec();
    Err(Failure::new(
        Kind::Machine,
        format!("cannot execute this program anew: {}", reason(&error)),
    ))
}
