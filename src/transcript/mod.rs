//! What a session said: its index, its text, its screen.

pub mod index;
