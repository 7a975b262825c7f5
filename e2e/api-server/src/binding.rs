//! `pods/binding`: assigns a pod to a node.

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::conditions::set_condition;
use crate::managed_fields;
use crate::object::{Object, fields_mut, is_deleting, items_at, metadata_mut, take_field, text_at};
use crate::server::{ApiServer, Call};
use crate::status::{Status, success_answer};
use crate::store::object_key;
use crate::write::uid_conflict;

impl ApiServer {
    /// Binds a pod. Annotations and labels of the binding are merged in the same write.
    pub(crate) fn bind(&mut self, call: &Call<'_>) -> Result<http::Response<Bytes>, Status> {
        let mut binding = call.parse_body()?;
        let kind = text_at(&binding, &["kind"]);
        if !matches!(kind, "" | "Binding") {
            let why = format!("{kind} in version \"v1\" cannot be handled as a Binding");
            return Err(Status::bad_request(why));
        }
        let namespace = text_at(&binding, &["metadata", "namespace"]);
        if !namespace.is_empty() && namespace != call.namespace() {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(why));
        }
        if text_at(&binding, &["metadata", "name"]) != call.name() {
            let why = "name in URL does not match name in Binding object";
            return Err(Status::bad_request(why));
        }
        let target = text_at(&binding, &["target", "kind"]);
        if !matches!(target, "" | "Node") {
            let why = format!(
                "target.kind: Unsupported value: \"{target}\": supported values: \"Node\", \"<empty>\""
            );
            return Err(Status::new(500, "", why));
        }
        let node = text_at(&binding, &["target", "name"]).to_owned();
        if node.is_empty() {
            return Err(Status::new(500, "", "target.name: Required value"));
        }
        let request = AdmissionRequest::new(call, Operation::Connect, &self.store);
        Admission::mutate_binding(&request, &mut binding);
        let request = request.with_object(None, Some(&binding));
        self.admission.validate(&request)?;
        let pod = self.store.get(call.kind_id, call.namespace(), call.name());
        let pod = pod.cloned().ok_or_else(|| call.not_found())?;
        check_binding(call, &binding, &pod)?;
        let mut value = pod.value().clone();
        value["spec"]["nodeName"] = node.into();
        for field in ["annotations", "labels"] {
            let more = binding["metadata"][field].as_object();
            for (name, text) in more.into_iter().flatten() {
                let fields = metadata_mut(&mut value)
                    .entry(field)
                    .or_insert_with(|| json!({}));
                fields[name] = text.clone();
            }
        }
        take_field(fields_mut(&mut value, "status"), "nominatedNodeName");
        set_condition(
            &mut value,
            json!({"type": "PodScheduled", "status": "True"}),
            call.now,
        );
        if !call.dry_run {
            let (kind, manager) = (&call.kind, &call.manager);
            managed_fields::record_write(
                Some(&pod),
                &mut value,
                kind,
                manager,
                "binding",
                call.now,
            );
            let key = object_key(call.namespace(), call.name());
            self.store
                .commit(call.kind_id, key, Some(value), call.user_name(), call.now);
        }
        Ok(success_answer())
    }
}

fn check_binding(call: &Call<'_>, binding: &Value, pod: &Object) -> Result<(), Status> {
    let uid = text_at(binding, &["metadata", "uid"]);
    if !uid.is_empty() && uid != pod.uid() {
        return Err(uid_conflict(call, uid, pod.uid()));
    }
    let version = text_at(binding, &["metadata", "resourceVersion"]);
    if !version.is_empty() && version != pod.revision().to_string() {
        let found = pod.revision();
        let key = format!("/registry/pods/{}/{}", call.namespace(), call.name());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {version}, \
             ResourceVersion in object meta: {found}"
        );
        return Err(Status::conflict(&call.kind, call.name(), &why));
    }
    let name = pod.name();
    let node = text_at(pod, &["spec", "nodeName"]);
    let why = if is_deleting(pod) {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node \"{node}\"")
    } else if !items_at(pod, &["spec", "schedulingGates"]).is_empty() {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Status::conflict_on("", "pods/binding", name, &why))
}
