//! The machines with scripted answers, and with real git cut off at every step.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;
use crate::domain::ids::AttemptId;
use crate::domain::worktree::{Base, Returned, Tenancy, branch_of, folder_of, lead_of};

fn attempt(task: &str, number: u32) -> AttemptId {
    AttemptId { run: "r-1".into(), task: task.into(), attempt: number }
}

fn tenancy(root: &Path, task: &str, commit: &str) -> Tenancy {
    let attempt = attempt(task, 1);
    Tenancy {
        session: "s-1".into(),
        repository: root.join("repo"),
        folder: root.join("trees").join(folder_of(&attempt)),
        branch: branch_of(&attempt),
        base: Base::Commit { commit: commit.to_owned() },
        target: Some("main".to_owned()),
        attempt,
        is_settled: false,
    }
}

fn work(tenancy: &Tenancy) -> Work {
    let scratch = tenancy.folder.with_extension("merge");
    Work { tenancy: tenancy.clone(), scratch, is_old_git: false }
}

// Tables.

/// What is asked, in short, and what comes of it.
type Line<'a> = (&'a str, i32, &'a str);

#[track_caller]
fn play<M: Machine>(mut machine: M, lines: &[Line<'_>]) -> M::End {
    let mut step = machine.begin();
    for (asked, code, stdout) in lines {
        let Step::Git(git) = step else { panic!("over before `{asked}`") };
        let words: Vec<_> = git.args.iter().map(|arg| arg.to_string_lossy()).collect();
        let words = words.join(" ");
        assert!(words.starts_with(asked), "asked `{words}` instead of `{asked}`");
        let (stdout, stderr) = match code {
            0 | 1 => (stdout.as_bytes().to_vec(), String::new()),
            _ => (Vec::new(), (*stdout).to_owned()),
        };
        step = machine.hears(&Output { code: Some(*code), stdout, stderr });
    }
    match step {
        Step::Done(end) => end,
        Step::Git(git) => panic!("not over: {git:?}"),
    }
}

const CAPTURED: &[Line<'static>] = &[
    ("status", 0, "1 .M N... 1 1 1 a a f\0"),
    ("rev-parse -q --verify HEAD", 0, "head\n"),
    ("add --all", 0, ""),
    ("write-tree", 0, "tree\n"),
    ("commit-tree tree -p head", 0, "result\n"),
    ("diff-tree -r -z --no-renames base result", 0, ":100644 100644 a b M\0f\0"),
    ("rev-parse -q --verify refs/heads/callboard/r-1/t", 0, "head\n"),
    ("merge-base --is-ancestor head result", 0, ""),
    ("update-ref -m callboard: what a task left refs/heads/callboard/r-1/t result head", 0, ""),
    ("rev-parse -q --verify refs/heads/callboard/r-1.merged", 1, ""),
    ("rev-parse -q --verify refs/heads/main", 0, "tip\n"),
    ("merge-base --is-ancestor result tip", 1, ""),
];

#[track_caller]
fn returns(lines: &[Line<'_>], expected: &End) {
    let machine = Returning::new(work(&tenancy(Path::new("/w"), "t", "base")));
    let end = play(machine, &[CAPTURED, lines].concat());
    assert_eq!(end, *expected);
}

fn returned(into: bool, held: Option<&str>) -> End {
    End::Returned(Returned {
        branch: "callboard/r-1/t".to_owned(),
        commit: Some("result".to_owned()),
        into: into.then(|| "main".to_owned()),
        merged: Some("merge".to_owned()),
        held: held.map(str::to_owned),
    })
}

const ELSEWHERE: Line<'static> =
    ("worktree list", 0, "worktree /w/repo\0HEAD x\0branch refs/heads/other\0\0");
const HERE: Line<'static> =
    ("worktree list", 0, "worktree /w/repo\0HEAD x\0branch refs/heads/main\0\0");
const MERGED: Line<'static> = ("merge-tree --write-tree", 0, "merged\n\0");
const COMMITTED: Line<'static> = ("commit-tree merged -p tip -p result", 0, "merge\n");

#[test]
fn a_merge_moves_the_branch_from_what_was_looked_at() {
    let moved = ("update-ref -m callboard: merged a task refs/heads/main merge tip", 0, "");
    returns(&[MERGED, COMMITTED, ELSEWHERE, moved], &returned(true, None));
    let forward = ("merge -q --ff-only --no-overwrite-ignore", 0, "");
    returns(&[MERGED, COMMITTED, HERE, forward], &returned(true, None));
}

#[test]
fn a_branch_that_moved_meanwhile_is_merged_with_anew() {
    let race = (
        "update-ref -m callboard: merged a task",
        128,
        "cannot lock ref: is at x but expected tip",
    );
    let again = [
        ("rev-parse -q --verify refs/heads/main", 0, "newer\n"),
        ("rev-parse -q --verify refs/heads/callboard/r-1.merged", 1, ""),
        ("rev-parse -q --verify refs/heads/main", 0, "newer\n"),
        ("merge-base --is-ancestor result newer", 1, ""),
        ("merge-tree --write-tree", 0, "merged\n\0"),
        ("commit-tree merged -p newer -p result", 0, "merge\n"),
        ELSEWHERE,
        ("update-ref -m callboard: merged a task refs/heads/main merge newer", 0, ""),
    ];
    returns(&[&[MERGED, COMMITTED, ELSEWHERE, race][..], &again].concat(), &returned(true, None));
}

#[test]
fn what_the_main_worktree_cannot_take_is_held_on_a_branch() {
    let why = "Your local changes would be overwritten";
    let refused = ("merge -q --ff-only", 128, why);
    let same = ("rev-parse -q --verify refs/heads/main", 0, "tip\n");
    let hold =
        ("update-ref -m callboard: held a merge refs/heads/callboard/r-1.merged merge 0000", 0, "");
    let held = format!("`/w/repo` cannot take it: {why}");
    returns(&[MERGED, COMMITTED, HERE, refused, same, hold], &returned(false, Some(&held)));
}

#[test]
fn a_conflict_names_the_first_file_and_who_changed_it() {
    let conflict = ("merge-tree --write-tree", 1, "tree\0dir/a b\0z\0");
    let who = ("log -1 --first-parent -m", 0, "c0ffee\n1700000000\nr-1/first#2\n");
    let expected = End::Conflict {
        path: "dir/a b".to_owned(),
        holder: Some("r-1/first#2".to_owned()),
        commit: "c0ffee".to_owned(),
        since: 1_700_000_000,
    };
    returns(&[conflict, who], &expected);
}

#[test]
fn a_git_without_merge_tree_gets_a_worktree_for_the_merge() {
    let usage = ("merge-tree --write-tree", 129, "usage: git merge-tree");
    let made = ("worktree add -q --force --detach", 0, "");
    let gone = ("worktree remove --force", 0, "");
    let tree = ("write-tree", 0, "merged\n");
    let moved = ("update-ref -m callboard: merged a task", 0, "");
    let merge = ("merge -q --no-commit --no-ff", 0, "");
    let none = ("worktree remove --force", 128, "not a working tree");
    let lines = [usage, none, made, merge, tree, gone, COMMITTED, ELSEWHERE, moved];
    returns(&lines, &returned(true, None));
    let names = ("diff --name-only -z --diff-filter=U", 0, "a\0");
    let merge = ("merge -q --no-commit --no-ff", 1, "");
    let who = ("log -1", 0, "c\n1\n\n");
    let conflict =
        End::Conflict { path: "a".to_owned(), holder: None, commit: "c".to_owned(), since: 1 };
    returns(&[usage, none, made, merge, names, gone, who], &conflict);
}

#[test]
fn what_git_says_of_a_missing_folder_and_of_a_broken_one() {
    let machine = || Returning::new(work(&tenancy(Path::new("/w"), "t", "base")));
    let missing = "fatal: cannot change to '/w/t': No such file or directory";
    assert_eq!(play(machine(), &[("status", 128, missing)]), End::Missing);
    let broken = End::Broken { why: "fatal: index file corrupt".to_owned() };
    assert_eq!(play(machine(), &[("status", 128, "fatal: index file corrupt")]), broken);
}

#[test]
fn a_worktree_stays_while_anything_in_it_is_nowhere_else() {
    let folder = Path::new("/w");
    let check = |proof, lines: &[Line<'_>], expected: Option<&str>| match play(
        Removal::new(tenancy(folder, "t", "base"), proof),
        lines,
    ) {
        Removed::Gone { .. } => assert_eq!(None, expected),
        Removed::Kept { why } => assert!(why.contains(expected.unwrap()), "{why}"),
    };
    let clean = ("status", 0, "");
    let head = ("rev-parse -q --verify HEAD", 0, "h\n");
    let no = ("merge-base --is-ancestor h", 1, "");
    let yes = ("merge-base --is-ancestor h", 0, "");
    let tip = ("rev-parse -q --verify refs/heads/callboard", 0, "h\n");
    let gone = ("worktree remove", 0, "");
    let forget = ("update-ref -d refs/heads/callboard/r-1/t h", 0, "");
    check(Proof::Merged, &[("status", 0, "?? a\0 M b\0")], Some("2 files"));
    check(Proof::Merged, &[("status", 128, "fatal: x")], Some("cannot tell"));
    check(Proof::Merged, &[clean, head, no, no], Some("not merged"));
    check(Proof::OnBranch, &[clean, head, no, no, no], Some("not merged"));
    check(Proof::OnBranch, &[clean, head, yes, gone, tip, no, no], None);
    check(Proof::Merged, &[clean, head, yes, gone, tip, yes, forget], None);
    check(Proof::Merged, &[clean, head, yes, ("worktree remove", 128, "is dirty")], Some("dirty"));
    let base = ("rev-parse -q --verify HEAD", 0, "base\n");
    check(Proof::Merged, &[clean, base, gone, ("rev-parse", 1, "")], None);
}

// Real git.

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("repo")).unwrap();
        let place = Self { folder };
        place.git(&["init", "-q", "-b", "main"]);
        place.write("a", "1\n2\n3\n4\n5\n");
        place.git(&["add", "-A"]);
        place.git(&["commit", "-qm", "base"]);
        place
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join("repo").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(self.root().join("repo"))
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.root())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn tenant(&self, task: &str) -> Tenancy {
        let tenancy = tenancy(self.root(), task, &self.git(&["rev-parse", "HEAD"]));
        std::fs::create_dir_all(tenancy.folder.parent().unwrap()).unwrap();
        drive(&mut Creation::new(tenancy.clone())).unwrap().unwrap();
        tenancy
    }
}

