//! The Secrets of `spec.secrets` that are kept outside the cluster: each an ExternalSecret,
//! from which External Secrets Operator makes a Secret.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::external_secret::{
    ExternalSecret, ExternalSecretData, ExternalSecretRemoteRef, ExternalSecretSpec,
    ExternalSecretTarget, ExternalSecretTemplate,
};
use trellis_api::job::{JobSecret, RemoteValue, SecretStore};
use trellis_api::{ValidatedJob, names};

use super::metadata;
use crate::demand::{Demand, RemoteSecret};
use crate::hash_of;

/// The key by which a Secret is known for one that images are pulled with, and its type.
const IMAGE_PULL_SECRET: (&str, &str) = (".dockerconfigjson", "kubernetes.io/dockerconfigjson");
/// Characters of the hash in the name of a Secret.
const HASH_SUFFIX_LENGTH: usize = 8;

/// Entries that are kept in a store.
fn store_secrets(job: &ValidatedJob) -> impl Iterator<Item = (&JobSecret, &SecretStore)> {
    let all = job.spec().secrets.iter();
    all.filter_map(|secret| Some((secret, secret.store.as_ref()?)))
}

/// The ExternalSecrets, in the order of the spec.
pub(crate) fn build(job: &ValidatedJob) -> Vec<ExternalSecret> {
    store_secrets(job)
        .map(|(secret, store)| ExternalSecret {
            metadata: ObjectMeta {
                name: Some(names::external_secret_name(job.name(), &secret.name)),
                ..metadata::child_metadata(job)
            },
            spec: external_secret_spec(job, secret, store),
        })
        .collect()
}

/// By the name of an entry: the name of the Secret that is made of it.
pub(crate) fn target_secret_names(job: &ValidatedJob) -> BTreeMap<&str, String> {
    store_secrets(job)
        .map(|(secret, _)| (secret.name.as_str(), target_secret_name(job, secret)))
        .collect()
}

/// Name of the Secret. It is not known before the job exists, because External Secrets Operator
/// takes over an existing Secret of that name and finally deletes it. It also differs from the name
/// for an earlier job.
fn target_secret_name(job: &ValidatedJob, secret: &JobSecret) -> String {
    let hash: String = hash_of(&job.uid())
        .chars()
        .take(HASH_SUFFIX_LENGTH)
        .collect();
    let name = names::external_secret_name(job.name(), &secret.name);
    format!("{name}-{hash}")
}

fn external_secret_spec(
    job: &ValidatedJob,
    secret: &JobSecret,
    store: &SecretStore,
) -> ExternalSecretSpec {
    let word = str::to_owned;
    let (pull_key, pull_type) = IMAGE_PULL_SECRET;
    let template = secret.data.contains_key(pull_key);
    ExternalSecretSpec {
        secret_store_ref: store.clone(),
        refresh_interval: go_duration(secret.refresh_seconds()),
        target: ExternalSecretTarget {
            name: target_secret_name(job, secret),
            creation_policy: word("Owner"),
            // With Delete, a missing path would give a Secret without its key that still counts as
            // Ready.
            deletion_policy: word("Retain"),
            template: template.then(|| ExternalSecretTemplate {
                type_: word(pull_type),
                engine_version: word("v2"),
                merge_policy: word("Replace"),
            }),
        },
        data: secret
            .data
            .iter()
            .map(|(key, written)| {
                let RemoteValue { path, property } = RemoteValue::parse(written);
                ExternalSecretData {
                    secret_key: key.clone(),
                    remote_ref: ExternalSecretRemoteRef {
                        key: word(path),
                        property: property.map(word),
                        conversion_strategy: word("Default"),
                        decoding_strategy: word("None"),
                        metadata_policy: word("None"),
                    },
                }
            })
            .collect(),
    }
}

/// Demands of the entries: each path in a store, and existing Secrets.
pub(crate) fn demands(job: &ValidatedJob) -> impl Iterator<Item = Demand> {
    let remote = store_secrets(job).flat_map(|(secret, store)| {
        secret.data.values().map(|written| {
            Demand::UseRemoteSecret(RemoteSecret {
                kind: store.kind,
                store: store.name.clone(),
                path: RemoteValue::parse(written).path.to_owned(),
            })
        })
    });
    let there = job.spec().secrets.iter().filter(|s| s.store.is_none());
    remote.chain(there.map(|secret| Demand::UseSecret(secret.name.clone())))
}

/// Seconds as Go prints a duration (`time.Duration.String`): External Secrets Operator writes the
/// field back in this format.
fn go_duration(seconds: u32) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::go_duration;

    #[test]
    fn duration_has_the_format_of_go() {
        let written = [45, 60, 90, 3600, 86_399].map(go_duration);
        assert_eq!(written, ["45s", "1m0s", "1m30s", "1h0m0s", "23h59m59s"]);
    }
}
