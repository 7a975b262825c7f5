//! The queues: quota, what is used and borrowed of it, and the share by which turns go. Pure.

use trellis_api::Reason;
use trellis_api::quantity::Amount;
use trellis_api::visibility::{QueueResource, QueueState};

use crate::output::{Cell, Table, Tone, amount};

/// Resources that are no devices: people look at them where devices are not what they lack.
const NO_DEVICES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

pub(super) fn text<'a>(queues: impl Iterator<Item = &'a QueueState>, wide: bool) -> String {
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
            .filter(|of| wide || is_shown(queue, of))
            .collect();
        if lines.is_empty() {
            table.row(row(queue, None, true, wide));
        }
        for (at, resource) in lines.into_iter().enumerate() {
            table.row(row(queue, Some(resource), at == 0, wide));
        }
    }
    match table.is_empty() {
        true => String::new(),
        false => format!("{}\n", table.text(0, None)),
    }
}

/// Devices; of a queue without any, all.
fn is_shown(queue: &QueueState, of: &QueueResource) -> bool {
    let is_device = |of: &QueueResource| !NO_DEVICES.contains(&of.resource.as_str());
    // Pods that nobody bounds are no news.
    let is_bounded = of.resource != "pods" || of.available.is_some();
    is_device(of) || (is_bounded && !queue.resources.iter().any(is_device))
}

fn row(queue: &QueueState, of: Option<&QueueResource>, is_first: bool, wide: bool) -> Vec<Cell> {
    let once = |text: String| match is_first {
        true => text,
        false => String::new(),
    };
    let some = |amount: fn(&QueueResource) -> String| of.map_or("-".to_owned(), amount);
    let mut cells: Vec<Cell> = vec![
        once(queue.metadata.name.clone().unwrap_or_default()).into(),
        once(queue.admitted.to_string()).into(),
        once(queue.pending.to_string()).into(),
        once(queue.share.clone().unwrap_or_else(|| "-".to_owned())).into(),
        some(name).into(),
        some(nominal).into(),
        some(|of| amount(&of.resource, &of.used)).into(),
        some(|of| amount(&of.resource, &of.borrowed)).into(),
        // Without a bound: what nodes have decides.
        some(|of| {
            of.available
                .as_ref()
                .map_or("*".to_owned(), |more| amount(&of.resource, more))
        })
        .into(),
    ];
    if wide {
        cells.extend([
            some(|of| amount(&of.resource, &of.lendable)).into(),
            once(queue.weight.to_string()).into(),
            once(queue.parent.clone().unwrap_or_else(|| "-".to_owned())).into(),
        ]);
    }
    cells.push(state(queue, is_first));
    cells
}

/// Its quota; of what nobody bounds there is none.
pub(crate) fn nominal(of: &QueueResource) -> String {
    let is_none =
        of.available.is_none() && of.nominal_quota.amount().is_ok_and(|a| a == Amount::ZERO);
    match is_none {
        true => "-".to_owned(),
        false => amount(&of.resource, &of.nominal_quota),
    }
}

fn name(of: &QueueResource) -> String {
    match of.flavor.as_str() {
        "default" | "" => of.resource.clone(),
        flavor => format!("{} ({flavor})", of.resource),
    }
}

fn state(queue: &QueueState, is_first: bool) -> Cell {
    let why = || {
        let reason = queue.reason.map(|reason| format!("{reason}: "));
        let message = queue.message.clone().unwrap_or_default();
        format!("{}{message}", reason.unwrap_or_default())
    };
    match (is_first, queue.active) {
        (false, _) | (_, None) => "".into(),
        (_, Some(true)) if queue.reason == Some(Reason::QuotaBypassed) => {
            Cell::new(why(), Tone::Waits)
        }
        (_, Some(true)) => Cell::new("Active", Tone::Good),
        (_, Some(false)) => Cell::new(why(), Tone::Bad),
    }
}
