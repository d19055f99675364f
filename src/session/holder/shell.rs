//! The session's shell and its private channels.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SeekFrom, ftruncate, memfd_create, seek};

use crate::command::event::Fate;
use crate::domain::session::SessionSpec;

use super::super::driver::{self, Report, command_document, descriptor, take_report};
use super::super::os::pty::Terminal;
use super::super::os::spawn::{self, Program};
use super::checker::write_whole;
use super::proc;

/// A report is short; who writes more into the channel is not the driver.
const REPORT_BYTES_MAX: usize = 256 * 1024;

/// A shell that traps interrupts says nothing of one; it is not waited for longer than this.
const SETTLE_MS_MAX: u64 = 50;

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
    /// The bash that also checks texts.
    pub path: CString,
    /// Where reports come from; `None` once the shell has closed it.
    pub reports: Option<OwnedFd>,
    /// `None` once the shell was let go.
    go: Option<OwnedFd>,
    command: OwnedFd,
    said: Vec<u8>,
    nonce: u64,
    /// It has said that it is idle since it was given the open command: an interrupt took the
    /// command from it.
    said_idle: bool,
    /// It was sent an interrupt for the open command.
    interrupted: bool,
    /// An interrupt has missed its command: until the shell has taken it, or this time has come,
    /// it gets no other.
    settles_at_ms: Option<u64>,
    /// `$PWD` as last reported.
    cwd: Vec<u8>,
}

