//! What ends a coordinator ends nothing of its sessions: a killed process group, a terminal that
//! hangs up.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal};

use super::{Ward, state_of};
use crate::house::wait_for;

#[test]
fn a_coordinators_whole_process_group_is_killed_and_its_sessions_go_on() {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    let mut serve = ward.house.command(&["serve"]);
    serve.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut serve = serve.spawn().unwrap();
    let group = Pid::from_child(&serve);
    wait_for("it serves", || {
        let status = ward.status();
        let serves = status["coordinator"]["pid"].as_i64() == Some(i64::from(serve.id()));
        if serves { Ok(()) } else { Err(status.to_string()) }
    });
    let run = |script: &str| {
        let called = ward.house.call(&["exec", "--session", "k", "-c", script]);
        assert_eq!(called.code, 0, "{called:?}");
        called.stdout
    };
    run("V=kept; (until [ -e go ]; do sleep 0.02; done; echo gone on > said) &");
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    serve.wait().unwrap();
    // Nobody keeps its output open: whoever started it sees the end of it, and need not wait for
    // what goes on.
    let mut said = String::new();
    serve.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    ward.house.write("go", "");
    ward.lines("said", 1);
    assert!(state_of(i64::from(serve.id())).is_none());
    assert_eq!(run("echo $V"), "kept\n");
    assert_eq!(ward.house.call(&["session", "close", "k"]).code, 0);
    ward.end();
}
