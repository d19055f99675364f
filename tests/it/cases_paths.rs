//! Paths of every kind: each failure seen in other orchestrators by its id.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use callboard::domain::shown_path;
use serde_json::{Value, json};

use crate::house::{Called, House, finish, skipped};

const SHELLS: [&str; 4] = ["bash", "zsh", "fish", "sh"];

fn bytes(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// The binary, standing in `folder`.
fn call_in(house: &House, folder: &Path, args: &[&OsStr]) -> Called {
    let mut command = house.command(args);
    command.current_dir(folder);
    finish(command.spawn().unwrap())
}

fn call(house: &House, folder: &Path, args: &[&str]) -> Called {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    call_in(house, folder, &args)
}

fn has(shell: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {shell}")]).output();
    there.is_ok_and(|output| output.status.success())
}

/// Folders with names that shells, JSON, SQL and people stumble over.
fn strange_folders() -> Vec<PathBuf> {
    let mut names: Vec<OsString> = [
        "my proj/ä\"quote$x",
        "it's `date` $(touch pwned) ${HOME}",
        "-rf",
        "new\nline",
        "tab\tback\\slash\\n",
        "*?[a]{b,c};&|<>#!~%20%",
        "语言 🦀",
        "$'x'",
        " leading and trailing ",
        "@DIR@ @CWD@",
    ]
    .map(OsString::from)
    .into();
    names.push(OsString::from_vec(b"by\xffte \xc3".to_vec()));
    names.into_iter().map(PathBuf::from).collect()
}

/// What a command that prints where it is wrote, but for the line feed at its end.
fn written(path: &Path) -> PathBuf {
    let mut bytes = std::fs::read(path).unwrap_or_default();
    assert_eq!(bytes.pop(), Some(b'\n'), "{}", path.display());
    OsString::from_vec(bytes).into()
}

#[test]
fn orc_67_a_path_of_any_kind_is_where_it_runs() {
    let house = House::new();
    for name in strange_folders() {
        let folder = house.workspace().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let sub = folder.join(name.file_name().unwrap());
        std::fs::create_dir_all(&sub).unwrap();
        let manifest = "[[task]]\nid = \"a\"\nrun = [\"pwd -P > out\", \"touch -- '-f' $'n\\nl'\"]\n\
                        artifacts = [\"out\"]\n";
        std::fs::write(folder.join("m.toml"), manifest).unwrap();
        let called = call(&house, &folder, &["run", "m.toml", "--json"]);
        assert_eq!(called.code, 0, "{name:?}: {called:?}");
        assert_eq!(written(&folder.join("out")), folder, "{name:?}");
        let report = called.json();
        let task = &report["tasks"][0];
        assert_eq!(task["artifacts"], json!(["out"]));
        let cwd = task["commands"][0]["cwd"].as_str().unwrap();
        assert_eq!(shown_path::read(cwd), folder, "{name:?}");
        assert!(folder.join("-f").exists() && folder.join("n\nl").exists());
        for shell in SHELLS.into_iter().filter(|shell| has(shell)) {
            let file = sub.join("out");
            let args = ["exec", "--json", "--shell", shell, "-c", "pwd -P > out"];
            let called = call(&house, &sub, &args);
            assert_eq!((called.code, written(&file)), (0, sub.clone()), "{shell}: {called:?}");
            let cwd = called.json()["cwd"].as_str().unwrap().to_owned();
            assert_eq!(shown_path::read(&cwd), sub, "{shell}");
            std::fs::remove_file(file).unwrap();
        }
        let pid = call(&house, &folder, &["status", "--json"]).json()["coordinator"]["pid"].clone();
        drop(Command::new("kill").arg(pid.to_string()).output());
    }
    assert!(!house.path("pwned").exists() && !house.root().join("pwned").exists());
    house.assert_empties();
}

/// A kept session goes from one strange folder to the next, in every shell, and the next coordinator
/// knows it.
#[test]
fn orc_67_a_session_goes_anywhere() {
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"true\"\n");
    assert_eq!(house.call(&["run", "m.toml"]).code, 0);
    let ws = house.workspace();
    for shell in SHELLS {
        if !has(shell) {
            skipped("orc_67", &format!("no {shell}"));
            continue;
        }
        let opened = house.call(&["session", "new", shell, "--shell", shell, "--json"]);
        assert_eq!(opened.code, 0, "{opened:?}");
        for name in strange_folders() {
            let folder = ws.join(&name);
            std::fs::create_dir_all(&folder).unwrap();
            let args = ["exec", "--json", "--session", shell, "--cwd"].map(OsStr::new);
            let tail = ["-c", "pwd -P > out"].map(OsStr::new);
            let args = [&args[..], &[folder.as_os_str()], &tail].concat();
            let called = call_in(&house, &ws, &args);
            assert_eq!(called.code, 0, "{shell} {name:?}: {called:?}");
            assert_eq!(written(&folder.join("out")), folder, "{shell}");
            let cwd = called.json()["cwd"].as_str().unwrap().to_owned();
            assert_eq!(shown_path::read(&cwd), folder, "{shell}");
            std::fs::remove_file(folder.join("out")).unwrap();
        }
    }
    let status = house.call(&["status", "--json"]).json();
    let pid = status["coordinator"]["pid"].to_string();
    drop(Command::new("kill").args(["-KILL", &pid]).output());
    let last = ws.join(strange_folders().pop().unwrap());
    for shell in SHELLS.into_iter().filter(|shell| has(shell)) {
        let called = house.call(&["exec", "--json", "--session", shell, "-c", "pwd -P > out"]);
        assert_eq!(called.code, 0, "{called:?}");
        assert_eq!(written(&last.join("out")), last, "{shell}");
        assert_eq!(house.call(&["session", "close", shell]).code, 0);
    }
    let pid = house.call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    drop(Command::new("kill").arg(pid).output());
    house.assert_empties();
}

