//! The session's shell and its private channels.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SeekFrom, ftruncate, memfd_create, seek};

use crate::command::event::Fate;
use crate::domain::session::SessionSpec;
use crate::domain::shown_path;

use super::super::driver::{
    self, Report, command_document, descriptor, may_end_in_pipeline, take_report,
};
use super::super::os::notify::Trace;
use super::super::os::pty::Terminal;
use super::super::os::spawn::{self, Program};
use super::super::shells::find::find;
use super::super::shells::folder::Folder;
use super::super::shells::table::{self, Table, Takes};
use super::checker::write_whole;
use super::proc;

/// A report is short; who writes more into the channel is not the driver.
const REPORT_BYTES_MAX: usize = 256 * 1024;

/// A shell that traps interrupts says nothing of one; it is not waited for longer than this.
const SETTLE_MS_MAX: u64 = 50;

/// How long a shell at a prompt of its own may take to come back before it is told again.
const NUDGE_EVERY_MS: u64 = 100;
/// One that has to be told more often does not come back.
const NUDGES_MAX: u32 = 50;

/// What the shell is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has not reached the driver's loop yet.
    Starting,
    /// It waits for a command.
    Idle,
    /// It runs one.
    Busy,
    /// Its process is gone.
    Gone(Fate),
}

/// The shell of a session.
pub(super) struct Shell {
    pub pid: i32,
    pub doing: Doing,
    /// Its program, to know it by.
    pub program: Option<(u64, u64)>,
    /// What it is like.
    pub table: &'static Table,
    /// Its program, which also checks texts.
    pub path: CString,
    /// Where reports come from; `None` once the shell has closed it.
    pub reports: Option<OwnedFd>,
    way: Way,
    said: Vec<u8>,
    nonce: u64,
    /// It has aliases.
    has_aliases: bool,
    /// The open command's last pipeline has one member, its status: it is not asked for more.
    is_single: bool,
    /// It has said that it is idle since it was given the open command: an interrupt took the
    /// command from it.
    said_idle: bool,
    /// It was sent an interrupt for the open command.
    interrupted: bool,
    /// An interrupt has missed its command: until the shell has taken it, or this time has come,
    /// it gets no other.
    settles_at_ms: Option<u64>,
    /// It stands at a prompt of its own: when it is told to come back next, and how often it was.
    at_prompt: Option<(u64, u32)>,
    /// It was asked once more for the report that is missing.
    asked_again: bool,
    /// `$PWD` as last reported.
    cwd: Vec<u8>,
}

/// How commands reach it.
enum Way {
    /// Over descriptors. `go` is `None` once the shell was let go;
    /// `command` holds `length` bytes.
    Descriptors { go: Option<OwnedFd>, command: File, length: usize },
    /// Through named pipes.
    Pipes(Folder),
}

impl Shell {
    /// Starts the session's shell with its driver.
    ///
    /// # Errors
    /// What could not be done, and where.
    pub(super) fn start(
        spec: &SessionSpec,
        main: &Terminal,
        stderr: &Terminal,
        groups: &[OwnedFd],
        trace: Option<&Trace>,
    ) -> io::Result<Self> {
        let table = table::of(spec.shell);
        let path = find(table, spec)?;
        let (pid, way, reports) = match &table.takes {
            Takes::Descriptors => {
                let shares = Shares { groups, trace };
                start_with_descriptors(table, &path, spec, [main, stderr], &shares)?
            }
            Takes::Pipes(pipes) => {
                let (folder, reports) = Folder::create(&spec.tmp, table.name, pipes, &spec.cwd)?;
                if !spec.cwd.is_dir() {
                    let message = format!("cannot go into {}", spec.cwd.display());
                    return Err(io::Error::new(io::ErrorKind::NotFound, message));
                }
                let cwd = if pipes.starts_in_folder { &folder.path } else { &spec.cwd };
                let slave = main.slave.as_fd();
                let pid = spawn::start(&Program {
                    path: path.clone(),
                    argv: (table.argv)(&folder.path),
                    env: environment(spec)?,
                    cwd: Some(CString::new(cwd.as_os_str().as_bytes())?),
                    descriptors: vec![(slave, 0), (slave, 1), (stderr.slave.as_fd(), 2)],
                    terminal: true,
                    groups,
                    trace,
                })?;
                (pid, Way::Pipes(folder), reports)
            }
        };
        Ok(Self {
            pid,
            doing: Doing::Starting,
            program: proc::program_of(pid),
            table,
            path,
            reports: Some(reports),
            way,
            said: Vec::new(),
            nonce: 0,
            has_aliases: false,
            is_single: false,
            said_idle: false,
            interrupted: false,
            settles_at_ms: None,
            at_prompt: None,
            asked_again: false,
            cwd: spec.cwd.as_os_str().as_bytes().to_vec(),
        })
    }