impl Shell {
    /// Starts bash with the driver.
    ///
    /// # Errors
    /// What could not be done, and where.
    pub(super) fn start(
        spec: &SessionSpec,
        main: &Terminal,
        stderr: &Terminal,
    ) -> io::Result<Self> {
        let path = find_bash(spec)?;
        let (go_read, go) = std::io::pipe()?;
        let (reports, reports_write) = std::io::pipe()?;
        let text = memfd_create(c"driver", MemfdFlags::CLOEXEC)?;
        write_whole(&text, driver::TEXT.as_bytes())?;
        let command = memfd_create(c"command", MemfdFlags::CLOEXEC)?;
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let rcfile = CString::new(format!("/proc/self/fd/{}", descriptor::TEXT))?;
        let slave = main.slave.as_fd();
        let flags = [c"bash", c"--noprofile", c"--noediting", c"--rcfile"];
        let mut argv: Vec<CString> = flags.into_iter().map(ToOwned::to_owned).collect();
        argv.extend([rcfile, c"-i".to_owned()]);
        let pid = spawn::start(&Program {
            path: path.clone(),
            argv,
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
        })?;
        let (go, reports) = (OwnedFd::from(go), OwnedFd::from(reports));
        rustix::io::ioctl_fionbio(&go, true)?;
        rustix::io::ioctl_fionbio(&reports, true)?;
        Ok(Self {
            pid,
            doing: Doing::Starting,
            program: proc::program_of(pid),
            path,
            reports: Some(reports),
            go: Some(go),
            command,
            said: Vec::new(),
            nonce: 0,
            said_idle: false,
            interrupted: false,
            settles_at_ms: None,
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
        let cwd = cwd.map_or(&b""[..], |cwd| cwd.as_os_str().as_bytes());
        let document = command_document(self.nonce, cwd, merge, text);
        // Written over the one before, whose memory is used again.
        seek(&self.command, SeekFrom::Start(0))?;
        write_whole(&self.command, &document)?;
        ftruncate(&self.command, document.len() as u64)?;
        seek(&self.command, SeekFrom::Start(0))?;
        self.say_go()?;
        self.doing = Doing::Busy;
        Ok(())
    }

    /// True when it can be given a command.
    pub(super) fn is_ready(&self, now_ms: u64) -> bool {
        self.doing == Doing::Idle && self.settles_at_ms.is_none_or(|at| at <= now_ms)
    }

    /// When it will be ready, if it has to settle.
    pub(super) fn settles_at(&self) -> Option<u64> {
        self.settles_at_ms.filter(|_| self.doing == Doing::Idle)
    }

    /// True when it is blocked, and not because it waits for a command.
    pub(super) fn is_interruptible(&self) -> bool {
        let blocked = proc::blocked_in(self.pid, self.pid).ok().flatten();
        blocked.is_some_and(|blocked| !waits_to_go(blocked))
    }

    /// It was sent an interrupt.
    pub(super) fn note_interrupt(&mut self) {
        self.interrupted = true;
    }

    /// True when it waits for the word to go although it has had it: an interrupt meant for the
    /// command before, or for this one, fell between the word and the text.
    pub(super) fn has_lost_its_command(&self) -> bool {
        let waits = proc::blocked_in(self.pid, self.pid).ok().flatten().is_some_and(waits_to_go);
        self.doing == Doing::Busy
            && waits
            && [&self.go, &self.reports]
                .into_iter()
                .flatten()
                .all(|channel| rustix::io::ioctl_fionread(channel).is_ok_and(|unread| unread == 0))
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
        seek(&self.command, SeekFrom::Start(0))?;
        self.say_go()
    }

    /// Sends the word to go alone.
    ///
    /// # Errors
    /// When the channel is gone.
    pub(super) fn say_go(&self) -> io::Result<()> {
        let go = self.go.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        write_whole(go, &[0])
    }

    /// Lets an idle shell end by itself, so that its EXIT trap runs. False when it is not idle.
    pub(super) fn let_go(&mut self) -> bool {
        let idle = self.doing == Doing::Idle;
        if idle {
            self.go = None;
        }
        idle
    }

    /// The open command will not be run.
    pub(super) fn forget_command(&mut self) {
        self.doing = Doing::Idle;
    }

    /// Reads the next report on the open command, or on the first idleness.
    pub(super) fn report(&mut self, now_ms: u64) -> Option<Report> {
        self.read_reports();
        while let Some(report) = take_report(&mut self.said) {
            self.cwd.clone_from(&report.cwd);
            // An interrupt that reaches an idle shell makes it say once more that it is idle; by
            // then the next command may be on its way. So a report counts only by its name.
            let awaited = match self.doing {
                Doing::Starting => true,
                Doing::Busy => report.nonce == Some(self.nonce),
                Doing::Idle | Doing::Gone(_) => false,
            };
            if !awaited && report.nonce.is_none() {
                self.said_idle = true;
                self.settles_at_ms = None;
            }
            if awaited {
                // With its statuses caught it came to its end, so the interrupt came after it.
                let missed = std::mem::take(&mut self.interrupted) && report.pipe_status.is_some();
                self.settles_at_ms = missed.then_some(now_ms + SETTLE_MS_MAX);
                self.doing = Doing::Idle;
                return Some(report);
            }
        }
        None
    }

    fn read_reports(&mut self) {
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
            return (said.to_string_lossy().into_owned(), true);
        }
        let named = std::fs::read_link(&link).unwrap_or_else(|_| said.clone());
        let named = named.to_string_lossy();
        match named.strip_suffix(" (deleted)") {
            Some(gone) => (gone.to_owned(), false),
            None => (named.into_owned(), true),
        }
    }
}

fn waits_to_go(blocked: proc::Blocked) -> bool {
    blocked.number == libc::SYS_read
        && blocked.arguments[0] == u64::from(descriptor::GO.unsigned_abs())
}

fn find_bash(spec: &SessionSpec) -> io::Result<CString> {
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    ["/bin/bash".into(), "/usr/bin/bash".into()]
        .into_iter()
        .chain(std::env::split_paths(path).map(|folder| folder.join("bash")))
        .find(|file: &PathBuf| file.is_file())
        .and_then(|file| CString::new(file.as_os_str().as_bytes()).ok())
        .ok_or_else(|| {
            let message = "no bash in /bin, /usr/bin or the session's PATH";
            io::Error::new(io::ErrorKind::NotFound, message)
        })
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
