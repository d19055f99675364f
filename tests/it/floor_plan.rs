//! The table of doors (design, section 4.1) held against the sources: which room imports which,
//! which rooms touch nothing, and how a file has to look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::rust_source::{Source, Token};

/// Each room and the rooms it may import. A room that is missing here is an error, and so is a door.
/// If a door is missing for a good reason, change the table and say why in `docs/decisions/`.
const DOORS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("policy", &["domain"]),
    ("command", &["domain"]),
    ("transcript", &["domain"]),
    ("report", &["domain"]),
    ("scheduler", &["domain", "policy"]),
    ("control", &["domain", "report", "transcript"]),
    ("protocol", &["domain", "control"]),
    ("journal", &["domain"]),
    ("board", &["domain"]),
    ("worktree", &["domain"]),
    ("session", &["domain", "command", "transcript", "policy"]),
    ("adapter", &["domain", "protocol"]),
    (
        "daemon",
        &[
            "domain",
            "policy",
            "command",
            "transcript",
            "report",
            "scheduler",
            "control",
            "protocol",
            "journal",
            "board",
            "session",
            "adapter",
            "worktree",
            "web",
        ],
    ),
    ("web", &["domain", "control", "report", "transcript"]),
    ("tui", &["domain", "control", "report", "transcript"]),
    (
        "cli",
        &[
            "domain",
            "control",
            "protocol",
            "report",
            "transcript",
            "policy",
            "scheduler",
            "journal",
            "tui",
        ],
    ),
];

/// Doors of one file: those that start a coordinator or a holder.
const DOORS_OF_FILES: &[(&str, &[&str])] = &[
    ("cli/coordinator.rs", &["daemon", "session"]),
    ("cli/serve.rs", &["daemon", "session"]),
    ("main.rs", &["cli", "daemon", "session"]),
];

/// Rooms that each touch one outside thing: no door between any two of them.
const HANDS: &[&str] = &["journal", "board", "session", "adapter", "worktree"];

/// Rooms that touch no clock, disk, environment, socket, task or randomness of the system.
const UNTOUCHING: &[&str] =
    &["domain", "policy", "command", "transcript", "scheduler", "report", "control", "protocol"];

/// What those rooms may not name outside their tests.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    // `std::os::unix::ffi` only turns paths into bytes and back.
    "std::os::fd",
    "std::os::linux",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::os::unix::process",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::SystemTime",
    "std::time::Instant",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "tokio",
    "rand::rng",
    "rand::random",
    "libc",
    "rustix",
    "portable_pty",
    "sled",
];

/// Names that say nothing of what a thing keeps or decides.
const EMPTY_NAMES: &[&str] = &["manager", "helper", "helpers", "util", "utils", "common", "misc"];

const FILE_LINES_MAX: usize = 450;
const MOD_LINES_MAX: usize = 60;

#[test]
fn every_room_is_in_the_table() {
    let table: BTreeSet<&str> = DOORS.iter().map(|(room, _)| *room).collect();
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(sources()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            folders.insert(name);
        } else {
            assert!(["main.rs", "lib.rs"].contains(&name.as_str()), "src/{name} is in no room");
        }
    }
    let folders: BTreeSet<&str> = folders.iter().map(String::as_str).collect();
    assert_eq!(folders, table, "the rooms in src/ and those in the table");
    let house = Source::new(&fs::read_to_string(sources().join("lib.rs")).unwrap());
    let declared: BTreeSet<&str> = (0..house.tokens.len())
        .filter(|at| house.is(*at, "mod"))
        .map(|at| house.text(at + 1))
        .collect();
    assert_eq!(declared, table, "the rooms that src/lib.rs declares and those in the table");
}

#[test]
fn the_table_itself_keeps_the_rules() {
    for (room, doors) in DOORS {
        let hand = HANDS.contains(room);
        for door in *doors {
            assert!(DOORS.iter().any(|(known, _)| known == door), "{room}: no room {door}");
            assert!(!(hand && HANDS.contains(door)), "{room}: hands never import hands: {door}");
            let pure = UNTOUCHING.contains(room);
            assert!(!pure || UNTOUCHING.contains(door), "{room}: {door} touches the outside");
        }
    }
}

#[test]
fn rooms_import_only_through_their_doors() {
    report(&walk(|file| {
        let allowed = allowed_rooms(&file.name);
        file.source
            .paths()
            .iter()
            .filter_map(|path| {
                let room = room_of(&file.name, &path.segments, path.inline_depth)?;
                let open = allowed.contains(room.as_str());
                (!open).then(|| format!("{}: {} has no door to {room}", path.line, file.room()))
            })
            .collect()
    }));
}

