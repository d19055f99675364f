//! What a session said: its index, its text, its screen.

pub mod clean;
pub mod decode;
pub mod index;
mod page;
mod row;
mod tokens;
