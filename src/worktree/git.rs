//! One call of git: in a clean environment, without prompts, hooks or background work, with a limit
//! on its time and on what is kept of its output.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::command::{Git, Output};

/// How long a call may take.
const QUICK: Duration = Duration::from_secs(60);
/// And one that writes out whole trees.
const LONG: Duration = Duration::from_secs(600);
/// How much is kept of what it writes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long its output may take to end once it has.
const DRAIN: Duration = Duration::from_secs(5);
const NOT_WHOLE: &str = "its output did not end, or is too long";
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// What holds for every call. The user's hooks are for the user's own commits and checkouts: a hook
/// that asks, or rewrites, would be in the way of a merge that nobody watches.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "merge.autoStash=false",
    "merge.verifySignatures=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
];
/// Who commits what tasks leave, and merges it.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "callboard"),
    ("GIT_AUTHOR_EMAIL", "callboard@localhost"),
    ("GIT_COMMITTER_NAME", "callboard"),
    ("GIT_COMMITTER_EMAIL", "callboard@localhost"),
];

/// Held while a call goes on.
static TURN: Mutex<()> = Mutex::new(());

/// No call goes on while this is held: for whoever ends or buries children that it does not know. It
/// waits for the call that does.
pub fn pause() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it to its end.
pub(super) fn run(git: &Git) -> Output {
    let _turn = pause();
    match start(git) {
        Ok(child) => finish(child, if git.is_long { LONG } else { QUICK }),
        Err(error) => Output { stderr: format!("git cannot be run: {error}"), ..Output::default() },
    }
}

fn start(git: &Git) -> std::io::Result<Child> {
    let mut command = Command::new("git");
    command.env_clear();
    for name in ["PATH", "HOME", "XDG_CONFIG_HOME", "USER", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(IDENTITY);
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_EDITOR", "true");
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_PAGER", "cat");
    if !git.searches {
        // A worktree that has lost its `.git` must not be taken for part of what lies around it.
        command.env("GIT_CEILING_DIRECTORIES", git.at.parent().unwrap_or(Path::new("/")));
    }
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command.arg("-C").arg(&git.at).args(&git.args).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Whatever it starts, filters for one, ends with it.
    command.process_group(0).spawn()
}

fn finish(mut child: Child, limit: Duration) -> Output {
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let began = Instant::now();
    let mut pause = PAUSE_MIN;
    let (code, trouble) = loop {
        match child.try_wait() {
            Ok(Some(status)) => break (status.code(), None),
            Err(error) => break (None, Some(format!("its status is not known: {error}"))),
            Ok(None) if began.elapsed() >= limit => {
                let group = rustix::process::Pid::from_child(&child);
                let _gone =
                    rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                drop(child.wait());
                break (None, Some(format!("git was ended after {} s", limit.as_secs())));
            }
            Ok(None) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    };
    // Half of an output is none: nothing may be concluded from what it lacks.
    let (stdout, said) = (whole(&stdout), whole(&stderr));
    let trouble = trouble.or_else(|| stdout.is_none().then(|| NOT_WHOLE.to_owned()));
    let code = code.filter(|_| trouble.is_none());
    let stderr =
        trouble.unwrap_or_else(|| String::from_utf8_lossy(&said.unwrap_or_default()).into_owned());
    Output { code, stdout: stdout.unwrap_or_default(), stderr }
}

/// Reads all of it away from here, and keeps what there is room for.
fn read(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            drop(stream.by_ref().take(BYTES_MAX).read_to_end(&mut kept));
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
        }
        drop(sender.send(kept));
    });
    receiver
}

/// What was read, if that was all. Something that git has left running may hold a stream open.
fn whole(stream: &mpsc::Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    let kept = stream.recv_timeout(DRAIN).ok()?;
    ((kept.len() as u64) < BYTES_MAX).then_some(kept)
}
