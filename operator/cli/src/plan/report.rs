//! Renders the plan for people.

use trellis_api::visibility::{PlanVerdict, PlannedJob};
use trellis_reads::plan::{PlanRow, describe_job};

/// Renders every job with its objects. Each job has its placement, or the reason why it has none.
pub(super) fn render_plan(planned: &[PlannedJob]) -> String {
    let jobs: Vec<String> = planned.iter().map(render_job).collect();
    let mut out = jobs.join("\n");
    if planned.len() > 1 {
        let count = |verdict| planned.iter().filter(|job| job.verdict == verdict).count();
        let text = |verdict: PlanVerdict| match count(verdict) {
            0 => String::new(),
            count => format!(", {count} {verdict}"),
        };
        out.push_str(&format!(
            "\n{} jobs: {} {}, {} {}{}{}\n",
            planned.len(),
            count(PlanVerdict::Runs),
            PlanVerdict::Runs,
            count(PlanVerdict::Waits),
            PlanVerdict::Waits,
            text(PlanVerdict::Refused),
            text(PlanVerdict::Ended),
        ));
    }
    out
}

/// Describes in one line why a job would wait or be Refused. None: it would run.
pub(super) fn describe_reason(planned: &PlannedJob) -> Option<String> {
    let PlannedJob { job, verdict, .. } = planned;
    let (reason, message) = (planned.reason?, planned.message.as_deref()?);
    Some(format!("TrainingJob {job} {verdict}: {reason}: {message}"))
}

fn render_job(planned: &PlannedJob) -> String {
    let PlannedJob { job, verdict, .. } = planned;
    let mut out = format!("TrainingJob {job} {verdict}\n");
    for PlanRow { name, lines } in describe_job(planned) {
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {name:<9}{line}\n"));
        }
    }
    out
}
