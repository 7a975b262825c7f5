//! Data that only the engine has, read through the API server with the rights of a user.

mod access;
mod ended_attempts;
mod explanations;
mod external_pods;
mod fixtures;
mod forecasts;
mod job_states;
mod leader;
mod operator_outage;
mod plans;
mod queue_and_node_states;
mod visible_namespaces;
mod watch;