#[test]
fn pure_rooms_and_voices_touch_nothing_outside() {
    report(&walk(|file| {
        if !UNTOUCHING.contains(&file.room()) || file.is_test {
            return Vec::new();
        }
        let tests = file.test_lines();
        file.source
            .paths()
            .iter()
            .filter(|path| !tests.contains(&path.line))
            .filter_map(|path| {
                let named = outside(&path.segments)?;
                Some(format!("{}: {named} in {}, which touches nothing", path.line, file.room()))
            })
            .collect()
    }));
}

#[test]
fn files_open_with_what_they_are_for() {
    report(&walk(|file| {
        let opens = file.text.starts_with("//! ");
        if opens { Vec::new() } else { vec!["1: the first line has to be `//! …`".to_owned()] }
    }));
}

#[test]
fn files_stay_short() {
    report(&walk(|file| {
        let lines = file.text.lines().count();
        let (counted, limit) = match file.name.ends_with("mod.rs") {
            true => (lines, MOD_LINES_MAX),
            false => (lines - file.test_lines().len(), FILE_LINES_MAX),
        };
        if file.is_test || counted <= limit {
            return Vec::new();
        }
        vec![format!("{counted}: more than {limit} lines besides tests")]
    }));
}

#[test]
fn mod_files_only_list_and_re_export() {
    report(&walk(|file| {
        if !file.name.ends_with("mod.rs") || file.is_test {
            return Vec::new();
        }
        items(&file.source)
            .into_iter()
            .filter(|token| !["mod", "use"].contains(&token.text.as_str()))
            .map(|token| format!("{}: `{}` in a mod.rs", token.line, token.text))
            .collect()
    }));
}

#[test]
fn names_say_something() {
    report(&walk(|file| {
        let mut found = Vec::new();
        let stems = file.name.trim_end_matches(".rs").split('/');
        found
            .extend(stems.filter(|stem| is_empty_name(stem)).map(|stem| format!("1: file {stem}")));
        for at in 0..file.source.tokens.len() {
            let declares = ["struct", "enum", "trait", "type", "mod", "union"];
            let name = file.source.text(at + 1);
            if declares.contains(&file.source.text(at)) && is_empty_name(name) {
                found.push(format!("{}: {name}", file.source.tokens[at].line));
            }
        }
        found
    }));
}

#[test]
fn unsafe_stands_only_where_the_system_is_called() {
    report(&walk(|file| {
        if file.name.starts_with("session/os/") {
            return Vec::new();
        }
        let tokens = file.source.tokens.iter().filter(|token| token.text == "unsafe");
        tokens.map(|token| format!("{}: unsafe outside session/os/", token.line)).collect()
    }));
}

#[test]
fn nothing_is_left_for_later() {
    // In two halves, so that this file does not find itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    report(&walk(|file| {
        let lines = file.text.lines().enumerate();
        lines
            .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)))
            .map(|(n, line)| format!("{}: {}", n + 1, line.trim()))
            .collect()
    }));
}

#[test]
fn the_reader_of_doors_sees_every_way_out() {
    let table: &[(&str, &str, usize, Option<&str>)] = &[
        ("journal/append.rs", "crate::board::Key", 0, Some("board")),
        ("journal/append.rs", "callboard::board::Key", 0, None),
        ("main.rs", "callboard::board::Key", 0, Some("board")),
        ("journal/append.rs", "super::replay::Line", 0, Some("journal")),
        ("journal/append.rs", "super::super::board::Key", 0, Some("board")),
        ("journal/mod.rs", "super::board::Key", 0, Some("board")),
        ("session/os/pty.rs", "super::super::wire::Ask", 0, Some("session")),
        ("session/os/pty.rs", "super::super::super::board::Key", 0, Some("board")),
        ("journal/append.rs", "super::super::board::Key", 1, Some("journal")),
        ("journal/append.rs", "super::super::super::board::Key", 1, Some("board")),
        ("journal/append.rs", "self::super::super::board::Key", 0, Some("board")),
        ("journal/append.rs", "std::fs::File", 0, None),
    ];
    for (file, path, depth, wanted) in table {
        let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
        assert_eq!(room_of(file, &segments, *depth).as_deref(), *wanted, "{path} in {file}");
    }
}

#[test]
fn the_reader_of_the_outside_sees_what_it_should() {
    let table = [
        ("std::fs::File", true),
        ("std::time::Instant", true),
        ("std::time::Duration", false),
        ("Instant::now", true),
        ("jiff::Timestamp::now", true),
        ("tokio::spawn", true),
        ("rand::rngs::SmallRng", false),
        ("rand::rng", true),
        ("std::io::Write", false),
        ("crate::domain::environment", false),
    ];
    for (path, wanted) in table {
        let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
        assert_eq!(outside(&segments).is_some(), wanted, "{path}");
    }
}

/// One file under `src/`.
struct File {
    /// Its path below `src/`.
    name: String,
    text: String,
    source: Source,
    /// True where it is the body of a `#[cfg(test)] mod`.
    is_test: bool,
}

impl File {
    fn room(&self) -> &str {
        self.name.split('/').next().unwrap()
    }

