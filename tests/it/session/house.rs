//! What every test of a session needs: a stage, a session, its commands and what they printed.

use std::path::PathBuf;
use std::time::Duration;

use callboard::domain::ids::{CommandId, SessionId};
use callboard::domain::session::{
    CommandSpec, Limit, SessionLimits, SessionSpec, Shell, Size, UnansweredInput,
};
use callboard::session::link::{HolderLink, Stage};
use callboard::session::wire::{Ask, CommandEnd, FactBody};
use callboard::transcript::gaps::{Gaps, Stretch};
use callboard::transcript::index::{RECORD_BYTES, Record, Stream, segments};

/// Whatever takes longer than this has hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session and the folders it lives in.
pub(super) struct Session {
    pub(super) link: HolderLink,
    pub(super) folder: tempfile::TempDir,
    pub(super) holder: i32,
    pub(super) shell: i32,
    pub(super) facts: Vec<FactBody>,
    next: u32,
    stage: Option<std::sync::Arc<Stage>>,
}

/// A command's end and its output.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: CommandEnd,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a test on a runtime of its own.
pub(super) fn with<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// A stage with an environment as clean as the coordinator's.
pub(super) fn stage() -> std::sync::Arc<Stage> {
    let exe = PathBuf::from(env!("CARGO_BIN_EXE_callboard"));
    std::sync::Arc::new(Stage::start(&exe, [("PATH", "/usr/bin:/bin")]).unwrap())
}

/// A session in a fresh folder.
pub(super) async fn open() -> Session {
    open_on(stage()).await.unwrap()
}

/// What a session is made of.
pub(super) fn spec(folder: &std::path::Path) -> SessionSpec {
    for name in ["work", "transcript", "tmp"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let env = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("TERM", "xterm-256color"),
        ("LANG", "C.UTF-8"),
        ("HOME", "/nonexistent"),
    ];
    SessionSpec {
        traced: false,
        root: None,
        parent: None,
        id: SessionId::new("s"),
        cwd: folder.join("work"),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        shell: Shell::Bash,
        profile: None,
        size: Size::default(),
        transcript: folder.join("transcript"),
        tmp: folder.join("tmp"),
        policy: Vec::new(),
        limits: SessionLimits::default(),
        owner: callboard::domain::session::SessionOwner::Call,
        door: folder.join("door"),
        patience_ms: 0,
    }
}

/// A session on this stage; the message if it cannot be opened.
pub(super) async fn open_on(stage: std::sync::Arc<Stage>) -> Result<Session, String> {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path());
    open_as(stage, folder, spec).await
}

/// A session as described.
pub(super) async fn open_as(
    stage: std::sync::Arc<Stage>,
    folder: tempfile::TempDir,
    spec: SessionSpec,
) -> Result<Session, String> {
    let link = stage.open().unwrap();
    link.send(&Ask::Open { spec: Box::new(spec) }).unwrap();
    let mut session = Session {
        link,
        folder,
        holder: 0,
        shell: 0,
        facts: Vec::new(),
        next: 0,
        stage: Some(stage),
    };
    match session.fact().await {
        Some(FactBody::Opened { holder, shell, .. }) => {
            session.holder = holder;
            session.shell = shell;
            Ok(session)
        }
        Some(FactBody::OpenFailed { message }) => Err(message),
        other => panic!("neither opened nor failed: {other:?}"),
    }
}

/// A command with wide limits.
pub(super) fn command(id: &str, text: &str) -> CommandSpec {
    CommandSpec {
        ticket: None,
        id: CommandId::new(id),
        text: text.to_owned(),
        cwd: None,
        limit: Limit::Exact { ms: 15_000 },
        input_timeout_ms: 600_000,
        on_input: Vec::new(),
        inputs: Vec::new(),
        unanswered: UnansweredInput::Wait,
        stop_on: Vec::new(),
        merge: false,
        ready: None,
    }
}

impl Session {
    /// Lets go of the stage, which the session does not need any more.
    pub(super) fn forget_stage(&mut self) {
        self.stage = None;
    }

    /// A session on a link that its holder was not born with, `begun` commands after its start.
    pub(super) fn on(
        link: HolderLink,
        folder: tempfile::TempDir,
        [holder, shell]: [i32; 2],
        begun: usize,
    ) -> Self {
        let next = u32::try_from(begun).unwrap();
        Self { link, folder, holder, shell, facts: Vec::new(), next, stage: None }
    }

    /// Lets go of everything but the session's folder.
    pub(super) fn into_folder(self) -> tempfile::TempDir {
        self.folder
    }

    /// The next fact; `None` when the holder is gone.
    pub(super) async fn fact(&mut self) -> Option<FactBody> {
        let fact = tokio::time::timeout(PATIENCE, self.link.facts.recv()).await;
        let body = fact.unwrap_or_else(|_| panic!("nothing came; before: {:?}", self.facts))?.body;
        self.facts.push(body.clone());
        Some(body)
    }

    /// Waits for a fact.
    pub(super) async fn until<T>(&mut self, mut wanted: impl FnMut(&FactBody) -> Option<T>) -> T {
        loop {
            let fact = self.fact().await;
            let fact = fact.unwrap_or_else(|| panic!("the holder is gone: {:?}", self.facts));
            if let Some(found) = wanted(&fact) {
                return found;
            }
        }
    }

