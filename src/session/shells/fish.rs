//! fish: a loop that an interrupt unwinds, to fish's own prompt. There it says so, and one typed
//! line brings it back.

use std::os::unix::ffi::OsStrExt as _;

use super::folder::quoted;
use super::table::{Capture, Order, Pipes, Table, Takes, line_with};

pub(super) const TABLE: Table = Table {
    name: "fish",
    places: &["/usr/bin/fish", "/bin/fish"],
    names: &["fish"],
    never: &[],
    argv: |folder| {
        let driver = fish_quoted(folder.join("driver").as_os_str().as_bytes());
        let source = [b"builtin source ", &*driver, b"; eval $__cb_loop"].concat();
        let flags = [c"fish", c"--no-config", c"--private", c"-i", c"-C"];
        let mut argv: Vec<_> = flags.into_iter().map(ToOwned::to_owned).collect();
        argv.push(std::ffi::CString::new(source).unwrap_or_default());
        argv
    },
    takes: Takes::Pipes(Pipes {
        files: &[("driver", include_str!("driver.fish")), ("loop", include_str!("loop.fish"))],
        opening: "",
        starts_in_folder: false,
        quote: fish_quoted,
        order,
        trailer: "\nset -g __cb_p $status $pipestatus\n",
        inline_max: 0,
        repair: b"",
        leave: b"exit\0\0\0",
        waits_for_word: false,
    }),
    nudge: b" eval $__cb_loop\n",
    check: &[c"fish", c"--no-config", c"--no-execute"],
    incomplete: |words| {
        line_with(
            words,
            &[
                "Unexpected end of string",
                "Missing end to balance",
                "end of the statement",
                "but found end of",
                "but found a newline",
                "Expected a command",
                "Incomplete escape sequence",
                "Mismatched parenthesis",
            ],
        )
    },
    closer: Some("\nend"),
    last_line: None,
    profile: Capture {
        files: &[".config/fish/config.fish", ".config/fish/conf.d", ".config/fish/functions"],
        argv: &[c"fish", c"--private", c"-l", c"-i", c"-c"],
        script: include_str!("profile.fish"),
        script_has_no_name: true,
    },
};

fn fish_quoted(text: &[u8]) -> Vec<u8> {
    let parts: Vec<_> = text.split(|&byte| byte == b'\\').collect();
    quoted(&parts.join(&b"\\\\"[..]), b"\\'")
}

fn order(order: &Order<'_>) -> Vec<u8> {
    let merge = u8::from(order.merge);
    let start = format!("{}\0{merge}\0", order.nonce);
    let cwd = order.cwd.map(written).unwrap_or_default();
    [start.as_bytes(), cwd.as_slice(), b"\0"].concat()
}

/// A path as fish writes it. Its `read` takes no byte that is not UTF-8.
fn written(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for chunk in path.utf8_chunks() {
        text.extend(fish_quoted(chunk.valid().as_bytes()));
        for byte in chunk.invalid() {
            text.extend(format!("\\X{byte:02x}").into_bytes());
        }
    }
    text
}
