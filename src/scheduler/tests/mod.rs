//! Tables of events and effects, laws over random runs, and the cost of large ones.

mod acts;
mod answers;
mod attempts;
mod chaos;
mod conflicts;
mod endings;
mod intentions;
mod laws;
mod livelock;
mod open;
mod order;
mod plans;
mod player;
mod recall;
mod replay;
mod retries;
mod scale;
mod services;
mod stage;
mod views;
