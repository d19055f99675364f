//! May this happen? Rules, paths and redaction, asked before a command runs.
//!
//! The room is empty: no key of either file is a rule yet, and those that will be are refused
//! (`domain::manifest`).
