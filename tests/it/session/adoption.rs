//! Holders that lose their coordinator go on, and are adopted by the next.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use callboard::domain::frame;
use callboard::domain::ids::{CommandId, SessionId};
use callboard::domain::key::Input;
use callboard::domain::outcome::{CommandState, Reason};
use callboard::session::link::{self, Stage};
use callboard::session::wire::{Ask, Fact, FactBody, Present};
use callboard::session::{door, identity, unheard};

use super::house::{Session, command, eventually, lives, open_as, spec, stage, with};

/// Longer than any test waits, and what a failed one leaves ends by itself.
const PATIENCE_MS: u64 = 60_000;
const ANSWER: Duration = Duration::from_secs(10);

/// A session without a coordinator.
struct Orphan {
    folder: tempfile::TempDir,
    session: SessionId,
    holder: i32,
    shell: i32,
}

impl Orphan {
    fn door(&self) -> PathBuf {
        self.folder.path().join("door")
    }

    fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn unheard(&self) -> Vec<FactBody> {
        let facts = unheard::read(&self.folder.path().join("transcript")).unwrap();
        facts.into_iter().map(|fact| fact.body).collect()
    }

    async fn is_at_its_door(&self) {
        eventually("the holder is at its door", || {
            door::waiting(&self.door()).unwrap() == [self.session.clone()]
        })
        .await;
    }

    async fn says_unheard(&self, wanted: impl Fn(&FactBody) -> bool) {
        eventually("it is written down", || self.unheard().iter().any(&wanted)).await;
    }

    /// Adopts the session; gives it back where that is refused.
    async fn try_adopt(self, epoch: u64) -> Result<(Session, Present), (Self, std::io::Error)> {
        self.is_at_its_door().await;
        match link::adopt(&self.door(), &self.session, epoch, ANSWER).await {
            Ok((link, present)) => {
                assert_eq!(present.spec.id, self.session);
                assert!(!door::file(&self.door(), &self.session).exists(), "nobody else comes in");
                let (pids, begun) = ([self.holder, self.shell], present.commands.len());
                let session = Session::on(link, self.folder, pids, begun);
                Ok((session, present))
            }
            Err(error) => Err((self, error)),
        }
    }

    async fn adopt(self, epoch: u64) -> (Session, Present) {
        let adopted = self.try_adopt(epoch).await;
        adopted.unwrap_or_else(|(_, error)| panic!("not adopted: {error}"))
    }
}

/// A session that waits for another coordinator.
async fn open() -> Session {
    open_patient(stage(), PATIENCE_MS).await
}

async fn open_patient(stage: Arc<Stage>, patience_ms: u64) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path());
    spec.patience_ms = patience_ms;
    open_as(stage, folder, spec).await.unwrap()
}

impl Session {
    /// Its coordinator is gone, the stage with it.
    fn orphan(self) -> Orphan {
        let (holder, shell) = (self.holder, self.shell);
        Orphan { folder: self.into_folder(), session: SessionId::new("s"), holder, shell }
    }

    /// Ends it as a coordinator does: the holder stays until its last word is on record.
    async fn finish(mut self) {
        self.link.send(&Ask::Close).unwrap();
        self.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
        self.link.send(&Ask::Ack { through: u64::MAX }).unwrap();
        assert_eq!(self.fact().await, None);
        let holder = self.holder;
        eventually("the holder ends", || !lives(holder)).await;
    }

    async fn begin_and_wait_for_go(&mut self) -> CommandId {
        let text = "echo before; until [ -e go ]; do sleep 0.02; done; echo after; (exit 7)";
        let id = self.begin(command("", text)).await;
        self.printed("before").await;
        id
    }
}

fn ended(fact: &FactBody) -> Option<CommandId> {
    match fact {
        FactBody::Ended { end } => Some(end.command.clone()),
        _ => None,
    }
}

fn known(present: &Present) -> Vec<&str> {
    present.commands.iter().map(|known| known.command.as_str()).collect()
}

