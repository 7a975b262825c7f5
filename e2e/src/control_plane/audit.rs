//! Audit logs of the operator's requests to the API server. `cargo rights` compares them with the
//! operator's roles.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The variable with the folder of the records. Without it, the API servers record no requests.
pub const AUDIT_VARIABLE: &str = "TRELLIS_AUDIT";

/// The audit policy. It records the resource and the verb of each request of the operator's
/// ServiceAccount. A watch is recorded at its start, because it may never end.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
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
