//! Formats runs of pods on nodes: `1 on each of gpu-0..gpu-7`.

/// Nodes with consecutive names and the same number of pods each.
struct NodeRun<'a> {
    first: &'a str,
    last: &'a str,
    nodes: usize,
    pods: u32,
}

/// Formats the names of nodes, such as `gpu-0..gpu-3, gpu-7`.
#[must_use]
pub fn format_nodes<'n>(nodes: impl IntoIterator<Item = &'n str>) -> String {
    let runs = nodes.into_iter().map(|node| (node, 1));
    format_with(runs, |run| match run.nodes {
        1 => run.first.to_owned(),
        _ => format!("{}..{}", run.first, run.last),
    })
}

/// Formats the runs: names of nodes, and the number of pods on each. Nodes with consecutive names are merged.
#[must_use]
pub fn format_runs<'n>(runs: impl IntoIterator<Item = (&'n str, u32)>) -> String {
    format_with(runs, |run| match run.nodes {
        1 => format!("{} on {}", run.pods, run.first),
        _ => format!("{} on each of {}..{}", run.pods, run.first, run.last),
    })
}

/// Formats each stretch of nodes with consecutive names.
fn format_with<'n>(
    runs: impl IntoIterator<Item = (&'n str, u32)>,
    format: impl Fn(&NodeRun<'_>) -> String,
) -> String {
    let mut stretches: Vec<NodeRun<'_>> = Vec::new();
    let mut runs: Vec<(&str, u32)> = runs.into_iter().collect();
    runs.sort_by_key(|(node, _)| (split_number(node), *node));
    for (node, pods) in &runs {
        match stretches.last_mut() {
            Some(s) if s.pods == *pods && is_next(s.last, node) => {
                s.last = node;
                s.nodes = s.nodes.saturating_add(1);
            }
            _ => stretches.push(NodeRun {
                first: node,
                last: node,
                nodes: 1,
                pods: *pods,
            }),
        }
    }
    let words: Vec<String> = stretches.iter().map(format).collect();
    words.join(", ")
}

/// Returns a sort key that puts `gpu-2` before `gpu-10`.
fn split_number(node: &str) -> (&str, Option<u64>) {
    let stem = node.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = node.strip_prefix(stem).unwrap_or_default();
    (stem, digits.parse().ok())
}

/// Returns true if `next` has the next number after `node`.
/// Examples are `gpu-9` and `gpu-10`, or `gpu-09` and `gpu-10`.
fn is_next(node: &str, next: &str) -> bool {
    let stem = node.trim_end_matches(|c: char| c.is_ascii_digit());
    let Some(digits) = node.strip_prefix(stem) else {
        return false;
    };
    let Some(number) = digits.parse::<u64>().ok().and_then(|n| n.checked_add(1)) else {
        return false;
    };
    let width = if digits.starts_with('0') {
        digits.len()
    } else {
        0
    };
    next.strip_prefix(stem) == Some(&format!("{number:0width$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(runs: &[(&str, u32)]) -> String {
        format_runs(runs.iter().copied())
    }

    #[test]
    fn consecutive_names_form_one_run() {
        assert_eq!(
            format(&[("a-1", 8), ("a-2", 8), ("a-3", 8)]),
            "8 on each of a-1..a-3"
        );
        assert_eq!(
            format(&[("a-09", 1), ("a-10", 1)]),
            "1 on each of a-09..a-10"
        );
        assert_eq!(format(&[("a-0", 1), ("a-1", 1)]), "1 on each of a-0..a-1");
        assert_eq!(format(&[("a-9", 1), ("a-10", 1)]), "1 on each of a-9..a-10");
        assert_eq!(
            format(&[("a-1", 1), ("a-10", 1), ("a-2", 1), ("a-9", 1)]),
            "1 on each of a-1..a-2, 1 on each of a-9..a-10"
        );
    }

    #[test]
    fn other_names_stay_separate() {
        assert_eq!(format(&[("a-1", 8), ("a-2", 4)]), "8 on a-1, 4 on a-2");
        assert_eq!(format(&[("a-1", 1), ("a-3", 1)]), "1 on a-1, 1 on a-3");
        assert_eq!(format(&[("a-1", 1), ("b-2", 1)]), "1 on a-1, 1 on b-2");
        assert_eq!(format(&[("a", 1), ("b", 1)]), "1 on a, 1 on b");
        assert_eq!(format(&[("a-1", 1), ("a-02", 1)]), "1 on a-1, 1 on a-02");
        assert_eq!(format(&[]), "");
    }
}
