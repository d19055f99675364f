//! Turns an argument vector into text that a shell reads back as exactly that vector.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

/// The words of POSIX shells and bash that mean something else than a program of that name when
/// they stand first and bare.
const RESERVED: [&str; 18] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "exec",
];

/// The vector as one line: bare where that is safe, in single quotes otherwise. A word that is not
/// UTF-8 becomes `$'…'`, which bash reads and POSIX `sh` does not.
#[must_use]
pub(super) fn command_line<S: AsRef<OsStr>>(argv: &[S]) -> String {
    let mut line = String::new();
    for (place, argument) in argv.iter().enumerate() {
        if place > 0 {
            line.push(' ');
        }
        push_word(&mut line, argument.as_ref(), place == 0);
    }
    line
}

fn push_word(line: &mut String, word: &OsStr, first: bool) {
    let Some(text) = word.to_str() else {
        return push_bytes(line, word.as_bytes());
    };
    let bare = !text.is_empty() && text.bytes().all(is_bare) && !(first && is_reserved(text));
    if bare {
        line.push_str(text);
        return;
    }
    line.push('\'');
    line.push_str(&text.replace('\'', r"'\''"));
    line.push('\'');
}

/// Bytes that no shell gives a meaning to, wherever they stand in a word. `=` is not among them (an
/// assignment), nor `~`, `%` (a job) and `#` (a comment), which count at the front.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./:,+@".contains(&byte)
}

/// `exec` is a builtin rather than reserved; it is listed so that it is quoted no differently from
/// what a reader takes it for.
fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

fn push_bytes(line: &mut String, bytes: &[u8]) {
    line.push_str("$'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => line.extend(['\\', char::from(byte)]),
            b' '..=b'~' => line.push(char::from(byte)),
            // Octal of a fixed width: a hex escape would swallow a hex digit that follows.
            _ => {
                let _infallible = write!(line, "\\{byte:03o}");
            }
        }
    }
    line.push('\'');
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_stay_bare_where_that_is_safe() {
        for (argv, line) in [
            (vec!["cargo", "test", "--lib", "a::b"], "cargo test --lib a::b"),
            (vec!["echo", ""], "echo ''"),
            (vec!["echo", "it's"], r"echo 'it'\''s'"),
            (vec!["A=1", "b=2"], "'A=1' 'b=2'"),
            (vec!["time", "time"], "'time' time"),
            (vec!["echo", "~", "$HOME", "#x", "%1"], "echo '~' '$HOME' '#x' '%1'"),
        ] {
            assert_eq!(command_line(&argv), line);
        }
    }

    /// What `shell` makes of the line, as its own arguments.
    fn read_back(shell: &str, argv: &[OsString]) -> Vec<OsString> {
        let script = format!("printf '%s\\0' x {}", command_line(argv));
        let output = Command::new(shell).arg("-c").arg(script).output().unwrap();
        let mut words: Vec<_> = output
            .stdout
            .split(|&byte| byte == 0)
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        assert_eq!(words.pop(), Some(OsString::new()), "printf ends each word");
        words.split_off(1)
    }

    fn any_words() -> impl Strategy<Value = Vec<OsString>> {
        let text = "[ -~\\n\\t\\r]{0,12}".prop_map(OsString::from);
        let wide = "\\PC{0,6}".prop_map(OsString::from);
        prop::collection::vec(prop_oneof![text, wide], 0..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_real_shell_reads_the_same_words(argv in any_words()) {
            prop_assert_eq!(read_back("sh", &argv), argv);
        }

        #[test]
        fn bash_reads_any_bytes(words in prop::collection::vec(
            prop::collection::vec(1..=255_u8, 0..8), 0..4))
        {
            let argv: Vec<_> = words.into_iter().map(OsString::from_vec).collect();
            prop_assert_eq!(read_back("bash", &argv), argv);
        }
    }
}
