//! Sessions with a real stage, real holders and a real bash.

mod background;
mod delivery;
mod ending;
mod house;
mod input;
mod keys;
mod limits;
mod measure;
mod stage;
mod takeover;
