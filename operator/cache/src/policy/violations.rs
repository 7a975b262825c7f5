//! Existing jobs that the policies would deny. They are stored by job, so that they disappear with
//! the job, and reported by policy.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use trellis_api::job_policy::PolicyViolation;
use trellis_gang::key::Key;

/// Number of violations that the status of a policy lists.
const MAX_SHOWN_VIOLATIONS: usize = 20;

/// Reasons why policies deny one job, by the id of the policy.
pub type DenialsByPolicy = BTreeMap<String, String>;

/// The violations of all jobs.
#[derive(Debug, Default)]
pub struct JobViolations {
    jobs: RwLock<BTreeMap<Key, DenialsByPolicy>>,
}

/// The violations of one policy object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectViolations {
    /// The first violations, by job.
    pub shown: Vec<PolicyViolation>,
    /// Number of jobs.
    pub count: i64,
}

impl JobViolations {
    /// Replaces the violations of the job.
    pub fn set(&self, job: &Key, denied: DenialsByPolicy) {
        if denied.is_empty() {
            return self.remove(job);
        }
        self.jobs.write().insert(job.clone(), denied);
    }

    /// Removes the violations of a job that was deleted or has ended.
    pub fn remove(&self, job: &Key) {
        // Most jobs violate no policy, and a read lock is enough for them.
        if self.jobs.read().contains_key(job) {
            self.jobs.write().remove(job);
        }
    }

    /// Returns the violations by policy object. The id of each policy begins with the key of its
    /// object.
    #[must_use]
    pub fn by_object(&self) -> BTreeMap<String, ObjectViolations> {
        let mut by_object: BTreeMap<String, ObjectViolations> = BTreeMap::new();
        for (job, denied) in &*self.jobs.read() {
            let mut objects: BTreeMap<&str, (Vec<String>, &str)> = BTreeMap::new();
            for (id, words) in denied {
                let object = id
                    .rsplit_once('/')
                    .map_or(id.as_str(), |(object, _)| object);
                let entry = objects.entry(object).or_insert((Vec::new(), words));
                entry.0.push(id.clone());
            }
            for (object, (policies, message)) in objects {
                let violations = by_object.entry(object.to_owned()).or_default();
                violations.count = violations.count.saturating_add(1);
                if violations.shown.len() < MAX_SHOWN_VIOLATIONS {
                    violations.shown.push(PolicyViolation {
                        namespace: job.namespace.to_string(),
                        job: job.name.to_string(),
                        policies,
                        message: message.to_owned(),
                    });
                }
            }
        }
        by_object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted_by_policy_and_removed_with_their_job() {
        let violations = JobViolations::default();
        let denied = |ids: &[&str]| {
            let ids = ids.iter().map(|id| ((*id).to_owned(), "why".to_owned()));
            ids.collect()
        };
        for n in 0..30 {
            violations.set(
                &Key::new("ns", &format!("j{n:02}")),
                denied(&["x/0", "x/1", "ns/y/0"]),
            );
        }
        let by_object = violations.by_object();
        assert_eq!(by_object["x"].count, 30);
        assert_eq!(by_object["x"].shown.len(), 20);
        assert_eq!(by_object["x"].shown[0].policies, ["x/0", "x/1"]);
        assert_eq!(by_object["ns/y"].count, 30);
        for n in 0..30 {
            violations.set(&Key::new("ns", &format!("j{n:02}")), denied(&[]));
        }
        assert!(violations.by_object().is_empty());
    }
}