#[test]
fn a_command_outlives_its_coordinator_and_its_end_is_told_to_the_next() {
    with(async {
        let mut session = open().await;
        let id = session.begin_and_wait_for_go().await;
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        std::fs::write(orphan.work("go"), "").unwrap();
        orphan.says_unheard(|fact| ended(fact).is_some()).await;
        let (mut session, present) = orphan.adopt(1).await;
        assert_eq!(known(&present), [id.as_str()]);
        assert_eq!((present.holder.pid, present.shell), (session.holder, Some(session.shell)));
        assert!(identity::lives(&present.holder) && !present.closing);
        assert_eq!(present.end, "before\r\nafter\r\n".len() as u64);
        let told = session.end_of(&id).await;
        assert_eq!((told.end.exit_code, &*told.stdout), (Some(7), "before\nafter\n"));
        assert_eq!(told.end.span.raw_end, present.end);
        let about = |fact: &FactBody| match fact {
            FactBody::Opened { .. } => 0,
            FactBody::Started { .. } => 1,
            FactBody::Ended { .. } => 2,
            other => panic!("{other:?}"),
        };
        assert_eq!(session.facts.iter().map(about).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(session.run("echo on").await.stdout, "on\n");
        session.finish().await;
    });
}

#[test]
fn an_idle_session_is_adopted_again_and_again() {
    with(async {
        let mut session = open().await;
        session.run("x=kept; cd /; sleep 300 &").await;
        for epoch in [3, 7, 8, 900] {
            let (next, present) = session.orphan().adopt(epoch).await;
            session = next;
            assert_eq!(present.spec.patience_ms, PATIENCE_MS);
            let told = session.run_once(&format!("e{epoch}"), "echo $x $PWD; jobs").await;
            assert_eq!(told.stdout.lines().count(), 2, "{told:?}");
            assert!(told.stdout.starts_with("kept /\n[1]+  Running "), "{told:?}");
        }
        let (session, present) = session.orphan().adopt(901).await;
        assert_eq!(known(&present), ["c1", "e3", "e7", "e8", "e900"]);
        session.finish().await;
    });
}

#[test]
fn a_question_is_asked_again() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "read -p 'name? ' x; echo \"got $x\"")).await;
        session.until(|fact| matches!(fact, FactBody::Awaiting { .. }).then_some(())).await;
        // Even one that is on record.
        session.link.send(&Ask::Ack { through: u64::MAX }).unwrap();
        let (mut session, _) = session.orphan().adopt(1).await;
        let prompt = |fact: &FactBody| match fact {
            FactBody::Awaiting { command, awaiting } if *command == id => {
                Some(awaiting.prompt.clone())
            }
            _ => None,
        };
        assert_eq!(session.until(prompt).await.trim_end(), "name?");
        let input = Input::Text { text: "ann\n".to_owned() };
        let ask = Ask::Input { request: 1, command: Some(id.clone()), input };
        session.link.send(&ask).unwrap();
        assert!(session.end_of(&id).await.stdout.ends_with("got ann\n"));
        session.finish().await;
    });
}

#[test]
fn a_question_that_was_answered_meanwhile_is_not() {
    with(async {
        let mut session = open().await;
        let mut spec = command("", "read -p 'name? ' x; until [ -e go ]; do sleep 0.02; done");
        spec.input_timeout_ms = 60_000;
        let id = session.begin(spec).await;
        session.until(|fact| matches!(fact, FactBody::Awaiting { .. }).then_some(())).await;
        let input = Input::Text { text: "ann\n".to_owned() };
        let ask = Ask::Input { request: 1, command: Some(id.clone()), input };
        session.link.send(&ask).unwrap();
        session.until(|fact| matches!(fact, FactBody::Resumed { .. }).then_some(())).await;
        let orphan = session.orphan();
        std::fs::write(orphan.work("go"), "").unwrap();
        let (mut session, _) = orphan.adopt(1).await;
        session.end_of(&id).await;
        assert!(!session.facts.iter().any(|fact| matches!(fact, FactBody::Awaiting { .. })));
        session.finish().await;
    });
}

#[test]
fn a_person_keeps_the_shell() {
    with(async {
        let mut session = open().await;
        let id = CommandId::new("t1");
        let ask = Ask::TakeOver { command: id.clone(), by: "a tester".to_owned() };
        session.link.send(&ask).unwrap();
        let is_taken = |fact: &FactBody| {
            matches!(fact, FactBody::TakenOver { command, by, .. } if *command == id && by == "a tester")
                .then_some(())
        };
        session.until(is_taken).await;
        session.link.send(&Ask::Type { bytes: b"y=typed\r".to_vec() }).unwrap();
        session.link.send(&Ask::Ack { through: u64::MAX }).unwrap();
        let (mut session, _) = session.orphan().adopt(1).await;
        session.until(is_taken).await;
        session.link.send(&Ask::HandBack).unwrap();
        session.end_of(&id).await;
        session.until(|fact| matches!(fact, FactBody::HandedBack { .. }).then_some(())).await;
        assert_eq!(session.run("echo $y").await.stdout, "typed\n");
        session.finish().await;
    });
}

