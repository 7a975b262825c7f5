//! Judges every control plane that has a test site by the rules of `trellis-verify`.

mod fault_log;
mod judged_site;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Client, Config};
use trellis_verify::{ClusterWatch, Finding, Rule};

use crate::operator::NAMESPACE;

pub use fault_log::ActiveFault;
pub(crate) use fault_log::FaultLog;
pub(crate) use judged_site::JudgedSite;

/// Pause before the watches start again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Time that a change waits for earlier changes of other kinds. The API server is on this machine,
/// and each test waits this long at its end.
const ORDERING_DELAY: SignedDuration = SignedDuration::from_secs(1);
/// Time in which the watches bring a change to the oracle.
const ARRIVAL_TIME: SignedDuration = SignedDuration::from_millis(200);
/// Longest waits at the end of a test. The judgement of a thousand pods takes seconds on a busy
/// machine.
const TIMEOUTS: Timeouts = Timeouts {
    judge: Duration::from_secs(30),
    start: Duration::from_secs(20),
};

/// Watches a control plane on a thread of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Oracle {
    judgement: Arc<Judgement>,
    faults: FaultLog,
    is_stopped: Arc<AtomicBool>,
    timeouts: Timeouts,
}

/// Longest waits at the end of a test.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// For the judgement of its last changes.
    judge: Duration,
    /// For the first judgement of its control plane.
    start: Duration,
}

/// The state that the oracle's thread shares with the tests.
#[derive(Debug, Default)]
struct Judgement {
    state: Mutex<OracleState>,
    /// Signals that the thread has judged more changes.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct OracleState {
    findings: Vec<Finding>,
    /// The sites of all tests, also of ended ones.
    sites: BTreeMap<String, SiteRecord>,
    /// The oracle has judged all changes before this time. None: it has not started.
    judged_until: Option<Timestamp>,
    /// Why the watches did not start.
    last_error: Option<String>,
}

/// The oracle's knowledge of one site.
#[derive(Debug)]
struct SiteRecord {
    since: Instant,
    /// Namespaces whose objects belong to the site.
    namespaces: BTreeSet<String>,
    /// Rules that the test breaks.
    expected: BTreeSet<Rule>,
    has_ended: bool,
}

