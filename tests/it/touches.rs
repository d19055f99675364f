//! What commands are seen to change: by the kernel, and from its traces, with a real coordinator and
//! real programs.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::house::{House, finish, skipped, wait_for};

/// A workspace with a repository-less root.
fn workspace() -> House {
    let house = House::watched();
    let (code, report) = house.run("[[task]]\nid = \"t\"\nrun = \"true\"\n");
    assert_eq!(code, 0, "{report:#}");
    house
}

/// True where this machine traces without being asked to.
fn traces(test: &str) -> bool {
    let house = House::watched();
    let findings = house.call(&["doctor", "--json"]).stdout;
    let is_used = findings.contains("whole, and used");
    if !is_used {
        skipped(test, "sessions are not traced here");
    }
    is_used
}

fn touched(result: &Value) -> Vec<String> {
    let list = result["touched"].as_array().unwrap_or_else(|| panic!("{result:#}"));
    let mut list: Vec<String> = list
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap().to_owned();
            format!("{} {} {}", text("how"), text("mode"), text("resource"))
        })
        .collect();
    list.sort();
    list
}

/// What each script touches, in a session of its own.
fn check(house: &House, cases: &[(&str, &[&str])]) {
    for (script, expected) in cases {
        let (_, result) = house.exec(script);
        let mut expected: Vec<String> =
            expected.iter().map(|touch| format!("traced {touch}")).collect();
        expected.sort();
        assert_eq!(touched(&result), expected, "{script}\n{result:#}");
    }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn files_are_told_as_they_are_changed() {
    if !traces("files_are_told_as_they_are_changed") {
        return;
    }
    let house = workspace();
    check(
        &house,
        &[
            ("echo a > a.txt", &["write file/a.txt"]),
            ("echo a >> a.txt; echo b >> a.txt", &["write file/a.txt"]),
            ("mv a.txt b.txt", &["rename file/a.txt", "rename file/b.txt"]),
            ("rm b.txt", &["remove file/b.txt"]),
            ("mkdir -p d/e", &[]),
            ("mkdir -p d/e; cd d/e; echo x > ../y", &["write file/d/y"]),
            ("mv d/e d/f", &["rename file/d/e", "rename file/d/f"]),
            ("rmdir d/f", &["remove file/d/f"]),
            (
                "echo x > t; ln t hard; ln -s t soft",
                &["write file/t", "write file/hard", "write file/soft"],
            ),
            ("truncate -s 5 t", &["write file/t"]),
            ("echo x > soft", &["write file/t"]),
            ("echo n > n.new; mv n.new n", &["rename file/n"]),
            ("echo n > gone; rm gone", &[]),
            ("setsid --wait sh -c 'echo s > s.txt'", &["write file/s.txt"]),
            (
                "(sh -c 'echo q > q.txt' &) ; while [ ! -s q.txt ]; do :; done",
                &["write file/q.txt"],
            ),
            ("printf x > $'odd\\xff%'", &["write file/odd%ff%25"]),
        ],
    );
    house.assert_empties();
}

#[test]
fn what_failed_or_reads_is_no_touch() {
    if !traces("what_failed_or_reads_is_no_touch") {
        return;
    }
    let house = workspace();
    house.write("a.txt", "a");
    house.write(".gitignore", "*.log\nbuild/\n");
    check(
        &house,
        &[
            ("cat a.txt; ls -la; grep -r a .; : < a.txt", &[]),
            ("echo x > no/such/folder; rm none; mv none other; rmdir none; : > .", &[]),
            ("set -C; echo x > a.txt", &[]),
            ("ln a.txt a.txt; mkdir a.txt; ln -s x a.txt", &[]),
            ("echo x > /dev/null; echo x > $TMPDIR/x; echo x > a.log", &[]),
            ("mkdir -p build target node_modules; touch build/x target/x node_modules/x", &[]),
            ("rm -rf build target node_modules", &[]),
        ],
    );
    if has("setpriv") {
        let script = "chmod 755 ..; chmod 777 .; chmod 644 a.txt; \
                      setpriv --reuid=65534 --clear-groups sh -c 'echo x > a.txt'";
        check(&house, &[(script, &[])]);
    }
    house.assert_empties();
}

#[test]
fn programs_of_every_kind_are_seen() {
    if !traces("programs_of_every_kind_are_seen") {
        return;
    }
    let house = workspace();
    let mut cases: Vec<(&str, &[&str])> = Vec::new();
    if has("python3") {
        cases.push(("python3 -c 'open(\"p.txt\",\"w\").write(\"x\")'", &["write file/p.txt"]));
        cases.push(("python3 -c 'open(\"p.txt\",\"r+\"); open(\"p.txt\")'", &["write file/p.txt"]));
    }
    if has("node") {
        let script = "node -e 'require(\"fs\").writeFileSync(\"n.txt\",\"x\")'";
        cases.push((script, &["write file/n.txt"]));
    }
    if has("git") {
        let set = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";
        let script =
            format!("{set}git init -q . && echo x > g.txt && git add . && git commit -qm x");
        let (code, result) = house.exec(&script);
        assert_eq!(code, 0, "{result:#}");
        let all = touched(&result);
        assert!(all.contains(&"traced write git/.".to_owned()), "{all:?}");
        assert!(!all.iter().any(|touch| touch.contains(".git/")), "{all:?}");
        cases.push(("git status -s; git log -1; git diff", &[]));
        cases.push(("git checkout -q -b other", &["write git/."]));
    }
    check(&house, &cases);
    house.assert_empties();
}

/// No library of the program's is in between: the kernel tells.
#[test]
fn static_programs_are_seen() {
    if !traces("static_programs_are_seen") {
        return;
    }
    let house = workspace();
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { int f = \
                  open(\"static.txt\", O_WRONLY | O_CREAT, 0644); return write(f, \"x\", 1) != 1; }\n";
    house.write("s.c", source);
    let compiled = Command::new("cc")
        .args(["-static", "-o", "s", "s.c"])
        .current_dir(house.workspace())
        .output()
        .is_ok_and(|output| output.status.success());
    if !compiled {
        return skipped("static_programs_are_seen", "no static program can be made here");
    }
    check(&house, &[("./s", &["write file/static.txt"])]);
}

#[test]
fn a_port_that_is_bound_is_a_touch() {
    if !traces("a_port_that_is_bound_is_a_touch") || !has("python3") {
        return;
    }
    let house = workspace();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let bind = |host: &str, port: u16, kind: &str| {
        format!(
            "python3 -c 'import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_{kind}); \
             s.bind((\"{host}\",{port})); time.sleep(0.3)'"
        )
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = taken.local_addr().unwrap().port();
    let told = format!("bind port/127.0.0.1/{port}");
    check(
        &house,
        &[
            (&bind("127.0.0.1", port, "STREAM"), &[&told]),
            (&bind("127.0.0.1", 0, "STREAM"), &[]),
            (&bind("127.0.0.1", port, "DGRAM"), &[]),
        ],
    );
    // It listens, but for somebody else: the one who fails is not told to have bound it.
    let (code, result) = house.exec(&bind("127.0.0.1", other, "STREAM"));
    assert_ne!(code, 0);
    assert_eq!(touched(&result), [""; 0], "{result:#}");
}

#[test]
fn a_task_says_how_it_is_watched() {
    if !traces("a_task_says_how_it_is_watched") {
        return;
    }
    let house = workspace();
    for (tracing, how) in [("auto", "traced"), ("on", "traced"), ("off", "inferred")] {
        let manifest = format!(
            "[defaults]\ntracing = \"{tracing}\"\n[[task]]\nid = \"t\"\nrun = \"echo {tracing} > f\"\n"
        );
        let (code, report) = house.run(&manifest);
        assert_eq!(code, 0, "{report:#}");
        let command = &report["tasks"][0]["commands"][0];
        assert_eq!(touched(command), [format!("{how} write file/f")], "{report:#}");
    }
    let (_, report) = house
        .run("[[task]]\nid = \"t\"\ntracing = \"off\"\nrun = [\"echo > g\", \"true\", \"rm g\"]\n");
    let commands: Vec<_> =
        report["tasks"][0]["commands"].as_array().unwrap().iter().map(touched).collect();
    let expected = [vec!["inferred write file/g"], vec![], vec!["inferred remove file/g"]];
    assert_eq!(commands, expected, "{report:#}");
    let called = house.call(&["plan", "m.toml"]);
    assert_eq!(called.code, 0, "{called:?}");
}

/// Two that run at once, untraced: what one of them writes is not both's.
#[test]
fn an_inferred_change_is_one_command_s() {
    let house = workspace();
    let manifest = "[defaults]\ntracing = \"off\"\n\
                    [[task]]\nid = \"a\"\nrun = \"echo > a.txt; touch up; while [ ! -e go ]; do sleep 0.01; done\"\n\
                    [[task]]\nid = \"b\"\nrun = \"while [ ! -e up ]; do sleep 0.01; done; touch go; sleep 0.5\"\n";
    let (code, report) = house.run_with(&["--jobs", "2"], manifest);
    assert_eq!(code, 0, "{report:#}");
    let tasks = report["tasks"].as_array().unwrap();
    let all: Vec<_> = tasks.iter().flat_map(|task| touched(&task["commands"][0])).collect();
    let count = all.iter().filter(|touch| touch.ends_with("file/a.txt")).count();
    assert_eq!(count, 1, "{report:#}");
}

#[test]
fn many_touches_are_listed_within_a_bound() {
    if !traces("many_touches_are_listed_within_a_bound") {
        return;
    }
    let house = workspace();
    let (_, result) = house.exec("for n in $(seq 1500); do : > f$n; done");
    assert_eq!(touched(&result).len(), 1000);
    let notes = result["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note["kind"] == "touches_omitted" && note["count"] == 500),
        "{notes:?}"
    );
}

/// Whoever is left behind by a holder that was killed fails, and does not wait for ever.
#[test]
fn without_its_holder_a_call_fails_at_once() {
    if !traces("without_its_holder_a_call_fails_at_once") {
        return;
    }
    let house = workspace();
    // Out of reach of the terminal's end, which a holder's death is, too.
    let script = "setsid --wait bash -c 'trap \"\" HUP; exec 5>said; echo up >&5; \
                  while :; do : > probe; sleep 0.05; done 2>&5'";
    let child = house.command(&["exec", "-c", script]).spawn().unwrap();
    wait_for("the command runs", || {
        if house.read("said").contains("up") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let lock: Value = serde_json::from_str(&house.read(".callboard/lock")).unwrap();
    let coordinator = lock["pid"].as_i64().unwrap();
    let holder = holders(&house);
    assert_eq!(holder.len(), 1, "{holder:?}");
    // Without a coordinator nobody sweeps up what the holder leaves.
    let client = i64::from(child.id());
    // At once: the client's death alone ends the session, and the coordinator's alone has the client start
    // another one.
    let pids = [coordinator, holder[0], client].map(|pid| pid.to_string());
    assert!(Command::new("kill").arg("-KILL").args(pids).status().unwrap().success());
    drop(finish(child));
    wait_for("its calls fail", || {
        let said = house.read("said");
        if said.contains("not implemented") { Ok(()) } else { Err(said) }
    });
}

fn holders(house: &House) -> Vec<i64> {
    let mut found = Vec::new();
    for line in house.processes() {
        let Some(pid) = line.split(' ').next().and_then(|pid| pid.parse::<i64>().ok()) else {
            continue;
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let Some(parent) = parent.and_then(|text| text.trim().parse::<i64>().ok()) else {
            continue;
        };
        let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
        if name.trim() == "cb-holder" {
            found.push(parent);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A plain user is traced where the task asks for it, and inferred otherwise.
#[test]
fn a_plain_user_asks_for_it() {
    let test = "a_plain_user_asks_for_it";
    if !traces(test) || !has("setpriv") {
        return;
    }
    let house = House::watched();
    let binary = house.path("callboard");
    std::fs::copy(env!("CARGO_BIN_EXE_callboard"), &binary).unwrap();
    let manifest = "[[task]]\nid = \"on\"\ntracing = \"on\"\nrun = \"echo > on.txt; grep NoNewPrivs /proc/self/status\"\n\
                    [[task]]\nid = \"auto\"\nafter = [\"on\"]\nrun = \"echo > auto.txt; grep NoNewPrivs /proc/self/status\"\n";
    house.write("m.toml", manifest);
    give_away(house.root());
    let mut command = Command::new("setpriv");
    let theirs = house.command(&["run", "m.toml", "--json"]);
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args(theirs.get_args())
        .env_clear()
        .current_dir(house.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in theirs.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let called = finish(command.spawn().unwrap());
    assert_eq!(called.code, 0, "{called:?}");
    let report = called.json();
    for (task, how, rights) in [(0, "traced", "1"), (1, "inferred", "0")] {
        let task = &report["tasks"][task];
        let command = &task["commands"][0];
        let expected = format!("{how} write file/{}.txt", task["id"].as_str().unwrap());
        assert_eq!(touched(command), [expected], "{report:#}");
        let said = command["stdout"].as_str().unwrap();
        assert!(said.trim().ends_with(rights), "{said}");
    }
    house.assert_empties();
}

fn give_away(folder: &Path) {
    std::os::unix::fs::chown(folder, Some(65534), Some(65534)).unwrap();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}

/// The kernel lets one trace at a time: a session within a session is told of by the outer one.
#[test]
fn a_session_inside_of_a_session_is_told_of_by_the_outer_one() {
    if !traces("a_session_inside_of_a_session_is_told_of_by_the_outer_one") || !has("python3") {
        return;
    }
    let house = workspace();
    // seccomp(SECCOMP_SET_MODE_FILTER, NEW_LISTENER, {1, {RET ALLOW}})
    let script = r#"python3 - <<'X'
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
print(libc.syscall(317, 1, 8, prog), ctypes.get_errno())
X"#;
    if cfg!(target_arch = "x86_64") {
        let (_, result) = house.exec(script);
        assert_eq!(result["stdout"].as_str().unwrap().trim(), "-1 16", "{result:#}");
    }
}