    /// Gives it a command. The text lies in a memory file that both ends share, so that bash reads
    /// it in large pieces: from a pipe it would read byte by byte.
    ///
    /// # Errors
    /// When there is no memory for the text.
    pub(super) fn give(&mut self, cwd: Option<&Path>, merge: bool, text: &str) -> io::Result<()> {
        self.nonce += 1;
        self.said_idle = false;
        self.interrupted = false;
        self.settles_at_ms = None;
        self.asked_again = false;
        self.is_single = false;
        match &mut self.way {
            Way::Descriptors { go, command, length } => {
                let cwd = cwd.map_or(&b""[..], |cwd| cwd.as_os_str().as_bytes());
                self.is_single = !may_end_in_pipeline(text, self.has_aliases);
                let document = command_document(self.nonce, cwd, merge, text, !self.is_single);
                // Written over the one before, whose memory is used again.
                command.write_all_at(&document, 0)?;
                if document.len() < std::mem::replace(length, document.len()) {
                    ftruncate(&*command, document.len() as u64)?;
                }
                seek(&*command, SeekFrom::Start(0))?;
                say_go(go.as_ref())?;
            }
            Way::Pipes(folder) => folder.give(self.nonce, cwd, merge, text)?,
        }
        self.doing = Doing::Busy;
        Ok(())
    }

    /// True when it can be given a command.
    pub(super) fn is_ready(&self, now_ms: u64) -> bool {
        self.doing == Doing::Idle
            && self.at_prompt.is_none()
            && self.settles_at_ms.is_none_or(|at| at <= now_ms)
    }

    /// When it will be ready, if it has to settle.
    pub(super) fn settles_at(&self) -> Option<u64> {
        self.settles_at_ms.filter(|_| self.doing == Doing::Idle)
    }

    /// True when it is blocked, and not because it waits for a command.
    pub(super) fn is_interruptible(&self) -> bool {
        let blocked = proc::blocked_in(self.pid, self.pid).ok().flatten();
        blocked.is_some_and(|blocked| !self.waits_to_go(blocked))
    }

    /// It was sent an interrupt.
    pub(super) fn note_interrupt(&mut self) {
        self.interrupted = true;
    }

    /// True when it waits for the word to go although it has had it: an interrupt meant for the
    /// command before, or for this one, fell between the word and the text.
    pub(super) fn has_lost_its_command(&self) -> bool {
        if self.doing != Doing::Busy || self.at_prompt.is_some() {
            return false;
        }
        let blocked = proc::blocked_in(self.pid, self.pid).ok().flatten();
        let is_empty =
            |channel: &OwnedFd| rustix::io::ioctl_fionread(channel).is_ok_and(|unread| unread == 0);
        let is_taken = match &self.way {
            Way::Descriptors { go, .. } => go.as_ref().is_none_or(is_empty),
            Way::Pipes(folder) => folder.is_taken(),
        };
        blocked.is_some_and(|blocked| self.waits_to_go(blocked))
            && is_taken
            && self.reports.as_ref().is_none_or(is_empty)
    }

