//! Runs `trellis` as users do, on a real control plane whose API server calls a real operator.

mod ci_page;
mod external_pods;
mod fixtures;
mod gpu_utilization;
mod logs;
mod peers;
mod plugin;
mod read_commands;
mod server_plan;
mod verify;
mod watch_commands;
mod what_if;
mod write_commands;
