//! What the user's own shell has: its profile is run once, by itself, within a time limit, and what
//! is left of it (variables, functions, aliases) is given to the sessions that ask for it. Prompts,
//! traps and hooks are not among that, so none of them can disturb a driver.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

use crate::domain::environment::looks_secret;
use crate::domain::session::{ProfileSpec, SessionSpec};

use super::holder::proc;
use super::holder::tree::signal_all;
use super::os::spawn::{self, Program};
use super::shells::table::Table;

/// What a profile may print before the rest is only counted.
const PRINTED_BYTES_MAX: usize = 4 * 1024;
/// Functions and aliases of more than this are left out.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;
/// Variables of more than this are left out.
const ENV_BYTES_MAX: u64 = 512 * 1024;
/// How long to wait for another session that captures the same profile, beyond its own limit.
const LOCK_GRACE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);
/// How much of what was printed a remark quotes.
const QUOTED_CHARS_MAX: usize = 160;
/// What such a shell always says of having no terminal.
const USUAL_WORDS: [&str; 3] = ["terminal process group", "no job control", "can't access tty"];
/// What the profile's shell starts with, if the session has it.
const BASE: [&str; 8] = ["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TERM"];
/// The shell's own affairs.
const INTERNAL: [&str; 14] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT",
    "PROMPT_COMMAND",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "HISTFILE",
];

/// What is left of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Profile {
    /// What it was captured from.
    made_of: String,
    /// Variables that it has set or changed.
    env: BTreeMap<String, String>,
    /// Those that look like secrets: never written down.
    #[serde(skip)]
    secrets: BTreeMap<String, String>,
    /// Their names.
    hidden: Vec<String>,
    /// Its functions and aliases, for the same shell to read.
    pub text: String,
    /// What went wrong, or should be known.
    pub remarks: Vec<String>,
}

impl Profile {
    /// The profile of the session's user, captured now or before. Blocks for the profile's limit at
    /// most; whatever goes wrong is in its remarks.
    pub(super) fn of(
        wanted: &ProfileSpec,
        spec: &SessionSpec,
        table: &Table,
        shell: &CString,
    ) -> Self {
        let home = PathBuf::from(value(spec, "HOME").unwrap_or("/"));
        let made_of = made_of(table, &home, spec);
        let failed = |error: io::Error| Self {
            remarks: vec![format!("the shell's profile could not be captured: {error}")],
            ..Self::default()
        };
        let lock = match lock(wanted) {
            Ok(lock) => lock,
            Err(error) => return failed(error),
        };
        let file = wanted.cache.join(format!("{}.json", table.name));
        let kept = std::fs::read(&file).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let serves = |kept: &Self| {
            kept.made_of == made_of && !kept.hidden.iter().any(|name| wanted.pass.contains(name))
        };
        if let Some(kept) = kept.filter(serves) {
            return kept;
        }
        let profile = match capture(wanted, spec, table, shell) {
            Ok(profile) => Self { made_of, ..profile },
            Err(error) => return failed(error),
        };
        // Without it the next session captures again.
        drop(keep(&file, &profile));
        drop(lock);
        profile
    }

    /// Puts its variables into a session's environment. What looks like a secret is left out,
    /// unless it is passed on purpose, and so is whatever somebody has set for the session.
    pub(super) fn apply(&mut self, wanted: &ProfileSpec, env: &mut Vec<(String, String)>) {
        let passed = self.secrets.iter().filter(|(name, _)| wanted.pass.contains(name));
        for (name, value) in self.env.iter().chain(passed) {
            let is_own = name.starts_with("CALLBOARD_") || name == "TMPDIR" || name == "TERM";
            if is_own || wanted.keep.contains(name) {
                continue;
            }
            match env.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => old.clone_from(value),
                None => env.push((name.clone(), value.clone())),
            }
        }
        let hidden = self.hidden.iter().filter(|name| !wanted.pass.contains(name));
        let hidden: Vec<&str> = hidden.map(String::as_str).collect();
        if !hidden.is_empty() {
            self.remarks.push(format!(
                "left out of the shell's profile, since they look like secrets: {} (env_pass takes them)",
                hidden.join(", ")
            ));
        }
    }
}

