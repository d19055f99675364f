//! Sessions with a real stage, real holders and a real bash.

mod adoption;
mod asking;
mod background;
mod capture;
mod capture_queries;
#[path = "../corpus/mod.rs"]
mod corpus;
mod delivery;
mod ending;
mod house;
mod input;
mod keys;
mod limits;
mod measure;
mod processes;
mod profile;
mod quota;
mod shells;
mod stage;

pub use capture::SmallDisk;
mod takeover;