/// Runs the machine for some steps only, as if it were cut off behind the last of them. True when
/// it came to its end.
fn run_for<M: Machine>(machine: &mut M, steps: usize) -> bool {
    let mut step = machine.begin();
    for _ in 0..steps {
        match step {
            Step::Done(_) => return true,
            Step::Git(git) => step = machine.hears(&git::run(&git)),
        }
    }
    matches!(step, Step::Done(_))
}

#[test]
fn a_merge_that_was_cut_off_anywhere_is_done_once() {
    for is_checked_out in [true, false] {
        for steps in 0.. {
            let place = Place::new();
            let tenancy = place.tenant("t");
            std::fs::write(tenancy.folder.join("a"), "1\n2\n3\n4\nfive\n").unwrap();
            std::fs::write(tenancy.folder.join("new"), "n\n").unwrap();
            // The branch has gone on, elsewhere in the file.
            place.write("a", "one\n2\n3\n4\n5\n");
            place.git(&["commit", "-qam", "meanwhile"]);
            if !is_checked_out {
                place.git(&["checkout", "-q", "-b", "other"]);
            }
            let was_whole = run_for(&mut Returning::new(work(&tenancy)), steps);
            let End::Returned(returned) = drive(&mut Returning::new(work(&tenancy))).unwrap()
            else {
                panic!("cut off behind step {steps}")
            };
            assert_eq!(returned.into.as_deref(), Some("main"), "cut off behind step {steps}");
            assert_eq!(place.git(&["show", "main:a"]), "one\n2\n3\n4\nfive");
            assert_eq!(place.git(&["show", "main:new"]), "n");
            let merges = place.git(&["rev-list", "--count", "--merges", "main"]);
            assert_eq!(merges, "1", "cut off behind step {steps}");
            assert_eq!(place.git(&["status", "--porcelain"]), "");
            let removed = drive(&mut Removal::new(tenancy, Proof::Merged)).unwrap();
            assert_eq!(removed, Removed::Gone { branch: None });
            if was_whole {
                assert!(steps > 12);
                break;
            }
        }
    }
}

