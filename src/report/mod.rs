//! From the record of a run to what is read. Pure: records go in, text comes out.
//!
//! `record` is the document itself; `json`, `junit`, `markdown`, `html` and `summary` are its
//! readings, and `words` says every reason the same way in all of them.

pub mod checkup;
pub mod classify;
pub mod flaky;
pub mod format;
mod html;
mod json;
mod junit;
mod markdown;
pub mod metrics;
pub mod record;
#[cfg(test)]
mod sample;
pub mod summary;
pub mod words;
