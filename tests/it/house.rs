//! A house of its own for each test: HOME, state, runtime folder and workspace in a temporary
//! folder, and the real binary in a clean environment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A hermetic home for one test.
pub struct House {
    folder: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

/// What a call of the binary came to.
#[derive(Debug)]
pub struct Called {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Called {
    fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or(-output.status.signal().unwrap_or(0));
        Self {
            code,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The JSON document on its standard output, which has to be the only thing there.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON document ({error}): {self:?}"))
    }
}

impl House {
    /// A house in whose workspace no file is a resource, since all are ignored: what tasks of most
    /// tests write together is no conflict there.
    pub fn new() -> Self {
        let house = Self::watched();
        house.write(".gitignore", "*\n");
        house
    }

    /// One in which it counts who writes what.
    pub fn watched() -> Self {
        // Socket paths have to fit into 108 bytes, so the name is short.
        let folder = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").unwrap();
        for name in ["home", "state", "run", "ws", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let env = BTreeMap::from([
            ("HOME".to_owned(), path("home")),
            ("XDG_STATE_HOME".to_owned(), path("state")),
            ("XDG_RUNTIME_DIR".to_owned(), path("run")),
            ("TMPDIR".to_owned(), path("tmp")),
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("USER".to_owned(), "tester".to_owned()),
        ]);
        Self { folder, env }
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    /// A path in the workspace.
    pub fn path(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    /// The folder that everything of this house lies in.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a variable to the caller's environment.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Writes a file of the workspace.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file of the workspace.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The binary in this house, standing in the workspace.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(args)
            .env_clear()
            .envs(&self.env)
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Calls the binary and waits for its end.
    pub fn call<S: AsRef<OsStr>>(&self, args: &[S]) -> Called {
        finish(self.command(args).spawn().unwrap())
    }

    /// `exec --json -c SCRIPT`: its exit code and result.
    pub fn exec(&self, script: &str) -> (i32, Value) {
        self.exec_with(&[], script)
    }

    /// The same with flags before `-c`.
    pub fn exec_with(&self, flags: &[&str], script: &str) -> (i32, Value) {
        let mut args = vec!["exec", "--json"];
        args.extend(flags);
        args.extend(["-c", script]);
        let called = self.call(&args);
        (called.code, called.json())
    }

    /// Writes `manifest` down and runs it: exit code and report.
    pub fn run(&self, manifest: &str) -> (i32, Value) {
        self.run_with(&[], manifest)
    }

    /// The same with more flags.
    pub fn run_with(&self, flags: &[&str], manifest: &str) -> (i32, Value) {
        self.write("m.toml", manifest);
        let mut args = vec!["run", "m.toml", "--json"];
        args.extend(flags);
        let called = self.call(&args);
        (called.code, called.json())
    }

    /// Processes that belong to this house: their environment or command line names its folder.
    pub fn processes(&self) -> Vec<String> {
        let name = self.folder.path().to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let read = |file: &str| {
                let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let command = read("cmdline");
            if pid != std::process::id()
                && (read("environ").contains(&name) || command.contains(&name))
            {
                found.push(format!("{pid} {command}"));
            }
        }
        found
    }

    /// Waits until no process of this house is left; the test fails with their list otherwise.
    pub fn assert_empties(&self) {
        wait_for("no process of the house is left", || {
            let left = self.processes();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }
}

impl Drop for House {
    /// Whatever a failed test leaves behind is ended by pid.
    fn drop(&mut self) {
        for line in self.processes() {
            if let Some(pid) = line.split(' ').next() {
                drop(Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status());
            }
        }
    }
}

/// Waits for a child's end and takes its output; a child that outlasts all patience is killed and
/// the test fails.
pub fn finish(child: Child) -> Called {
    finish_within(child, PATIENCE)
}

/// The same with a patience of its own.
pub fn finish_within(child: Child, patience: Duration) -> Called {
    let pid = child.id();
    let (done, watched) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let output = child.wait_with_output().unwrap();
        let _ = done.send(());
        output
    });
    if watched.recv_timeout(patience).is_err() {
        drop(Command::new("kill").args(["-KILL", &pid.to_string()]).status());
        panic!("a call did not end within {patience:?}");
    }
    Called::of(waiter.join().unwrap())
}

/// Waits until `probe` succeeds; the test fails with its last words otherwise.
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(words) if start.elapsed() > PATIENCE => {
                panic!("waited in vain for {what}: {words}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Says on standard error that a test was skipped, and why.
pub fn skipped(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}