fn value<'a>(spec: &'a SessionSpec, name: &str) -> Option<&'a str> {
    spec.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The shell, the home, and the files that the profile consists of, as they are now. Files that
/// those read in turn are not followed.
fn made_of(table: &Table, home: &Path, spec: &SessionSpec) -> String {
    let mut parts = vec![table.name.to_owned(), home.display().to_string()];
    parts.push(value(spec, "PATH").unwrap_or("").to_owned());
    for name in table.profile.files {
        let file = home.join(name);
        parts.push(std::fs::metadata(&file).map_or_else(
            |_| format!("{name} -"),
            |file| format!("{name} {} {} {}", file.mtime(), file.mtime_nsec(), file.size()),
        ));
    }
    parts.join("\n")
}

/// One capture at a time; who comes second finds it done.
fn lock(wanted: &ProfileSpec) -> io::Result<File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&wanted.cache)?;
    let mut options = File::options();
    let file = options.create(true).append(true).mode(0o600).open(wanted.cache.join("lock"))?;
    let until = Instant::now() + Duration::from_millis(wanted.limit_ms) + LOCK_GRACE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            return Err(io::Error::other("another session's capture does not end"));
        }
        std::thread::sleep(STEP);
    }
    Ok(file)
}

fn keep(file: &Path, profile: &Profile) -> io::Result<()> {
    let fresh = file.with_extension("new");
    let mut options = File::options();
    let out = options.create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
    serde_json::to_writer(io::BufWriter::new(out), profile)?;
    std::fs::rename(fresh, file)
}

fn capture(
    wanted: &ProfileSpec,
    spec: &SessionSpec,
    table: &Table,
    shell: &CString,
) -> io::Result<Profile> {
    let folder = spec.tmp.join(".profile");
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let base = |name: &str| BASE.contains(&name) || name.starts_with("LC_");
    let before: BTreeMap<&str, &str> = spec
        .env
        .iter()
        .filter(|(name, _)| base(name))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut argv: Vec<CString> = table.profile.argv.iter().map(|&word| word.to_owned()).collect();
    for word in [table.profile.script, table.name] {
        argv.push(CString::new(word)?);
    }
    if table.profile.script_has_no_name {
        argv.pop();
    }
    argv.push(CString::new(folder.as_os_str().as_bytes())?);
    let (printed, printing) = std::io::pipe()?;
    let null = File::open("/dev/null")?;
    let env = before.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
    let pid = spawn::start(&Program {
        path: shell.clone(),
        argv,
        env: env.collect::<Result<_, _>>()?,
        cwd: value(spec, "HOME")
            .filter(|home| Path::new(home).is_dir())
            .map(CString::new)
            .transpose()?,
        descriptors: vec![(null.as_fd(), 0), (printing.as_fd(), 1), (printing.as_fd(), 2)],
        terminal: false,
        groups: &[],
        trace: None,
    })?;
    drop(printing);
    let ran = watch(pid, &OwnedFd::from(printed), Duration::from_millis(wanted.limit_ms));
    end_all_below();
    let mut remarks = ran.remarks(wanted.limit_ms);
    let env = match read_limited(&folder.join("env"), ENV_BYTES_MAX) {
        Some(bytes) if ran.status.is_some() => changed(&bytes, &before),
        _ => {
            if ran.status.is_some() {
                remarks.push(
                    "the shell's profile ended its shell, so nothing of it is used".to_owned(),
                );
            }
            BTreeMap::new()
        }
    };
    let text = match read_limited(&folder.join("text"), TEXT_BYTES_MAX) {
        Some(bytes) if ran.status.is_some() => String::from_utf8_lossy(&bytes).replace('\0', ""),
        _ => String::new(),
    };
    drop(std::fs::remove_dir_all(&folder));
    let (secrets, env): (BTreeMap<_, _>, BTreeMap<_, _>) =
        env.into_iter().partition(|(name, value)| looks_secret(name, value));
    let hidden = secrets.keys().cloned().collect();
    Ok(Profile { made_of: String::new(), env, secrets, hidden, text, remarks })
}

/// How the run went.
struct Ran {
    /// `None`: it did not end in time.
    status: Option<i32>,
    printed: Vec<u8>,
}

