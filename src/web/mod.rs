//! Routes and the live page.
//!
//! The room is empty: the Unix socket is the one door so far.