#[test]
fn a_session_that_was_closing_tells_that_it_has() {
    with(async {
        let mut session = open().await;
        session.run("trap 'sleep 0.3; touch ran' EXIT").await;
        session.link.send(&Ask::Close).unwrap();
        session.link.send(&Ask::Close).unwrap();
        let orphan = session.orphan();
        orphan.says_unheard(|fact| matches!(fact, FactBody::Closed { .. })).await;
        assert!(orphan.work("ran").exists() && lives(orphan.holder) && !lives(orphan.shell));
        assert!(!orphan.folder.path().join("tmp").exists());
        let (mut session, present) = orphan.adopt(1).await;
        assert!(present.closing && present.told_to_close && present.shell.is_none());
        session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
        // Lost again before that was on record, it tells it again.
        let (mut session, _) = session.orphan().adopt(2).await;
        session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
        session.link.send(&Ask::Ack { through: u64::MAX }).unwrap();
        assert_eq!(session.fact().await, None);
        assert_eq!(std::fs::read_dir(session.folder.path().join("door")).unwrap().count(), 0);
    });
}

#[test]
fn one_that_was_only_starting_is_open_for_the_next() {
    with(async {
        let stage = stage();
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path());
        spec.patience_ms = PATIENCE_MS;
        let link = stage.open().unwrap();
        link.send(&Ask::Open { spec: Box::new(spec) }).unwrap();
        link.send(&Ask::Run { spec: command("c1", "echo begun") }).unwrap();
        drop((link, stage));
        let orphan = Orphan { folder, session: SessionId::new("s"), holder: 0, shell: 0 };
        let (mut session, present) = orphan.adopt(1).await;
        assert_eq!(known(&present), ["c1"]);
        let opened = session.until(|fact| match fact {
            FactBody::Opened { holder, shell, .. } => Some((*holder, *shell)),
            _ => None,
        });
        (session.holder, session.shell) = opened.await;
        assert_eq!(session.holder, present.holder.pid);
        assert_eq!(session.end_of(&"c1".into()).await.stdout, "begun\n");
        session.finish().await;
    });
}

/// What a peer gets that writes these asks to a session's door: whether the door was shut on it.
fn is_turned_away(orphan: &Orphan, asks: &[Ask]) -> bool {
    let mut stream = UnixStream::connect(door::file(&orphan.door(), &orphan.session)).unwrap();
    let mut bytes = Vec::new();
    asks.iter().for_each(|ask| frame::encode(ask, &mut bytes).unwrap());
    // It may be turned away before it has said all.
    drop(stream.write_all(&bytes));
    stream.set_read_timeout(Some(ANSWER)).unwrap();
    // What was not read of it resets the connection.
    matches!(
        stream.read(&mut [0; 64]).map_err(|error| error.kind()),
        Ok(0) | Err(std::io::ErrorKind::ConnectionReset)
    )
}

#[test]
fn a_coordinator_that_has_been_replaced_commands_nothing() {
    with(async {
        let (session, _) = open().await.orphan().adopt(5).await;
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        let (orphan, error) = orphan.try_adopt(4).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
        let run = Ask::Run { spec: command("late", "touch late") };
        assert!(is_turned_away(&orphan, &[Ask::Adopt { epoch: 4 }, run.clone(), Ask::Close]));
        // Nor does one that does not say who it is, or no coordinator at all.
        assert!(is_turned_away(&orphan, std::slice::from_ref(&run)));
        assert!(is_turned_away(&orphan, &[Ask::Type { bytes: vec![b'x'; 100_000] }]));
        // The same one may try again, and a later one may.
        let (session, present) = orphan.adopt(5).await;
        assert_eq!(known(&present), <[&str; 0]>::default());
        let (mut session, _) = session.orphan().adopt(6).await;
        assert_eq!(session.run("ls").await.stdout, "");
        session.finish().await;
    });
}

#[test]
fn a_session_that_has_a_coordinator_listens_to_no_other() {
    with(async {
        let (mut session, _) = open().await.orphan().adopt(1).await;
        let door = session.folder.path().join("door");
        assert_eq!(door::waiting(&door).unwrap(), []);
        let error = link::adopt(&door, &"s".into(), 2, ANSWER).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(session.run("echo mine").await.stdout, "mine\n");
        session.finish().await;
    });
}

