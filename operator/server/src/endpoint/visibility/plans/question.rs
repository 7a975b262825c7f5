//! The jobs of a question.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use trellis_api::document::{self, Document, Problem};
use trellis_api::visibility::{Plan, PlanSpec};
use trellis_api::{API_VERSION, TrainingJob, kinds};

use crate::callers::Failure;

/// Returns the jobs, each with a name and its namespace. An error names all problems with their
/// fields.
pub(super) fn read_jobs(plan: &Plan, namespace: &str) -> Result<Vec<TrainingJob>, Failure> {
    let own = plan.metadata.namespace.as_deref();
    if own.is_some_and(|own| own != namespace) {
        return Err(Failure::bad_request(format!(
            "metadata.namespace: {own:?} does not match the namespace {namespace:?} of the request"
        )));
    }
    let count = plan.spec.jobs.len();
    if count == 0 || count > PlanSpec::MAX_JOBS {
        let message = format!(
            "spec.jobs: has {count} jobs: a plan needs 1 to {}",
            PlanSpec::MAX_JOBS
        );
        return Err(invalid(message));
    }
    // JSON is YAML, whose reader knows the path of each field.
    let text = serde_json::to_string(plan).map_err(|_| Failure::unavailable())?;
    let document = document::read(&text).into_iter().next();
    let document = document
        .and_then(Result::ok)
        .ok_or_else(|| invalid("spec.jobs: cannot be read".to_owned()))?;
    let mut problems = Vec::new();
    let mut jobs = Vec::with_capacity(count);
    let mut names = BTreeSet::new();
    for at in 0..count {
        match read_job(&document, &format!("spec.jobs[{at}]"), namespace) {
            Ok(job) if names.insert(job.metadata.name.clone()) => jobs.push(job),
            Ok(job) => problems.push(format!(
                "spec.jobs[{at}].metadata.name: {:?} is also the name of an earlier job: rename one of them",
                job.metadata.name.unwrap_or_default()
            )),
            Err(found) => problems.extend(found.iter().map(describe)),
        }
    }
    match problems.is_empty() {
        true => Ok(jobs),
        false => Err(invalid(problems.join("; "))),
    }
}

fn read_job(plan: &Document, at: &str, namespace: &str) -> Result<TrainingJob, Vec<Problem>> {
    let known = |kind: &str| (kind == "TrainingJob").then_some(API_VERSION);
    let document = plan.embedded_object(at, known).map_err(|p| vec![p])?;
    if !kinds::is_job(&document) {
        let (kind, version) = (&document.kind, &document.api_version);
        let message =
            format!("is a {kind} of {version}: a plan needs a TrainingJob of {API_VERSION}");
        return Err(vec![document.problem("", message)]);
    }
    let mut job: TrainingJob = document
        .decode_valid()
        .map_err(|problems| problems.into_iter().collect::<Vec<_>>())?;
    job.metadata.name = job.likely_name();
    let own = job
        .metadata
        .namespace
        .get_or_insert_with(|| namespace.to_owned());
    if own != namespace {
        let message = format!("{own:?} is not the namespace of the plan, {namespace:?}");
        return Err(vec![document.problem("metadata.namespace", message)]);
    }
    Ok(job)
}

fn describe(problem: &Problem) -> String {
    format!("{}: {}", problem.field, problem.message)
}

fn invalid(message: String) -> Failure {
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(name: &str) -> Value {
        let group = json!({"name": "worker", "replicas": 2, "image": "a.example/train:1",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
        json!({"kind": "TrainingJob", "metadata": {"name": name}, "spec": {"taskGroups": [group]}})
    }

    fn refusal(jobs: Vec<Value>) -> (u16, String) {
        let failure = read_jobs(&Plan::new("team", jobs), "team").unwrap_err();
        (failure.code(), failure.to_string())
    }

    #[test]
    fn job_without_namespace_belongs_to_the_namespace_of_the_plan() {
        let mut nameless = job("a");
        nameless["metadata"] = json!({"generateName": "sweep-"});
        let jobs = read_jobs(&Plan::new("team", vec![job("a"), nameless]), "team").unwrap();
        let of = |at: usize| jobs[at].metadata.clone();
        assert_eq!(of(0).namespace.as_deref(), Some("team"));
        assert!(of(1).name.unwrap().starts_with("sweep-"));
    }

    #[test]
    fn every_problem_is_refused_with_the_path_of_its_field() {
        let mut large = job("a");
        large["spec"]["taskGroups"][0]["replicas"] = json!(0);
        let mut elsewhere = job("b");
        elsewhere["metadata"]["namespace"] = json!("other");
        let (code, message) = refusal(vec![
            large,
            elsewhere,
            json!({"kind": "Pod", "apiVersion": "v1"}),
            json!({}),
        ]);
        assert_eq!(code, 422);
        for words in [
            "spec.jobs[0].spec.taskGroups[0].replicas: must be 1 to 4096",
            "spec.jobs[1].metadata.namespace: \"other\" is not the namespace",
            "spec.jobs[2]: is a Pod of v1: a plan needs a TrainingJob",
            "spec.jobs[3]: has no kind",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
    }

    #[test]
    fn number_of_jobs_their_names_and_the_namespace_are_checked() {
        assert_eq!(
            refusal(Vec::new()).1,
            "spec.jobs: has 0 jobs: a plan needs 1 to 16"
        );
        let many = (0..17).map(|at| job(&format!("a-{at}"))).collect();
        assert!(refusal(many).1.contains("has 17 jobs"));
        assert!(
            refusal(vec![job("a"), job("a")])
                .1
                .contains("spec.jobs[1].metadata.name")
        );
        let failure = read_jobs(&Plan::new("other", vec![job("a")]), "team").unwrap_err();
        assert_eq!(failure.code(), 400);
    }
}
