//! The stage and its holders as processes: nothing leaks, nothing is inherited.

use std::sync::Arc;

use callboard::session::link::Stage;
use callboard::session::wire::Ask;

use super::house::{eventually, lives, open_as, open_on, spec, stage, with};

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn terminals() -> usize {
    std::fs::read_dir("/dev/pts").unwrap().count()
}

#[test]
fn two_hundred_sessions_leave_nothing_open() {
    with(async {
        let stage = stage();
        let me = std::process::id();
        open_on(stage.clone()).await.unwrap().close().await;
        let (mine, its) = (descriptors(me), descriptors(stage.pid()));
        let before = terminals();
        let mut most = 0;
        for round in 0..200 {
            let mut session = open_on(stage.clone()).await.unwrap();
            assert_eq!(session.run("echo x").await.stdout, "x\n");
            let holder = session.holder;
            assert_eq!(session.close().await, 0);
            eventually("the holder is gone", || !lives(holder)).await;
            // Other tests and programs have terminals of their own, but never so many come meanwhile.
            most = most.max(terminals());
            assert!(most < before + 150, "round {round}");
        }
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let mut spec = spec(folder.path());
            spec.cwd = "/nowhere".into();
            let message = open_as(stage.clone(), folder, spec).await.err().unwrap();
            assert!(message.contains("/nowhere"), "{message}");
        }
        assert_eq!(descriptors(stage.pid()), its);
        assert!(descriptors(me) <= mine + 20);
    });
}

#[test]
fn a_session_that_cannot_be_opened_says_why() {
    with(async {
        let folder = tempfile::tempdir().unwrap();
        let mut no_transcript = spec(folder.path());
        no_transcript.transcript = "/nowhere/t".into();
        let message = open_as(stage(), folder, no_transcript).await.err().unwrap();
        assert!(message.contains("/nowhere/t/out.raw"), "{message}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut no_folder = spec(folder.path());
        no_folder.cwd = file;
        let message = open_as(stage(), folder, no_folder).await.err().unwrap();
        assert!(message.contains("cannot go into") && message.contains("/file"), "{message}");
    });
}

#[test]
fn the_stage_ends_with_its_socket_and_its_holders_do_not() {
    with(async {
        let stage = stage();
        let pid = i32::try_from(stage.pid()).unwrap();
        let mut session = open_on(stage.clone()).await.unwrap();
        assert_eq!(Arc::strong_count(&stage), 2);
        let environment = std::fs::read(format!("/proc/{}/environ", session.holder)).unwrap();
        assert_eq!(environment, b"PATH=/usr/bin:/bin\0");
        session.forget_stage();
        drop(stage);
        eventually("the stage is gone", || !lives(pid)).await;
        assert_eq!(session.run("echo on").await.stdout, "on\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_parent_that_ignores_signals_hands_nothing_down() {
    with(async {
        // The stage of a coordinator that was itself started with `trap '' INT …`.
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("exe");
        let exe = env!("CARGO_BIN_EXE_callboard");
        std::fs::write(
            &script,
            format!("#!/bin/sh\ntrap '' INT QUIT HUP PIPE TERM\nexec {exe} \"$@\"\n"),
        )
        .unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let stage = Arc::new(Stage::start(&script, []).unwrap());
        let mut session = open_on(stage).await.unwrap();
        let ended = session.run("grep SigIgn /proc/self/status; sh -c 'kill -INT $$'").await;
        assert_eq!(ended.stdout.trim_end(), "SigIgn:\t0000000000000000");
        assert_eq!(ended.end.exit_code, Some(130));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_window_that_changes_is_told_to_programs() {
    with(async {
        let mut session = open_on(stage()).await.unwrap();
        let size = callboard::domain::session::Size { cols: 60, rows: 20 };
        session.link.send(&Ask::Resize { size }).unwrap();
        assert_eq!(session.run("stty size").await.stdout, "20 60\n");
        assert_eq!(session.run("stty size <&2").await.stdout, "20 60\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_full_disk_is_a_remark() {
    with(async {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path());
        std::os::unix::fs::symlink("/dev/full", spec.transcript.join("out.raw")).unwrap();
        let mut session = open_as(stage(), folder, spec).await.unwrap();
        let id = session.begin(super::house::command("", "echo hi; (exit 3)")).await;
        let end = session
            .until(|fact| match fact {
                callboard::session::wire::FactBody::Ended { end } if end.command == id => {
                    Some(end.clone())
                }
                _ => None,
            })
            .await;
        assert_eq!(end.exit_code, Some(3));
        let degraded =
            |note: &_| matches!(note, callboard::domain::result::Note::CaptureDegraded { .. });
        assert!(end.notes.iter().any(degraded), "{end:?}");
        assert_eq!(session.close().await, 0);
    });
}
