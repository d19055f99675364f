//! The state folder, the journal in it and the board.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Having;
use crate::board::Board;
use crate::daemon::workspace::Workspace;
use crate::domain::time::Timestamp;
use crate::journal::{self, JournalError};
use crate::report::checkup::{Finding, Level};

/// Room below which nothing should be begun.
const FREE_LOW: u64 = 1024 * 1024 * 1024;
const FREE_NONE: u64 = 64 * 1024 * 1024;
/// Filesystems whose locks or syncs are another machine's (`statfs(2)`).
const NETWORK: [(u32, &str); 10] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x6573_5546, "FUSE"),
];
const TMPFS: u32 = 0x0102_1994;

/// Looks at what is on the disk; the answer is the time of the journal's last record.
pub(super) fn look(
    workspace: &Workspace,
    having: &Having,
    findings: &mut Vec<Finding>,
) -> Option<Timestamp> {
    findings.extend(folder(workspace.state()));
    let mut last_at = None;
    let read = journal::check_tail(&workspace.journal(), &mut |line| {
        last_at = last_at.max(Some(line.at));
        ControlFlow::Continue(())
    });
    findings.push(journal(read, having));
    findings.push(board(workspace, having));
    last_at
}

fn folder(state: &Path) -> Vec<Finding> {
    let (id, means) = ("state-folder", "journal, board and transcripts lie there");
    let place = state.display();
    let found = match rustix::fs::statfs(state) {
        Ok(found) => found,
        Err(error) => {
            return vec![
                Finding::new(id, Level::Problem, format!("`{place}`: {error}"), means)
                    .todo("make it readable again, or move it away"),
            ];
        }
    };
    let kind = u32::try_from(found.f_type).unwrap_or(0);
    let network = NETWORK.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    let writable = rustix::fs::access(state, rustix::fs::Access::WRITE_OK);
    let finding = match (writable, network) {
        (Err(error), _) => Finding::new(
            id,
            Level::Problem,
            format!("`{place}` cannot be written to: {error}"),
            means,
        )
        .todo("make it writable: nothing can be recorded"),
        (_, Some(name)) => {
            let found = format!("`{place}` is on {name}");
            Finding::new(
                id,
                Level::Warning,
                found,
                "locks and syncs are only as good as its server's",
            )
            .todo("set XDG_STATE_HOME to a folder on a local disk")
        }
        _ if kind == TMPFS => {
            let found = format!("`{place}` is in memory");
            Finding::new(id, Level::Note, found, "all of it is gone after a reboot")
        }
        _ => Finding::ok(id, format!("`{place}`"), means),
    };
    let block = u64::try_from(found.f_bsize).unwrap_or(0);
    vec![finding, room(found.f_bavail.saturating_mul(block))]
}

fn room(free: u64) -> Finding {
    let (id, means) = ("disk-space", "a full disk refuses tasks, and transcripts end early");
    let found = format!("{} MiB free", free / (1024 * 1024));
    match free {
        free if free < FREE_NONE => {
            Finding::new(id, Level::Problem, found, means).todo("make room")
        }
        free if free < FREE_LOW => Finding::new(id, Level::Warning, found, means).todo("make room"),
        _ => Finding::ok(id, found, means),
    }
}

fn journal(read: Result<journal::Replay, JournalError>, having: &Having) -> Finding {
    let (id, means) = ("journal", "the truth of the workspace; this is its last segment alone");
    match read {
        Err(JournalError::Missing { .. }) => Finding::ok(id, "none yet", means),
        Err(error) => Finding::new(id, Level::Problem, error.to_string(), means).todo(
            "keep a copy of the state folder; where the damage is nobody can say what happened, and \
             no coordinator begins with it",
        ),
        Ok(replay) => {
            let found = format!("{} records in {} segments", replay.last_seq, replay.segments);
            match replay.torn {
                // A line that is being written looks the same.
                Some(torn) if having.is_vacant() => {
                    let found = format!("{found}, and {} bytes of a torn line", torn.bytes);
                    let means = "a crash leaves it; the next coordinator cuts it off";
                    Finding::new(id, Level::Note, found, means)
                }
                _ => Finding::ok(id, found, means),
            }
        }
    }
}

fn board(workspace: &Workspace, having: &Having) -> Finding {
    let (id, means) =
        ("board", "a fold of the journal: a broken one is set aside and folded again");
    let folder = workspace.board();
    if matches!(having, Having::Coordinator) {
        return Finding::ok(id, "open in the coordinator", means);
    }
    if !folder.join("db").exists() {
        return Finding::ok(id, "none yet", means);
    }
    let scratch = scratch();
    let examined = Board::examine(&folder, &scratch);
    // A copy that stays costs room in a temporary folder.
    drop(std::fs::remove_dir_all(&scratch));
    match examined {
        Ok(()) => Finding::ok(id, "a copy of it can be opened", means),
        Err(error) => Finding::new(id, Level::Warning, error.to_string(), means)
            .todo("nothing has to be done: the next coordinator sees to it"),
    }
}

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("callboard-doctor-board-{}", std::process::id()))
}
