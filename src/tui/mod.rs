//! The full-screen face.
//!
//! The room is empty: `cli` is the one face so far.