#[test]
fn orc_68_a_name_of_any_bytes_is_kept_as_it_is() {
    let house = House::new();
    let root = house.workspace().join(bytes(b"w\xffs"));
    let sub = root.join(bytes(b"s\xfeub"));
    std::fs::create_dir_all(&sub).unwrap();
    let name = bytes(b"a\xffz.txt");
    std::fs::write(root.join(name), "x\n").unwrap();
    let manifest = "[[task]]\nid = \"a\"\nartifacts = [\"*.txt\"]\n\
        run = [\"ls\", \"echo more >> $'a\\\\xffz.txt'\", \"cat $'a\\\\xffz.txt' >&2; exit 1\"]\n";
    for path in [&root, &sub] {
        std::fs::write(path.join(bytes(b"m\xff.toml")), manifest).unwrap();
    }
    let reports: Vec<(&str, PathBuf)> = ["json", "junit", "markdown", "html"]
        .into_iter()
        .map(|kind| (kind, sub.join(OsString::from_vec([b"r\xff.", kind.as_bytes()].concat()))))
        .collect();
    let mut args: Vec<OsString> = vec!["run".into(), bytes(b"m\xff.toml").into(), "--json".into()];
    for (kind, path) in &reports {
        let mut told = OsString::from(format!("{kind}="));
        told.push(path);
        args.extend(["--report".into(), told]);
    }
    let args: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    let called = call_in(&house, &root, &args);
    assert_eq!(called.code, 1, "{called:?}");
    let report = called.json();
    let commands = &report["tasks"][0]["commands"];
    assert_eq!(std::fs::read(root.join(name)).unwrap(), b"x\nmore\n");
    for command in commands.as_array().unwrap() {
        let cwd = command["cwd"].as_str().unwrap();
        assert_eq!(shown_path::read(cwd), root, "{command:#}");
    }
    assert_eq!(report["tasks"][0]["artifacts"], json!([shown_path::show(Path::new(name))]));
    for (kind, path) in &reports {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(text.contains("failed"), "{kind}: {text}");
    }
    let on_disk: Value = serde_json::from_slice(&std::fs::read(&reports[0].1).unwrap()).unwrap();
    assert_eq!(on_disk, report);

    looks_everywhere(&house, &root, &sub, report["run_id"].as_str().unwrap());
}

