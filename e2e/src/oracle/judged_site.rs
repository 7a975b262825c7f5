//! A site that the oracle judges until its test ends.

use std::sync::Arc;
use std::thread;

use trellis_verify::Rule;

use super::Oracle;

/// A site's part of the oracle.
#[derive(Debug)]
pub(crate) struct JudgedSite {
    oracle: Arc<Oracle>,
    name: String,
    has_ended: bool,
}

impl JudgedSite {
    pub(crate) fn new(oracle: Arc<Oracle>, name: &str) -> Self {
        oracle.enter(name);
        Self {
            oracle,
            name: name.to_owned(),
            has_ended: false,
        }
    }

    /// Ends the judgement, and returns the promises that Trellis has broken.
    pub(crate) fn end(&mut self) -> Vec<String> {
        self.has_ended = true;
        self.oracle.leave(&self.name)
    }

    /// Lets the test break a rule.
    pub(crate) fn expect(&self, rule: Rule) {
        self.oracle.update(&self.name, |site| {
            site.expected.insert(rule);
        });
    }

    /// Judges the site by the objects of another namespace, too.
    pub(crate) fn add_namespace(&self, namespace: &str) {
        self.oracle.update(&self.name, |site| {
            site.namespaces.insert(namespace.to_owned());
        });
    }
}

impl Drop for JudgedSite {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if thread::panicking() {
            // The test fails by itself.
            self.oracle.update(&self.name, |site| site.has_ended = true);
            return;
        }
        let problems = self.end();
        assert!(
            problems.is_empty(),
            "site {:?}: Trellis has broken promises:\n{}",
            self.name,
            problems.join("\n")
        );
    }
}
