//! What a session said. Pure: bytes and offsets are handed in, nothing is read here.
//!
//! ```text
//!   out.idx ── index ── plan ──▶ ranges of out.raw ──▶ (the caller reads) ──▶ texts
//!                                                                               │
//!                    decode (any encoding → UTF-8)  ◀───────────────────────────┤
//!                    clean  (as a person would last see it) ◀───────────────────┘
//! ```
//!
//! `screen` draws a whole terminal instead, `prompt` finds a question, `live` decodes while the
//! bytes still come.

pub mod cast;
pub mod clean;
pub mod decode;
pub mod flow;
pub mod gaps;
pub mod index;
pub mod live;
pub mod modes;
mod page;
pub mod plan;
pub mod prompt;
pub mod queries;
mod row;
pub mod screen;
pub mod seam;
pub mod texts;
mod tokens;
pub mod unasked;
pub mod watch;
