//! The thread that speaks to git, for all worktrees of the workspace: one undertaking after the
//! other, in the order that they were asked for. So worktrees are made one at a time, and merged in
//! the order in which their tasks succeeded.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as std_mpsc;

use tokio::sync::mpsc;

use crate::control::Submit;
use crate::daemon::inbox::Event;
use crate::daemon::sessions::Asker;
use crate::domain::ids::{AttemptId, RunId, SessionId, TaskId};
use crate::domain::worktree::{Base, Tenancy, folder_of};
use crate::worktree::{Creation, End, Proof, Removal, Removed, Returning, Survey, Work, drive};

/// What it can be asked for. At most one of a kind goes on for each attempt, and attempts are few.
#[derive(Debug)]
pub(in crate::daemon) enum Job {
    /// Find out where a run begins. Comes back as `Event::Surveyed`.
    Survey {
        /// Who submits it.
        asker: Asker,
        /// The run.
        submit: Box<Submit>,
        /// Whether its results are to be merged.
        merges: bool,
    },
    /// Make an attempt's worktree: `Event::WorktreeMade`.
    Make {
        /// Which.
        tenancy: Box<Tenancy>,
    },
    /// Bring back what an attempt has left in it: `Event::WorktreeReturned`.
    Return {
        /// Which.
        tenancy: Box<Tenancy>,
    },
    /// Remove it, on proof that nothing is lost. Nothing comes back: what is kept is seen on the disk.
    Remove {
        /// Which.
        tenancy: Box<Tenancy>,
        /// What proves it.
        proof: Proof,
    },
    /// Likewise all that earlier coordinators have left, but for those of open sessions.
    Leftovers {
        /// The sessions.
        open: HashSet<SessionId>,
    },
}

type Work0 = Box<dyn FnOnce() + Send>;

/// The coordinator's end of the thread.
pub(in crate::daemon) struct Repository {
    worktrees: PathBuf,
    inbox: mpsc::Sender<Event>,
    work: Option<std_mpsc::Sender<Work0>>,
    /// What earlier coordinators have left has been looked at.
    has_looked: bool,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Repository").field("worktrees", &self.worktrees).finish_non_exhaustive()
    }
}

impl Repository {
    /// For worktrees in that folder. The thread is started when there is something to do.
    pub(in crate::daemon) fn new(worktrees: PathBuf, inbox: mpsc::Sender<Event>) -> Self {
        Self { worktrees, inbox, work: None, has_looked: false }
    }

    /// Removes what earlier coordinators have left, as far as that loses nothing, but for what these
    /// sessions have; the first time.
    pub(in crate::daemon) fn look_for_leftovers(&mut self, open: &[SessionId]) {
        if !std::mem::replace(&mut self.has_looked, true) && self.worktrees.exists() {
            self.take(Job::Leftovers { open: open.iter().cloned().collect() });
        }
    }

    /// Has a job done.
    pub(in crate::daemon) fn take(&mut self, job: Job) {
        let (worktrees, inbox) = (self.worktrees.clone(), self.inbox.clone());
        self.then(move || {
            if let Some(event) = perform(job, &worktrees) {
                drop(inbox.blocking_send(event));
            }
        });
    }

    /// Has something done behind all jobs so far.
    pub(in crate::daemon) fn then(&mut self, work: impl FnOnce() + Send + 'static) {
        let queue = self.work.get_or_insert_with(|| {
            let (sender, receiver) = std_mpsc::channel::<Work0>();
            std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
            sender
        });
        if queue.send(Box::new(work)).is_err() {
            tracing::error!("the thread that speaks to git is gone");
        }
    }
}

fn perform(job: Job, worktrees: &Path) -> Option<Event> {
    match job {
        Job::Survey { asker, submit, merges } => {
            let found = drive(&mut Survey::new(&submit.plan.root, merges));
            let found = found.unwrap_or_else(|| Err("git does not come to an end".to_owned()));
            Some(Event::Surveyed { asker, submit, found: found.map(Box::new) })
        }
        Job::Make { tenancy } => {
            let attempt = tenancy.attempt.clone();
            Some(Event::WorktreeMade { attempt, made: make(worktrees, *tenancy) })
        }
        Job::Return { tenancy } => {
            let tenancy = recorded(worktrees, *tenancy);
            let attempt = tenancy.attempt.clone();
            let scratch = beside(worktrees, &attempt, ".merge");
            let work = Work { tenancy, scratch, is_old_git: false };
            let why = || End::Broken { why: "git does not come to an end".to_owned() };
            let end = drive(&mut Returning::new(work)).unwrap_or_else(why);
            Some(Event::WorktreeReturned { attempt, end: Box::new(end) })
        }
        Job::Remove { tenancy, proof } => {
            let _told = remove(worktrees, recorded(worktrees, *tenancy), proof);
            None
        }
        Job::Leftovers { open } => {
            for tenancy in all(worktrees) {
                if !open.contains(&tenancy.session) {
                    let _told = remove(worktrees, tenancy, Proof::Merged);
                }
            }
            None
        }
    }
}

