//! Translations of foreign protocols, wire types in and out and never further.
//!
//! The room is empty: `control` is the one grammar that is spoken so far.
