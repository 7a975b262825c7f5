//! The storage of a namespace. The operator reads it from its watches, `trellis plan` from files or
//! from a cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::ObjectMeta;
use trellis_scheduler::{Node, NodeName, Resources};

use super::mounts::ClaimMounts;
use super::volume_choice::BindingCandidates;
use crate::observed::{SlimClaim, SlimClaimSpec, SlimStorageClass, SlimVolume};

/// The claims of a namespace, and the volumes to which they may be bound.
pub trait Storage {
    /// Returns the claim of that name.
    fn claim(&self, name: &str) -> Option<Arc<SlimClaim>>;
    /// Returns the volume of that name.
    fn volume(&self, name: &str) -> Option<Arc<SlimVolume>>;
    /// Returns all volumes.
    fn volumes(&self) -> Vec<Arc<SlimVolume>>;
    /// Returns the class of that name.
    fn class(&self, name: &str) -> Option<Arc<SlimStorageClass>>;
    /// Returns the class of claims that name none.
    fn default_class(&self) -> Option<Arc<SlimStorageClass>>;
    /// Returns the labels of the node of that name.
    fn node_labels(&self, name: &str) -> Option<BTreeMap<String, String>>;

    /// Returns a claim with this spec that does not exist yet, with the class that it will get.
    fn new_claim(&self, name: &str, spec: &SlimClaimSpec) -> SlimClaim {
        let class = spec.storage_class_name.clone();
        let default = || self.default_class()?.metadata.name.clone();
        SlimClaim {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: SlimClaimSpec {
                storage_class_name: class.or_else(default),
                ..spec.clone()
            },
            ..SlimClaim::default()
        }
    }
}

impl BindingCandidates {
    /// Reads the state of these claims.
    #[must_use]
    pub fn from_storage(storage: &impl Storage, mounts: &ClaimMounts) -> Self {
        let claims = mounts.keys();
        let claims = claims.filter_map(|name| Some((name.clone(), storage.claim(name)?)));
        let mut stock = Self {
            claims: claims.collect(),
            ..Self::default()
        };
        let classes = stock.claims.values().filter_map(|claim| {
            let class = storage.class(claim.class())?;
            Some((claim.class().to_owned(), class))
        });
        stock.classes = classes.collect();
        let nodes: BTreeSet<&String> = mounts.values().flat_map(|mount| &mount.nodes).collect();
        let nodes = nodes.into_iter().filter_map(|name| {
            let mut node = Node::new(NodeName::new(name.as_str()), Resources::new());
            node.labels = storage.node_labels(name)?;
            Some((name.clone(), node))
        });
        stock.nodes = nodes.collect();
        // All volumes are read only if one is to be chosen.
        stock.volumes = match stock.claims.values().all(|claim| claim.is_bound()) {
            true => bound_volumes(storage, &stock.claims),
            false => storage.volumes(),
        };
        stock
    }
}

fn bound_volumes(
    storage: &impl Storage,
    claims: &BTreeMap<String, Arc<SlimClaim>>,
) -> Vec<Arc<SlimVolume>> {
    let volumes = claims.values().map(|claim| claim.spec.volume_name.as_str());
    volumes.filter_map(|name| storage.volume(name)).collect()
}
