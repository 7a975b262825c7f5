//! `pods/eviction`: deletes a pod if its PodDisruptionBudget allows.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::admission::{AdmissionRequest, Operation};
use crate::conditions::set_condition;
use crate::delete::DeleteOptions;
use crate::managed_fields;
use crate::object::{Object, fields_mut, is_deleting, items_at, text_at};
use crate::selector::label_selector_matches;
use crate::server::{ApiServer, Call};
use crate::status::{Status, success_answer};
use crate::store::object_key;
use crate::time::render_time;

/// The reason of the cause when a budget refuses an eviction.
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// Most evictions that the controller of budgets has not confirmed yet.
const MAX_DISRUPTED_PODS: usize = 2000;

impl ApiServer {
    pub(crate) fn evict(&mut self, call: &Call<'_>) -> Result<http::Response<Bytes>, Status> {
        let eviction = call.parse_body()?;
        if text_at(&eviction, &["metadata", "name"]) != call.name() {
            let why = "name in URL does not match name in Eviction object";
            return Err(Status::bad_request(why));
        }
        let mut options = DeleteOptions::parse(&eviction["deleteOptions"])?;
        options.dry_run |= call.dry_run;
        let request = AdmissionRequest::new(call, Operation::Connect, &self.store);
        let request = request.with_object(None, Some(&eviction));
        self.admission.validate(&request)?;
        let pod = self.store.get(call.kind_id, call.namespace(), call.name());
        let pod = pod.cloned().ok_or_else(|| call.not_found())?;
        let phase = text_at(&pod, &["status", "phase"]);
        let ignores_budgets =
            matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting(&pod);
        if !ignores_budgets {
            self.charge_budget(call, &pod, &options)?;
        }
        let pod = self.mark_disrupted(call, &pod, &mut options)?;
        self.delete_object(call, &pod, &options)?;
        Ok(success_answer())
    }

    /// Writes the condition that tells why the pod disappears.
    fn mark_disrupted(
        &mut self,
        call: &Call<'_>,
        pod: &Arc<Object>,
        options: &mut DeleteOptions,
    ) -> Result<Arc<Object>, Status> {
        let wrong_uid = options.uid.as_deref().is_some_and(|uid| uid != pod.uid());
        let version = pod.revision().to_string();
        let wrong_version = options
            .version
            .as_deref()
            .is_some_and(|other| other != version);
        if options.dry_run || wrong_uid || wrong_version {
            // The delete that follows checks the preconditions.
            return Ok(pod.clone());
        }
        let mut value = pod.value().clone();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(&mut value, condition, call.now);
        if !managed_fields::differ(pod, &value) {
            return Ok(pod.clone());
        }
        let key = object_key(pod.namespace(), pod.name());
        let stored = self
            .store
            .commit(call.kind_id, key, Some(value), call.user_name(), call.now);
        let stored = stored.expect("a value was stored");
        if options.version.is_some() {
            options.version = Some(stored.revision().to_string());
        }
        Ok(stored)
    }

    /// Takes one disruption from the budget that selects the pod.
    fn charge_budget(
        &mut self,
        call: &Call<'_>,
        pod: &Object,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let Some(kind) = self.store.find_kind("policy", "poddisruptionbudgets") else {
            return Ok(());
        };
        let labels = pod["metadata"]["labels"].as_object();
        let budgets = self.store.in_namespace(kind, call.namespace());
        let mut selecting =
            budgets.filter(|budget| label_selector_matches(&budget["spec"]["selector"], labels));
        let Some(budget) = selecting.next().cloned() else {
            return Ok(());
        };
        let has_second = selecting.next().is_some();
        drop(selecting);
        if has_second {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::new(500, "", why));
        }
        let count = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
        if !is_ready(pod) {
            let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
            let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
            if always || healthy >= desired && desired > 0 {
                return Ok(());
            }
        }
        check_budget(&budget)?;
        if options.dry_run {
            return Ok(());
        }
        let mut value = budget.value().clone();
        let allowed = count("disruptionsAllowed") - 1;
        let status = fields_mut(&mut value, "status");
        status.insert("disruptionsAllowed".to_owned(), allowed.into());
        let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
        disrupted[pod.name()] = render_time(call.now).into();
        if allowed == 0 {
            // `UpdateDisruptionAllowedCondition`: the controller of budgets reads it.
            let condition = json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "message": "", "observedGeneration": count("observedGeneration"),
            });
            set_condition(&mut value, condition, call.now);
        }
        let key = object_key(budget.namespace(), budget.name());
        let user = self.store.server_user();
        self.store.commit(kind, key, Some(value), user, call.now);
        Ok(())
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = items_at(pod, &["status", "conditions"]);
    conditions
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn check_budget(budget: &Object) -> Result<(), Status> {
    const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
    let name = budget.name();
    let count = |path: &str| budget["status"][path].as_i64().unwrap_or(0);
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    if count("observedGeneration") < generation {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        let status = Status::too_many_requests(REFUSED, 10);
        return Err(status.with_cause(BUDGET_CAUSE, &cause, ""));
    }
    let disrupted = budget["status"]["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let cause = format!(
            "The disruption budget {name} does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller"
        );
        let status = Status::forbidden(budget.kind(), name, why);
        return Err(status.with_cause(BUDGET_CAUSE, &cause, ""));
    }
    if count("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (desired, healthy) = (count("desiredHealthy"), count("currentHealthy"));
    let cause = if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    let status = Status::too_many_requests(REFUSED, 0);
    Err(status.with_cause(BUDGET_CAUSE, &cause, ""))
}
