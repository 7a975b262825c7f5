//! Total demand of external pods.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::quantity::Amount;

use crate::observed::ExternalPod;

/// ServiceAccounts that pods run as.
pub type ServiceAccounts = BTreeSet<Option<String>>;

/// Total demand of pods, and the ServiceAccounts that they run as.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalDemand {
    /// Resources, as quota policies count them. None for a sum that overflows.
    pub resources: BTreeMap<String, Option<Amount>>,
    /// Number of pods.
    pub pods: i64,
    /// Number of devices.
    pub gpus: i64,
    /// ServiceAccounts that the pods run as.
    pub service_accounts: ServiceAccounts,
}

impl ExternalDemand {
    /// Adds one pod.
    pub fn add(&mut self, pod: &ExternalPod) {
        self.pods = self.pods.saturating_add(1);
        self.service_accounts.insert(pod.service_account.clone());
        for (resource, units) in pod.request.iter() {
            let amount = match resource.as_str() {
                "cpu" => Amount::from_millis(units),
                _ => Amount::from_units(units),
            };
            let sum = self.resources.entry(resource.as_str().to_owned());
            let sum = sum.or_insert(Some(Amount::ZERO));
            *sum = sum.and_then(|sum| sum.checked_add(amount));
            if resource.is_device() {
                self.gpus = self.gpus.saturating_add(units);
            }
        }
    }
}