    /// Has a shell say once more how the open command ended, if that helps; true when it was asked.
    pub(super) fn ask_again(&mut self) -> bool {
        let Way::Pipes(folder) = &self.way else { return false };
        !std::mem::replace(&mut self.asked_again, true) && folder.ask_again().is_ok()
    }

    /// True when it can be given the open command once more. Otherwise it may have run it, and
    /// only not said so: its driver is broken.
    pub(super) fn may_be_given_again(&self) -> bool {
        self.said_idle
    }

    /// Gives it the same command once more.
    ///
    /// # Errors
    /// When the channel is gone.
    pub(super) fn give_again(&mut self) -> io::Result<()> {
        self.said_idle = false;
        match &self.way {
            Way::Descriptors { command, .. } => seek(command, SeekFrom::Start(0))?,
            Way::Pipes(folder) => {
                self.asked_again = false;
                return folder.give_again();
            }
        };
        self.say_go()
    }

    /// Sends the word to go alone. It fails where the channel is gone, or the shell has none.
    pub(super) fn say_go(&self) -> io::Result<()> {
        match &self.way {
            Way::Descriptors { go, .. } => say_go(go.as_ref()),
            Way::Pipes(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Lets an idle shell end by itself, so that its EXIT trap runs. False when it is not idle.
    pub(super) fn let_go(&mut self) -> bool {
        let idle = self.doing == Doing::Idle;
        if idle {
            match &mut self.way {
                Way::Descriptors { go, .. } => *go = None,
                Way::Pipes(folder) => folder.let_go(),
            }
        }
        idle
    }

    /// The open command will not be run.
    pub(super) fn forget_command(&mut self) {
        self.doing = Doing::Idle;
    }

    /// The next report on the open command, or on the first idleness, of what has been read.
    pub(super) fn report(&mut self, now_ms: u64) -> Option<Report> {
        while let Some(mut report) = take_report(&mut self.said) {
            self.cwd.clone_from(&report.cwd);
            self.has_aliases = report.has_aliases;
            // An interrupt that reaches an idle shell makes it say once more that it is idle; by
            // then the next command may be on its way. So a report counts only by its name.
            let awaited = match self.doing {
                Doing::Starting => true,
                Doing::Busy => report.nonce == Some(self.nonce),
                Doing::Idle | Doing::Gone(_) => false,
            };
            self.at_prompt = report.at_prompt.then_some((now_ms, 0));
            let is_idle = report.nonce.is_none() || matches!(self.way, Way::Pipes(_));
            if !awaited && is_idle && !report.at_prompt {
                self.said_idle = true;
                self.settles_at_ms = None;
            }
            if awaited && !(report.at_prompt && report.nonce.is_none()) {
                if self.is_single && report.whole {
                    report.pipe_status = report.status.map(|status| vec![status]);
                }
                // It came to its end, so the interrupt came after it.
                let missed = std::mem::take(&mut self.interrupted) && report.whole;
                self.settles_at_ms = missed.then_some(now_ms + SETTLE_MS_MAX);
                self.doing = Doing::Idle;
                return Some(report);
            }
        }
        None
    }

    /// When it has to be told to come back from its prompt.
    pub(super) fn nudge_due(&self) -> Option<u64> {
        self.at_prompt.map(|(due, _)| due)
    }

    /// What to type at its prompt, if it is time; `Err`: it does not come back.
    ///
    /// # Errors
    /// After too many times.
    pub(super) fn nudge(&mut self, now_ms: u64) -> Result<Option<&'static [u8]>, ()> {
        let Some((due, count)) = self.at_prompt.filter(|&(due, _)| due <= now_ms) else {
            return Ok(None);
        };
        if count >= NUDGES_MAX {
            return Err(());
        }
        self.at_prompt = Some((due.max(now_ms) + NUDGE_EVERY_MS, count + 1));
        Ok(Some(self.table.nudge))
    }

    fn waits_to_go(&self, blocked: proc::Blocked) -> bool {
        let [descriptor, ..] = blocked.arguments;
        blocked.number == libc::SYS_read
            && match &self.way {
                Way::Descriptors { .. } => {
                    descriptor == u64::from(descriptor::kept(descriptor::GO).unsigned_abs())
                }
                Way::Pipes(folder) => folder.is_wait(self.pid, descriptor),
            }
    }

    /// Reads what it has reported.
    pub(super) fn read_reports(&mut self) {
        let Some(reports) = &self.reports else { return };
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(reports, &mut buffer) {
                Ok(0) => break,
                Ok(got) if self.said.len() < REPORT_BYTES_MAX => {
                    self.said.extend_from_slice(&buffer[..got]);
                    if got < buffer.len() {
                        return;
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        // Its end is closed: the shell is gone, or another program has taken its place.
        self.reports = None;
    }

    /// Where it is: as it says itself, if that is the same place; and whether it still exists.
    pub(super) fn cwd(&self) -> (String, bool) {
        let link = format!("/proc/{}/cwd", self.pid);
        let said = PathBuf::from(std::ffi::OsStr::from_bytes(&self.cwd));
        let there = std::fs::metadata(&link).ok();
        let same = std::fs::metadata(&said)
            .ok()
            .zip(there.as_ref())
            .is_some_and(|(said, there)| (said.dev(), said.ino()) == (there.dev(), there.ino()));
        if same || there.is_none() {
            return (shown_path::show(&said), true);
        }
        let named = std::fs::read_link(&link).unwrap_or_else(|_| said.clone());
        match named.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
            Some(gone) => (shown_path::show(Path::new(std::ffi::OsStr::from_bytes(gone))), false),
            None => (shown_path::show(&named), true),
        }
    }
}

/// What a shell shares with all that it starts.
struct Shares<'a> {
    groups: &'a [OwnedFd],
    trace: Option<&'a Trace>,
}

fn start_with_descriptors(
    table: &'static Table,
    path: &CString,
    spec: &SessionSpec,
    [main, stderr]: [&Terminal; 2],
    shares: &Shares<'_>,
) -> io::Result<(i32, Way, OwnedFd)> {
    let (go_read, go) = std::io::pipe()?;
    let (reports, reports_write) = std::io::pipe()?;
    let text = memfd_create(c"driver", MemfdFlags::CLOEXEC)?;
    write_whole(&text, driver::TEXT.as_bytes())?;
    let command = File::from(memfd_create(c"command", MemfdFlags::CLOEXEC)?);
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let slave = main.slave.as_fd();
    let pid = spawn::start(&Program {
        path: path.clone(),
        argv: (table.argv)(Path::new("")),
        env: environment(spec)?,
        cwd: Some(CString::new(spec.cwd.as_os_str().as_bytes())?),
        descriptors: vec![
            (slave, 0),
            (slave, 1),
            (slave, 2),
            (go_read.as_fd(), descriptor::GO),
            (reports_write.as_fd(), descriptor::REPORT),
            (stderr.slave.as_fd(), descriptor::STDERR),
            (null.as_fd(), descriptor::NULL),
            (text.as_fd(), descriptor::TEXT),
            (command.as_fd(), descriptor::COMMAND),
            (slave, descriptor::MAIN),
        ],
        terminal: true,
        groups: shares.groups,
        trace: shares.trace,
    })?;
    let (go, reports) = (OwnedFd::from(go), OwnedFd::from(reports));
    rustix::io::ioctl_fionbio(&go, true)?;
    rustix::io::ioctl_fionbio(&reports, true)?;
    Ok((pid, Way::Descriptors { go: Some(go), command, length: 0 }, reports))
}

fn say_go(go: Option<&OwnedFd>) -> io::Result<()> {
    write_whole(go.ok_or(io::ErrorKind::BrokenPipe)?, &[0])
}

fn environment(spec: &SessionSpec) -> io::Result<Vec<CString>> {
    spec.env
        .iter()
        .map(|(name, value)| {
            CString::new(format!("{name}={value}")).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("NUL in variable `{name}`"))
            })
        })
        .collect()
}
