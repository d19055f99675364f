//! Sessions with a real stage, real holders and a real bash.

mod background;
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
mod shells;
mod stage;