    /// Asks for a command.
    pub(super) async fn begin(&mut self, mut spec: CommandSpec) -> CommandId {
        self.next += 1;
        spec.id = CommandId::new(format!("c{}", self.next));
        let id = spec.id.clone();
        // A holder whose shell has just ended may be gone: what is read next tells.
        drop(self.link.send(&Ask::Run { spec }));
        id
    }

    /// Waits for a command's end.
    pub(super) async fn end_of(&mut self, id: &CommandId) -> Ended {
        let ended = |fact: &FactBody| match fact {
            FactBody::Ended { end } if end.command == *id => Some((**end).clone()),
            _ => None,
        };
        // One that could not run may have been told before those that were asked for earlier.
        let told = self.facts.iter().find_map(ended);
        let end = match told {
            Some(end) => end,
            None => self.until(ended).await,
        };
        let [stdout, stderr] = self.output(&end);
        Ended { end, stdout, stderr }
    }

    /// Runs a text with wide limits.
    pub(super) async fn run(&mut self, text: &str) -> Ended {
        self.run_as(command("", text)).await
    }

    /// Runs a text under a name that no other coordinator of the session has used.
    pub(super) async fn run_once(&mut self, id: &str, text: &str) -> Ended {
        let spec = command(id, text);
        let id = spec.id.clone();
        drop(self.link.send(&Ask::Run { spec }));
        self.end_of(&id).await
    }

    /// Runs a command to its end.
    pub(super) async fn run_as(&mut self, spec: CommandSpec) -> Ended {
        let id = self.begin(spec).await;
        self.end_of(&id).await
    }

    /// Everything that the terminals gave so far.
    pub(super) fn transcript(&self) -> String {
        let raw = std::fs::read(self.folder.path().join("transcript/out.raw")).unwrap();
        String::from_utf8_lossy(&raw).into_owned()
    }

    /// Waits until the command that was begun last has started and printed the text.
    pub(super) async fn printed(&mut self, text: &str) {
        self.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
        let started = self.facts.iter().rev().find_map(|fact| match fact {
            FactBody::Started { offset, .. } => usize::try_from(*offset).ok(),
            _ => None,
        });
        let from = started.unwrap_or(0);
        let raw = self.folder.path().join("transcript/out.raw");
        eventually("the text is printed", || {
            let bytes = std::fs::read(&raw).unwrap_or_default();
            String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).contains(text)
        })
        .await;
    }

    /// A command's bytes of both streams, as the terminals gave them.
    pub(super) fn end_bytes(&self, end: &CommandEnd) -> Vec<u8> {
        let raw = std::fs::read(self.folder.path().join("transcript/out.raw")).unwrap();
        let at = |offset: u64| usize::try_from(offset).unwrap();
        raw[at(end.span.raw_start)..at(end.span.raw_end)].to_vec()
    }

    /// Ends the session; the survivors' count.
    pub(super) async fn close(mut self) -> usize {
        self.link.send(&Ask::Close).unwrap();
        let survivors = self
            .until(|fact| match fact {
                FactBody::Closed { survivors } => Some(survivors.len()),
                _ => None,
            })
            .await;
        assert_eq!(self.fact().await, None);
        survivors
    }

    /// A command's streams, with line ends as the program wrote them.
    pub(super) fn output(&self, end: &CommandEnd) -> [String; 2] {
        // A file without a byte is not made.
        let read = |name| {
            std::fs::read(self.folder.path().join("transcript").join(name)).unwrap_or_default()
        };
        let (raw, idx) = (read("out.raw"), read("out.idx"));
        assert_eq!(idx.len() % RECORD_BYTES, 0);
        let mut streams = [Vec::new(), Vec::new()];
        let at = |offset: u64| usize::try_from(offset).unwrap();
        let (from, to) = (at(end.span.idx_start), at(end.span.idx_end));
        let gaps = read_gaps(&self.folder.path().join("transcript"));
        for segment in segments(&idx[from..to], end.span.raw_end) {
            let stream = usize::from(segment.stream == Stream::Stderr);
            for stretch in gaps.cut(segment.start..segment.end) {
                if let Stretch::Stored(range) = stretch {
                    // On a full disk the file is shorter than what was said.
                    let range = at(range.start).min(raw.len())..at(range.end).min(raw.len());
                    streams[stream].extend_from_slice(&raw[range]);
                }
            }
        }
        // The window's size, then the first record.
        let entries = idx[from..to].as_chunks::<RECORD_BYTES>().0;
        if let Some(record) = entries.iter().find_map(Record::from_bytes) {
            assert_eq!(record.offset, end.span.raw_start);
        }
        streams.map(|bytes| String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    }
}

/// What a transcript says is missing from it.
pub(super) fn read_gaps(transcript: &std::path::Path) -> Gaps {
    Gaps::read(&std::fs::read(transcript.join("out.gap")).unwrap_or_default())
}

/// True while a process with this pid is more than a corpse.
pub(super) fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

/// Waits until it holds.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
