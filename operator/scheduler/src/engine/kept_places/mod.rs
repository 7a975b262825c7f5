//! Kept places: for a gang that restarts, the engine keeps its quota and the room that its pods
//! leave, for a limited time.
//!
//! `place_table` has all kept places. `lifecycle` starts and ends keeping a place. `pods` handles
//! pods that come and go in that time. `lifted_place` makes the place free for its gang only, and
//! `seats` brings the gang back to it.

mod lifecycle;
mod lifted_place;
mod place_table;
mod pods;
mod seats;
mod slice_seats;

pub(super) use lifted_place::LiftedPlace;
pub(super) use place_table::{KeptPlace, KeptPlaces, PodRoom};