#[test]
fn an_old_gits_way_comes_to_the_same() {
    let place = Place::new();
    let (one, two) = (place.tenant("one"), place.tenant("two"));
    std::fs::write(one.folder.join("a"), "1\n2\n3\n4\nfive\n").unwrap();
    std::fs::write(two.folder.join("a"), "1\n2\n3\n4\nFIVE\n").unwrap();
    let old = |tenancy: &Tenancy| Returning::new(Work { is_old_git: true, ..work(tenancy) });
    assert!(matches!(drive(&mut old(&one)).unwrap(), End::Returned(it) if it.into.is_some()));
    let End::Conflict { path, holder, .. } = drive(&mut old(&two)).unwrap() else { panic!() };
    assert_eq!((path.as_str(), holder.as_deref()), ("a", Some("r-1/one#1")));
    assert_eq!(std::fs::read_to_string(place.path("a")).unwrap(), "1\n2\n3\n4\nfive\n");
    assert_eq!(place.git(&["worktree", "list"]).lines().count(), 3);
    assert_eq!(place.git(&["show", &format!("{}:a", two.branch)]), "1\n2\n3\n4\nFIVE");
}

#[test]
fn what_is_held_comes_with_the_next_that_can() {
    let place = Place::new();
    let (one, two) = (place.tenant("one"), place.tenant("two"));
    std::fs::write(one.folder.join("a"), "mine\n").unwrap();
    std::fs::write(two.folder.join("b"), "b\n").unwrap();
    place.write("a", "the user's\n");
    let End::Returned(held) = drive(&mut Returning::new(work(&one))).unwrap() else { panic!() };
    assert!(held.held.is_some_and(|why| why.contains("overwritten")));
    assert_eq!(std::fs::read_to_string(place.path("a")).unwrap(), "the user's\n");
    place.git(&["checkout", "-q", "--", "a"]);
    let End::Returned(both) = drive(&mut Returning::new(work(&two))).unwrap() else { panic!() };
    assert_eq!((both.into.as_deref(), both.held), (Some("main"), None));
    assert_eq!(std::fs::read_to_string(place.path("a")).unwrap(), "mine\n");
    assert_eq!(std::fs::read_to_string(place.path("b")).unwrap(), "b\n");
    let lead = place.git(&["for-each-ref", &format!("refs/heads/{}", lead_of(&"r-1".into()))]);
    assert_eq!(lead, "");
}

