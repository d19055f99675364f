//! What stays of a session's output: quotas, a full disk, and the window.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::{CommandSpec, Limit, SessionLimits, Size};
use callboard::session::wire::{Ask, FactBody};
use callboard::transcript::gaps::Gap;
use callboard::transcript::index::resizes;

use super::house::{Session, command, open, open_as, read_gaps, spec, stage, with};
use crate::house::skipped;

const MIB: u64 = 1024 * 1024;

async fn open_with(limits: SessionLimits) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path());
    spec.limits = limits;
    open_as(stage(), folder, spec).await.unwrap()
}

fn on_disk(transcript: &Path) -> u64 {
    let files = std::fs::read_dir(transcript).unwrap().flatten();
    files.map(|file| file.metadata().map_or(0, |of| of.blocks() * 512)).sum()
}

fn memory_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

#[test]
fn t67_t68_disk_and_memory_stay_bounded_and_the_command_runs_on() {
    with(async {
        let limits =
            SessionLimits { command_disk: MIB, session_disk: 2 * MIB, ..SessionLimits::default() };
        let mut session = open_with(limits).await;
        session.run("true").await;
        let transcript = session.folder.path().join("transcript");
        let before = memory_kib(session.holder);
        for text in [
            "head -c 20000000 /dev/zero | tr '\\0' x | fold -w 999; echo the end",
            "yes | head -c 2000000; echo the end",
            ": > f; (head -c 10000000 /dev/zero | tr '\\0' y | fold -w 99; echo the end) >> f & tail -f -s 0.1 -n +1 --pid=$! f",
        ] {
            let started = session.begin(command("", text)).await;
            let mut most = 0;
            let end = loop {
                match session.fact().await.unwrap() {
                    FactBody::Ended { end } if end.command == started => break end,
                    _ => most = most.max(on_disk(&transcript)),
                }
            };
            assert!(end.exit_code.is_some(), "{end:?}");
            assert!(most <= 2 * MIB + 64 * 1024, "{text}: {most}");
            let [stdout, _] = session.output(&end);
            assert!(stdout.trim_end().ends_with("the end"), "{text}");
            assert!(!stdout.contains('\0'), "{text}: a hole is no output");
            let gaps = read_gaps(&transcript);
            let gap = gaps.all().last().unwrap();
            assert!(
                gap.start > end.span.raw_start + MIB / 5 && gap.end < end.span.raw_end,
                "{gap:?}"
            );
            assert!(stdout.len() as u64 >= MIB / 2, "{}", stdout.len());
        }
        let after = memory_kib(session.holder);
        assert!(after < before + 8 * 1024, "{before} KiB, then {after}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t67_who_prints_more_than_its_limit_is_ended() {
    with(async {
        let limits = SessionLimits { output: Some(MIB), ..SessionLimits::default() };
        let mut session = open_with(limits).await;
        for text in ["yes", "yes >&2", "yes & yes >&2"] {
            let ended = session.run(text).await;
            let reason = Reason::Quota { resource: "output".to_owned(), limit: MIB };
            assert_eq!(ended.end.state, CommandState::Failed, "{text}");
            assert_eq!((ended.end.reason, ended.end.exit_code), (Some(reason), None), "{text}");
            assert!(ended.end.span.raw_end - ended.end.span.raw_start > MIB, "{text}");
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{text}");
        }
        // Each command has a limit of its own, and may reach it.
        for _ in 0..3 {
            let ended = session.run("head -c 1048576 /dev/zero | tr '\\0' x").await;
            assert_eq!(ended.end.state, CommandState::Completed);
        }
        assert_eq!(session.close().await, 0);
    });
}

/// A small disk over a folder; taken off again at the end.
pub struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` where this may not be done.
    pub fn over(folder: &Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder);
        let mounted = mount.stderr(std::process::Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }

    /// Leaves no room on it.
    pub fn fill(&self) {
        std::fs::write(self.0.join("filler"), vec![0; 4 << 20]).unwrap_err();
    }

    /// Makes room again.
    pub fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

fn degraded(notes: &[Note]) -> Option<&str> {
    notes.iter().find_map(|note| match note {
        Note::CaptureDegraded { message } => Some(message.as_str()),
        _ => None,
    })
}

#[test]
fn t69_a_full_disk_loses_what_it_says_and_nothing_else() {
    with(async {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path());
        let transcript = spec.transcript.clone();
        let Some(disk) = SmallDisk::over(&transcript) else {
            return skipped("t69_a_full_disk…", "no small file system can be mounted here");
        };
        let mut session = open_as(stage(), folder, spec).await.unwrap();
        assert_eq!(session.run("echo before").await.stdout, "before\n");
        disk.fill();
        // What is left of the file's last page.
        let partly = session.begin(command("", "head -c 5000 /dev/zero | tr '\\0' p")).await;
        let partly = session.end_of(&partly).await.end;
        let mut gaps = vec![(partly.unstored[0].offset, partly.span.raw_end)];
        assert!(gaps[0].0 > partly.span.raw_start && gaps[0].1 - gaps[0].0 < 5000, "{gaps:?}");
        for n in 0..3 {
            let text = format!("echo out {n}; sleep 0.1; echo err {n} >&2; (exit 3)");
            let id = session.begin(command("", &text)).await;
            let ended = session.end_of(&id).await.end;
            assert_eq!((ended.exit_code, &ended.state), (Some(3), &CommandState::Failed));
            let message = degraded(&ended.notes).unwrap();
            assert!(message.contains("No space left on device"), "{message}");
            assert!(message.ends_with("; 14 bytes of output are not stored"), "{message}");
            let said: Vec<_> = ended
                .unstored
                .iter()
                .map(|piece| (piece.stderr, String::from_utf8_lossy(&piece.bytes).into_owned()))
                .collect();
            assert_eq!(said, [(false, format!("out {n}\r\n")), (true, format!("err {n}\r\n"))]);
            gaps.push((ended.span.raw_start, ended.span.raw_end));
        }
        disk.empty();
        // A disk that has just failed is left alone for a moment.
        let ended = loop {
            let ended = session.run("echo after; echo too >&2").await;
            if ended.end.notes.is_empty() {
                break ended;
            }
            let (span, bytes) = (ended.end.span, "after\r\ntoo\r\n".len() as u64);
            assert_eq!(span.raw_end - span.raw_start, bytes, "{:?}", ended.end);
            gaps.push((ended.end.unstored[0].offset, span.raw_end));
        };
        assert_eq!((&*ended.stdout, &*ended.stderr), ("after\n", "too\n"));
        assert!(ended.end.unstored.is_empty(), "{:?}", ended.end);
        let told = read_gaps(&transcript);
        assert_eq!(told.all().len(), 1, "{told:?}");
        assert!(told.all()[0].stderr >= 3 * 7);
        assert_eq!(
            told.all().iter().map(|Gap { start, end, .. }| end - start).sum::<u64>(),
            gaps.iter().map(|(start, end)| end - start).sum::<u64>()
        );
        // A flood that the disk does not take: the ends are kept, the rest is counted.
        let id =
            session.begin(command("", "head -c 3000000 /dev/zero | tr '\\0' z; echo over")).await;
        let ended = session.end_of(&id).await.end;
        assert_eq!(ended.state, CommandState::Completed);
        assert_eq!(ended.span.raw_end - ended.span.raw_start, 3_000_006);
        assert!(
            degraded(&ended.notes).is_some_and(|m| m.ends_with("bytes of output are not stored"))
        );
        assert!(ended.unstored.last().unwrap().bytes.ends_with(b"zover\r\n"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t84_a_window_that_changes_is_told_and_noted() {
    with(async {
        let mut session = open().await;
        let first = session.run("stty size; tput cols; echo $COLUMNS $LINES").await;
        assert_eq!(first.stdout, "40 120\n120\n120 40\n");
        let text =
            "sh -c 'trap \"stty size; exit\" WINCH; echo ready; while :; do sleep 0.05; done'";
        let id = session.begin(command("", text)).await;
        session.until(|fact| matches!(fact, FactBody::Output { .. }).then_some(())).await;
        session.link.send(&Ask::Resize { size: Size { cols: 60, rows: 20 } }).unwrap();
        let ended = session.end_of(&id).await;
        assert_eq!(ended.stdout, "ready\n20 60\n");
        let idx = std::fs::read(session.folder.path().join("transcript/out.idx")).unwrap();
        let sizes: Vec<_> = resizes(&idx).map(|resize| (resize.size.cols, resize.offset)).collect();
        let at = ended.end.span.raw_start;
        assert_eq!(sizes, [(120, first.end.span.raw_start), (120, at), (60, at + 7)]);
        // Those who look later find it at once.
        let later = session.run("stty size <&2").await;
        assert_eq!(later.stdout, "20 60\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t85_a_giant_window_costs_nothing() {
    with(async {
        let giant = Size { cols: 500, rows: 200 };
        let mut fastest = [Duration::MAX; 2];
        for _ in 0..3 {
            for (index, size) in [Size::default(), giant].into_iter().enumerate() {
                let folder = tempfile::tempdir().unwrap();
                let mut spec = spec(folder.path());
                spec.size = size;
                let mut session = open_as(stage(), folder, spec).await.unwrap();
                session.run("head -c 8000000 /dev/zero | tr '\\0' x | fold -w 99 > f").await;
                let began = Instant::now();
                let limit = Limit::Exact { ms: 60_000 };
                let id = session.begin(CommandSpec { limit, ..command("", "cat f") }).await;
                session.end_of(&id).await;
                fastest[index] = fastest[index].min(began.elapsed());
                let ticks = |pid: i32| {
                    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
                    fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
                };
                let before = ticks(session.holder);
                let idle = session.run("sleep 1").await;
                assert_eq!(idle.end.exit_code, Some(0));
                // A tick is 10 ms.
                assert!(ticks(session.holder) - before <= 3, "a holder that has nothing to do");
                assert_eq!(session.close().await, 0);
            }
        }
        assert!(fastest[1] < fastest[0] * 2, "{fastest:?}");
    });
}
