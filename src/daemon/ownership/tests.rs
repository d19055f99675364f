//! Tests of the ownership: one at a time, gone with its process, never confused by what is left.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use super::*;
use crate::daemon::workspace::Places;

const ROOT: &str = "CALLBOARD_TEST_OWNED_ROOT";

fn places(dir: &Path) -> Places {
    Places {
        state_home: dir.join("state"),
        runtime_home: None,
        tmp: dir.to_owned(),
        uid: rustix::process::geteuid().as_raw(),
    }
}

fn workspace(dir: &Path) -> Workspace {
    let root = dir.join("proj \u{1F3AD}");
    std::fs::create_dir_all(&root).unwrap();
    Workspace::open(&places(dir), &root, None).unwrap()
}

fn taken(workspace: &Workspace) -> Owner {
    take(workspace, "1.2.3", Timestamp(5)).unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn one_owner_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    assert_eq!(held(workspace.root()), None);
    let owner = taken(&workspace);
    let seen = held(workspace.root()).unwrap();
    assert_eq!(&seen, owner.me());
    assert_eq!((seen.pid, seen.version.as_str()), (std::process::id(), "1.2.3"));
    assert_eq!((&seen.socket, seen.since), (&workspace.socket(), Timestamp(5)));
    match take(&workspace, "2", Timestamp(6)) {
        Err(TakeError::Held(by)) => assert_eq!(*by, seen),
        other => panic!("{other:?}"),
    }
    drop(owner);
    assert_eq!(held(workspace.root()), None);
    assert!(workspace.lock().exists(), "the file stays");
    assert_eq!(workspace.lock().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(taken(&workspace));
}

#[test]
fn of_many_takers_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    for round in 0..30 {
        let (start, end) = (Barrier::new(8), Barrier::new(8));
        let winners: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let owner = take(&workspace, "1", Timestamp(1));
                        end.wait();
                        if let Err(error) = &owner {
                            assert!(matches!(error, TakeError::Held(_)), "{error}");
                        }
                        usize::from(owner.is_ok())
                    })
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(winners, 1, "round {round}");
    }
}

#[test]
fn what_a_dead_owner_left_is_no_owner() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    let me = taken(&workspace).me().clone();
    let left = |change: fn(&mut HeldBy)| {
        let mut holder = me.clone();
        change(&mut holder);
        std::fs::write(workspace.lock(), serde_json::to_vec(&holder).unwrap()).unwrap();
        held(workspace.root())
    };
    assert_eq!(left(|_| ()), Some(me.clone()));
    assert_eq!(left(|holder| holder.start_time += 1), None, "the pid is another's now");
    assert_eq!(left(|holder| holder.boot_id.push('x')), None, "before a reboot");
    assert_eq!(left(|holder| holder.lock_inode += 1), None, "copied with the workspace");
    assert_eq!(left(|holder| holder.pid = u32::MAX), None);
    for garbage in ["", "{", "[]", "{\"pid\":1}"] {
        std::fs::write(workspace.lock(), garbage).unwrap();
        assert_eq!(held(workspace.root()), None, "{garbage}");
    }
    drop(taken(&workspace));
    assert_eq!(held(dir.path()), None, "not even a workspace");
}

#[test]
fn a_lock_of_nobody_known_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    let lock = File::create(workspace.lock()).unwrap();
    lock.lock().unwrap();
    assert!(matches!(take(&workspace, "1", Timestamp(1)), Err(TakeError::HeldUnknown { .. })));
    lock.unlock().unwrap();
    drop(taken(&workspace));
}

#[test]
fn the_socket_is_private_and_replaced_only_when_stale() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    let mut owner = taken(&workspace);
    drop(UnixListener::bind(workspace.socket()).unwrap());
    assert!(UnixStream::connect(workspace.socket()).is_err(), "left by a dead owner");
    let listener = owner.listen().unwrap();
    assert_eq!(workspace.socket().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(workspace.socket().as_os_str().len() <= 100);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _inside = runtime.enter();
    let client = UnixStream::connect(workspace.socket()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let peer = admit(&tokio::net::UnixStream::from_std(stream).unwrap()).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(peer, Peer { uid, pid: Some(std::process::id()) });
    drop((client, owner));
    assert!(!workspace.socket().exists());

    // Somebody else's file is neither replaced nor removed.
    let mut owner = taken(&workspace);
    std::fs::write(workspace.socket(), "mine").unwrap();
    assert!(owner.listen().is_err());
    drop(owner);
    assert_eq!(std::fs::read_to_string(workspace.socket()).unwrap(), "mine");
}

#[test]
fn processes_are_told_by_their_start() {
    let me = std::process::id();
    assert_eq!(start_time(me), start_time(me));
    assert!(start_time(me).unwrap() > start_time(1).unwrap());
    assert_eq!(start_time(u32::MAX), None);
    let mut child = Command::new("true").spawn().unwrap();
    wait_for("zombie", || start_time(child.id()).is_none().then_some(()));
    child.wait().unwrap();
    assert_eq!(boot_id().unwrap().len(), 36);
}

#[test]
fn the_ownership_ends_with_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path());
    let mut child = owner_elsewhere(dir.path());
    let seen = wait_for("owner", || held(workspace.root()));
    assert_eq!(seen.pid, child.id());
    wait_for("socket", || UnixStream::connect(&seen.socket).ok());
    match take(&workspace, "1", Timestamp(1)) {
        Err(TakeError::Held(by)) => assert_eq!(by.pid, child.id()),
        other => panic!("{other:?}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(held(workspace.root()), None);
    assert!(workspace.socket().exists(), "left behind");
    let mut owner = taken(&workspace);
    let _listener = owner.listen().unwrap();
    assert!(UnixStream::connect(workspace.socket()).is_ok());
}

/// This test program again, as the owner of the workspace in `dir`.
fn owner_elsewhere(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "daemon::ownership::tests::inside", "--ignored"])
        .env(ROOT, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "run by `the_ownership_ends_with_its_process` in a process of its own"]
fn inside() {
    let Some(dir) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let mut owner = taken(&workspace(&dir));
    let _listener = owner.listen().unwrap();
    // Until killed, or until the test that started it is gone.
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
}
