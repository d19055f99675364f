//! From the record of a run to what is read: JSON, JUnit, a summary.

pub mod record;
