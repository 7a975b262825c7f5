//! `GET /api/jobs/NAMESPACE/NAME` and `.../why`: one job, or external pods.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use trellis_api::visibility::GangName;
use trellis_reads::explain::{Answer, ExplainFacts, read_facts};
use trellis_reads::report::{StatusReport, read_report};

use crate::answer::{self, Refusal};
use crate::routes::names::parse_names;
use crate::server::App;

/// The content of `trellis status -o json`.
#[derive(Debug, Serialize)]
struct JobReport {
    #[serde(flatten)]
    report: StatusReport,
    time: Timestamp,
}

/// The content of `trellis explain -o json`, and its text as sentences.
#[derive(Debug, Serialize)]
struct JobWhy {
    #[serde(flatten)]
    facts: ExplainFacts,
    answer: Answer,
    time: Timestamp,
}

pub(crate) async fn job_report(
    State(app): State<Arc<App>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (namespace, gang) = parse_names(&namespace, &name)?;
    let GangName::Job(name) = gang else {
        return Err(Refusal::not_found(format!(
            "{gang} is no TrainingJob, so it has no report"
        )));
    };
    let reader = app.credentials.caller(&headers)?.reader;
    let reader = reader.in_namespace(&namespace);
    let Some(report) = read_report(&reader, &name).await? else {
        return Err(Refusal::not_found(
            reader.not_found_error(&name).to_string(),
        ));
    };
    let time = Timestamp::now();
    answer::json(&headers, &JobReport { report, time })
}

pub(crate) async fn job_why(
    State(app): State<Arc<App>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (namespace, gang) = parse_names(&namespace, &name)?;
    let reader = app.credentials.caller(&headers)?.reader;
    let reader = reader.in_namespace(&namespace);
    let Some(facts) = read_facts(&reader, &gang).await? else {
        return Err(Refusal::not_found(match gang {
            GangName::Job(name) => reader.not_found_error(&name).to_string(),
            other => format!("there is no {other} in namespace {namespace:?}"),
        }));
    };
    let time = Timestamp::now();
    let answer = Answer::of(&facts, time);
    let why = JobWhy {
        facts,
        answer,
        time,
    };
    answer::json(&headers, &why)
}
