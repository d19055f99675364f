//! What the session's processes change: told by the kernel where it can be, inferred otherwise.
//!
//! ```text
//! process ── open, rename, bind … ──▶ kernel ──▶ listener ──▶ calls ──▶ place ──▶ noise
//!    ▲                                                                             │
//!    └── goes on, or EBUSY ◀── asking (others alive?) ◀────────────────────────────┘
//!                                                   pending: did it happen? ──▶ facts
//! ```
//!
//! A call is looked at while its process waits, and goes on at once; whether it did anything is seen
//! afterwards (`pending`). Only while other parties are alive is it asked whether it may (`asking`).

mod asking;
mod calls;
mod ignored;
mod noise;
mod pending;
mod place;
mod scan;
mod seen;
mod tracer;

pub(super) use tracer::Tracer;
