//! The product in a house of its own, and a client that speaks the control grammar.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callboard::control::{Answer, CONTROL_VERSION, Call, EnvSources, Exec, Request, Response};
use callboard::domain::event::ClientEnv;
use callboard::domain::frame::{self, Decoder};
use callboard::domain::result::CommandResult;
use callboard::domain::session::SessionDefaults;

pub struct House {
    folder: tempfile::TempDir,
}

impl House {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").unwrap();
        for name in ["home", "state", "run", "ws"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.workspace().join(name), text).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(args)
            .env_clear()
            .env("HOME", path("home"))
            .env("XDG_STATE_HOME", path("state"))
            .env("XDG_RUNTIME_DIR", path("run"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary; true when it exited with 0.
    pub fn call(&self, args: &[&str]) -> bool {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// What the binary prints.
    pub fn output(&self, args: &[&str]) -> String {
        String::from_utf8_lossy(&self.command(args).output().unwrap().stdout).into_owned()
    }

    /// A client of the coordinator, started if need be and kept by a named session.
    pub fn client(&self) -> Client {
        assert!(self.call(&["exec", "--session", "keep", "-c", "true"]), "the coordinator starts");
        let socket = find_socket(&self.folder.path().join("run")).unwrap();
        let mut client = Client {
            stream: UnixStream::connect(socket).unwrap(),
            decoder: Decoder::default(),
            next: 0,
            cwd: self.workspace(),
        };
        client.ask(Call::Hello { version: CONTROL_VERSION, callboard: None });
        client
    }

    /// Pid of the coordinator.
    pub fn coordinator(&self) -> u32 {
        let status: serde_json::Value =
            serde_json::from_str(&self.output(&["status", "--json"])).unwrap();
        u32::try_from(status["coordinator"]["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for House {
    /// Ends the coordinator, and with it every session that was left open.
    fn drop(&mut self) {
        let status = self.output(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        if let Some(pid) = status["coordinator"]["pid"].as_u64() {
            drop(Command::new("kill").arg(pid.to_string()).status());
            while Path::new(&format!("/proc/{pid}")).exists() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

fn find_socket(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "sock") {
                return Some(path);
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    None
}

pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    next: u64,
    cwd: PathBuf,
}

impl Client {
    pub fn ask(&mut self, call: Call) -> Answer {
        self.next += 1;
        let mut bytes = Vec::new();
        frame::encode(&Request { id: self.next, call }, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        let mut buffer = [0; 65536];
        loop {
            match self.decoder.document::<Response>().unwrap() {
                Some(Response::Reply { id, answer }) if id == self.next => return *answer,
                Some(Response::Refusal { failure, .. }) => panic!("refused: {failure:?}"),
                Some(_) => {}
                None => {
                    let count = self.stream.read(&mut buffer).unwrap();
                    assert!(count > 0, "the coordinator closed the connection");
                    self.decoder.push(&buffer[..count]);
                }
            }
        }
    }

    /// One command, in a session of that name or in one of its own.
    pub fn exec(&mut self, session: Option<&str>, text: &str) -> CommandResult {
        let allowed =
            BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]);
        let client = ClientEnv { allowed, passed: BTreeMap::new() };
        let exec = Exec {
            ticket: None,
            text: text.to_owned(),
            cwd: self.cwd.clone(),
            cwd_given: false,
            shell: Default::default(),
            shell_given: false,
            env: EnvSources { client, ..EnvSources::default() },
            timeout_ms: Some(600_000),
            class: None,
            inputs: Vec::new(),
            stop_on: Vec::new(),
            merge: false,
            policy: Default::default(),
            session: session.map(str::to_owned),
            defaults: SessionDefaults::default(),
        };
        match self.ask(Call::Exec { exec: Box::new(exec) }) {
            Answer::Ran { result } => *result,
            other => panic!("not a result: {other:?}"),
        }
    }
}
