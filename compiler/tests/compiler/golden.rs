//! Every example, and everything that it compiles into: of each group the
//! first pod and the last; stage by stage.

use std::path::Path;

use k8s_openapi::serde_json::{Value, to_value};
use trellis_compiler::CompiledJob;

use super::support::{PLACEMENT, compile_stage, load};

fn objects(job: &CompiledJob) -> Vec<Value> {
    let services = job.services().into_iter();
    let mut objects: Vec<_> = services.map(|s| to_value(s).unwrap()).collect();
    objects.push(to_value(job.network_policy()).unwrap());
    objects.extend(job.config_maps().iter().map(|c| to_value(c).unwrap()));
    objects.push(to_value(job.pod_group()).unwrap());
    for group in job.groups() {
        let last = group.replicas().saturating_sub(1);
        objects.push(to_value(group.pod(0, &PLACEMENT)).unwrap());
        if last > 0 {
            objects.push(to_value(group.pod(last, &PLACEMENT)).unwrap());
        }
    }
    objects
}

fn assert_no_nulls(value: &Value, path: &str) {
    match value {
        Value::Null => panic!("null at {path}"),
        Value::Array(list) if list.is_empty() => panic!("empty list at {path}"),
        Value::Array(list) => list.iter().for_each(|v| assert_no_nulls(v, path)),
        Value::Object(map) => map
            .iter()
            .for_each(|(key, v)| assert_no_nulls(v, &format!("{path}.{key}"))),
        _ => {}
    }
}

#[test]
fn example_jobs_compile_to_their_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let job = load(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(job.metadata.name.as_deref(), Some(name.as_str()));
        let stages = 1..=job.spec.stage_count();
        let of_stage = |stage| objects(&compile_stage(job.clone(), stage));
        let objects: Vec<Value> = stages.flat_map(of_stage).collect();
        for object in &objects {
            assert_no_nulls(object, "");
            assert!(object.get("status").is_none());
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!(owner["name"], name.as_str());
        }
        // Whichever order serde_json was built to keep.
        insta::with_settings!({prepend_module_to_snapshot => false, sort_maps => true}, {
            insta::assert_yaml_snapshot!(name.clone(), objects);
        });
        seen.push(name);
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "cpu-only",
            "deepspeed",
            "elastic",
            "finetune-with-data",
            "jax",
            "master-workers",
            "mpi",
            "pretrain-64",
            "ray",
            "replica-groups",
            "resume",
            "sidecar",
            "slices",
            "stages",
            "tensorflow",
            "two-gpus",
            "two-racks"
        ]
    );
}
