//! What the engine alone knows, read through the API server with a user's own rights.

mod access;
mod down;
mod explanations;
mod guests;
mod jobs;
mod leader;
mod scene;
mod states;
