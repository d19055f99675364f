//! Tasks with worktrees of their own, with the real binary and real git.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::house::{Called, House, finish, wait_for};

/// Git of a user in a house.
fn git_in(house: &House, folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-C"])
        .arg(folder)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", house.root().join("home"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn git(house: &House, args: &[&str]) -> String {
    git_in(house, &house.workspace(), args)
}

/// A house whose workspace is a repository with these files, on the branch `main`.
fn repository(files: &[(&str, &str)]) -> House {
    let house = House::watched();
    git(&house, &["init", "-q", "-b", "main"]);
    // The manifest that `run` writes is nobody's result.
    house.write(".git/info/exclude", "m.toml\n");
    for (name, text) in files {
        house.write(name, text);
    }
    git(&house, &["add", "-A"]);
    git(&house, &["commit", "-q", "--allow-empty", "-m", "the beginning"]);
    house
}

fn state(house: &House) -> PathBuf {
    let pointer: Value = serde_json::from_str(&house.read(".callboard/pointer")).unwrap();
    PathBuf::from(pointer["state"].as_str().unwrap())
}

/// The folders of worktrees that are there.
fn worktrees(house: &House) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(state(house).join("worktrees")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = runs
        .flat_map(|run| std::fs::read_dir(run.path()).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// Branches of ours.
fn branches(house: &House) -> Vec<String> {
    let all = git(house, &["for-each-ref", "--format=%(refname:short)", "refs/heads/callboard"]);
    all.lines().map(str::to_owned).collect()
}

fn task(report: &Value, id: &str) -> Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["id"] == id).unwrap().clone()
}

fn exists(house: &House, name: &str) {
    wait_for(name, || house.path(name).exists().then_some(()).ok_or(String::new()));
}

fn gc(house: &House, flags: &[&str]) -> Value {
    let called = house.call(&[&["gc", "--json"], flags].concat());
    assert_eq!(called.code, 0, "{called:?}");
    called.json()
}

/// A task that works in a worktree.
fn isolated(id: &str, more: &str, run: &str) -> String {
    format!("[[task]]\nid = \"{id}\"\nisolation = \"worktree\"\n{more}\nrun = '''{run}'''\n")
}

