//! The bash driver: how a command's text reaches the shell and its status comes back.

/// The driver's text, given to bash as its rcfile.
pub(super) const TEXT: &str = include_str!("driver.bash");

/// Descriptors as the shell is given them.
pub(super) mod descriptor {
    /// One NUL byte a command: read.
    pub(in crate::session) const GO: i32 = 200;
    /// Reports: written.
    pub(in crate::session) const REPORT: i32 = 201;
    /// The second terminal.
    pub(in crate::session) const STDERR: i32 = 202;
    /// `/dev/null`.
    pub(in crate::session) const NULL: i32 = 203;
    /// The driver's text.
    pub(in crate::session) const TEXT: i32 = 204;
    /// The command.
    pub(in crate::session) const COMMAND: i32 = 205;
    /// The first terminal.
    pub(in crate::session) const MAIN: i32 = 206;

    /// The number under which the driver keeps one of them, closed on exec.
    pub(in crate::session) const fn kept(given: i32) -> i32 {
        given + 40
    }
}

/// After the text: the statuses are caught before anything else can change them.
const TRAILER: &str = "\n{ __cb_p=(\"$?\" \"${PIPESTATUS[@]}\"); } >&243 2>&243";

/// What brings a shell that stands at a prompt of its own back into the loop.
pub(super) const NUDGE: &[u8] = b" PROMPT_COMMAND=$__cb_l\n";

/// The same where readline has the line, and perhaps something in it.
pub(super) const NUDGE_AT_PROMPT: &[u8] = b"\x05\x15 PROMPT_COMMAND=$__cb_l\n";

/// Leaves the loop for bash's own prompt. An interrupt is the only way out of `mapfile`; whatever
/// traps it comes back at the prompt.
pub(super) const LEAVE_LOOP: &str = "{ PROMPT_COMMAND= __cb_i=$(\\builtin trap -p INT); \
     \\builtin trap - INT; \\builtin kill -INT $$; } 2>/dev/null";

/// What the shell is given when a person hands it back: each prompt looks whether it has been.
pub(super) const HAND_BACK: &str = "PS1= PS2=";

/// The first line at the prompt, typed without echo: only what is read there can turn readline
/// and history on. It ends when the echo is back.
pub(super) const FIRST_LINE: &[u8] = b" { \\builtin eval \"$__cb_i\"; \
    \\builtin set -o emacs -o history; __cb_v=$__cb_s; __cb_k() { \\builtin return \"$__cb_v\"; }; \
    __cb_t='{ __cb_w=$?; if \\builtin read -t 0 -u 240; then \
    [[ $__cb_w = 130 ]] || __cb_v=$__cb_w; PROMPT_COMMAND=$__cb_l; __cb_k; \
    else __cb_v=$__cb_w; __cb_k; fi; } 2>&243; [[ $PROMPT_COMMAND != \"$__cb_l\" ]] || \\builtin eval \"$__cb_l\"'; \
    PS1='\\w\\$ ' PS2='> ' PROMPT_COMMAND=$__cb_t; \\builtin printf '%s\\0' '' 0 0 \"$PWD\" >&241; \
    \\builtin read -r -d '' -u 240 __cb_w; } 2>&243\n";

/// The last line there, typed without echo: what the first one turned on is turned off.
pub(super) const LAST_LINE: &[u8] = b" { \\builtin eval \"$__cb_i\"; \\builtin history -d -1; \
    \\builtin set +o emacs +o history; PROMPT_COMMAND=$__cb_l; __cb_k; } 2>&243\n";

/// True for a text whose last pipeline may have more than one member, so that its statuses have to
/// be caught. Without a `|` only an alias can bring one, which a line before it may have defined.
/// All else that runs pipelines (functions, `eval`, `source`) is itself a pipeline of one.
pub(super) fn may_end_in_pipeline(text: &str, has_aliases: bool) -> bool {
    has_aliases || text.bytes().any(|byte| matches!(byte, b'|' | b'\n'))
}

/// The command as the driver reads it; with `catch` the statuses of its last pipeline are reported,
/// too, which costs the shell as much as the rest.
pub(super) fn command_document(
    nonce: u64,
    cwd: &[u8],
    merge: bool,
    text: &str,
    catch: bool,
) -> Vec<u8> {
    let stderr = descriptor::kept(if merge { descriptor::MAIN } else { descriptor::STDERR });
    let mut document = Vec::with_capacity(text.len() + cwd.len() + 96);
    document.extend_from_slice(format!("{nonce}\0").as_bytes());
    document.extend_from_slice(cwd);
    document.extend_from_slice(format!("\0{stderr}\0").as_bytes());
    document.extend_from_slice(text.as_bytes());
    if catch {
        document.extend_from_slice(TRAILER.as_bytes());
    }
    document.push(0);
    document
}

