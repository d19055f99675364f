//! A file as text: decoding, lines, columns, excerpts.

use std::borrow::Cow;
use std::ops::Range;

use super::findings::Problem;
use super::words::shown;

/// The largest file that is read. A manifest of 50,000 tasks has about 5 MB.
pub const FILE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A file as it was found.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// What problems call it.
    pub name: &'a str,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

/// A decoded file.
///
/// A byte order mark is gone and CRLF has become LF: neither moves a line or a column, and the
/// scripts in multi-line strings reach the shell without carriage returns.
pub(super) struct Text<'a> {
    name: &'a str,
    content: Cow<'a, str>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(super) fn decode(file: File<'a>) -> Result<Self, Problem> {
        if file.bytes.len() > FILE_BYTES_MAX {
            return Err(Problem {
                file: file.name.to_owned(),
                line: 1,
                column: 1,
                text: String::new(),
                message: format!(
                    "the file has {} bytes, over the limit of {FILE_BYTES_MAX}",
                    file.bytes.len()
                ),
                hint: None,
            });
        }
        let bytes = file.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file.bytes);
        let content = std::str::from_utf8(bytes)
            .map_err(|error| not_utf8(file, bytes, error.valid_up_to()))?;
        let content = if content.contains("\r\n") {
            Cow::Owned(content.replace("\r\n", "\n"))
        } else {
            Cow::Borrowed(content)
        };
        let lines = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', content.as_bytes()).map(|newline| newline + 1))
            .collect();
        Ok(Self { name: file.name, content, lines })
    }

    pub(super) fn name(&self) -> &str {
        self.name
    }

    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    /// Where the line of a byte offset begins.
    pub(super) fn line_start(&self, offset: usize) -> usize {
        self.lines[self.line(offset).saturating_sub(1)]
    }

    /// True when a line, counted from 1, looks like the header of a table.
    pub(super) fn is_header(&self, line: usize) -> bool {
        let start = line.checked_sub(1).and_then(|index| self.lines.get(index));
        start.is_some_and(|start| {
            self.content[*start..].trim_start_matches([' ', '\t']).starts_with('[')
        })
    }

    /// The line of the first header below `line`; past the end when there is none.
    pub(super) fn next_header(&self, line: usize) -> usize {
        let end = self.lines.len() + 1;
        (line + 1..end).find(|below| self.is_header(*below)).unwrap_or(end)
    }

    /// What stands at `span`, on one line and short.
    pub(super) fn excerpt(&self, span: &Range<usize>) -> String {
        let start = self.content.floor_char_boundary(span.start);
        let end = self.content.floor_char_boundary(span.end).max(start);
        // A line may be as long as the file: no more of it is looked at than can be shown.
        let text = &self.content[start..end];
        let head = text[..text.floor_char_boundary(400)].trim_matches(['\r', '\n']);
        match head.split_once('\n') {
            Some((first, _)) => shown(&format!("{first} …")),
            None => shown(head),
        }
    }
}

fn not_utf8(file: File<'_>, bytes: &[u8], valid: usize) -> Problem {
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let byte_order_mark = file.bytes.len() - bytes.len();
    let utf16 = matches!(file.bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]);
    Problem {
        file: file.name.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        text: format!("\\x{:02x}", bytes.get(valid).copied().unwrap_or_default()),
        message: format!("not UTF-8 at byte {} of the file", valid + byte_order_mark),
        hint: Some(if utf16 {
            "the file looks like UTF-16: save it as UTF-8".to_owned()
        } else {
            "save the file as UTF-8".to_owned()
        }),
    }
}
