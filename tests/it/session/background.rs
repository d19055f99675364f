//! What commands leave behind, services, and the signals that programs inherit.

use callboard::domain::plan::Ready;
use callboard::domain::session::Limit;
use callboard::session::wire::{Ask, FactBody};

use super::house::{command, eventually, lives, open, with};

#[test]
fn what_is_left_behind_is_listed_and_lives_on() {
    with(async {
        let mut session = open().await;
        for text in [
            "nohup sleep 30 > /dev/null 2>&1 &",
            "python3 -c 'import os,time;os.fork() and os._exit(0);os.setsid();os.fork() and os._exit(0);time.sleep(300)'; echo up",
            "setsid sleep 30 & sleep 0.05",
            "(sleep 30; echo late) & disown",
        ] {
            let ended = session.run(text).await;
            assert_eq!(ended.end.exit_code, Some(0), "{text}");
            assert!(ended.end.duration_ms < 1_000, "{text}");
            assert!(!ended.end.children.is_empty(), "{text}: {ended:?}");
            assert!(ended.end.children.iter().all(|child| !child.ended), "{text}: {ended:?}");
            // A daemon may be on its way to its final process, the first ones on theirs out.
            let daemon = text.contains("fork");
            assert!(daemon || ended.end.children.iter().any(|child| lives(child.pid)), "{ended:?}");
            if daemon {
                // What it forks later cannot be told from what the next command forks.
                let holder = session.holder;
                eventually("the daemon is what it will be", || has_daemon(holder)).await;
            }
            // They are told once, by the command that bore them.
            assert_eq!(session.run("true").await.end.children, []);
        }
        let jobs = session.run("kill %1; wait %1; echo $?").await;
        assert_eq!(jobs.stdout, "143\n");
        assert_eq!(session.close().await, 0);
    });
}

/// True once a child of the holder is in a terminal session that neither it nor the shell leads:
/// the last process of a double fork.
fn has_daemon(holder: i32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{holder}/task/{holder}/children"));
    let children = children.unwrap_or_default();
    let pids: Vec<&str> = children.split_whitespace().collect();
    pids.iter().any(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let session = after_name.split(' ').nth(3).unwrap_or_default().to_owned();
        stat.contains("(python") && !pids.contains(&session.as_str())
    })
}

#[test]
fn a_job_goes_on_printing_after_its_command() {
    with(async {
        let mut session = open().await;
        let first = session.run("(sleep 0.2; echo late; echo late-err >&2) & echo now").await;
        assert_eq!(first.stdout, "now\n");
        let end = first.end.span.raw_end;
        session
            .until(|fact| match fact {
                FactBody::Output { end: grown } if *grown >= end + 16 => Some(()),
                _ => None,
            })
            .await;
        // It belongs to no command.
        assert_eq!(session.run("echo next").await.stdout, "next\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn fg_brings_a_job_back() {
    with(async {
        let mut session = open().await;
        session.run("sleep 0.3 &").await;
        let ended = session.run("fg; echo $?").await;
        assert_eq!(ended.stdout, "sleep 0.3\n0\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn signals_are_those_of_a_login() {
    with(async {
        let mut session = open().await;
        let ended = session
            .run("yes | head -1; echo ${PIPESTATUS[@]}; grep -E 'Sig(Ign|Blk)' /proc/self/status")
            .await;
        let zeros = "0000000000000000";
        assert_eq!(ended.stdout, format!("y\n141 0\nSigBlk:\t{zeros}\nSigIgn:\t{zeros}\n"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_service_is_ready_when_it_listens() {
    with(async {
        let mut session = open().await;
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut service = command("", &format!("python3 -m http.server --bind 127.0.0.1 {port}"));
        service.limit = Limit::Unlimited;
        service.ready = Some(Ready::Port(port));
        let id = session.begin(service).await;
        session.until(|fact| matches!(fact, FactBody::ServiceReady { .. }).then_some(())).await;
        let listens = |fact: &FactBody| match fact {
            FactBody::Listening { ports } => Some(ports.clone()),
            _ => None,
        };
        let told = session.facts.iter().rev().find_map(listens);
        let ports = match told {
            Some(ports) => ports,
            None => session.until(listens).await,
        };
        assert!(ports.iter().any(|listener| listener.port == port && listener.host == "127.0.0.1"));
        session
            .link
            .send(&Ask::End {
                command: id.clone(),
                reason: callboard::domain::outcome::Reason::INTERRUPT,
            })
            .unwrap();
        session.end_of(&id).await;
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_service_is_ready_when_it_says_so() {
    with(async {
        let mut session = open().await;
        let mut service =
            command("", "sleep 0.1; printf '\\033[1mListening\\033[0m on 80\\n'; sleep 300");
        service.limit = Limit::Unlimited;
        service.ready = Some(Ready::Log("^Listening on".to_owned()));
        session.begin(service).await;
        session.until(|fact| matches!(fact, FactBody::ServiceReady { .. }).then_some(())).await;
        let (shell, began) = (session.shell, std::time::Instant::now());
        assert_eq!(session.close().await, 0);
        assert!(began.elapsed().as_millis() < 1_500 && !lives(shell));
        eventually("the shell is gone", || !lives(shell)).await;
    });
}
