//! The environment of a pod: Trellis' variables, the framework's, then the user's.

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, EnvVar, EnvVarSource,
    ObjectFieldSelector, SecretEnvSource, SecretKeySelector,
};
use trellis_api::job::{self, TaskGroup};

use crate::gang_facts::GangFacts;

/// A variable that we set.
#[derive(Clone, Debug)]
pub(crate) struct TrellisVariable {
    pub name: &'static str,
    value: VariableValue,
}

/// Value of a variable that Trellis sets.
#[derive(Clone, Debug)]
pub(crate) enum VariableValue {
    /// The same in every pod of the group.
    Fixed(String),
    /// The pod's index within its group.
    Index,
    /// The pod's rank within the job.
    Rank,
    /// The attempt that the pod belongs to.
    Attempt,
    /// The number of the pod's slice within its group, from the number of pods in a slice.
    Slice(u32),
    /// The number of the pod's slice within the job, from the number of pods in a slice.
    SliceOfJob(u32),
    /// The pod's index within its slice, from the number of pods in a slice.
    IndexInSlice(u32),
    /// A text with the index of the first pod of the pod's slice in it.
    SliceStart {
        before: String,
        pods: u32,
        after: String,
    },
    /// A text with a number in it, which is `first` for the group's first pod.
    Numbered {
        before: String,
        first: u32,
        after: &'static str,
    },
}

/// Distinguishes the pods of a group, and a pod from its successor in the next attempt.
#[derive(Clone, Copy)]
pub(crate) struct PodIdentity {
    pub index: u32,
    pub rank: u32,
    pub attempt: i64,
}

/// The environment of a group, rendered for one pod at a time.
#[derive(Clone, Debug)]
pub(crate) struct PodEnvironment {
    trellis_variables: Vec<TrellisVariable>,
    user_variables: Vec<EnvVar>,
}

impl TrellisVariable {
    pub fn new(name: &'static str, value: VariableValue) -> Self {
        Self { name, value }
    }

    /// The same in every pod of the group.
    pub fn fixed(name: &'static str, value: impl Into<String>) -> Self {
        Self::new(name, VariableValue::Fixed(value.into()))
    }

    fn render(&self, pod: PodIdentity) -> EnvVar {
        let value = match &self.value {
            VariableValue::Fixed(text) => text.clone(),
            VariableValue::Index => pod.index.to_string(),
            VariableValue::Rank => pod.rank.to_string(),
            VariableValue::Attempt => pod.attempt.to_string(),
            VariableValue::Slice(pods) => pod.index.checked_div(*pods).unwrap_or(0).to_string(),
            VariableValue::SliceOfJob(pods) => pod.rank.checked_div(*pods).unwrap_or(0).to_string(),
            VariableValue::IndexInSlice(pods) => within_slice(pod.index, *pods).to_string(),
            VariableValue::SliceStart {
                before,
                pods,
                after,
            } => {
                let start = pod.index.saturating_sub(within_slice(pod.index, *pods));
                format!("{before}{start}{after}")
            }
            VariableValue::Numbered {
                before,
                first,
                after,
            } => format!("{before}{}{after}", first.saturating_add(pod.index)),
        };
        EnvVar {
            name: self.name.to_owned(),
            value: Some(value),
            value_from: None,
        }
    }
}

fn within_slice(index: u32, pods: u32) -> u32 {
    index.checked_rem(pods).unwrap_or(0)
}

impl PodEnvironment {
    pub fn new(
        gang: &GangFacts<'_>,
        group: &TaskGroup,
        framework: Vec<TrellisVariable>,
        users: Option<Vec<EnvVar>>,
    ) -> Self {
        let mut ours = vec![
            TrellisVariable::new(
                "TRELLIS_JOB",
                VariableValue::Fixed(gang.job.name().to_owned()),
            ),
            TrellisVariable::new("TRELLIS_GROUP", VariableValue::Fixed(group.name.clone())),
            TrellisVariable::new("TRELLIS_INDEX", VariableValue::Index),
            TrellisVariable::new("TRELLIS_RANK", VariableValue::Rank),
            TrellisVariable::new(
                "TRELLIS_WORLD_SIZE",
                VariableValue::Fixed(gang.world_size.to_string()),
            ),
            TrellisVariable::new("TRELLIS_ATTEMPT", VariableValue::Attempt),
        ];
        // The finest slices share the fastest network.
        let of_job = gang.job.spec().slice_sizes().last().copied();
        let of_job = of_job.filter(|_| group.is_in_world());
        let of_job = of_job.map(|pods| (pods, VariableValue::SliceOfJob(pods)));
        let of_group = || {
            let pods = group.slice_sizes().last().copied()?;
            Some((pods, VariableValue::Slice(pods)))
        };
        if let Some((pods, slice)) = of_job.or_else(of_group) {
            ours.push(TrellisVariable::new("TRELLIS_SLICE", slice));
            ours.push(TrellisVariable::fixed(
                "TRELLIS_SLICE_SIZE",
                pods.to_string(),
            ));
        }
        ours.extend(framework);
        // Kubernetes takes the last of two variables with one name, and Trellis' variables come
        // first.
        let is_ours = |var: &EnvVar| ours.iter().any(|own| own.name == var.name);
        let users = users.unwrap_or_default().into_iter();
        Self {
            user_variables: users.filter(|var| !is_ours(var)).collect(),
            trellis_variables: ours,
        }
    }

    /// The user's come last: Kubernetes expands `$(NAME)` of variables that stand before.
    pub fn render(&self, pod: PodIdentity) -> Vec<EnvVar> {
        let ours = self
            .trellis_variables
            .iter()
            .map(|variable| variable.render(pod));
        ours.chain(self.user_variables.iter().cloned()).collect()
    }
}

/// A user's variable in Kubernetes' own type.
pub(crate) fn user_variable(var: &job::EnvVar) -> EnvVar {
    let source = |source: &job::EnvVarSource| EnvVarSource {
        secret_key_ref: source.secret_key_ref.as_ref().map(|key| SecretKeySelector {
            name: key.name.clone(),
            key: key.key.clone(),
            optional: key.optional,
        }),
        config_map_key_ref: source
            .config_map_key_ref
            .as_ref()
            .map(|key| ConfigMapKeySelector {
                name: key.name.clone(),
                key: key.key.clone(),
                optional: key.optional,
            }),
        field_ref: source.field_ref.as_ref().map(|field| ObjectFieldSelector {
            field_path: field.field_path.clone(),
            api_version: field.api_version.clone(),
        }),
        ..EnvVarSource::default()
    };
    EnvVar {
        name: var.name.clone(),
        value: var.value.clone(),
        value_from: var.value_from.as_ref().map(source),
    }
}

/// Variables in bulk. Kubernetes lets single variables win, so ours cannot be hidden by them.
pub(crate) fn env_from_sources(group: &TaskGroup) -> Vec<EnvFromSource> {
    let source = |from: &job::EnvFromSource| EnvFromSource {
        prefix: from.prefix.clone(),
        config_map_ref: from.config_map_ref.as_ref().map(|of| ConfigMapEnvSource {
            name: of.name.clone(),
            optional: of.optional,
        }),
        secret_ref: from.secret_ref.as_ref().map(|of| SecretEnvSource {
            name: of.name.clone(),
            optional: of.optional,
        }),
    };
    group.env_from.iter().map(source).collect()
}
