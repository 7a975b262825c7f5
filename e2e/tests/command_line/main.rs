//! `trellis` as users run it, on a real control plane whose API server calls a real operator.

mod acts;
mod ci;
mod gpus;
mod logs;
mod looks;
mod others;
mod peers;
mod plugin;
mod scene;
mod watches;
