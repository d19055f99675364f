//! Tests of where things lie: in folders of their own, with odd names, copied, moved, robbed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use super::{Origin, Places, Workspace, WorkspaceError, plain};

/// A user's folders, in a folder of the test's.
struct House {
    dir: tempfile::TempDir,
    places: Places,
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    let runtime = dir.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::create_dir(dir.path().join("tmp")).unwrap();
    let places = Places {
        state_home: dir.path().join("state"),
        runtime_home: Some(runtime),
        tmp: dir.path().join("tmp"),
        uid: rustix::process::geteuid().as_raw(),
    };
    House { dir, places }
}

impl House {
    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.path().join(name.as_ref())
    }

    fn root(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let root = self.path(name);
        std::fs::create_dir_all(&root).unwrap();
        root
    }

    fn open(&self, root: &Path) -> Workspace {
        Workspace::open(&self.places, root, None).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn everything_has_its_place_and_is_private() {
    let house = house();
    let root = house.root("proj");
    let workspace = Workspace::open(&house.places, &root, Some("my job/../é")).unwrap();
    let key = workspace.key().to_owned();
    assert_eq!(key.len(), 12);
    let state = house.path(format!("state/callboard/my-job-..---{key}"));
    assert_eq!((workspace.state(), workspace.origin()), (state.as_path(), &Origin::New));
    assert_eq!(workspace.socket(), house.path(format!("run/callboard/{key}.sock")));
    assert_eq!(workspace.lock(), root.join(".callboard/lock"));
    assert_eq!(std::fs::read_to_string(root.join(".callboard/.gitignore")).unwrap(), "*\n");
    workspace.make_session(&"s1".into()).unwrap();
    let run = workspace.make_run(&"r1".into()).unwrap();
    let tmp = workspace.session_tmp(&"s1".into()).unwrap();
    assert_eq!(tmp, house.path(format!("run/callboard/{key}/t/s1")));
    assert_eq!(run, state.join("runs/r1"));
    for folder in [
        &state,
        &workspace.journal(),
        &workspace.board(),
        &workspace.session(&"s1".into()).unwrap(),
        &workspace.session_files(&"s1".into()).unwrap(),
        &run,
        &tmp,
        &house.path("run/callboard"),
        &root.join(".callboard"),
    ] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let again = house.open(&root.join("../proj"));
    assert_eq!((again.state(), again.origin()), (state.as_path(), &Origin::Known));
    assert_eq!(Workspace::look(&house.places, &root).unwrap(), Some(again));
}

#[test]
fn odd_names_are_fine() {
    let house = house();
    for name in [&b"a b"[..], b"q\"uo'te", b"new\nline", b"\xff\xfe", b"100%", "ключ".as_bytes()]
    {
        let root = house.root(OsStr::from_bytes(name));
        let first = house.open(&root);
        let again = house.open(&root);
        assert_eq!((first.state(), again.origin()), (again.state(), &Origin::Known));
        assert_eq!(again.root(), root.canonicalize().unwrap());
        assert!(first.state().to_str().is_some(), "{}", first.state().display());
    }
}

#[test]
fn the_pointer_beats_the_environment() {
    let mut house = house();
    let root = house.root("proj");
    let before = house.open(&root);
    house.places.state_home = house.path("elsewhere");
    house.places.runtime_home = None;
    let after = house.open(&root);
    assert_eq!(after, Workspace { origin: Origin::Known, ..before.clone() });
    // Without the pointer the environment counts; back in the old one the state is found again.
    std::fs::remove_file(root.join(".callboard/pointer")).unwrap();
    assert_eq!(house.open(&root).origin(), &Origin::New);
    std::fs::write(root.join(".callboard/pointer"), "{").unwrap();
    house.places.state_home = house.path("state");
    let found = house.open(&root);
    assert_eq!((found.state(), found.origin()), (before.state(), &Origin::Known));
}

#[test]
fn a_copy_gets_a_state_of_its_own() {
    let house = house();
    let root = house.root("proj");
    let original = house.open(&root);
    let twin = house.path("twin");
    copy(&root, &twin);
    assert_eq!(Workspace::look(&house.places, &twin).unwrap(), None);
    let copied = house.open(&twin);
    assert_eq!(copied.origin(), &Origin::Copied { from: original.root().to_owned() });
    assert_ne!((copied.state(), copied.socket()), (original.state(), original.socket()));
    for root in [&root, &twin] {
        assert_eq!(house.open(root).origin(), &Origin::Known);
    }
    assert_eq!(house.open(&root).state(), original.state());
    // A copy put in the original's place is another folder too.
    std::fs::rename(&root, house.path("old")).unwrap();
    copy(&house.path("old"), &root);
    assert!(matches!(house.open(&root).origin(), Origin::Copied { .. }));
}

#[test]
fn a_moved_workspace_keeps_its_state() {
    let house = house();
    let root = house.root("proj");
    let before = house.open(&root);
    let moved = house.path("moved");
    std::fs::rename(&root, &moved).unwrap();
    let after = house.open(&moved);
    assert_eq!((after.state(), after.key()), (before.state(), before.key()));
    // Then a new one in the old place is not taken for it.
    let other = house.open(&house.root("proj"));
    assert_ne!(other.state(), after.state());
}

#[test]
fn a_state_that_is_gone_or_foreign_is_not_used() {
    let house = house();
    let root = house.root("proj");
    let state = house.open(&root).state().to_owned();
    let gone = Origin::StateGone { state: state.clone() };
    std::fs::remove_dir_all(&state).unwrap();
    assert_eq!(Workspace::look(&house.places, &root).unwrap(), None);
    assert_eq!(house.open(&root).origin(), &gone);
    // A pointer that was made to lead into another workspace's state.
    let other = house.open(&house.root("other"));
    let pointer = root.join(".callboard/pointer");
    let text = std::fs::read_to_string(&pointer).unwrap();
    let victim = other.state().to_str().unwrap();
    std::fs::write(&pointer, text.replace(state.to_str().unwrap(), victim)).unwrap();
    let opened = house.open(&root);
    assert_eq!(opened.origin(), &Origin::Known, "its own is found by its key");
    assert_eq!(Workspace::look(&house.places, &root).unwrap().unwrap().state(), state);
    assert_eq!(opened.state(), state);
    // Or out of its folder by the key.
    std::fs::write(&pointer, text.replace(opened.key(), "../../../../")).unwrap();
    assert_eq!(house.open(&root).state(), state);
}

#[test]
fn those_that_open_at_once_agree() {
    let house = house();
    let root = house.root("proj");
    let barrier = Barrier::new(8);
    let states: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (house, root, barrier) = (&house, &root, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let name = format!("name{n}");
                    Workspace::open(&house.places, root, Some(&name)).unwrap().state().to_owned()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    assert_eq!(std::fs::read_dir(house.path("state/callboard")).unwrap().count(), 1);
}

#[test]
fn the_runtime_folder_is_ours_or_refused() {
    let mut house = house();
    let uid = house.places.uid;
    let fallback = house.path(format!("tmp/callboard-{uid}"));
    let runtime = |house: &House| house.places.runtime(None);
    // Too long for a socket, missing, and nothing at all: `/tmp`.
    let long = house.root("x".repeat(90));
    for home in [Some(long), Some(house.path("missing")), None] {
        house.places.runtime_home = home;
        assert_eq!(runtime(&house).unwrap(), fallback);
    }
    std::fs::set_permissions(&fallback, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(runtime(&house).unwrap(), fallback);
    assert_eq!(mode(&fallback), 0o700, "closed again");

    let refused = |house: &House, words: &str| {
        let text = runtime(house).unwrap_err().to_string();
        assert!(text.contains(words) && text.contains("move it away"), "{text}");
    };
    if uid == 0 {
        chown(&fallback, Some(4711), None).unwrap();
        refused(&house, "belongs to user 4711");
        house.places.runtime_home = Some(house.root("theirs"));
        chown(house.path("theirs"), Some(4711), None).unwrap();
        refused(&house, "belongs to user 4711");
    }
    std::fs::remove_dir(&fallback).unwrap();
    std::fs::write(&fallback, "").unwrap();
    refused(&house, "is not a folder");
    std::fs::remove_file(&fallback).unwrap();
    symlink(house.path("run"), &fallback).unwrap();
    refused(&house, "is a symbolic link");
    std::fs::remove_file(&fallback).unwrap();
    symlink("nowhere", &fallback).unwrap();
    refused(&house, "is a symbolic link");
    let kept = house.places.runtime(Some(house.path("run"))).unwrap_err();
    assert!(kept.to_string().contains("symbolic link"), "a recorded one has to be private too");
}

#[test]
fn a_workspace_is_found_from_below() {
    let house = house();
    let root = house.root("proj");
    let below = house.root("proj/a/b");
    assert_eq!(house.places.discover(&below), None);
    house.open(&root);
    assert_eq!(house.places.discover(&below), Some(root.canonicalize().unwrap()));
    let inner = house.root("proj/a");
    std::fs::write(inner.join(".callboard"), "a file is no mark").unwrap();
    assert_eq!(house.places.discover(&below), Some(root.canonicalize().unwrap()));
    std::fs::remove_file(inner.join(".callboard")).unwrap();
    house.open(&inner);
    assert_eq!(house.places.discover(&below), Some(inner.canonicalize().unwrap()));
    if house.places.uid == 0 {
        chown(inner.join(".callboard"), Some(4711), None).unwrap();
        assert_eq!(house.places.discover(&below), Some(root.canonicalize().unwrap()));
    }
    assert_eq!(house.places.discover(&house.path("nowhere")), None);
}

#[test]
fn commands_outside_any_workspace_share_a_private_one() {
    let house = house();
    let root = house.places.private_root().unwrap();
    assert_eq!(root, house.path("state/callboard/private"));
    let workspace = house.open(&root);
    let name = workspace.state().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name, format!("private-{}", workspace.key()));
    assert_eq!(house.open(&house.places.private_root().unwrap()).origin(), &Origin::Known);
}

#[test]
fn a_root_that_cannot_be_used_is_told() {
    let house = house();
    let open = |root: &Path| Workspace::open(&house.places, root, None).unwrap_err();
    assert!(matches!(open(&house.path("nowhere")), WorkspaceError::NoRoot { .. }));
    std::fs::write(house.path("file"), "").unwrap();
    assert!(matches!(open(&house.path("file")), WorkspaceError::NoRoot { .. }));
    let strange = house.root("strange");
    symlink(house.path("run"), strange.join(".callboard")).unwrap();
    assert!(matches!(open(&strange), WorkspaceError::Strange { .. }));
    // Nobody can make a folder in /sys; root may do so in any other.
    let closed = if house.places.uid == 0 { PathBuf::from("/sys") } else { house.root("closed") };
    if house.places.uid != 0 {
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    }
    let error = open(&closed);
    assert!(matches!(error, WorkspaceError::ReadOnly { .. }), "{error}");
    assert!(error.to_string().contains("--workspace"), "{error}");
    assert!(!house.path("state").exists(), "nothing is begun for a root that cannot be used");
}

#[test]
fn places_come_from_the_environment() {
    let from = |pairs: &[(&str, &str)]| {
        Places::from_env(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    };
    let state = |pairs| from(pairs).unwrap().state_home;
    assert_eq!(state(&[("HOME", "/h")]), Path::new("/h/.local/state"));
    assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Path::new("/s"));
    assert_eq!(state(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]), Path::new("/h/.local/state"));
    assert!(matches!(from(&[("HOME", "")]), Err(WorkspaceError::NoHome)));
    let places = from(&[("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r")]).unwrap();
    assert_eq!(places.runtime_home.as_deref(), Some(Path::new("/r")));
    assert_eq!(places.tmp, Path::new("/tmp"));
}

#[test]
fn names_stay_in_their_folder() {
    for (name, good) in [
        ("01jd-x_y.z", true),
        ("", false),
        ("..", false),
        (".x", false),
        ("a/b", false),
        ("a\0b", false),
        ("é", false),
        (&"x".repeat(129), false),
    ] {
        assert_eq!(plain(name).is_ok(), good, "{name:?}");
    }
}