/// One report of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The command it ends; `None` when the shell only says that it is idle.
    pub nonce: Option<u64>,
    /// Its status; `None`: the shell could not get into the command's cwd.
    pub status: Option<i32>,
    /// The statuses of its last pipeline, where they were caught.
    pub pipe_status: Option<Vec<i32>>,
    /// It came to its end: nothing has taken the rest of it away.
    pub whole: bool,
    /// The shell has aliases, as far as it says so.
    pub has_aliases: bool,
    /// The shell stands at a prompt of its own, and not in the driver's loop.
    pub at_prompt: bool,
    /// `$PWD`.
    pub cwd: Vec<u8>,
}

/// More pipeline members than this are not believed.
const MEMBERS_MAX: usize = 4096;

/// Takes the first whole report off `bytes`.
pub(super) fn take_report(bytes: &mut Vec<u8>) -> Option<Report> {
    let mut fields = Fields { bytes, at: 0 };
    let nonce = fields.number::<u64>()?;
    let status = fields.number::<i32>()?;
    let caught = fields.next()?;
    let at_prompt = caught == b"prompt";
    let (caught, is_whole) = without_letter(caught, b'w');
    let (caught, has_aliases) = without_letter(caught, b'a');
    let caught = std::str::from_utf8(caught).ok().and_then(|text| text.parse::<usize>().ok());
    let caught = caught.unwrap_or(0).min(MEMBERS_MAX);
    let mut statuses = Vec::new();
    for _ in 0..caught {
        statuses.extend(fields.number::<i32>()?);
    }
    let cwd = fields.next()?.to_vec();
    let used = fields.at;
    bytes.drain(..used);
    // The first is the status itself, the rest are the pipeline's.
    let pipe_status = statuses.get(1..).filter(|members| !members.is_empty()).map(|members| {
        // What is no pipeline (a definition, for one) leaves the list of the one before.
        if members.len() == 1 { vec![statuses[0]] } else { members.to_vec() }
    });
    let whole = is_whole || !statuses.is_empty();
    Some(Report { nonce, status, pipe_status, whole, has_aliases, at_prompt, cwd })
}

fn without_letter(field: &[u8], letter: u8) -> (&[u8], bool) {
    match field.split_last() {
        Some((last, rest)) if *last == letter => (rest, true),
        _ => (field, false),
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let end = memchr::memchr(0, rest)?;
        self.at += end + 1;
        Some(&rest[..end])
    }

    /// The outer `None`: not there yet. The inner one: no number.
    fn number<N: std::str::FromStr>(&mut self) -> Option<Option<N>> {
        let field = self.next()?;
        Some(std::str::from_utf8(field).ok().and_then(|text| text.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_in_pieces() {
        let whole = b"7\x001\x003a\x001\x000\x001\x00/tmp\x00\x000\x000\x00/\x00";
        let first = Report {
            nonce: Some(7),
            status: Some(1),
            pipe_status: Some(vec![0, 1]),
            whole: true,
            has_aliases: true,
            at_prompt: false,
            cwd: b"/tmp".to_vec(),
        };
        let second = Report {
            nonce: None,
            status: Some(0),
            pipe_status: None,
            whole: false,
            has_aliases: false,
            at_prompt: false,
            cwd: b"/".to_vec(),
        };
        for cut in 1..whole.len() {
            let mut seen = Vec::new();
            let mut bytes = Vec::new();
            for part in whole.chunks(cut) {
                bytes.extend_from_slice(part);
                seen.extend(std::iter::from_fn(|| take_report(&mut bytes)));
            }
            assert_eq!(seen, [first.clone(), second.clone()], "cut {cut}");
        }
    }

    #[test]
    fn statuses_are_caught_where_there_may_be_more_than_one() {
        for (text, has_aliases, expected) in [
            ("true", false, false),
            ("a | b", false, true),
            ("case a in a|b) ;; esac", false, true),
            ("source aliases\nx", false, true),
            ("x", true, true),
        ] {
            assert_eq!(may_end_in_pipeline(text, has_aliases), expected, "{text}");
        }
    }

    #[test]
    fn a_report_says_whether_its_command_came_to_its_end() {
        for (caught, whole, has_aliases) in
            [("0", false, false), ("0a", false, true), ("0w", true, false), ("0aw", true, true)]
        {
            let mut bytes = format!("3\x000\0{caught}\0/\0").into_bytes();
            let report = take_report(&mut bytes).unwrap();
            assert_eq!((report.whole, report.has_aliases), (whole, has_aliases), "{caught}");
            assert_eq!(report.pipe_status, None);
        }
    }

    #[test]
    fn a_cwd_that_cannot_be_entered_has_no_status() {
        let mut bytes = b"3\0cd\x000\0/\0".to_vec();
        assert_eq!(take_report(&mut bytes).and_then(|report| report.status), None);
        assert!(bytes.is_empty());
    }
}