/// Every other verb, there and in a folder below.
fn looks_everywhere(house: &House, root: &Path, sub: &Path, run: &str) {
    for args in [
        &["status"][..],
        &["report", run],
        &["run", "ls"],
        &["task", "ls", "--run", run],
        &["task", "show", &format!("{run}/a")],
        &["task", "logs", &format!("{run}/a")],
        &["audit", "show"],
        &["audit", "verify"],
        &["gc"],
        &["session", "ls"],
    ] {
        for folder in [root, sub] {
            let called = call(house, folder, args);
            assert_eq!(called.code, 0, "{args:?}: {called:?}");
            assert!(!called.stderr.contains("panicked"), "{called:?}");
        }
    }
    assert!(call(house, root, &["doctor"]).code <= 1);
    let planned =
        call_in(house, root, &["plan".as_ref(), bytes(b"s\xfeub/m\xff.toml"), "--json".as_ref()]);
    let shown = planned.json()["root"].as_str().unwrap().to_owned();
    assert_eq!((planned.code, shown_path::read(&shown)), (0, sub.to_owned()));
    let dispatched = call_in(
        house,
        root,
        &[
            "task".as_ref(),
            "dispatch".as_ref(),
            "--run".as_ref(),
            "pwd -P > out".as_ref(),
            "--cwd".as_ref(),
            sub.as_os_str(),
            "--json".as_ref(),
        ],
    );
    assert_eq!(dispatched.code, 0, "{dispatched:?}");
    let id = dispatched.json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(call(house, root, &["task", "wait", &id]).code, 0);
    assert_eq!(written(&sub.join("out")), sub);
    let pid = call(house, root, &["status", "--json"]).json()["coordinator"]["pid"].to_string();
    drop(Command::new("kill").arg(pid).output());
    house.assert_empties();
}

/// HOME, the state folder below it, the runtime folder and the temporary one.
#[test]
fn orc_68_a_home_of_any_bytes_will_do() {
    let house = House::new();
    let home = house.root().join(bytes(b"ho\xffme"));
    let run = house.root().join(bytes(b"ru\xffn"));
    let tmp = house.root().join(bytes(b"tm\xffp"));
    for folder in [&home, &run, &tmp] {
        std::fs::create_dir(folder).unwrap();
    }
    symlink(&home, house.root().join("link")).unwrap();
    let call = |args: &[&str]| {
        let mut command = house.command(args);
        command.env("HOME", &home).env_remove("XDG_STATE_HOME");
        command.env("XDG_RUNTIME_DIR", &run).env("TMPDIR", &tmp);
        finish(command.spawn().unwrap())
    };
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"cd; pwd; echo x > \\\"$TMPDIR/f\\\"\"\n");
    let called = call(&["run", "m.toml", "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    for shell in SHELLS.into_iter().filter(|shell| has(shell)) {
        let called = call(&[
            "exec",
            "--shell",
            shell,
            "-c",
            "cd; echo x > \"$TMPDIR/f\"; test -S \"$CALLBOARD_SOCKET\"",
        ]);
        assert_eq!(called.code, 0, "{shell}: {called:?}");
    }
    let run_id = called.json()["run_id"].as_str().unwrap().to_owned();
    let pid = call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    drop(Command::new("kill").args(["-KILL", &pid]).output());
    for args in [&["status"][..], &["report", &run_id], &["doctor"], &["exec", "-c", "true"]] {
        let called = call(args);
        assert_eq!(called.code, 0, "{args:?}: {called:?}");
    }
    assert!(home.join(".local/state/callboard").is_dir());
    let pid = call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    drop(Command::new("kill").arg(pid).output());
    house.assert_empties();
}
