//! What tracing costs: the same work in sessions with and without it, in turn in one run, beside the
//! same work without callboard.
//!
//! `cargo bench --bench touch [-- ROUNDS]`. Times are those of the command itself, medians with the
//! least and the greatest.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program run by hand")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

const FILES: usize = 10_000;

/// A piece of work: what is done before, what is measured, and where it is all made.
struct Work {
    name: &'static str,
    before: String,
    measured: String,
}

fn main() {
    let rounds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(5);
    let folder = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").unwrap();
    for name in ["home", "state", "run", "ws"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    prepare(folder.path());
    for work in works() {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            times[0].push(bare(folder.path(), &work));
            times[1].push(in_session(folder.path(), &work, "off"));
            times[2].push(in_session(folder.path(), &work, "on"));
        }
        println!("{}", work.name);
        let [bare, off, on] = times.map(Series::of);
        println!("  without callboard   {bare}");
        println!("  without tracing     {off}");
        println!("  with tracing        {on}");
        println!("  ratio on/off        {:.2}", on.median() / off.median());
    }
}

fn works() -> Vec<Work> {
    let work = |name, before: &str, measured: &str| Work {
        name,
        before: before.to_owned(),
        measured: measured.to_owned(),
    };
    let mut works = vec![
        work(
            "git checkout of 10,000 files",
            "git -C repo checkout -q empty",
            "git -C repo checkout -q full",
        ),
        work("tar of 10,000 files", "rm -rf out; mkdir out", "tar -xf files.tar -C out"),
        work("10,000 files read", "true", "cat repo2/*/* > /dev/null"),
    ];
    if has("cargo") {
        works.push(work(
            "cargo build of a small crate",
            "rm -rf crate/target",
            "cargo build -q --offline --manifest-path crate/Cargo.toml",
        ));
    }
    works
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn prepare(folder: &Path) {
    let script = format!(
        "set -e; mkdir repo repo2; cd repo; git init -q .; git config user.name a; git config user.email a@b
         git commit -q --allow-empty -m empty; git branch empty; git checkout -q -b full
         for d in $(seq 100); do mkdir d$d ../repo2/d$d; for f in $(seq {}); do echo $d $f > d$d/f$f; done; cp d$d/* ../repo2/d$d; done
         git add .; git commit -q -m full; cd ..; tar -cf files.tar repo2
         mkdir -p crate/src; echo 'fn main() {{ println!(\"{{}}\", std::env::args().count()); }}' > crate/src/main.rs
         printf '[package]\\nname = \"small\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[workspace]\\n' > crate/Cargo.toml",
        FILES / 100
    );
    let status = shell(folder, &script).status().unwrap();
    assert!(status.success());
}

fn shell(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder.join("ws")).stdin(Stdio::null());
    command
}

fn bare(folder: &Path, work: &Work) -> f64 {
    assert!(shell(folder, &work.before).status().unwrap().success());
    let start = Instant::now();
    assert!(shell(folder, &work.measured).status().unwrap().success());
    start.elapsed().as_secs_f64()
}

/// The same as the second command of a task.
fn in_session(folder: &Path, work: &Work, tracing: &str) -> f64 {
    let home = std::env::var("HOME").unwrap_or_default();
    let place =
        |name: &str, own: &str| std::env::var(name).unwrap_or_else(|_| format!("{home}/{own}"));
    let manifest = format!(
        "[[task]]\nid = \"t\"\ntracing = \"{tracing}\"\nrun = [{:?}, {:?}]\n\
         env = {{ CARGO_HOME = {:?}, RUSTUP_HOME = {:?} }}\n",
        work.before,
        work.measured,
        place("CARGO_HOME", ".cargo"),
        place("RUSTUP_HOME", ".rustup"),
    );
    std::fs::write(folder.join("m.toml"), manifest).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["run", "../m.toml", "--workspace", ".", "--json"])
        .env_clear()
        .env("HOME", folder.join("home"))
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("XDG_RUNTIME_DIR", folder.join("run"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LANG", "C.UTF-8")
        .current_dir(folder.join("ws"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["tasks"][0]["commands"][1]["duration_ms"].as_f64().unwrap() / 1e3
}

/// Seconds, in order.
struct Series(Vec<f64>);

impl Series {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (least, greatest) = (self.0[0], self.0[self.0.len() - 1]);
        write!(to, "{:.3} s ({least:.3} to {greatest:.3}, n={})", self.median(), self.0.len())
    }
}