impl OracleState {
    /// Returns the site of the object that a finding is about.
    fn find_site(&self, finding: &Finding) -> Option<(&str, &SiteRecord)> {
        let name = &finding.object.name;
        let is_of = |(site, record): &(&String, &SiteRecord)| match name.namespace.as_str() {
            // A site's nodes and queues bear its name.
            "" => name
                .name
                .strip_prefix(site.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
            namespace => record.namespaces.contains(namespace),
        };
        let site = self.sites.iter().find(is_of);
        site.map(|(site, record)| (site.as_str(), record))
    }

    /// Removes and describes the unexpected findings about a site, about sites of ended tests, and
    /// about objects of no site. A finding about a site that still runs stays for its own test.
    fn take_findings(&mut self, site: &str) -> Vec<String> {
        let mut described = Vec::new();
        let findings = std::mem::take(&mut self.findings);
        let mut kept = Vec::new();
        for finding in findings {
            match self.find_site(&finding) {
                Some((_, record)) if record.expected.contains(&finding.rule) => {}
                Some((name, _)) if name == site => described.push(finding.to_string()),
                Some((name, record)) if record.has_ended => described.push(format!(
                    "{finding}\n  in a namespace or on a node of site {name:?}, whose test has ended: \
                     the finding is about that test, and not about this one"
                )),
                Some(_) => kept.push(finding),
                None => described.push(format!(
                    "{finding}\n  the object belongs to no site, so it may be of another test"
                )),
            }
        }
        self.findings = kept;
        described
    }
}

impl Judgement {
    fn state(&self) -> MutexGuard<'_, OracleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the oracle has judged all changes up to now. Returns false if it does not in
    /// time.
    fn wait_until_judged(&self, timeouts: Timeouts) -> bool {
        let now = Timestamp::now();
        let wanted = now.saturating_add(ARRIVAL_TIME).unwrap_or(now);
        let start = Instant::now();
        let mut state = self.state();
        loop {
            if state.judged_until.is_some_and(|until| until >= wanted) {
                return true;
            }
            let at_most = match state.judged_until {
                Some(_) => timeouts.judge,
                None => timeouts.start,
            };
            let left = at_most.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Oracle {
    pub(crate) fn start(config: Config, faults: FaultLog) -> Self {
        let oracle = Self {
            judgement: Arc::default(),
            faults: faults.clone(),
            is_stopped: Arc::default(),
            timeouts: TIMEOUTS,
        };
        let judgement = Arc::clone(&oracle.judgement);
        let stopped = Arc::clone(&oracle.is_stopped);
        thread::Builder::new()
            .name("oracle".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime of one thread");
                runtime.block_on(async {
                    let client = Client::try_from(config).expect("the control plane is reachable");
                    while !stopped.load(Ordering::Relaxed) {
                        judge(&client, &faults, &judgement, &stopped).await;
                        tokio::time::sleep(RESTART_PAUSE).await;
                    }
                });
            })
            .expect("a thread");
        oracle
    }

    /// Records that a test uses the site.
    fn enter(&self, site: &str) {
        let record = SiteRecord {
            since: Instant::now(),
            namespaces: BTreeSet::from([site.to_owned()]),
            expected: BTreeSet::new(),
            has_ended: false,
        };
        self.judgement.state().sites.insert(site.to_owned(), record);
    }

    /// Changes what the oracle knows about a site.
    fn update(&self, site: &str, change: impl FnOnce(&mut SiteRecord)) {
        if let Some(record) = self.judgement.state().sites.get_mut(site) {
            change(record);
        }
    }

    /// Records that the test has ended, and waits until its last changes are judged. Returns the
    /// promises that Trellis has broken, and a line if the oracle could not judge an undisturbed
    /// control plane.
    fn leave(&self, site: &str) -> Vec<String> {
        let is_judged = self.judgement.wait_until_judged(self.timeouts);
        let mut state = self.judgement.state();
        let mut problems = state.take_findings(site);
        let since = state.sites.get_mut(site).map(|record| {
            record.has_ended = true;
            record.since
        });
        let was_disturbed = since.is_some_and(|since| self.faults.was_disturbed_since(since));
        if !is_judged && !was_disturbed {
            let error = state.last_error.as_deref();
            let error = error.unwrap_or("its watches are late");
            problems.push(format!("the oracle has not judged this test: {error}"));
        }
        problems
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

async fn judge(client: &Client, faults: &FaultLog, judgement: &Judgement, stopped: &AtomicBool) {
    let mut watch = match ClusterWatch::start(client, NAMESPACE).await {
        Ok(watch) => watch,
        Err(error) => {
            judgement.state().last_error = Some(error.to_string());
            return;
        }
    };
    watch.set_ordering_delay(ORDERING_DELAY);
    while !stopped.load(Ordering::Relaxed) {
        let findings = watch.step(faults.health()).await;
        let mut state = judgement.state();
        for finding in findings {
            eprintln!("broken promise: {finding}");
            state.findings.push(finding);
        }
        state.judged_until = Some(watch.judged_until());
        drop(state);
        judgement.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use trellis_verify::{ObjectName, ObjectRef};

    use super::*;

    /// Returns an oracle without a thread that has judged everything.
    fn oracle() -> Oracle {
        let oracle = Oracle {
            judgement: Arc::default(),
            faults: FaultLog::default(),
            is_stopped: Arc::default(),
            timeouts: Timeouts {
                judge: Duration::from_secs(2),
                start: Duration::ZERO,
            },
        };
        oracle.judgement.state().judged_until = Some(Timestamp::MAX);
        oracle
    }

    fn report(oracle: &Oracle, namespace: &str, name: &str) {
        let finding = Finding {
            rule: Rule::Torn,
            object: ObjectRef {
                kind: "TrainingJob",
                name: ObjectName {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                },
                uid: String::new(),
            },
            message: "it is torn".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            revision: None,
        };
        oracle.judgement.state().findings.push(finding);
    }

    #[test]
    fn finding_waits_for_the_test_of_its_own_site() {
        let oracle = oracle();
        for site in ["a-1", "a-12"] {
            oracle.enter(site);
        }
        oracle.update("a-12", |site| {
            site.namespaces.insert("other".into());
        });
        report(&oracle, "a-12", "j");
        report(&oracle, "", "a-12-0");
        report(&oracle, "other", "j");
        assert_eq!(oracle.leave("a-1"), Vec::<String>::new());
        assert_eq!(oracle.leave("a-12").len(), 3);
    }

    #[test]
    fn late_finding_names_the_site_of_the_ended_test() {
        let oracle = oracle();
        for site in ["ended", "runs"] {
            oracle.enter(site);
        }
        oracle.leave("ended");
        report(&oracle, "ended", "j");
        let problems = oracle.leave("runs");
        assert!(
            problems[0].contains("site \"ended\", whose test has ended"),
            "{problems:?}"
        );
    }

    #[test]
    fn expected_finding_fails_no_test_even_if_it_is_late() {
        let oracle = oracle();
        for site in ["ended", "runs"] {
            oracle.enter(site);
        }
        oracle.update("ended", |site| {
            site.expected.insert(Rule::Torn);
        });
        oracle.leave("ended");
        report(&oracle, "ended", "j");
        assert_eq!(oracle.leave("runs"), Vec::<String>::new());
    }

    #[test]
    fn test_that_the_oracle_cannot_judge_fails_unless_a_fault_explains_it() {
        let oracle = oracle();
        oracle.enter("site");
        let mut state = oracle.judgement.state();
        // The oracle has started once, and judges nothing new.
        state.judged_until = Some(Timestamp::UNIX_EPOCH);
        state.last_error = Some("cannot watch pods".to_owned());
        drop(state);
        let problems = oracle.leave("site");
        assert!(problems[0].contains("cannot watch pods"), "{problems:?}");
        let fault = oracle.faults.begin();
        assert_eq!(oracle.leave("site"), Vec::<String>::new());
        drop(fault);
        assert_eq!(oracle.leave("site"), Vec::<String>::new());
    }

    #[test]
    fn end_of_a_test_waits_for_the_judgement_of_its_last_changes() {
        let oracle = Arc::new(oracle());
        oracle.enter("site");
        oracle.judgement.state().judged_until = Some(Timestamp::UNIX_EPOCH);
        let judgement = Arc::clone(&oracle.judgement);
        let shared = Arc::clone(&oracle);
        let judge = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            report(&shared, "site", "j");
            judgement.state().judged_until = Some(Timestamp::MAX);
            judgement.progress.notify_all();
        });
        assert_eq!(oracle.leave("site").len(), 1);
        judge.join().unwrap();
    }
}