fn make(worktrees: &Path, mut tenancy: Tenancy) -> Result<(), String> {
    let file = file_of(worktrees, &tenancy.attempt);
    let trouble = |error: io::Error| format!("cannot write `{}`: {error}", file.display());
    write(&file, &tenancy).map_err(trouble)?;
    let created = drive(&mut Creation::new(tenancy.clone()));
    match created.unwrap_or_else(|| Err("git does not come to an end".to_owned())) {
        Ok(commit) => {
            // Known from here on: the run's branch moves.
            tenancy.base = Base::Commit { commit };
            write(&file, &tenancy).map_err(trouble)
        }
        Err(why) => {
            forget(worktrees, &tenancy.attempt);
            Err(format!("no worktree can be made in `{}`: {why}", tenancy.repository.display()))
        }
    }
}

/// Removes a worktree, or marks it as kept.
pub(in crate::daemon) fn remove(worktrees: &Path, tenancy: Tenancy, proof: Proof) -> Removed {
    let removal = Removal::new(tenancy.clone(), proof);
    let is_missing = tenancy.folder.symlink_metadata().is_err();
    let mut removal = if is_missing { removal.of_missing() } else { removal };
    let kept = || Removed::Kept { why: "git does not come to an end".to_owned() };
    let removed = drive(&mut removal).unwrap_or_else(kept);
    match &removed {
        Removed::Gone { .. } => forget(worktrees, &tenancy.attempt),
        Removed::Kept { why } => {
            tracing::warn!(worktree = %tenancy.folder.display(), why, "a worktree is kept");
            let file = file_of(worktrees, &tenancy.attempt);
            let settled = Tenancy { is_settled: true, ..tenancy };
            if let Err(error) = write(&file, &settled) {
                tracing::warn!(file = %file.display(), %error, "cannot be written");
            }
        }
    }
    removed
}

/// The worktrees that are on record.
pub(in crate::daemon) fn all(worktrees: &Path) -> Vec<Tenancy> {
    let folders = std::fs::read_dir(worktrees).into_iter().flatten().flatten();
    let files =
        folders.flat_map(|run| std::fs::read_dir(run.path()).into_iter().flatten().flatten());
    let files = files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut all: Vec<Tenancy> = files.filter_map(|file| read(&file)).collect();
    all.sort_by(|a, b| a.attempt.cmp(&b.attempt));
    all
}

/// The worktrees of a task that were kept once its attempts were over.
pub(in crate::daemon) fn kept(worktrees: &Path, run: &RunId, task: &TaskId) -> Vec<String> {
    let of_task = |tenancy: &Tenancy| {
        tenancy.is_settled && tenancy.attempt.run == *run && tenancy.attempt.task == *task
    };
    let kept = all_of(worktrees, run).into_iter().filter(of_task);
    kept.map(|tenancy| tenancy.folder.display().to_string()).collect()
}

fn all_of(worktrees: &Path, run: &RunId) -> Vec<Tenancy> {
    let entries = std::fs::read_dir(worktrees.join(run.as_str())).into_iter().flatten().flatten();
    let mut all: Vec<Tenancy> = entries.filter_map(|entry| read(&entry.path())).collect();
    all.sort_by(|a, b| a.attempt.cmp(&b.attempt));
    all
}

fn file_of(worktrees: &Path, attempt: &AttemptId) -> PathBuf {
    beside(worktrees, attempt, ".json")
}

fn beside(worktrees: &Path, attempt: &AttemptId, ending: &str) -> PathBuf {
    let mut file = worktrees.join(folder_of(attempt)).into_os_string();
    file.push(ending);
    file.into()
}

/// What is on record of it, or as it is told.
fn recorded(worktrees: &Path, told: Tenancy) -> Tenancy {
    read(&file_of(worktrees, &told.attempt)).unwrap_or(told)
}

fn read(file: &Path) -> Option<Tenancy> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Whole or not at all.
fn write(file: &Path, tenancy: &Tenancy) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let fresh = file.with_extension("new");
    std::fs::write(&fresh, serde_json::to_vec(tenancy)?)?;
    std::fs::rename(&fresh, file)
}

fn forget(worktrees: &Path, attempt: &AttemptId) {
    let file = file_of(worktrees, attempt);
    if let Err(error) = std::fs::remove_file(&file)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %file.display(), %error, "cannot be removed");
    }
    // The last one of its run leaves an empty folder.
    if let Some(folder) = file.parent() {
        drop(std::fs::remove_dir(folder));
    }
}