#[test]
fn a_worktree_without_its_mark_is_not_taken_for_what_lies_around_it() {
    let place = Place::new();
    let mut tenancy = place.tenant("t");
    tenancy.folder = place.path("inner");
    std::fs::create_dir(&tenancy.folder).unwrap();
    std::fs::write(tenancy.folder.join("f"), "x").unwrap();
    assert_eq!(drive(&mut Returning::new(work(&tenancy))).unwrap(), End::Missing);
    assert_eq!(place.git(&["status", "--porcelain"]), "?? inner/");
}

#[test]
fn a_branch_that_is_there_is_never_taken_over() {
    let place = Place::new();
    let tenancy = tenancy(place.root(), "t", &place.git(&["rev-parse", "HEAD"]));
    place.git(&["branch", &tenancy.branch]);
    let made = drive(&mut Creation::new(tenancy.clone())).unwrap();
    assert!(made.unwrap_err().contains("already exists"));
    assert!(!tenancy.folder.exists());
    place.git(&["rev-parse", "--verify", &tenancy.branch]);
}

#[test]
fn a_call_says_what_went_wrong() {
    let output = git::run(&Git::new(Path::new("/nowhere/at/all"), ["status"]));
    assert_eq!(output.code, Some(128));
    assert!(output.trouble().contains("cannot change to"), "{output:?}");
}
