//! What stays behind: 10,000 mixed commands in one session, and 1,000 sessions opened and closed.
//! Memory, descriptors and files of the coordinator and of the session's holder, before and after.

use std::fs;
use std::time::Instant;

use super::house::House;

const COMMANDS: usize = 10_000;
const SESSIONS: usize = 1_000;
/// After so many of each, what is kept for later is there.
const WARM_UP: usize = 200;

/// Commands of many kinds, each with the state it ends in.
const MIXED: [(&str, &str); 12] = [
    ("true", "completed"),
    ("false", "failed"),
    ("echo out; echo err >&2", "completed"),
    ("seq 200", "completed"),
    ("(exit 3)", "failed"),
    ("x=$((x + 1)); cd /; cd - >/dev/null", "completed"),
    ("printf '\\e[31mred\\e[0m\\n\\ra\\rb\\n'", "completed"),
    ("cat <<'EOF'\na\nb\nEOF", "completed"),
    ("false | true | false", "failed"),
    ("if", "failed"),
    ("printf '\\xc4\\xe3\\n'", "completed"),
    ("sleep 0 & wait", "completed"),
];

pub fn run() {
    let house = House::new();
    let mut client = house.client();
    let coordinator = house.coordinator();
    let holder = holder_of(&house);
    let mut done = 0;
    let mut commands = |count: usize| {
        for _ in 0..count {
            let (text, state) = MIXED[done % MIXED.len()];
            let result = client.exec(Some("keep"), text);
            let ended = serde_json::to_value(result.state).unwrap();
            assert_eq!(ended, state, "{text}: {result:?}");
            done += 1;
        }
    };
    commands(WARM_UP);
    let before = [Use::of(coordinator), Use::of(holder)];
    let start = Instant::now();
    commands(COMMANDS);
    let each = start.elapsed().as_secs_f64() / COMMANDS as f64;
    println!("  {COMMANDS} mixed commands in one session, {:.2} ms each", each * 1e3);
    before[0].beside("coordinator", &Use::of(coordinator));
    before[1].beside("holder", &Use::of(holder));

    for _ in 0..WARM_UP {
        client.exec(None, "true");
    }
    let before = Use::of(coordinator);
    let files = files_under(&house);
    let start = Instant::now();
    for _ in 0..SESSIONS {
        client.exec(None, "true");
    }
    let each = start.elapsed().as_secs_f64() / SESSIONS as f64;
    println!("  {SESSIONS} sessions opened and closed, {:.2} ms each", each * 1e3);
    before.beside("coordinator", &Use::of(coordinator));
    let [run_before, state_before] = files;
    let [run_after, state_after] = files_under(&house);
    println!("    files in the runtime folder: {run_before} to {run_after}");
    println!(
        "    files kept of each session for its retention: {:.1}",
        (state_after - state_before) as f64 / SESSIONS as f64
    );
}

/// What a process holds.
struct Use {
    private_kib: u64,
    descriptors: usize,
}

impl Use {
    fn of(pid: u32) -> Self {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let kib = |name: &str| -> u64 {
            let line = rollup.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
        };
        Self {
            private_kib: kib("Private_Clean:") + kib("Private_Dirty:"),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
        }
    }

    fn beside(&self, who: &str, after: &Self) {
        println!(
            "    {who:12} private memory {} to {} KiB, descriptors {} to {}",
            self.private_kib, after.private_kib, self.descriptors, after.descriptors
        );
    }
}

/// The holder is the parent of its session's shell.
fn holder_of(house: &House) -> u32 {
    let shown = house.output(&["session", "show", "keep", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let shell = shown["pid"].as_u64().unwrap();
    let stat = fs::read_to_string(format!("/proc/{shell}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Files in the runtime folder, and in the state folder.
fn files_under(house: &House) -> [usize; 2] {
    ["run", "state"].map(|name| {
        let mut folders = vec![house.workspace().parent().unwrap().join(name)];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                count += 1;
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        count
    })
}
