//! Data that only the engine has, read through the API server with the rights of a user.

mod access;
mod down;
mod explanations;
mod external_pods;
mod jobs;
mod leader;
mod scene;
mod states;
