//! May this happen? Claims: who may do what with a terminal. Rules, paths and redaction, asked
//! before a command runs, will be here too; no key of either file is a rule yet, and those that
//! will be are refused (`domain::manifest`).

pub mod claim;
#[cfg(test)]
mod claim_tests;