impl Ran {
    fn remarks(&self, limit_ms: u64) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.status.is_none() {
            remarks.push(format!(
                "the shell's profile did not end within {limit_ms} ms, so nothing of it is used"
            ));
        }
        let printed = String::from_utf8_lossy(&self.printed);
        let lines = printed.lines().filter(|line| {
            !line.trim().is_empty() && !USUAL_WORDS.iter().any(|words| line.contains(words))
        });
        let said: Vec<&str> = lines.collect();
        if !said.is_empty() {
            let said: String = said.join(" / ").chars().take(QUOTED_CHARS_MAX).collect();
            remarks.push(format!("the shell's profile printed: {}", said.escape_debug()));
        }
        remarks
    }
}

fn watch(pid: i32, printed: &OwnedFd, limit: Duration) -> Ran {
    let until = Instant::now() + limit;
    let mut ran = Ran { status: None, printed: Vec::new() };
    let mut buffer = [0; 4096];
    let mut open = rustix::io::ioctl_fionbio(printed, true).is_ok();
    loop {
        let ended = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG).ok().flatten();
        while let Some(got) = open.then(|| rustix::io::read(printed, &mut buffer).ok()).flatten() {
            open = got > 0;
            let room = PRINTED_BYTES_MAX.saturating_sub(ran.printed.len());
            ran.printed.extend_from_slice(&buffer[..got.min(room)]);
            if Instant::now() > until {
                break;
            }
        }
        if let Some((_, status)) = ended {
            ran.status = Some(status.exit_status().unwrap_or(-1));
            return ran;
        }
        if Instant::now() > until {
            return ran;
        }
        let step = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        let mut watched = [PollFd::new(printed, PollFlags::IN)];
        if !open || poll(&mut watched, Some(&step)).is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends what the profile has left: nothing else is below a holder that has no shell yet.
fn end_all_below() {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let until = Instant::now() + LOCK_GRACE;
    loop {
        let mut pids = proc::children(me);
        let mut found = Vec::new();
        while let Some(pid) = pids.pop() {
            pids.extend(proc::children(pid));
            found.extend(proc::process(pid));
        }
        if found.is_empty() || Instant::now() > until {
            return;
        }
        signal_all(&found, Signal::KILL);
        while matches!(waitpid(None, WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read_limited(file: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// The variables of an `env -0` that are new or other than before.
fn changed(bytes: &[u8], before: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
    bytes
        .split(|&byte| byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
        .filter(|(name, value)| {
            let is_internal = INTERNAL.contains(name)
                || name.starts_with("BASH_FUNC_")
                || name.starts_with("__cb_");
            !is_internal && before.get(name) != Some(value)
        })
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_taken() {
        let before = BTreeMap::from([("PATH", "/bin"), ("HOME", "/h")]);
        let env = b"PATH=/x:/bin\0HOME=/h\0A=1=2\0PWD=/h\0B=\xff\0PS1=$\0BASH_FUNC_f%%=() {}\0";
        let changed = changed(env, &before);
        let wanted = [("A", "1=2"), ("PATH", "/x:/bin")];
        assert_eq!(changed, wanted.map(|(n, v)| (n.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn secrets_and_what_was_set_on_purpose_stay_out() {
        let secrets = [("GITHUB_TOKEN", "x"), ("NPM_TOKEN", "y")];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut profile = Profile {
            env: [("EDITOR", "vi"), ("LANG", "C")].map(owned).into(),
            secrets: secrets.map(owned).into(),
            hidden: secrets.map(|(name, _)| name.to_owned()).into(),
            ..Profile::default()
        };
        assert!(!serde_json::to_string(&profile).unwrap().contains("\"x\""));
        let wanted = ProfileSpec {
            cache: PathBuf::new(),
            keep: vec!["LANG".to_owned()],
            pass: vec!["NPM_TOKEN".to_owned()],
            limit_ms: 1,
        };
        let mut session = vec![("LANG".to_owned(), "de".to_owned())];
        profile.apply(&wanted, &mut session);
        let names: Vec<_> = session.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(names, [("LANG", "de"), ("EDITOR", "vi"), ("NPM_TOKEN", "y")]);
        assert!(profile.remarks[0].contains("GITHUB_TOKEN") && !profile.remarks[0].contains('x'));
    }
}
