//! Judges every control plane that has a test site by the rules of `trellis-verify`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kube::{Client, Config};
use trellis_verify::{ClusterWatch, Finding, Health, Rule};

use crate::operator::NAMESPACE;

/// Time after a fault in which Trellis may still wait to try again.
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Pause before the watches start again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The faults that tests inject into one control plane and its clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultLog(Arc<Mutex<FaultTimes>>);

#[derive(Debug, Default)]
struct FaultTimes {
    active: usize,
    last_end: Option<Instant>,
}

/// A fault that lasts until this value is dropped.
#[derive(Debug)]
pub(crate) struct ActiveFault(FaultLog);

impl FaultLog {
    /// Records the begin of a fault.
    pub(crate) fn begin(&self) -> ActiveFault {
        self.times().active += 1;
        ActiveFault(self.clone())
    }

    fn health(&self) -> Health {
        let times = self.times();
        let is_settling = times
            .last_end
            .is_some_and(|end| end.elapsed() < SETTLE_TIME);
        match times.active > 0 || is_settling {
            true => Health::Unhealthy,
            false => Health::Healthy,
        }
    }

    fn times(&self) -> MutexGuard<'_, FaultTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        let mut times = self.0.times();
        times.active -= 1;
        times.last_end = Some(Instant::now());
    }
}

/// Watches a control plane on a thread of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Oracle {
    state: Arc<Mutex<OracleState>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct OracleState {
    findings: Vec<Finding>,
    /// Names of the sites that tests still use.
    sites: BTreeSet<String>,
}

impl Oracle {
    pub(crate) fn start(config: Config, faults: FaultLog) -> Self {
        let state = Arc::new(Mutex::new(OracleState::default()));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&is_stopped));
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
                        judge(&client, &faults, &shared, &stopped).await;
                        tokio::time::sleep(RESTART_PAUSE).await;
                    }
                });
            })
            .expect("a thread");
        Self { state, is_stopped }
    }

    /// Records that a test uses the site.
    pub(crate) fn enter(&self, site: &str) {
        lock(&self.state).sites.insert(site.to_owned());
    }

    /// Records that the test has ended. Returns the findings about its objects, and about objects of
    /// earlier tests.
    pub(crate) fn leave(&self, site: &str) -> Vec<Finding> {
        let mut state = lock(&self.state);
        state.sites.remove(site);
        let OracleState { findings, sites } = &mut *state;
        let is_of_others = |finding: &mut Finding| {
            let name = &finding.object.name;
            let is_of = |site: &String| {
                name.namespace == *site || name.namespace.is_empty() && name.name.starts_with(site)
            };
            !sites.iter().any(is_of)
        };
        findings.extract_if(.., is_of_others).collect()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn lock(state: &Mutex<OracleState>) -> MutexGuard<'_, OracleState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn judge(
    client: &Client,
    faults: &FaultLog,
    state: &Mutex<OracleState>,
    stopped: &AtomicBool,
) {
    // The control plane may be down, or not have the kinds of Trellis yet.
    let Ok(mut watch) = ClusterWatch::start(client, NAMESPACE).await else {
        return;
    };
    while !stopped.load(Ordering::Relaxed) {
        for finding in watch.step(faults.health()).await {
            eprintln!("broken promise: {finding}");
            lock(state).findings.push(finding);
        }
    }
}

/// A site's part of the oracle.
#[derive(Debug)]
pub(crate) struct JudgedSite {
    oracle: Arc<Oracle>,
    name: String,
    expected: Mutex<BTreeSet<Rule>>,
}

impl JudgedSite {
    pub(crate) fn new(oracle: Arc<Oracle>, name: &str) -> Self {
        oracle.enter(name);
        Self {
            oracle,
            name: name.to_owned(),
            expected: Mutex::default(),
        }
    }

    /// Lets the test break a rule.
    pub(crate) fn expect(&self, rule: Rule) {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.insert(rule);
    }
}

impl Drop for JudgedSite {
    fn drop(&mut self) {
        let mut findings = self.oracle.leave(&self.name);
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        findings.retain(|finding| !expected.contains(&finding.rule));
        if findings.is_empty() || thread::panicking() {
            return;
        }
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        panic!("Trellis has broken promises:\n{}", lines.join("\n"));
    }
}
