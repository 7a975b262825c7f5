//! The table of queues: quota, usage, borrowing and fair share. Pure.

use trellis_api::Reason;
use trellis_api::quantity::Amount;
use trellis_api::visibility::{QueueResource, QueueState};

use crate::output::{Cell, Table, Tone, format_amount};

/// Resources that are not devices. They matter if a queue has no devices.
const NO_DEVICES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

pub(super) fn render_summary<'a>(
    queues: impl Iterator<Item = &'a QueueState>,
    wide: bool,
) -> String {
    let mut columns = vec![
        "QUEUE", "RUNNING", "WAITING", "SHARE", "RESOURCE", "QUOTA", "USED", "BORROWED", "FREE",
    ];
    if wide {
        columns.extend(["LENDABLE", "WEIGHT", "PARENT"]);
    }
    columns.push("STATE");
    let mut table = Table::new(columns);
    for queue in queues {
        let lines: Vec<_> = queue
            .resources
            .iter()
            .filter(|line| wide || is_listed(queue, line))
            .collect();
        if lines.is_empty() {
            table.push_row(build_row(queue, None, true, wide));
        }
        for (at, resource) in lines.into_iter().enumerate() {
            table.push_row(build_row(queue, Some(resource), at == 0, wide));
        }
    }
    match table.is_empty() {
        true => String::new(),
        false => format!("{}\n", table.render(0, None)),
    }
}

/// Returns true for devices; if a queue has none, for all resources.
fn is_listed(queue: &QueueState, resource: &QueueResource) -> bool {
    let is_device = |resource: &QueueResource| !NO_DEVICES.contains(&resource.resource.as_str());
    // Pods without a limit are not worth a row.
    let is_bounded = resource.resource != "pods" || resource.available.is_some();
    is_device(resource) || (is_bounded && !queue.resources.iter().any(is_device))
}

fn build_row(
    queue: &QueueState,
    resource: Option<&QueueResource>,
    is_first: bool,
    wide: bool,
) -> Vec<Cell> {
    let once = |text: String| match is_first {
        true => text,
        false => String::new(),
    };
    let amount_text =
        |amount: fn(&QueueResource) -> String| resource.map_or("-".to_owned(), amount);
    let mut cells: Vec<Cell> = vec![
        once(queue.metadata.name.clone().unwrap_or_default()).into(),
        once(queue.admitted.to_string()).into(),
        once(queue.pending.to_string()).into(),
        once(queue.share.clone().unwrap_or_else(|| "-".to_owned())).into(),
        amount_text(resource_name).into(),
        amount_text(format_nominal).into(),
        amount_text(|r| format_amount(&r.resource, &r.used)).into(),
        amount_text(|r| format_amount(&r.resource, &r.borrowed)).into(),
        // The queue has no limit: the capacity of the nodes decides.
        amount_text(|r| {
            r.available
                .as_ref()
                .map_or("*".to_owned(), |more| format_amount(&r.resource, more))
        })
        .into(),
    ];
    if wide {
        cells.extend([
            amount_text(|r| format_amount(&r.resource, &r.lendable)).into(),
            once(queue.weight.to_string()).into(),
            once(queue.parent.clone().unwrap_or_else(|| "-".to_owned())).into(),
        ]);
    }
    cells.push(state_cell(queue, is_first));
    cells
}

/// Formats the nominal quota. A resource without a limit has none.
pub(crate) fn format_nominal(resource: &QueueResource) -> String {
    let is_none = resource.available.is_none()
        && resource
            .nominal_quota
            .amount()
            .is_ok_and(|a| a == Amount::ZERO);
    match is_none {
        true => "-".to_owned(),
        false => format_amount(&resource.resource, &resource.nominal_quota),
    }
}

fn resource_name(resource: &QueueResource) -> String {
    match resource.flavor.as_str() {
        "default" | "" => resource.resource.clone(),
        flavor => format!("{} ({flavor})", resource.resource),
    }
}

fn state_cell(queue: &QueueState, is_first: bool) -> Cell {
    let phase_reason = || {
        let reason = queue.reason.map(|reason| format!("{reason}: "));
        let message = queue.message.clone().unwrap_or_default();
        format!("{}{message}", reason.unwrap_or_default())
    };
    match (is_first, queue.active) {
        (false, _) | (_, None) => "".into(),
        (_, Some(true)) if queue.reason == Some(Reason::QuotaBypassed) => {
            Cell::new(phase_reason(), Tone::Waiting)
        }
        (_, Some(true)) => Cell::new("Active", Tone::Good),
        (_, Some(false)) => Cell::new(phase_reason(), Tone::Bad),
    }
}
