//! Kept places, in the model.

use trellis_scheduler::{Gang, GangId, NodeName, PodKey, Resources, Time};

use crate::model::{Model, ModelPlace, with_pod};

/// The kept place of a gang that restarts.
#[derive(Clone, Debug)]
pub struct ModelKeptPlace {
    /// The gang as it was placed.
    pub gang: Gang,
    pub until: Time,
    pub pods_gone_by: Time,
    pub pods: Vec<ModelPodRoom>,
}

/// The room of one pod.
#[derive(Clone, Debug)]
pub struct ModelPodRoom {
    pub key: PodKey,
    pub node: NodeName,
    pub request: Resources,
    /// True if the pod is gone.
    pub pod_is_gone: bool,
}

impl Model {
    /// Records a pod that the engine sees late. From then on the pod itself counts, and its kept
    /// room does not.
    pub fn confirm_late_pod(&mut self, key: &PodKey, node: &NodeName, request: &Resources) {
        for kept in self.kept_places.values_mut() {
            let by = kept.pods_gone_by;
            let mut own = kept.pods.iter_mut();
            if let Some(pod) = own.find(|p| p.pod_is_gone && p.key == *key && p.node == *node) {
                (pod.pod_is_gone, pod.request) = (false, request.clone());
                self.leaving_pods.insert(key.clone(), by);
            }
        }
    }

    /// Keeps the room of a pod of a kept place when the pod is gone.
    pub fn reserve_room_of_gone_pod(&mut self, key: &PodKey, node: &NodeName, request: &Resources) {
        for kept in self
            .kept_places
            .values_mut()
            .flat_map(|kept| &mut kept.pods)
        {
            if kept.key == *key && !kept.pod_is_gone && kept.node == *node {
                (kept.pod_is_gone, kept.request) = (true, request.clone());
            }
        }
    }

    /// Removes the place of a gang, and keeps its room on all nodes except `except` until `until`.
    /// Returns true if it has a place to keep.
    pub fn keep_place(&mut self, id: &GangId, except: &[NodeName], until: Time) -> bool {
        let settled =
            |p: &ModelPlace| p.leaving.is_none() && p.victims.is_none() && !p.gang.surplus;
        if !self.places.get(id).is_some_and(settled) {
            return false;
        }
        let place = self.places.remove(id).unwrap();
        self.idle.insert(id.clone());
        let kept = ModelKeptPlace {
            until,
            pods_gone_by: self.now.plus(self.gangs[id].grace),
            gang: place.gang,
            pods: vec![],
        };
        let by = kept.pods_gone_by;
        self.kept_places.insert(id.clone(), kept);
        let mut gone = Vec::new();
        for (key, planned, request) in place.pods {
            let (node, request, held) = if place.assumed.contains(&key) {
                (planned, request, true)
            } else if let Some((node, request)) = self.pods.get(&key).cloned() {
                self.leaving_pods.insert(key.clone(), by);
                (node, request, false)
            } else {
                gone.push((key, planned, request));
                continue;
            };
            self.keep_pod_room(id, except, (key, node, request, held));
        }
        for (key, node, request) in gone {
            let free = self.nodes.get(&node).map(|node| self.free(node));
            let needs = with_pod(&request);
            let mut needs = needs.iter();
            let fits = free
                .is_some_and(|free| needs.all(|(r, n)| free.get(r).is_some_and(|left| left >= n)));
            if fits {
                self.keep_pod_room(id, except, (key, node, request, true));
            }
        }
        true
    }

    fn keep_pod_room(
        &mut self,
        id: &GangId,
        except: &[NodeName],
        (key, node, request, held): (PodKey, NodeName, Resources, bool),
    ) {
        if !except.contains(&node) {
            let pod = ModelPodRoom {
                key,
                node,
                request,
                pod_is_gone: held,
            };
            self.kept_places.get_mut(id).unwrap().pods.push(pod);
        }
    }
}