    /// The lines of its inline test modules.
    fn test_lines(&self) -> BTreeSet<usize> {
        let (inline, _) = self.source.test_modules();
        let lines = |at: usize| self.source.tokens[at].line;
        inline.into_iter().flat_map(|range| lines(range.start)..=lines(range.end - 1)).collect()
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// What `check` says of each file, as `src/FILE:LINE: …`.
fn walk(check: impl Fn(&File) -> Vec<String>) -> Vec<String> {
    let mut files = BTreeMap::new();
    read_below(&sources(), "", &mut files);
    let mut tests = BTreeSet::new();
    for (name, (_, source)) in &files {
        let folder = module_folder(name);
        tests.extend(source.test_modules().1.iter().map(|module| format!("{folder}{module}")));
    }
    let mut found = Vec::new();
    for (name, (text, source)) in files {
        let is_test = tests.iter().any(|module| {
            name.strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        let file = File { name, text, source, is_test };
        found.extend(check(&file).into_iter().map(|line| format!("src/{}:{line}", file.name)));
    }
    found
}

fn read_below(folder: &Path, prefix: &str, files: &mut BTreeMap<String, (String, Source)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            read_below(&path, &format!("{name}/"), files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let source = Source::new(&text);
            files.insert(name, (text, source));
        }
    }
}

fn report(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Where the modules that a file declares lie: `a/mod.rs` → `a/`, `a/b.rs` → `a/b/`.
fn module_folder(name: &str) -> String {
    match name {
        "lib.rs" | "main.rs" => String::new(),
        _ => match name.strip_suffix("mod.rs") {
            Some(folder) => folder.to_owned(),
            None => format!("{}/", name.trim_end_matches(".rs")),
        },
    }
}

/// The room that a path in a file leads to; `None` where it leads to no room.
fn room_of(file: &str, segments: &[String], inline_depth: usize) -> Option<String> {
    let first = segments.first()?.as_str();
    let ups =
        segments.iter().skip_while(|word| *word == "self").take_while(|word| *word == "super");
    let ups = ups.count();
    let room = if first == "crate" || (first == "callboard" && file == "main.rs") {
        segments.get(1)?.clone()
    } else if ups > 0 {
        let folder = module_folder(file);
        let depth = folder.matches('/').count() + inline_depth;
        let selves = segments.iter().take_while(|word| *word == "self").count();
        match depth.checked_sub(ups)? {
            0 => segments.get(selves + ups)?.clone(),
            _ => folder.split('/').next()?.to_owned(),
        }
    } else {
        return None;
    };
    DOORS.iter().any(|(known, _)| *known == room).then_some(room)
}

/// The rooms that a file may import; its own is always among them.
fn allowed_rooms(file: &str) -> BTreeSet<&str> {
    let room = file.split('/').next().unwrap();
    let own = DOORS.iter().filter(|(name, _)| *name == room).flat_map(|(_, doors)| *doors);
    let extra =
        DOORS_OF_FILES.iter().filter(|(name, _)| *name == file).flat_map(|(_, doors)| *doors);
    own.chain(extra).copied().chain([room]).collect()
}

/// The entry of `OUTSIDE` that a path begins with, or with two segments ends with (`Instant::now`).
fn outside(segments: &[String]) -> Option<&'static str> {
    OUTSIDE.iter().copied().find(|entry| {
        let wanted: Vec<&str> = entry.split("::").collect();
        let begins =
            segments.len() >= wanted.len() && segments.iter().zip(&wanted).all(|(a, b)| a == b);
        let method = entry.ends_with("::now");
        begins
            || (method
                && segments.windows(2).any(|pair| pair[0] == wanted[0] && pair[1] == wanted[1]))
    })
}

/// The words that items begin with, attributes and visibility left out.
fn items(source: &Source) -> Vec<Token> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < source.tokens.len() {
        if source.is(at, "#") {
            let open = if source.is(at + 1, "!") { at + 2 } else { at + 1 };
            at = source.closing(open) + 1;
        } else if source.is(at, "pub") {
            at = if source.is(at + 1, "(") { source.closing(at + 1) + 1 } else { at + 1 };
        } else {
            found.push(source.tokens[at].clone());
            while at < source.tokens.len() && !source.is(at, ";") {
                at = if source.is(at, "{") { source.closing(at) + 1 } else { at + 1 };
            }
            at += 1;
        }
    }
    found
}

/// True where a name is, or ends in, one of the empty ones: `utils`, `task_manager`, `TaskManager`.
fn is_empty_name(name: &str) -> bool {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words.iter().any(|word| EMPTY_NAMES.contains(&word.as_str()))
}

#[test]
fn empty_names_are_known() {
    for name in ["utils", "task_manager", "TaskManager", "HelperOfAll", "common"] {
        assert!(is_empty_name(name), "{name}");
    }
    for name in ["commonality", "Scheduler", "utilisation", "mod"] {
        assert!(!is_empty_name(name), "{name}");
    }
}
