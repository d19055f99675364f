//! Programs that start other programs: which words of theirs are a command, and which a script.

use super::invocation::{Invocation, Word};

/// What a program would start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// A program with its arguments.
    Program(Vec<Word>),
    /// A script, given as a word.
    Script(Word),
    /// A script, read from standard input.
    Input,
    /// Something that cannot be made out, and why.
    Hidden(String),
}

/// How a program that runs its operands as a command is called.
struct Wrapper {
    name: &'static str,
    /// Short options that take the next word as their value.
    values: &'static str,
    /// Long options that take the next word as their value.
    long_values: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    values: &'static str,
    long_values: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, values, long_values, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", &[], 0),
    wrapper("busybox", "", &[], 0),
    wrapper("chroot", "", &["--groups", "--userspec"], 1),
    wrapper("chrt", "TPD", &["--sched-runtime", "--sched-period", "--sched-deadline"], 1),
    wrapper("command", "", &[], 0),
    wrapper("doas", "Cu", &[], 0),
    wrapper("env", "uC", &["--unset", "--chdir"], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("fakeroot", "ls", &["--lib", "--faked"], 0),
    wrapper("gosu", "", &[], 1),
    wrapper("ionice", "cnpPu", &["--class", "--classdata"], 0),
    wrapper("ltrace", "abeloOpsuxXn", &[], 0),
    wrapper("nice", "n", &["--adjustment"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("nsenter", "tSG", &["--target", "--setuid", "--setgid"], 0),
    wrapper("parallel", "jSNnLI", &["--jobs", "--joblog", "--max-args", "--replace"], 0),
    wrapper("prlimit", "", &[], 0),
    wrapper("runuser", "ugGs", &["--user", "--group", "--shell"], 0),
    wrapper("setarch", "", &[], 1),
    wrapper("setpriv", "", &["--reuid", "--regid", "--groups", "--inh-caps", "--ambient-caps"], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["--input", "--output", "--error"], 0),
    wrapper("strace", "abeEIoOpPsSuUX", &[], 0),
    wrapper("sudo", "CDghpRrTtUu", &["--user", "--group", "--chdir", "--host", "--prompt"], 0),
    wrapper("systemd-run", "pMtHE", &["--property", "--unit", "--setenv", "--uid", "--gid"], 0),
    wrapper("taskset", "", &[], 1),
    wrapper("time", "fo", &["--format", "--output"], 0),
    wrapper("timeout", "ks", &["--kill-after", "--signal"], 1),
    wrapper("toybox", "", &[], 0),
    wrapper("unshare", "SGRw", &["--root", "--wd", "--setuid", "--setgid"], 0),
    wrapper(
        "xargs",
        "aEdIiLlnPs",
        &["--arg-file", "--delimiter", "--max-args", "--max-procs", "--replace"],
        0,
    ),
];

/// Shells, whose `-c` takes a script.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "su"];

/// Programs that hand the words after their options to a shell, joined by blanks.
const JOINERS: &[(&str, &str)] = &[("eval", ""), ("watch", "n"), ("entr", "")];

/// What the program would start, as far as its words tell.
pub(super) fn inner(invocation: &Invocation) -> Vec<Inner> {
    let Some(name) = invocation.name() else { return Vec::new() };
    let arguments = invocation.words.get(1..).unwrap_or(&[]);
    if SHELLS.contains(&name) {
        return shell(name, arguments);
    }
    if let Some((_, values)) = JOINERS.iter().find(|(joiner, _)| *joiner == name) {
        return joined(name, arguments, values);
    }
    match name {
        "find" | "fd" | "fdfind" => return found(name, arguments),
        "env" if arguments.iter().any(splits) => {
            return vec![Inner::Hidden("`env -S` splits a text into words".to_owned())];
        }
        "flock" | "script" => {
            let mut answer = after_c(arguments);
            if answer.is_empty() && name == "flock" {
                answer = wrapped(&wrapper("flock", "wE", &["--timeout"], 1), arguments);
            }
            return answer;
        }
        "trap" => return first_operand(arguments),
        "alias" => return aliases(arguments),
        "command" if arguments.iter().any(asks_where) => return Vec::new(),
        "source" | "." => return sourced(arguments),
        "bind" if option_value(arguments, 'x').is_some() => {
            return vec![Inner::Hidden("`bind -x` runs a script at a key".to_owned())];
        }
        "mapfile" | "readarray" => {
            return option_value(arguments, 'C').cloned().map(Inner::Script).into_iter().collect();
        }
        _ => {}
    }
    match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        Some(wrapper) => wrapped(wrapper, arguments),
        None => Vec::new(),
    }
}

fn wrapped(wrapper: &Wrapper, arguments: &[Word]) -> Vec<Inner> {
    let takes_variables = matches!(wrapper.name, "env" | "sudo" | "doas");
    let mut operands = wrapper.operands;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.known() else {
            if operands > 0 {
                operands -= 1;
                at += 1;
                continue;
            }
            break;
        };
        if text == "--" {
            at += 1;
        } else if let Some(skipped) = option_words(text, wrapper.values, wrapper.long_values) {
            at += skipped;
            continue;
        } else if takes_variables && is_assignment(text) {
            at += 1;
            continue;
        }
        if operands == 0 {
            break;
        }
        at += operands;
        operands = 0;
    }
    let mut words = arguments.get(at..).unwrap_or(&[]).to_vec();
    if words.is_empty() {
        return Vec::new();
    }
    if matches!(wrapper.name, "xargs" | "parallel") {
        words.push(Word::Unknown);
    }
    vec![Inner::Program(words)]
}

/// How many words an option takes up; `None` when it is none.
fn option_words(text: &str, values: &str, long_values: &[&str]) -> Option<usize> {
    if text.starts_with("--") {
        return Some(if long_values.contains(&text) { 2 } else { 1 });
    }
    let letters = text.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    // The first letter that takes a value takes the rest of the word, or the next one.
    match letters.char_indices().find(|(_, letter)| values.contains(*letter)) {
        Some((at, letter)) if at + letter.len_utf8() == letters.len() => Some(2),
        _ => Some(1),
    }
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

fn splits(word: &Word) -> bool {
    word.known().is_some_and(|text| {
        text.starts_with("--split-string")
            || (text.starts_with('-') && !text.starts_with("--") && text.contains('S'))
    })
}

fn asks_where(word: &Word) -> bool {
    matches!(word.known(), Some("-v" | "-V" | "-pv" | "-pV"))
}

/// `sh -c SCRIPT`; a shell without an operand reads its input.
fn shell(name: &str, arguments: &[Word]) -> Vec<Inner> {
    let script = after_c(arguments);
    if !script.is_empty() || name == "su" {
        return script;
    }
    let mut operands = arguments.iter().filter(|word| {
        word.known().is_none_or(|text| text == "-" || !text.starts_with(['-', '+']))
    });
    let reads_input = arguments.iter().any(|word| {
        word.known().is_some_and(|text| {
            !text.starts_with("--") && text.starts_with('-') && text.contains('s')
        })
    });
    match operands.next() {
        _ if reads_input => vec![Inner::Input],
        None => vec![Inner::Input],
        Some(Word::Unknown) => {
            vec![Inner::Hidden(format!("`{name}` is given a script that is not known"))]
        }
        Some(Word::Known(path)) if is_a_stream(path) => vec![Inner::Input],
        Some(Word::Known(_)) => Vec::new(),
    }
}

/// The word after `-c`, which may be one letter of several.
fn after_c(arguments: &[Word]) -> Vec<Inner> {
    for (at, word) in arguments.iter().enumerate() {
        match word.known() {
            None => return vec![Inner::Hidden("an option of a shell is not known".to_owned())],
            Some("--command") => return script_at(arguments, at + 1),
            Some(text) if text.starts_with("--command=") => {
                let script = text.trim_start_matches("--command=").to_owned();
                return vec![Inner::Script(Word::Known(script))];
            }
            Some(text)
                if text.starts_with('-') && !text.starts_with("--") && text.contains('c') =>
            {
                // bash takes further options between `-c` and the script.
                let mut next = at + 1;
                while arguments
                    .get(next)
                    .and_then(Word::known)
                    .is_some_and(|text| text.len() > 1 && text.starts_with(['-', '+']))
                {
                    next += 1;
                }
                return script_at(arguments, next);
            }
            Some(_) => {}
        }
    }
    Vec::new()
}

fn script_at(arguments: &[Word], at: usize) -> Vec<Inner> {
    arguments.get(at).cloned().map(Inner::Script).into_iter().collect()
}

fn joined(name: &str, arguments: &[Word], values: &str) -> Vec<Inner> {
    let mut at = 0;
    while let Some(skipped) = arguments
        .get(at)
        .and_then(Word::known)
        .and_then(|text| option_words(text, values, &["--interval"]))
    {
        at += skipped;
    }
    let rest = arguments.get(at..).unwrap_or(&[]);
    if rest.is_empty() {
        return Vec::new();
    }
    match rest.iter().map(Word::known).collect::<Option<Vec<_>>>() {
        Some(words) => vec![Inner::Script(Word::Known(words.join(" ")))],
        None => vec![Inner::Hidden(format!("`{name}` is given a script that is not known"))],
    }
}

/// `find … -exec CMD ;`, `fd -x CMD`.
fn found(name: &str, arguments: &[Word]) -> Vec<Inner> {
    let starts: &[&str] = if name == "find" {
        &["-exec", "-execdir", "-ok", "-okdir"]
    } else {
        &["-x", "-X", "--exec", "--exec-batch"]
    };
    let is_start = |word: &Word| word.known().is_some_and(|text| starts.contains(&text));
    let is_end = |word: &Word| matches!(word.known(), Some(";" | "+"));
    let mut answer = Vec::new();
    let mut rest = arguments;
    while let Some(start) = rest.iter().position(is_start) {
        let command = rest.get(start + 1..).unwrap_or(&[]);
        let end = command.iter().position(is_end).unwrap_or(command.len());
        let mut words = command[..end].to_vec();
        for word in words.iter_mut().skip(1) {
            if word.known().is_some_and(|text| text.contains("{}")) {
                *word = Word::Unknown;
            }
        }
        if !words.is_empty() {
            answer.push(Inner::Program(words));
        }
        rest = command.get(end..).unwrap_or(&[]);
    }
    answer
}

fn first_operand(arguments: &[Word]) -> Vec<Inner> {
    let operand = arguments
        .iter()
        .find(|word| word.known().is_none_or(|text| text == "-" || !text.starts_with('-')));
    match operand {
        Some(Word::Known(text)) if text == "-" => Vec::new(),
        Some(word) if arguments.len() > 1 => vec![Inner::Script(word.clone())],
        _ => Vec::new(),
    }
}

/// `alias NAME=TEXT`: the text runs wherever the name stands later.
fn aliases(arguments: &[Word]) -> Vec<Inner> {
    let text = |word: &Word| match word {
        Word::Known(text) => {
            text.split_once('=').map(|(_, value)| Inner::Script(Word::Known(value.to_owned())))
        }
        Word::Unknown => Some(Inner::Script(Word::Unknown)),
    };
    arguments.iter().filter_map(text).collect()
}

fn sourced(arguments: &[Word]) -> Vec<Inner> {
    match arguments.first() {
        Some(Word::Known(path)) if is_a_stream(path) => {
            vec![Inner::Hidden(format!("`{path}` is run as a script"))]
        }
        Some(Word::Unknown) => vec![Inner::Hidden("the script to source is not known".to_owned())],
        Some(Word::Known(_)) | None => Vec::new(),
    }
}

fn is_a_stream(path: &str) -> bool {
    path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/")
}

fn option_value(arguments: &[Word], letter: char) -> Option<&Word> {
    let at = arguments.iter().position(|word| {
        word.known().is_some_and(|text| {
            text.starts_with('-') && !text.starts_with("--") && text.ends_with(letter)
        })
    })?;
    arguments.get(at + 1)
}