#[test]
fn one_that_stands_at_the_door_and_says_nothing_keeps_nobody_out() {
    with(async {
        let orphan = open().await.orphan();
        orphan.is_at_its_door().await;
        let silent = UnixStream::connect(door::file(&orphan.door(), &orphan.session)).unwrap();
        let (session, _) = orphan.adopt(1).await;
        drop(silent);
        session.finish().await;
    });
}

#[test]
fn another_user_is_not_let_in() {
    if !rustix::process::geteuid().is_root() || !PathBuf::from("/usr/bin/perl").exists() {
        eprintln!("skipped: only root can be another user, and perl knocks");
        return;
    }
    with(async {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        use std::os::unix::process::CommandExt as _;
        let orphan = open().await.orphan();
        orphan.is_at_its_door().await;
        let socket = door::file(&orphan.door(), &orphan.session);
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&orphan.door()), mode(&socket)), (0o700, 0o600));
        let open = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(orphan.folder.path(), 0o755);
        open(&orphan.door(), 0o755);
        open(&socket, 0o666);
        let mut bytes = Vec::new();
        frame::encode(&Ask::Adopt { epoch: 9 }, &mut bytes).unwrap();
        let text = "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or die; \
                    local $/; syswrite($s, <STDIN>); print 'heard ', length(<$s> // '');";
        let mut knock = std::process::Command::new("/usr/bin/perl");
        knock.args(["-e", text]).arg(&socket).uid(65_534).current_dir("/");
        let mut knock = knock
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        knock.stdin.take().unwrap().write_all(&bytes).unwrap();
        let said = knock.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "heard 0");
        let (session, _) = orphan.adopt(1).await;
        session.finish().await;
    });
}

#[test]
fn a_session_that_nobody_adopts_ends_whole() {
    with(async {
        let mut session = open_patient(stage(), 400).await;
        let left = session.run("setsid sleep 300 & sleep 0.05; echo $!").await;
        let children: Vec<i32> = left.end.children.iter().map(|child| child.pid).collect();
        assert_eq!(children.len(), 1, "{left:?}");
        let id = session.begin_and_wait_for_go().await;
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        eventually("the tree is gone", || {
            !lives(orphan.holder) && !lives(orphan.shell) && !children.iter().any(|&pid| lives(pid))
        })
        .await;
        assert_eq!(door::waiting(&orphan.door()).unwrap(), []);
        assert!(!orphan.folder.path().join("tmp").exists());
        // And has told how.
        let told = orphan.unheard();
        let end = told.iter().find_map(|fact| match fact {
            FactBody::Ended { end } if end.command == id => Some(end.reason.clone()),
            _ => None,
        });
        assert_eq!(end, Some(Some(Reason::SessionClosed)), "{told:?}");
        assert!(matches!(told.last(), Some(FactBody::Closed { .. })), "{told:?}");
    });
}

#[test]
fn a_holder_that_is_killed_has_told_how_its_command_ended() {
    with(async {
        let mut session = open().await;
        let id = session.begin_and_wait_for_go().await;
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        std::fs::write(orphan.work("go"), "").unwrap();
        orphan.says_unheard(|fact| ended(fact).is_some()).await;
        let holder = identity::of(orphan.holder).unwrap();
        assert!(identity::signal(&holder, rustix::process::Signal::KILL).unwrap());
        eventually("all of it is gone", || !lives(orphan.holder) && !lives(orphan.shell)).await;
        let told = orphan.unheard();
        let end = told.iter().find_map(|fact| match fact {
            FactBody::Ended { end } if end.command == id => Some(end.clone()),
            _ => None,
        });
        let end = end.unwrap();
        assert_eq!((end.state, end.exit_code), (CommandState::Failed, Some(7)), "{end:?}");
        // Its door is still to be seen, and nobody is behind it.
        let (orphan, error) = orphan.try_adopt(1).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        door::remove(&orphan.door(), &orphan.session);
        assert_eq!(door::waiting(&orphan.door()).unwrap(), []);
    });
}

