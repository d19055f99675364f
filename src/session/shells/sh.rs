//! sh: dash, or busybox's ash. (bash under the name of sh dies of an interrupt when it reads a
//! script, and has a driver of its own.) Its script is the pipe itself, so there
//! is no loop that a `break` could leave, and an interrupt brings it back to the next line.

use super::table::{Capture, Order, Pipes, Table, Takes, line_with, posix_quoted};

pub(super) const TABLE: Table = Table {
    name: "sh",
    places: &["/bin/dash", "/usr/bin/dash", "/bin/sh", "/usr/bin/sh", "/bin/ash"],
    names: &["dash", "sh"],
    never: &["bash", "zsh", "ksh", "mksh", "ksh93"],
    argv: |_| vec![c"sh".to_owned(), c"-i".to_owned(), c"sh".to_owned()],
    takes: Takes::Pipes(Pipes {
        files: &[("run", RUN)],
        opening: include_str!("driver.sh"),
        starts_in_folder: true,
        quote: posix_quoted,
        order,
        trailer: "\n{ __cb_p=$?; } 2>/dev/null",
        inline_max: 24 * 1024,
        repair: b"__cb_q=$?; unset -f command printf; __cb_r\n",
        leave: b"\\exit\n\\exit\n",
        waits_for_word: false,
    }),
    nudge: b"",
    check: &[c"sh", c"-n"],
    incomplete: |words| {
        line_with(
            words,
            &[
                "Unterminated quoted string",
                "end of file unexpected",
                "EOF in backquote substitution",
                "Missing '}'",
                "Missing '))'",
                // Other shells of that name.
                "unexpected EOF",
                "unexpected end of file",
                "unterminated quoted string",
            ],
        )
    },
    closer: Some("\n}"),
    last_line: None,
    profile: Capture {
        files: &[".profile"],
        argv: &[c"sh", c"-i", c"-c"],
        script: include_str!("profile.sh"),
        script_has_no_name: false,
    },
};

/// In a file of its own: a `return` of the command's ends this, and not the driver.
const RUN: &str = "\\eval \"$__cb_x$__cb_t\"\n";

fn order(order: &Order<'_>) -> Vec<u8> {
    let Order { nonce, merge, folder, .. } = order;
    let (text, file) = match order.text {
        Some(text) => (posix_quoted(text.as_bytes()), "run"),
        None => (b"''".to_vec(), "file"),
    };
    let merge = if *merge { " 2>&1" } else { "" };
    let go = match order.cwd {
        Some(cwd) => [b"\\command cd -- ", &*posix_quoted(cwd), b" 2>/dev/null"].concat(),
        None => b":".to_vec(),
    };
    // Under `set -e` the status before was 0, or there would be no shell.
    let begin = format!(" __cb_o={nonce}\nif ");
    let run: &[u8] = b"; then case $- in *e*) ;; *) __cb_s;; esac; \\. ";
    let end = format!("/{file}{merge}; {{ __cb_n \"$?\"; }} 2>/dev/null; else __cb_n cd; fi\n");
    [b"__cb_p= __cb_t=", &*text, begin.as_bytes(), &go, run, folder, end.as_bytes()].concat()
}