#[test]
fn what_tasks_leave_is_merged_and_nothing_of_them_stays() {
    let house = repository(&[("a.txt", "a\n"), (".gitignore", "*.log\n")]);
    let (code, report) = house.run(
        &(isolated("one", "", "echo 1 > one.txt; echo a2 > a.txt; echo x > x.log")
            + &isolated(
                "two",
                "",
                "echo 2 > two.txt; git add two.txt; git -c user.name=w -c user.email=w@x commit -qm mine; echo 3 > three.txt",
            )
            + &isolated("sees", "after = [\"one\", \"two\"]", "cat one.txt two.txt three.txt a.txt; test ! -e x.log")
            + &isolated("none", "", "true")),
    );
    assert_eq!(code, 0, "{report:#}");
    for (name, text) in
        [("one.txt", "1\n"), ("two.txt", "2\n"), ("three.txt", "3\n"), ("a.txt", "a2\n")]
    {
        assert_eq!(house.read(name), text, "{name}");
    }
    assert_eq!(task(&report, "sees")["commands"][0]["stdout"], "1\n2\n3\na2\n");
    assert_eq!(git(&house, &["status", "--porcelain"]), "");
    let log = git(&house, &["log", "--format=%an %s", "main"]);
    assert!(log.contains("callboard Merge task"), "{log}");
    assert!(log.contains("w mine"), "{log}");
    assert_eq!((worktrees(&house), branches(&house)), (vec![], vec![]));
    let one = &task(&report, "one")["worktree"];
    assert_eq!((&one["returned"]["into"], &one["kept"]), (&json!("main"), &Value::Null), "{one}");
    assert_eq!(task(&report, "none")["worktree"]["returned"]["commit"], Value::Null);
    assert_eq!(git(&house, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn outside_of_a_repository_the_run_is_refused() {
    let house = House::watched();
    let manifest = isolated("one", "", "true");
    let refused = |house: &House, why: &str| {
        house.write("m.toml", &manifest);
        let called = house.call(&["run", "m.toml"]);
        assert_eq!(called.code, 2, "{called:?}");
        assert!(called.stderr.contains(why), "{called:?}");
    };
    refused(&house, "not a git repository");
    git(&house, &["init", "-q", "-b", "main"]);
    refused(&house, "no commit yet");
    git(&house, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&house, &["checkout", "-q", "--detach"]);
    refused(&house, "HEAD is detached");
    let (code, report) = house.run(&isolated("one", "merge = \"keep\"", "echo 1 > one"));
    assert_eq!(code, 0, "{report:#}");
    let branch =
        task(&report, "one")["worktree"]["returned"]["branch"].as_str().unwrap().to_owned();
    assert_eq!(git(&house, &["show", &format!("{branch}:one")]), "1");
    assert_eq!(worktrees(&house), Vec::<PathBuf>::new());
}

#[test]
fn orc_59_a_conflict_is_told_and_both_sides_stay() {
    let house = repository(&[("README.md", "top\n\nbottom\n")]);
    let insert = |word: &str, before: &str| {
        format!("{before}sed -i '2s/^/{word}/' README.md; cat README.md")
    };
    house.write("gate", "");
    let root = house.workspace().display().to_string();
    // Both begin at the same commit: the second works once the first is merged.
    let second = insert(
        "beta",
        &format!(
            "until git log --format=%s main | grep -q 'Merge task'; do sleep 0.05; done; touch {root}/.callboard/merged; "
        ),
    );
    let (code, report) = house.run_with(
        &["--jobs", "2"],
        &(isolated("a", "", &insert("alpha", "")) + &isolated("b", "", &second)),
    );
    let b = task(&report, "b");
    assert_eq!((code, &b["state"]), (0, &json!("succeeded")), "{report:#}");
    assert_eq!((&b["attempts"], &b["conflicts"]), (&json!(2), &json!(1)));
    assert_eq!(b["backoffs"][0]["resource"], "file/README.md");
    assert_eq!(b["backoffs"][0]["holder"], format!("{}/a", report["run_id"].as_str().unwrap()));
    // It backed off, and did its work anew on what was merged meanwhile.
    assert_eq!(house.read("README.md"), "top\nbetaalpha\nbottom\n");
    let theirs = format!("callboard/{}/b:README.md", report["run_id"].as_str().unwrap());
    assert_eq!(git(&house, &["show", &theirs]), "top\nbeta\nbottom");
    assert_eq!(worktrees(&house), Vec::<PathBuf>::new());
}

#[test]
fn orc_59_the_next_attempt_begins_at_what_is_merged() {
    let house = repository(&[("README.md", "top\n\nbottom\n")]);
    let run = "if [ $CALLBOARD_ATTEMPT = 1 ]; then until git log --format=%s main | grep -q 'Merge task'; do sleep 0.05; done; fi; sed -i '2s/^/beta /' README.md";
    let (code, report) = house.run_with(
        &["--jobs", "2"],
        &(isolated("a", "", "sed -i '2s/^/alpha /' README.md")
            + &isolated("b", "retries = 1", run)),
    );
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(house.read("README.md"), "top\nbeta alpha \nbottom\n");
    let run = report["run_id"].as_str().unwrap();
    // The first try is not lost.
    assert_eq!(branches(&house), [format!("callboard/{run}/b")]);
}

#[test]
fn orc_59_union_only_where_it_is_declared() {
    let house =
        repository(&[("log.md", "top\n\nbottom\n"), (".gitattributes", "log.md merge=union\n")]);
    let wait = "until git log --format=%s main | grep -q 'Merge task'; do sleep 0.05; done; ";
    let (code, report) = house.run_with(
        &["--jobs", "2"],
        &(isolated("a", "", "sed -i '2s/^/alpha/' log.md")
            + &isolated("b", "", &format!("{wait}sed -i '2s/^/beta/' log.md"))),
    );
    assert_eq!(code, 0, "{report:#}");
    let text = house.read("log.md");
    assert!(text.contains("alpha\n") && text.contains("beta\n"), "{text}");
}

#[test]
fn orc_61_the_target_is_the_branch_of_the_runs_start() {
    let house = repository(&[("a.txt", "a\n")]);
    git(&house, &["checkout", "-q", "-b", "feature/x"]);
    house.write(
        "m.toml",
        isolated("one", "", "until test -e \"$GO\"; do sleep 0.05; done; echo 1 > one.txt"),
    );
    let go = house.path(".callboard/go").display().to_string();
    let manifest = house.read("m.toml").replace("$GO", &go);
    house.write("m.toml", manifest);
    let run = house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    wait_for("the worktree", || {
        let is_there = house.path(".callboard/pointer").exists() && !worktrees(&house).is_empty();
        is_there.then_some(()).ok_or(String::new())
    });
    // The user goes elsewhere meanwhile.
    git(&house, &["checkout", "-q", "main"]);
    house.write(".callboard/go", "");
    let called = finish(run);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!(git(&house, &["show", "feature/x:one.txt"]), "1");
    assert!(!house.path("one.txt").exists());
    assert_eq!(git(&house, &["rev-list", "--count", "main"]), "1");
}

#[test]
fn orc_63_thirty_worktrees_at_once() {
    let house = repository(&[("a.txt", "a\n")]);
    let tasks: String =
        (0..30).map(|n| isolated(&format!("t{n}"), "", &format!("echo {n} > f{n}.txt"))).collect();
    house.write("agents.toml", "[[agent]]\nname = \"many\"\nadapter = \"shell\"\ncapacity = 30\n");
    let (code, report) = house.run_with(&["--jobs", "30"], &tasks);
    assert_eq!(code, 0, "{report:#}");
    for n in 0..30 {
        assert_eq!(house.read(&format!("f{n}.txt")), format!("{n}\n"));
    }
    assert_eq!((worktrees(&house), branches(&house)), (vec![], vec![]));
}

#[test]
fn orc_63_a_failed_creation_leaves_no_branch() {
    let house = repository(&[("a.txt", "a\n")]);
    // Checking it out fails: a filter that has to work does not.
    git(&house, &["config", "filter.broken.smudge", "false"]);
    git(&house, &["config", "filter.broken.clean", "cat"]);
    git(&house, &["config", "filter.broken.required", "true"]);
    house.write(".gitattributes", "a.txt filter=broken\n");
    git(&house, &["add", "-A"]);
    git(&house, &["commit", "-q", "-m", "a filter"]);
    let (code, report) = house.run(&isolated("one", "retries = 3", "true"));
    assert_eq!(code, 3, "{report:#}");
    let one = task(&report, "one");
    assert_eq!((&one["reason"]["kind"], &one["attempts"]), (&json!("start_failed"), &json!(1)));
    assert!(
        one["reason"]["message"].as_str().unwrap().contains("no worktree can be made"),
        "{one}"
    );
    assert_eq!((worktrees(&house), branches(&house)), (vec![], vec![]));
    assert_eq!(git(&house, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn orc_64_only_what_is_clean_merged_and_unused_goes() {
    let house = repository(&[("a.txt", "a\n")]);
    let commit = "git -c user.name=w -c user.email=w@x commit -qam mine";
    let (code, report) = house.run(
        &(isolated(
            "commits",
            "retries = 1",
            &format!("if [ $CALLBOARD_ATTEMPT = 1 ]; then echo b > a.txt; {commit}; fi; false"),
        ) + &isolated("leaves", "", "echo x > untracked; false")
            + &isolated("nothing", "", "false")),
    );
    assert_eq!(code, 1, "{report:#}");
    let run = report["run_id"].as_str().unwrap();
    let folder = state(&house).join("worktrees").join(run);
    let kept = [folder.join("commits"), folder.join("leaves")];
    assert_eq!(worktrees(&house), kept);
    assert_eq!(task(&report, "leaves")["worktree"]["kept"], json!([kept[1]]));
    assert_eq!(
        branches(&house),
        [format!("callboard/{run}/commits"), format!("callboard/{run}/leaves")]
    );
    for flags in [&[][..], &["--apply"]] {
        let said = gc(&house, flags);
        let whys: Vec<&str> =
            said["kept"].as_array().unwrap().iter().map(|it| it["why"].as_str().unwrap()).collect();
        assert!(whys[0].contains("not merged"), "{said:#}");
        assert!(whys[1].contains("not committed"), "{said:#}");
        assert_eq!(worktrees(&house), kept);
    }
    let doctor = house.call(&["doctor", "--json"]).json();
    let finding = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["id"] == "worktrees")
        .unwrap()
        .clone();
    assert_eq!(finding["level"], "note", "{finding}");
    // Once the user has taken what is in them, they go.
    git(&house, &["merge", "-q", &format!("callboard/{run}/commits")]);
    std::fs::remove_file(kept[1].join("untracked")).unwrap();
    let mut inside = Command::new("sleep").arg("600").current_dir(&kept[1]).spawn().unwrap();
    let said = gc(&house, &["--apply"]);
    assert_eq!(worktrees(&house), [kept[1].clone()], "{said:#}");
    assert!(said["kept"][0]["why"].as_str().unwrap().contains("process"), "{said:#}");
    inside.kill().unwrap();
    inside.wait().unwrap();
    gc(&house, &["--apply"]);
    assert_eq!((worktrees(&house), branches(&house)), (vec![], vec![]));
}

#[test]
fn orc_66_a_worktree_that_vanishes_ends_its_task() {
    let house = repository(&[("a.txt", "a\n")]);
    house.write("m.toml", isolated("one", "", "sleep 600 & sleep 600"));
    let run = house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    wait_for("the command", || {
        let processes = house.processes();
        let count = processes.iter().filter(|line| line.contains("sleep 600")).count();
        (count == 2).then_some(()).ok_or(format!("{processes:?}"))
    });
    std::fs::remove_dir_all(&worktrees(&house)[0]).unwrap();
    let called: Called = finish(run);
    let report = called.json();
    let one = task(&report, "one");
    assert_eq!((called.code, &one["state"]), (3, &json!("failed")), "{report:#}");
    assert_eq!(one["reason"]["kind"], "workspace_missing");
    assert_eq!(one["commands"][0]["reason"]["kind"], "workspace_missing");
    house.assert_empties();
    assert_eq!(branches(&house), Vec::<String>::new());
    assert_eq!(git(&house, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn orc_67_paths_are_paths() {
    let house = House::watched();
    let root = house.path("my proj/\u{e4}\"quote$x");
    std::fs::create_dir_all(&root).unwrap();
    git_in(&house, &root, &["init", "-q", "-b", "main"]);
    std::fs::write(root.join("-dash"), "d").unwrap();
    std::fs::write(root.join("new\nline"), "n").unwrap();
    std::fs::create_dir(root.join("sub dir")).unwrap();
    std::fs::write(
        root.join("sub dir/m.toml"),
        isolated(
            "a b$(id)",
            "",
            "pwd; printf 1 >> $'new\\nline'; printf 2 > -- ; printf x > -x; printf z > $'\\xff'",
        ) + "[[task]]\nid = \"shared\"\nrun = \"pwd\"\n",
    )
    .unwrap();
    git_in(&house, &root, &["add", "-A"]);
    git_in(&house, &root, &["commit", "-q", "-m", "x"]);
    let mut command = house.command(&["run", "m.toml", "--json"]);
    let called = finish(command.current_dir(root.join("sub dir")).spawn().unwrap());
    let report = called.json();
    assert_eq!(called.code, 0, "{report:#}");
    let pwd = task(&report, "a b$(id)")["commands"][0]["stdout"].as_str().unwrap().to_owned();
    assert!(pwd.ends_with("/a%20b%24%28id%29/sub dir\n"), "{pwd}");
    let shared = task(&report, "shared")["commands"][0]["stdout"].as_str().unwrap().to_owned();
    assert_eq!(Path::new(shared.trim_end()), root.join("sub dir"));
    let here = root.join("sub dir");
    assert_eq!(std::fs::read_to_string(here.join("--")).unwrap(), "2");
    assert_eq!(std::fs::read_to_string(here.join("-x")).unwrap(), "x");
    assert_eq!(std::fs::read_to_string(here.join("new\nline")).unwrap(), "1");
    assert!(here.join(std::ffi::OsStr::from_bytes(b"\xff")).exists());
}

#[test]
fn orc_80_the_callers_own_worktree_is_never_removed() {
    let house = repository(&[("a.txt", "a\n")]);
    let bin = env!("CARGO_BIN_EXE_callboard");
    let root = house.workspace().display().to_string();
    let collect = format!(
        "'{bin}' gc --apply --json --workspace '{root}' > '{root}/.callboard/said'; pwd -P; test -e a.txt"
    );
    let (code, report) = house.run(&isolated("me", "", &collect));
    assert_eq!(code, 0, "{report:#}");
    let said: Value = serde_json::from_str(&house.read(".callboard/said")).unwrap();
    assert_eq!(said["kept"].as_array().unwrap().len(), 1, "{said:#}");
    assert!(said["kept"][0]["path"].as_str().unwrap().ends_with("/me"), "{said:#}");
}

#[test]
fn files_with_changes_of_the_users_own_are_never_touched() {
    let house = repository(&[("a.txt", "a\n"), (".gitignore", "secret\n")]);
    house.write("a.txt", "the user's own\n");
    house.write("secret", "ignored, and the user's\n");
    house.write("new.txt", "untracked\n");
    let (code, report) = house.run(
        &(isolated("one", "", "echo mine > a.txt")
            + &isolated(
                "two",
                "after = [\"one\"]",
                "cat a.txt; echo x > new.txt; echo y > secret; git add -f secret",
            )),
    );
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(task(&report, "two")["commands"][0]["stdout"], "mine\n");
    assert_eq!(house.read("a.txt"), "the user's own\n");
    assert_eq!(house.read("secret"), "ignored, and the user's\n");
    assert_eq!(house.read("new.txt"), "untracked\n");
    assert_eq!(git(&house, &["rev-list", "--count", "main"]), "1");
    let run = report["run_id"].as_str().unwrap();
    let lead = format!("callboard/{run}.merged");
    for id in ["one", "two"] {
        let returned = &task(&report, id)["worktree"]["returned"];
        assert_eq!(returned["into"], Value::Null, "{returned}");
        assert!(returned["held"].as_str().unwrap().contains("overwritten"), "{returned}");
    }
    assert_eq!(git(&house, &["show", &format!("{lead}:a.txt")]), "mine");
    assert_eq!(git(&house, &["show", &format!("{lead}:new.txt")]), "x");
    let words = house.call(&["report", run]).stdout;
    assert!(words.contains("overwritten"), "{words}");
}

#[test]
fn a_change_elsewhere_in_the_main_worktree_is_in_nobodys_way() {
    let house = repository(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    house.write("b.txt", "the user's own\n");
    let (code, report) = house.run(&isolated("one", "", "cat b.txt; echo mine > a.txt"));
    assert_eq!(code, 0, "{report:#}");
    // What is not committed is not in the worktree.
    assert_eq!(task(&report, "one")["commands"][0]["stdout"], "b\n");
    assert_eq!(
        (house.read("a.txt"), house.read("b.txt")),
        ("mine\n".to_owned(), "the user's own\n".to_owned())
    );
    assert_eq!(git(&house, &["status", "--porcelain"]), " M b.txt");
}

#[test]
fn a_conflict_with_a_commit_of_the_users_names_it() {
    let house = repository(&[("a.txt", "a\n")]);
    exists(&house, "a.txt");
    let root = house.workspace().display().to_string();
    house.write("m.toml", isolated("one", "", &format!("touch {root}/.callboard/up; until test -e {root}/.callboard/go; do sleep 0.05; done; echo task > a.txt")));
    let run = house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    exists(&house, ".callboard/up");
    house.write("a.txt", "user\n");
    git(&house, &["commit", "-qam", "the user's"]);
    let commit = git(&house, &["rev-parse", "HEAD"]);
    house.write(".callboard/go", "");
    let report = finish(run).json();
    let one = task(&report, "one");
    let holder = &one["backoffs"][0]["holder"];
    assert_eq!(*holder, format!("commit {}", &commit[..12]), "{one:#}");
    // What it wrote the second time was written on top of the user's.
    assert_eq!(git(&house, &["show", "HEAD^1:a.txt"]), "user");
    assert_eq!(house.read("a.txt"), "task\n");
}

#[test]
fn what_cannot_be_merged_as_it_is_stays_where_it_is() {
    let house = repository(&[("a.txt", "a\n")]);
    let (code, report) = house.run(
        &(isolated("nested", "", "git init -q sub; echo x > sub/f; git -C sub add f; git -C sub -c user.name=w -c user.email=w@x commit -qm x")
            + &isolated("unmerged", "", "git checkout -q -b side; echo 1 > a.txt; git -c user.name=w -c user.email=w@x commit -qam 1; git checkout -q -; echo 2 > a.txt; git -c user.name=w -c user.email=w@x commit -qam 2; git -c user.name=w -c user.email=w@x merge -q side; true")),
    );
    assert_eq!(code, 1, "{report:#}");
    for (id, word) in [("nested", "sub"), ("unmerged", "a.txt")] {
        let task = task(&report, id);
        assert_eq!(task["reason"]["kind"], "merge", "{task:#}");
        assert!(task["reason"]["message"].as_str().unwrap().contains(word), "{task:#}");
        assert_eq!(task["worktree"]["kept"].as_array().unwrap().len(), 1);
    }
    assert_eq!(git(&house, &["rev-list", "--count", "main"]), "1");
    assert_eq!(worktrees(&house).len(), 2);
}

#[test]
fn hooks_of_the_user_are_not_run_by_merges_of_ours() {
    let house = repository(&[("a.txt", "a\n")]);
    for hook in ["post-checkout", "post-merge", "pre-commit", "reference-transaction", "commit-msg"]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = house
            .write(&format!(".git/hooks/{hook}"), "#!/bin/sh\ntouch \"$HOME/hooked\"\nexit 1\n");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let (code, report) = house.run(&isolated("one", "", "echo mine > a.txt"));
    assert_eq!(code, 0, "{report:#}");
    assert!(!house.root().join("home/hooked").exists());
    assert_eq!(house.read("a.txt"), "mine\n");
}

fn coordinator(house: &House) -> String {
    let lock: Value = serde_json::from_str(&house.read(".callboard/lock")).unwrap();
    lock["pid"].to_string()
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
}

#[test]
fn a_merge_whose_coordinator_is_killed_is_done_once() {
    let house = repository(&[("f", "1\n2\n3\n4\n5\n"), (".gitattributes", "f merge=slow\n")]);
    let root = house.workspace().display().to_string();
    let driver = format!("touch {root}/.callboard/merging; sleep 2; git merge-file %A %O %B");
    git(&house, &["config", "merge.slow.driver", &driver]);
    let wait = "until git log --format=%s main | grep -q 'Merge task'; do sleep 0.05; done; ";
    house.write(
        "m.toml",
        isolated("a", "", "sed -i 1s/1/one/ f")
            + &isolated("b", "", &format!("{wait}sed -i 5s/5/five/ f")),
    );
    let run = house.command(&["run", "m.toml", "--json", "--jobs", "2"]).spawn().unwrap();
    exists(&house, ".callboard/merging");
    kill(&coordinator(&house));
    let called = finish(run);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!(house.read("f"), "one\n2\n3\n4\nfive\n");
    assert_eq!(git(&house, &["rev-list", "--count", "--merges", "main"]), "2");
    let report = called.json();
    assert_eq!(task(&report, "b")["attempts"], 1, "{report:#}");
    for id in ["a", "b"] {
        assert_eq!(task(&report, id)["worktree"]["returned"]["into"], "main", "{report:#}");
    }
    assert_eq!((worktrees(&house), branches(&house)), (vec![], vec![]));
}

#[test]
fn worktrees_outlast_their_coordinator() {
    let house = repository(&[("a.txt", "a\n")]);
    let root = house.workspace().display().to_string();
    let waits = |id: &str| {
        let go = format!("until test -e {root}/.callboard/go; do sleep 0.05; done");
        isolated(id, "", &format!("echo {id} > {id}.txt; touch {root}/.callboard/{id}; {go}"))
    };
    house.write("agents.toml", "[[agent]]\nname = \"many\"\nadapter = \"shell\"\ncapacity = 3\n");
    house.write("m.toml", waits("good") + &waits("gone") + &waits("lost"));
    let run = house.command(&["run", "m.toml", "--json", "--jobs", "3"]).spawn().unwrap();
    for id in ["good", "gone", "lost"] {
        exists(&house, &format!(".callboard/{id}"));
    }
    let first = coordinator(&house);
    let lost = house.call(&["task", "show", "lost", "--json"]).json();
    let lost = lost["session_id"].as_str().unwrap();
    let sessions = house.call(&["status", "--json"]).json()["sessions"].as_array().unwrap().clone();
    let lost = sessions.iter().find(|it| it["session_id"] == lost).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/status", lost["pid"])).unwrap();
    let holder = stat.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    kill(&first);
    kill(holder);
    wait_for("another coordinator", || {
        let text = house.read(".callboard/lock");
        let pid = serde_json::from_str::<Value>(&text).map(|lock| lock["pid"].to_string());
        pid.is_ok_and(|pid| pid != first).then_some(()).ok_or(text)
    });
    let gone = worktrees(&house).into_iter().find(|path| path.ends_with("gone")).unwrap();
    std::fs::remove_dir_all(gone).unwrap();
    wait_for("the vanished one to be noticed", || {
        let shown = house.call(&["task", "show", "gone", "--json"]);
        shown.stdout.contains("workspace_missing").then_some(()).ok_or(format!("{shown:?}"))
    });
    house.write(".callboard/go", "");
    let report = finish(run).json();
    assert_eq!(task(&report, "good")["state"], "succeeded", "{report:#}");
    assert_eq!(house.read("good.txt"), "good\n");
    assert_eq!(task(&report, "gone")["reason"]["kind"], "workspace_missing");
    let lost = task(&report, "lost");
    assert_eq!(lost["reason"]["kind"], "lost", "{lost:#}");
    // It had left a file.
    assert_eq!(lost["worktree"]["kept"].as_array().unwrap().len(), 1, "{lost:#}");
    assert_eq!(worktrees(&house).len(), 1);
}

#[test]
fn a_task_may_go_to_a_branch_of_its_own() {
    let house = repository(&[("a.txt", "a\n")]);
    let (code, report) = house.run(&isolated(
        "one",
        "",
        "git checkout -q -b mine; echo 1 > b; git add b; \
         git -c user.name=w -c user.email=w@x commit -qm mine; echo 2 > c",
    ));
    assert_eq!(code, 0, "{report:#}");
    assert_eq!((house.read("b"), house.read("c")), ("1\n".to_owned(), "2\n".to_owned()));
    // It has not asked for more to be put there.
    assert_eq!(git(&house, &["log", "-1", "--format=%s", "mine"]), "mine");
}
