//! zsh: its script is the pipe itself. An interrupt would end a script, so each command is tried
//! and the driver's part comes always; while the shell is idle it does not heed one.

use super::table::{Capture, Order, Pipes, Table, Takes, argument, line_with, posix_quoted};

pub(super) const TABLE: Table = Table {
    name: "zsh",
    places: &["/bin/zsh", "/usr/bin/zsh"],
    names: &["zsh"],
    never: &[],
    argv: |folder| {
        let flags = [c"zsh", c"-f", c"-i"];
        let mut argv: Vec<_> = flags.into_iter().map(ToOwned::to_owned).collect();
        argv.push(argument(&folder.join("zsh")));
        argv
    },
    takes: Takes::Pipes(Pipes {
        files: &[("run", RUN)],
        opening: include_str!("driver.zsh"),
        starts_in_folder: false,
        quote: posix_quoted,
        order,
        trailer: "\n{ __cb_p=(\"$?\" \"${pipestatus[@]}\"); } 2>/dev/null",
        inline_max: 24 * 1024,
        repair: b"__cb_q=$?; \\unset -f builtin printf read trap emulate; __cb_r\n",
        leave: b"\\builtin exit\n",
        waits_for_word: true,
    }),
    nudge: b"",
    check: &[c"zsh", c"-f", c"-n"],
    incomplete: |words| {
        line_with(words, &["unmatched ", "closing brace expected", "parse error near `$("])
    },
    closer: Some("\nfi"),
    last_line: Some("__cb_end"),
    profile: Capture {
        files: &[".zshenv", ".zprofile", ".zshrc", ".zlogin"],
        argv: &[c"zsh", c"-d", c"-l", c"-i", c"-c"],
        script: include_str!("profile.zsh"),
        script_has_no_name: false,
    },
};

/// In a file of its own: a `return` of the command's ends this, and not the driver.
const RUN: &str = "\\builtin eval \"$__cb_x$__cb_t\"\n";

fn order(order: &Order<'_>) -> Vec<u8> {
    let Order { nonce, merge, folder, .. } = order;
    let text = match order.text {
        Some(text) => posix_quoted(text.as_bytes()),
        None => [b"\"$(<", *folder, b"/file)\""].concat(),
    };
    let merge = if *merge { " 2>&1" } else { "" };
    let go = match order.cwd {
        Some(cwd) => [b"\\builtin cd -q -- ", &*posix_quoted(cwd), b" 2>/dev/null"].concat(),
        None => b":".to_vec(),
    };
    let start = format!("__cb_p=() __cb_o={nonce} __cb_t=");
    let end = format!(
        "/run{merge}; else __cb_p=(cd); fi; }} always {{ {{ __cb_q=$? TRY_BLOCK_ERROR=0 TRY_BLOCK_INTERRUPT=0 __cb_x=; \
         if [[ -o xtrace ]]; then __cb_x='\\builtin set -x;'; \\builtin unsetopt xtrace; fi; \
         if [[ -o verbose ]]; then __cb_x+='\\builtin set -v;'; \\builtin unsetopt verbose; fi; \
         __cb_n $__cb_q; }} 2>/dev/null; }}\n"
    );
    let run: &[u8] = b"; then [[ -o errexit ]] || __cb_s; \\. ";
    [start.as_bytes(), &text, b"\n{ if ", &go, run, folder, end.as_bytes()].concat()
}
