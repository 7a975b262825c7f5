//! Renders the GPU usage of jobs for people. Pure.

use super::TopReport;
use super::usage::{GpuUsage, IDLE_PERCENT};
use crate::output::{Cell, Table, Tone, paint};

/// Renders one row per job. `wide`: with all columns, and nothing is cut.
#[must_use]
pub fn render_jobs(top: &TopReport, wide: bool, width: Option<usize>) -> String {
    if top.jobs.is_empty() {
        return format!("No job holds GPUs.\n{}", render_notes(top));
    }
    let mut columns = vec![
        "JOB",
        "NAMESPACE",
        "QUEUE",
        "GPUS",
        "UTIL%",
        "MIN%",
        "MEM%",
        "IDLE-GPUS",
        "NODES",
    ];
    if wide {
        columns.extend(["MEASURED", "WASTED-GPUS"]);
    }
    columns.push("NOTE");
    let mut table = Table::new(columns);
    for job in &top.jobs {
        let (note, tone) = usage_note(job);
        let mut cells: Vec<Cell> = vec![
            job.name.as_str().into(),
            job.namespace.as_str().into(),
            job.queue.as_deref().unwrap_or("-").into(),
            job.gpus.to_string().into(),
            format_percent(job.mean).into(),
            format_percent(job.least).into(),
            format_percent(job.memory).into(),
            job.idle.to_string().into(),
            job.nodes.to_string().into(),
        ];
        if wide {
            cells.extend([
                Cell::from(job.measured.to_string()),
                format!("{:.1}", job.waste).into(),
            ]);
        }
        cells.push(Cell::new(note, tone));
        table.push_row(cells);
    }
    format!(
        "{}{}{}",
        table.render(0, width.filter(|_| !wide)),
        render_total(top),
        render_notes(top)
    )
}

/// Renders one row per GPU of the jobs.
/// `wide`: with all columns, and nothing is cut.
#[must_use]
pub fn render_gpus(top: &TopReport, wide: bool, width: Option<usize>) -> String {
    let mut columns = vec!["RANK", "POD", "NODE", "GPU", "UTIL%", "MEM%"];
    if wide {
        columns.extend(["MEM-USED", "ID"]);
    }
    columns.push("NOTE");
    let mut table = Table::new(columns);
    for job_gpu in top.jobs.iter().flat_map(|job| &job.each) {
        let gpu = &job_gpu.gpu;
        let idles = gpu
            .utilization
            .is_some_and(|percent| percent < IDLE_PERCENT);
        let rank = job_gpu.rank.map(|rank| rank.to_string());
        let mut cells: Vec<Cell> = vec![
            rank.unwrap_or_else(|| "-".to_owned()).into(),
            gpu.pod.as_str().into(),
            job_gpu.node.as_deref().unwrap_or("-").into(),
            gpu.number.as_deref().unwrap_or("-").into(),
            format_percent(gpu.utilization).into(),
            format_percent(gpu.memory_percent()).into(),
        ];
        if wide {
            let used = gpu.memory_used.map(|used| format!("{used:.0}Mi"));
            cells.extend([
                Cell::from(used.unwrap_or_else(|| "-".to_owned())),
                gpu.id.as_str().into(),
            ]);
        }
        cells.push(match idles {
            true => Cell::new("idle", Tone::Bad),
            false => Cell::default(),
        });
        table.push_row(cells);
    }
    if table.is_empty() {
        let held_gpus: u32 = top
            .jobs
            .iter()
            .map(|job| job.gpus)
            .fold(0, u32::saturating_add);
        let message = match held_gpus {
            0 => "The job holds no GPUs now.\n".to_owned(),
            held_gpus => format!("The job holds {held_gpus} GPUs, and no exporter reports them.\n"),
        };
        return format!("{message}{}", render_notes(top));
    }
    format!(
        "{}{}{}",
        table.render(0, width.filter(|_| !wide)),
        render_total(top),
        render_notes(top)
    )
}

/// Returns the note about problems of a job.
fn usage_note(job: &GpuUsage) -> (String, Tone) {
    let idle = match (job.idle, job.measured) {
        (0, _) => None,
        (idle, measured) if idle == measured => Some("idle".to_owned()),
        (idle, measured) => Some(format!("idle on {idle} of {measured}")),
    };
    let tone = match idle {
        Some(_) => Tone::Bad,
        None => Tone::Plain,
    };
    let unmeasured = match job.gpus.saturating_sub(job.measured) {
        0 => None,
        gpus => Some(format!("{gpus} not measured")),
    };
    let parts: Vec<_> = idle.into_iter().chain(unmeasured).collect();
    (parts.join(", "), tone)
}

fn format_percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0}"))
}

fn render_total(top: &TopReport) -> String {
    let sum = |count: fn(&GpuUsage) -> u32| top.jobs.iter().map(count).fold(0, u32::saturating_add);
    let (gpus, measured, idle) = (sum(|j| j.gpus), sum(|j| j.measured), sum(|j| j.idle));
    if measured == 0 {
        return String::new();
    }
    let waste: f64 = top.jobs.iter().map(|job| job.waste).sum();
    let used = 100.0 - waste / f64::from(measured) * 100.0;
    format!("\n{gpus} GPUs held, used {used:.0} %; {idle} idle\n")
}

fn render_notes(top: &TopReport) -> String {
    let notes = top.notes.iter();
    notes
        .map(|note| paint(&format!("note: {note}\n"), Tone::Waiting))
        .collect()
}
