//! Runs the corpus: several sessions at a time, one a row.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use callboard::domain::result::Awaiting;
use callboard::domain::session::Limit;
use callboard::session::link::Stage;
use callboard::session::wire::FactBody;

use super::super::house::{command, open_as, spec, stage, with};
use super::tally::{Seen, Tally};
use super::{Label, Row, User, waits, works};
use crate::house::{skipped, wait_for};

/// Rows at a time.
const LANES: usize = 6;
/// Who waits has to be seen within this.
const SEEN_MAX: Duration = Duration::from_secs(18);
/// Who works is watched for so long; the slowest rule needs a little more than 2 s.
const WATCHED: Duration = Duration::from_millis(3_500);

#[test]
fn programs_that_wait_are_told_from_those_that_work() {
    let ground = Arc::new(Ground::lay());
    let mut rows: VecDeque<Row> = VecDeque::new();
    let mut tally = Tally::default();
    for row in waits::ROWS.iter().chain(works::ROWS) {
        match ground.lacks(row) {
            Some(why) => {
                skipped(&format!("corpus: {}", row.name), &why);
                tally.skipped(row);
            }
            None => rows.push_back(*row),
        }
    }
    let (rows, tally) = (Arc::new(Mutex::new(rows)), Arc::new(Mutex::new(tally)));
    let lanes: Vec<_> = (0..LANES)
        .map(|_| {
            let (ground, rows, tally) = (ground.clone(), rows.clone(), tally.clone());
            std::thread::spawn(move || {
                while let Some(row) = { rows.lock().unwrap().pop_front() } {
                    let seen = look_at(&ground, &row);
                    tally.lock().unwrap().note(&row, seen);
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.join().unwrap();
    }
    tally.lock().unwrap().conclude();
}

/// Runs a row until it is seen to wait, or has been watched for long enough.
fn look_at(ground: &Ground, row: &Row) -> Seen {
    let mut seen = Seen::default();
    with(async {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path());
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        for path in [folder.path(), &spec.cwd, &spec.tmp, &spec.transcript, &home] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        spec.env.retain(|(name, _)| name != "HOME");
        spec.env.extend(ground.variables(&home));
        let work = spec.cwd.clone();
        let mut session = open_as(ground.stage(row.user), folder, spec).await.unwrap();
        if !row.before.is_empty() {
            let ended = session.run(row.before).await;
            assert_eq!(ended.end.exit_code, Some(0), "{}: {ended:?}", row.name);
        }
        let mut asks = command("", row.text);
        asks.limit = Limit::Exact { ms: 60_000 };
        session.begin(asks).await;
        let patience = if row.label == Label::Works { WATCHED } else { SEEN_MAX };
        let waited = tokio::time::timeout(patience, async {
            session
                .until(|fact| match fact {
                    FactBody::Awaiting { awaiting, .. } => Some(Ok(awaiting.clone())),
                    FactBody::Ended { end } => Some(Err(format!("{:?}", end.reason))),
                    _ => None,
                })
                .await
        })
        .await;
        match waited {
            Ok(Ok(awaiting)) => {
                seen.after_ms = Some(since_the_block(&work, &awaiting));
                seen.awaiting = Some(awaiting);
            }
            Ok(Err(reason)) => seen.ended = Some(reason),
            Err(_) => {}
        }
        let _ = session.close().await;
    });
    seen
}

/// From when it said that it would block now; else from its last output, or from its start.
fn since_the_block(work: &Path, awaiting: &Awaiting) -> f64 {
    let Ok(at) = std::fs::read_to_string(work.join("at")) else { return awaiting.idle_ms as f64 };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    (now.as_nanos() as f64 - at.trim().parse::<f64>().unwrap()) / 1e6
}

/// What the rows stand on: two stages, a server for ssh and one that says nothing.
struct Ground {
    folder: tempfile::TempDir,
    own: Arc<Stage>,
    plain: Option<Arc<Stage>>,
    sshd: Option<(Child, u16)>,
    stalled: TcpListener,
}

impl Ground {
    fn lay() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = stage();
        let plain = plain_stage(folder.path(), &own);
        let sshd = start_sshd(folder.path());
        Self { folder, own, plain, sshd, stalled }
    }

    fn stage(&self, user: User) -> Arc<Stage> {
        match (user, &self.plain) {
            (User::Plain, Some(plain)) => plain.clone(),
            _ => self.own.clone(),
        }
    }

    /// What the row cannot have here.
    fn lacks(&self, row: &Row) -> Option<String> {
        if let Some(missing) = row.needs.iter().find(|needed| find(needed).is_none()) {
            return Some(format!("{missing} is missing"));
        }
        if row.needs.contains(&"/usr/sbin/sshd") && self.sshd.is_none() {
            return Some("sshd does not start".to_owned());
        }
        if row.needs.contains(&"setpriv") && !is_root() {
            return Some("only root can become another user".to_owned());
        }
        if row.user == User::Plain && is_root() && self.plain.is_none() {
            return Some("no session of a plain user".to_owned());
        }
        if row.name == "sudo runs a sleep" && !succeeds("sudo -n true") {
            return Some("sudo asks".to_owned());
        }
        None
    }

    fn variables(&self, home: &Path) -> Vec<(String, String)> {
        let stalled = self.stalled.local_addr().unwrap().port();
        let ssh = self.sshd.as_ref().map_or(0, |(_, port)| *port);
        [
            ("HOME", home.display().to_string()),
            ("SSH_PORT", ssh.to_string()),
            ("SSH_KEY", self.folder.path().join("user_key").display().to_string()),
            ("STALLED_PORT", stalled.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some((sshd, _)) = &mut self.sshd {
            drop(sshd.kill());
            drop(sshd.wait());
        }
    }
}

/// A stage of a user without rights, for root: its holders cannot examine root's processes.
fn plain_stage(folder: &Path, own: &Arc<Stage>) -> Option<Arc<Stage>> {
    if !is_root() {
        return Some(own.clone());
    }
    find("setpriv")?;
    let binary = folder.join("callboard");
    std::fs::copy(env!("CARGO_BIN_EXE_callboard"), &binary).unwrap();
    let start = folder.join("plain");
    let text = format!(
        "#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups {} \"$@\"\n",
        binary.display()
    );
    std::fs::write(&start, text).unwrap();
    for path in [&binary, &start] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(Arc::new(Stage::start(&start, [("PATH", "/usr/bin:/bin")]).unwrap()))
}

/// An ssh server on a loopback port, with a key that lets its own user in.
fn start_sshd(folder: &Path) -> Option<(Child, u16)> {
    find("/usr/sbin/sshd")?;
    for key in ["host_key", "user_key"] {
        let path = folder.join(key).display().to_string();
        if !succeeds(&format!("ssh-keygen -q -t ed25519 -N '' -f {path}")) {
            return None;
        }
    }
    // Where it keeps what it does without rights; only root has to.
    drop(std::fs::create_dir_all("/run/sshd"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = folder.join("sshd_config");
    let text = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/user_key.pub\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n",
        folder.display()
    );
    std::fs::write(&config, text).unwrap();
    let sshd = Command::new("/usr/sbin/sshd")
        .args(["-D", "-f"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    wait_for("sshd listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())
    });
    Some((sshd, port))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn find(program: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .map(|folder| Path::new(folder).join(program))
        .into_iter()
        .find(|path| path.exists())
}

fn succeeds(script: &str) -> bool {
    let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
    let [stdin, stdout, stderr] = quiet;
    Command::new("sh")
        .args(["-c", script])
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .status()
        .is_ok_and(|status| status.success())
}
