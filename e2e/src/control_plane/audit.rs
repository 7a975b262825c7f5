//! Audit logs of the requests to the API server. `cargo rights` compares the operator's requests with
//! its roles. `cargo replay` sends its writes to the simulated API server.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The variable with the folder of the records. Without it, the API servers record no requests.
pub const AUDIT_VARIABLE: &str = "TRELLIS_AUDIT";

/// The audit policy. It records all writes of the kinds that the operator writes or reads, with the
/// objects, and the resource and the verb of each further request of the operator. A watch is
/// recorded at its start, because it may never end.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  users: ["system:serviceaccount:trellis-system:trellis-operator"]
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: events.k8s.io, resources: [events]}
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: trellis.dev}
  - group: ""
    resources:
    - pods
    - pods/binding
    - pods/eviction
    - pods/status
    - nodes
    - nodes/status
    - namespaces
    - namespaces/finalize
    - services
    - configmaps
    - persistentvolumeclaims
    - resourcequotas
    - resourcequotas/status
    - limitranges
    - serviceaccounts
  - {group: networking.k8s.io, resources: [networkpolicies]}
  - {group: policy, resources: [poddisruptionbudgets, poddisruptionbudgets/status]}
  - {group: scheduling.k8s.io, resources: [priorityclasses]}
  - {group: storage.k8s.io, resources: [storageclasses]}
- level: Metadata
  users: ["system:serviceaccount:trellis-system:trellis-operator"]
- level: None
"#;

/// Returns the flags of an API server that records its requests. `folder` is the folder of its
/// control plane.
pub(super) fn api_server_flags(folder: &Path, port: u16) -> Result<Vec<String>> {
    let Some(records) = std::env::var_os(AUDIT_VARIABLE).map(PathBuf::from) else {
        return Ok(Vec::new());
    };
    // Tests run in the folder of their crate, but the path is relative to the folder of the
    // workspace.
    let records = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(records);
    let failed = || format!("{AUDIT_VARIABLE} names {records:?}");
    std::fs::create_dir_all(&records).with_context(failed)?;
    let records = records.canonicalize().with_context(failed)?;
    let policy = folder.join("audit.yaml");
    std::fs::write(&policy, AUDIT_POLICY).with_context(|| format!("cannot write {policy:?}"))?;
    // The name also has a process id, because other processes may use the same port later.
    let name = format!("{}-{port}.jsonl", std::process::id());
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", records.join(name).display()),
    ])
}
