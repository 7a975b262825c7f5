//! Nodes on which the API server refused a gang's pods although it accepts them elsewhere. The gang
//! avoids them for a while, longer after each refusal, like nodes whose kubelets refuse pods. A
//! restart of the operator forgets them, which costs one more try.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use trellis_gang::exclusion_time;

#[derive(Debug, Default)]
pub(in crate::driver) struct AvoidedNodes {
    /// Failures of each node, and the time until which the gang avoids it.
    nodes: BTreeMap<String, (u32, Instant)>,
}

impl AvoidedNodes {
    /// Records that a pod was refused on the node.
    pub(in crate::driver) fn add_failure(&mut self, node: &str, now: Instant) {
        let (times, until) = self.nodes.entry(node.to_owned()).or_insert((0, now));
        *times = times.saturating_add(1);
        let wait = Duration::try_from(exclusion_time(*times)).unwrap_or_default();
        *until = now.checked_add(wait).unwrap_or(now);
    }

    /// Returns the nodes to avoid now.
    pub(in crate::driver) fn current(&self, now: Instant) -> impl Iterator<Item = &String> {
        let nodes = self
            .nodes
            .iter()
            .filter(move |(_, (_, until))| *until > now);
        nodes.map(|(node, _)| node)
    }

    /// Returns when the gang may try the next avoided node again.
    pub(in crate::driver) fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = self.nodes.values().map(|(_, until)| *until);
        ends.filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_avoided_longer_after_each_failure() {
        let mut now = Instant::now();
        let mut avoided = AvoidedNodes::default();
        assert_eq!(avoided.next_end(now), None);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            avoided.add_failure("a", now);
            assert_eq!(avoided.current(now).collect::<Vec<_>>(), ["a"]);
            let end = avoided.next_end(now).unwrap();
            pauses.push(end.duration_since(now).as_secs());
            assert_eq!(avoided.current(end).count(), 0);
            now = end;
        }
        assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
    }
}
