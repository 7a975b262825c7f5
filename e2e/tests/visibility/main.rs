//! What the engine alone knows, read through the API server with a user's own rights.

mod access;
mod down;
mod explanations;
mod external_pods;
mod jobs;
mod leader;
mod scene;
mod states;