#[test]
fn what_is_asked_twice_is_done_once() {
    with(async {
        let mut session = open().await;
        let once = Ask::Run { spec: command("c1", "echo x >> ran; [ -e go ] || sleep 0.2") };
        session.link.send(&once).unwrap();
        session.link.send(&once).unwrap();
        session.end_of(&"c1".into()).await;
        session.link.send(&once).unwrap();
        session.link.send(&Ask::End { command: "c1".into(), reason: Reason::INTERRUPT }).unwrap();
        let (mut session, present) = session.orphan().adopt(1).await;
        assert_eq!(known(&present), ["c1"]);
        session.link.send(&once).unwrap();
        assert_eq!(session.run_once("o2", "cat ran").await.stdout, "x\n");
        // Those that were asked long ago are forgotten, and what waits is not.
        for n in 0..150 {
            session.link.send(&Ask::Run { spec: command(&format!("n{n}"), ":") }).unwrap();
        }
        session.end_of(&"n149".into()).await;
        let last = Ask::Run { spec: command("n149", "echo again >> ran") };
        session.link.send(&last).unwrap();
        let first = session.begin_and_wait_for_go().await;
        for n in 0..150 {
            session
                .link
                .send(&Ask::Run { spec: command(&format!("w{n}"), "echo w >> ran") })
                .unwrap();
        }
        // Asked in order, it is told once all of them have been heard.
        session.link.send(&Ask::End { command: "w149".into(), reason: Reason::INTERRUPT }).unwrap();
        session.end_of(&"w149".into()).await;
        let (mut session, present) = session.orphan().adopt(2).await;
        let waiting = known(&present);
        assert!(waiting.contains(&first.as_str()) && waiting.contains(&"w0"), "{waiting:?}");
        session.link.send(&Ask::Run { spec: command("w0", "echo w >> ran") }).unwrap();
        std::fs::write(session.folder.path().join("work/go"), "").unwrap();
        session.end_of(&"w148".into()).await;
        let ran = std::fs::read_to_string(session.folder.path().join("work/ran")).unwrap();
        assert_eq!(ran, format!("x\n{}", "w\n".repeat(149)));
        session.finish().await;
    });
}

#[test]
fn twenty_are_adopted_at_once() {
    with(async {
        let stage = stage();
        let mut orphans = Vec::new();
        for _ in 0..20 {
            let mut session = open_patient(Arc::clone(&stage), PATIENCE_MS).await;
            session.begin_and_wait_for_go().await;
            orphans.push(session.orphan());
        }
        drop(stage);
        for orphan in &orphans {
            std::fs::write(orphan.work("go"), "").unwrap();
        }
        let mut adoptions = tokio::task::JoinSet::new();
        for orphan in orphans {
            adoptions.spawn(async move { orphan.adopt(1).await });
        }
        for (mut session, _) in adoptions.join_all().await {
            let told = session.end_of(&"c1".into()).await;
            assert_eq!((told.end.exit_code, &*told.stdout), (Some(7), "before\nafter\n"));
            session.run_once("c2", ":").await;
            assert_eq!(session.facts.iter().filter(|fact| ended(fact).is_some()).count(), 2);
            session.finish().await;
        }
    });
}

#[test]
fn facts_keep_their_numbers() {
    with(async {
        let mut session = open().await;
        session.run("true").await;
        session.run_once("c2", "true").await;
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        let (mut link, _) = link::adopt(&orphan.door(), &"s".into(), 1, ANSWER).await.unwrap();
        let mut told: Vec<Fact> = Vec::new();
        link.send(&Ask::Run { spec: command("c3", "true") }).unwrap();
        while told.iter().filter(|fact| ended(&fact.body).is_some()).count() < 3 {
            told.push(link.facts.recv().await.unwrap());
        }
        let numbers: Vec<u64> = told.iter().map(|fact| fact.seq).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{told:?}");
        assert!(matches!(told[0], Fact { seq: 1, body: FactBody::Opened { .. } }), "{told:?}");
        let pids = [orphan.holder, orphan.shell];
        let session = Session::on(link, orphan.folder, pids, 3);
        session.finish().await;
    });
}

#[test]
fn nothing_of_a_coordinator_is_held_on_to() {
    with(async {
        let session = open().await;
        let holder = rustix::process::Pid::from_raw(session.holder);
        // A terminal that hangs up, or a group or session that is killed, is not the holder's.
        assert_eq!(rustix::process::getsid(holder).ok(), holder);
        assert_eq!(rustix::process::getpgid(holder).ok(), holder);
        let orphan = session.orphan();
        orphan.is_at_its_door().await;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", orphan.holder)).unwrap();
        let terminal = stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(4);
        assert_eq!(terminal, Some("0"));
        let at = |descriptor: &str| {
            std::fs::read_link(format!("/proc/{}/{descriptor}", orphan.holder)).unwrap()
        };
        for descriptor in ["fd/0", "fd/1", "fd/2"] {
            assert_eq!(at(descriptor), PathBuf::from("/dev/null"));
        }
        assert_eq!(at("cwd"), PathBuf::from("/"));
        orphan.adopt(1).await.0.finish().await;
    });
}
