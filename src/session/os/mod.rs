//! What is Linux's alone. The only place with `unsafe`.

pub(super) mod features;
pub(super) mod filter;
pub(super) mod handover;
pub(super) mod notify;
pub(super) mod process;
pub(super) mod pty;
pub(super) mod spawn;
pub(super) mod watch;
