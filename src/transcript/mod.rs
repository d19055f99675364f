//! What a session said. Pure: bytes and offsets are handed in, nothing is read here.
//!
//! ```text
//!   out.idx ── index ── plan ──▶ ranges of out.raw ──▶ (the caller reads) ──▶ texts
//!                                                                               │
//!                    decode (any encoding → UTF-8)  ◀───────────────────────────┤
//!                    clean  (as a person would last see it) ◀───────────────────┘
//! ```
//!
//! `screen` draws a whole terminal instead, `prompt` finds a question. While the bytes still come,
//! `live` decodes them, `echo` takes out what was typed, `find` waits for a pattern in them, and `modes` follows what a sender of keys
//! has to know.

pub mod cast;
pub mod clean;
pub mod decode;
mod draw;
pub mod echo;
pub mod find;
pub mod flow;
pub mod gaps;
pub mod index;
mod line;
pub mod live;
pub mod modes;
mod page;
pub mod plan;
pub mod prompt;
pub mod queries;
mod resize;
mod row;
pub mod screen;
pub mod seam;
mod tabs;
pub mod texts;
mod tokens;
pub mod unasked;
mod utf16;
