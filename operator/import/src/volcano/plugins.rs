//! Plugins of a Job. Trellis' frameworks inject the same variables and files.

use trellis_api::job::{Framework, Role};

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::pod::PodHints;
use crate::pod::command_scan::ProvidedVariables;

/// Settings from a job's plugins.
pub(super) struct VolcanoPlugins {
    pub(super) framework: Framework,
    /// The role of each task.
    roles: Vec<(String, Role)>,
    /// True if the job has the plugin `env`.
    has_index: bool,
    /// Name of the task whose pods are the hosts of MPI.
    pub(super) mpi_workers: Option<String>,
}

/// The option of a plugin that names a task, its default, and the role of the task.
type TaskOption = (&'static str, &'static str, Role);
const FRAMEWORKS: [(&str, Framework, &[TaskOption]); 3] = [
    (
        "pytorch",
        Framework::PyTorch,
        &[
            ("master", "master", Role::Coordinator),
            ("worker", "worker", Role::Worker),
        ],
    ),
    (
        "mpi",
        Framework::MPI,
        &[
            ("master", "master", Role::Launcher),
            ("worker", "worker", Role::Worker),
        ],
    ),
    (
        "tensorflow",
        Framework::TensorFlow,
        &[
            ("ps", "ps", Role::Server),
            ("worker", "worker", Role::Worker),
            ("chief", "chief", Role::Coordinator),
            ("evaluator", "evaluator", Role::Evaluator),
        ],
    ),
];

impl VolcanoPlugins {
    /// Reads the plugins. `names` are the names of the job's tasks.
    pub(super) fn read(spec: &Fields<'_>, names: &[String]) -> Self {
        let mut found = Self {
            framework: Framework::None,
            roles: Vec::new(),
            has_index: false,
            mpi_workers: None,
        };
        let Some(plugins) = spec.object("plugins") else {
            return found;
        };
        for name in plugins.keys() {
            let Some(plugin) = plugins.get(&name) else {
                continue;
            };
            let is_list = plugin.value().is_array();
            let arguments = if is_list {
                plugins.items(&name)
            } else {
                Vec::new()
            };
            let framework = FRAMEWORKS
                .iter()
                .find(|(plugin_name, _, _)| *plugin_name == name);
            match (name.as_str(), framework) {
                (_, Some((_, framework, tasks))) if found.framework == Framework::None => {
                    found.framework = *framework;
                    found.read_framework(tasks, &arguments, names);
                }
                ("env", _) => {
                    found.has_index = true;
                    mark_arguments_read(&arguments);
                }
                ("svc", _) => read_svc(&arguments),
                ("ssh", _) => read_ssh(&plugin, &plugins, &arguments),
                _ => plugin.note(
                    "is a plugin that has no equivalent in Trellis",
                    "set its variables in env, or choose spec.framework",
                ),
            }
        }
        found
    }

    fn read_framework(
        &mut self,
        tasks: &[TaskOption],
        arguments: &[Fields<'_>],
        tasks_named: &[String],
    ) {
        let mut named: Vec<(&str, String, Role)> = tasks
            .iter()
            .map(|(option, default, role)| (*option, (*default).to_owned(), *role))
            .collect();
        for argument in arguments {
            let Some(text) = argument.as_text() else {
                continue;
            };
            let option = text.trim_start_matches('-').split_once('=');
            let role_entry = named
                .iter_mut()
                .find(|(o, _, _)| option.is_some_and(|(k, _)| k == *o));
            match (role_entry, option) {
                (Some(role_entry), Some((_, value))) if tasks_named.iter().any(|t| t == value) => {
                    role_entry.1 = value.to_owned();
                }
                (Some(_), Some(_)) => argument.note("names no task of the job", "correct it"),
                (None, Some(("port", _))) => argument.note(
                    "is the rendezvous port, and in Trellis the framework chooses it",
                    "see docs/pods.md for its number",
                ),
                _ => argument.note("is an unknown option", "leave it out"),
            }
        }
        if self.framework == Framework::MPI {
            let workers = named.iter().find(|(_, _, role)| *role == Role::Worker);
            self.mpi_workers = workers.map(|(_, task, _)| task.clone());
        }
        self.roles = named
            .into_iter()
            .map(|(_, task, role)| (task, role))
            .collect();
    }

    /// Returns the role of a task. None: Worker, the default.
    pub(super) fn role(&self, task: &str) -> Option<Role> {
        let entry = self.roles.iter().find(|(name, _)| name == task);
        entry
            .map(|(_, role)| *role)
            .filter(|role| *role != Role::Worker)
    }

    /// Returns the facts that Volcano's pods rely on.
    pub(super) fn pod_hints<'h>(
        &self,
        context: &'h ImportContext,
        hosts: &[(String, String)],
    ) -> PodHints<'h> {
        let mut provided: Vec<_> = hosts.to_vec();
        if let Some(workers) = &self.mpi_workers {
            let name = hosts_variable(workers);
            let variable = hosts.iter().find(|(known, _)| *known == name);
            provided.extend(variable.map(|(_, value)| ("MPI_HOST".to_owned(), value.clone())));
        }
        PodHints {
            context,
            framework: self.framework,
            main: "",
            own_ports: &[],
            index_variables: if self.has_index {
                &["VC_TASK_INDEX", "VK_TASK_INDEX"]
            } else {
                &[]
            },
            provided_variables: ProvidedVariables(provided),
        }
    }
}

/// Returns the variable with the host names of a task's pods.
pub(super) fn hosts_variable(task: &str) -> String {
    format!("VC_{}_HOSTS", task.replace('-', "_").to_uppercase())
}

fn mark_arguments_read(arguments: &[Fields<'_>]) {
    arguments.iter().for_each(Fields::mark_read);
}

/// Reads the svc plugin. In Trellis every pod has an address, even before it is ready, and only
/// pods of the job may connect to it.
fn read_svc(arguments: &[Fields<'_>]) {
    for argument in arguments {
        let text = argument.as_text().unwrap_or_default();
        match text.trim_start_matches('-').split('=').next() {
            Some("publish-not-ready-addresses") => argument.mark_read(),
            Some("disable-network-policy") => argument.note(
                "is about the network, which in Trellis is closed except for the job's own pods and DNS",
                "open the connections that the pods need in spec.network",
            ),
            _ => argument.note("is an unknown option", "leave it out"),
        }
    }
}

fn read_ssh(plugin: &Fields<'_>, plugins: &Fields<'_>, arguments: &[Fields<'_>]) {
    if plugins.get("mpi").is_none() {
        plugin.note(
            "creates keys for ssh between the pods, and in Trellis framework MPI does this",
            "set spec.framework to MPI, and roles Launcher and Worker (docs/frameworks/mpi.md)",
        );
        return;
    }
    for argument in arguments {
        argument.note(
            "is about keys, which framework MPI creates by itself",
            "leave it out",
        );
    }
}
