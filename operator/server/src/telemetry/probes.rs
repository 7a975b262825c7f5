//! Probes for the kubelet: whether the process must be restarted, and whether it can serve.
//!
//! The answers contain only the names of the process's own parts, because any client that reaches
//! the port may send a request. The port is separate: a client that floods the endpoint's port
//! cannot get the process killed.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use trellis_cache::Cache;
use trellis_machine::clock;

use super::{ActiveLeader, LeaderSlot};
use crate::serve;
use crate::serve::{ConnectionLimits, Identity};
use crate::webhook::Readiness;

/// A kubelet probes every few seconds, each time with a new connection. If the network hides client
/// addresses, all other clients may share its address. Then the server must answer the kubelet's
/// probe before this many further connections arrive.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 128,
    head_bytes: 8 << 10,
    head_timeout: Duration::from_secs(2),
    max_age: Duration::from_secs(5),
    shutdown_timeout: Duration::from_secs(2),
};

/// State of the leader, and the admission webhook of this process, if it has one.
type ProbeState = (LeaderSlot, Option<Readiness>);

/// Serves the probes as long as the future is polled.
pub async fn serve_probes(address: SocketAddr, lead: LeaderSlot, webhook: Option<Readiness>) {
    let listener = serve::bind(address, "health").await;
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state((lead, webhook));
    let on = CancellationToken::new();
    serve::serve(listener, LIMITS, None, None, router, on).await;
}

async fn livez(State((lead, _)): State<ProbeState>) -> (StatusCode, String) {
    probe_response("livez", &liveness_checks(lead.read().as_ref()))
}

async fn readyz(State((lead, webhook)): State<ProbeState>) -> (StatusCode, String) {
    let mut checks = readiness_checks(lead.read().as_ref());
    checks.extend(webhook_checks(webhook.as_ref(), clock::now()));
    probe_response("readyz", &checks)
}

fn probe_response(path: &str, checks: &[ProbeCheck]) -> (StatusCode, String) {
    let (is_well, text) = render_checks(path, checks);
    match is_well {
        true => (StatusCode::OK, text),
        // The API server uses this code, too.
        false => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The scheduler handles its events at least once a minute. After this long without that, it hangs.
const HANG_AFTER: Duration = Duration::from_secs(300);

/// A part, and its problem. None: it works.
type ProbeCheck = (&'static str, Option<String>);

/// Checks whether the process works or needs a restart. A standby replica counts as working.
fn liveness_checks(leading: Option<&ActiveLeader>) -> Vec<ProbeCheck> {
    let Some(ActiveLeader { context, .. }) = leading else {
        return vec![("ping", None)];
    };
    let idle = context.scheduler_pulse.age();
    // Until all kinds are listed, the scheduler has nothing to do.
    let hangs = context.cache.is_synced() && idle > HANG_AFTER;
    let hangs = hangs.then(|| format!("it has handled no event for {} s", idle.as_secs()));
    vec![("ping", None), ("scheduler", hangs)]
}

/// Checks whether the process knows the cluster's state. A standby replica counts as ready.
fn readiness_checks(leading: Option<&ActiveLeader>) -> Vec<ProbeCheck> {
    let Some(ActiveLeader { context, commands }) = leading else {
        return vec![("ping", None)];
    };
    let lease = commands.epoch().err().map(|error| error.to_string());
    vec![
        ("lease", lease),
        ("caches", unsynced_caches(&context.cache)),
        ("watches", stalled_watch(&context.cache)),
    ]
}

/// Checks whether the process can answer reviews, because an API server sends them to ready
/// replicas. No step to readiness (certificate, reading the cluster, leader election) depends on
/// readiness itself, so no deadlock is possible. The endpoint's certificate does not count, because
/// the webhook answers without it. A replica with a stalled watch judges no job, but another
/// replica may. If all replicas are unready, jobs pass without review, as they would with stalled
/// watches.
fn webhook_checks(webhook: Option<&Readiness>, now: Timestamp) -> Vec<ProbeCheck> {
    let Some(webhook) = webhook else {
        return Vec::new();
    };
    let caches = match webhook.is_complete() {
        false => Some("not all that answers hang on has been listed yet".to_owned()),
        true => webhook.stalled_watch().map(stalled_watch_message),
    };
    vec![
        (
            "webhook-certificate",
            certificate_problem(webhook.identity(), now),
        ),
        ("webhook-caches", caches),
    ]
}

fn certificate_problem(identity: &Identity, now: Timestamp) -> Option<String> {
    match identity.expiry() {
        None => Some("there is none yet; the log says why".to_owned()),
        Some(ends) if ends <= now => Some(format!("it has ended at {ends}; the log says why")),
        Some(_) => None,
    }
}

fn unsynced_caches(cache: &Cache) -> Option<String> {
    (!cache.is_synced()).then(|| "not all that is watched has been listed yet".to_owned())
}

fn stalled_watch(cache: &Cache) -> Option<String> {
    cache.stale_watch().map(stalled_watch_message)
}

fn stalled_watch_message(kind: String) -> String {
    format!("the watch of {kind} has been silent for minutes")
}

/// Returns the overall result and a line for each part, in the API server's format.
fn render_checks(path: &str, checks: &[ProbeCheck]) -> (bool, String) {
    let is_well = checks.iter().all(|(_, wrong)| wrong.is_none());
    let mut text = String::new();
    for (name, wrong) in checks {
        // Writing to a String does not fail.
        let _ = match wrong {
            None => writeln!(text, "[+]{name} ok"),
            Some(wrong) => writeln!(text, "[-]{name} failed: {wrong}"),
        };
    }
    let verdict = match is_well {
        true => "passed",
        false => "failed",
    };
    let _ = writeln!(text, "{path} check {verdict}");
    (is_well, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::Client;
    use trellis_dispatch::commands::Commands;
    use trellis_dispatch::context::Context;
    use trellis_dispatch::leader::Leadership;
    use trellis_policies::cedar::PolicyLoader;

    use super::*;
    use crate::serve::{CertificateSource, ReloadingCertificate};

    fn leading(left: Duration) -> ActiveLeader {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (context, _heard) = Context::new();
        context.cache.mark_kind_synced();
        ActiveLeader {
            context,
            commands: Commands::new(client, Leadership::with_remaining(left)),
        }
    }

    fn rendered(path: &str, checks: &[ProbeCheck]) -> (bool, String) {
        render_checks(path, checks)
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_fails_only_when_the_scheduler_hangs() {
        let leading = leading(Duration::from_secs(3600));
        assert!(rendered("livez", &liveness_checks(Some(&leading))).0);
        tokio::time::advance(HANG_AFTER).await;
        assert!(rendered("livez", &liveness_checks(Some(&leading))).0);
        tokio::time::advance(Duration::from_secs(1)).await;
        let (is_well, text) = rendered("livez", &liveness_checks(Some(&leading)));
        assert!(!is_well);
        assert_eq!(
            text,
            "[+]ping ok\n[-]scheduler failed: it has handled no event for 301 s\n\
             livez check failed\n"
        );
        leading.context.scheduler_pulse.beat();
        assert!(rendered("livez", &liveness_checks(Some(&leading))).0);
        assert!(
            rendered("livez", &liveness_checks(None)).0,
            "one that stands by"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn replica_with_a_lost_lease_or_broken_watch_is_not_ready() {
        let blind = leading(Duration::from_secs(3600));
        let _pods = blind.context.cache.pulse("pods");
        assert!(rendered("readyz", &readiness_checks(Some(&blind))).0);
        tokio::time::advance(Duration::from_secs(181)).await;
        let (is_well, text) = rendered("readyz", &readiness_checks(Some(&blind)));
        assert!(!is_well && text.contains("[-]watches failed: the watch of pods has been silent"));
        let lost = leading(Duration::ZERO);
        let (is_well, text) = rendered("readyz", &readiness_checks(Some(&lost)));
        assert!(!is_well && text.contains("[-]lease failed"), "{text}");
        assert!(rendered("readyz", &readiness_checks(None)).0);
    }

    /// Returns a context whose cache has policies, or none.
    fn context_with(with_policies: bool) -> Arc<Context> {
        let (context, _) = Context::new();
        context.cache.mark_kind_synced();
        if with_policies {
            let (policies, _) = PolicyLoader::new().unwrap().load(None, Vec::new());
            context.cache.policies.replace(Arc::new(policies));
        }
        context
    }

    fn webhook_readiness(webhook: Option<&Readiness>, now: Timestamp) -> (bool, String) {
        rendered("readyz", &webhook_checks(webhook, now))
    }

    #[test]
    fn replica_without_a_valid_webhook_certificate_is_not_ready() {
        let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
        let own = ReloadingCertificate::new(own).unwrap().identity();
        let now = clock::now();
        let nobody = webhook_readiness(None, now);
        assert_eq!(nobody, (true, "readyz check passed\n".to_owned()));

        let none = Readiness::for_context(Identity::default(), context_with(true));
        let without = "[-]webhook-certificate failed: there is none yet; the log says why\n\
            [+]webhook-caches ok\nreadyz check failed\n";
        assert_eq!(
            webhook_readiness(Some(&none), now),
            (false, without.to_owned())
        );
        let last = own.expiry().unwrap();
        let webhook = Readiness::for_context(own, context_with(true));
        assert!(webhook_readiness(Some(&webhook), now).0);
        assert!(
            !webhook_readiness(Some(&webhook), last).0,
            "its last second is over"
        );
    }

    /// A new replica would answer that it has not read the cluster yet.
    #[test]
    fn replica_with_unsynced_webhook_caches_is_not_ready() {
        let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
        let own = ReloadingCertificate::new(own).unwrap().identity();
        let now = clock::now();
        let webhook = Readiness::for_context(own.clone(), context_with(false));
        let expected = "[+]webhook-certificate ok\n[-]webhook-caches failed: \
            not all that answers hang on has been listed yet\nreadyz check failed\n";
        assert_eq!(
            webhook_readiness(Some(&webhook), now),
            (false, expected.to_owned())
        );
        let (unlisted, _) = Context::new();
        let webhook = Readiness::for_context(own, unlisted);
        assert!(!webhook_readiness(Some(&webhook), now).0);
    }

    /// The replica would answer that its data are minutes old.
    #[tokio::test(start_paused = true)]
    async fn replica_with_a_stalled_webhook_watch_is_not_ready() {
        let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
        let own = ReloadingCertificate::new(own).unwrap().identity();
        let context = context_with(true);
        let namespaces = context.cache.pulse("namespaces");
        let webhook = Readiness::for_context(own, context);
        tokio::time::advance(Duration::from_secs(179)).await;
        assert!(webhook_readiness(Some(&webhook), clock::now()).0);
        tokio::time::advance(Duration::from_secs(2)).await;
        let (is_well, text) = webhook_readiness(Some(&webhook), clock::now());
        let stalled =
            "[-]webhook-caches failed: the watch of namespaces has been silent for minutes";
        assert!(!is_well && text.contains(stalled), "{text}");
        namespaces.beat();
        assert!(webhook_readiness(Some(&webhook), clock::now()).0);
    }

    /// When the endpoint's certificate expires, the webhook must stay ready: it does not need the
    /// endpoint.
    #[tokio::test]
    async fn readiness_ignores_the_endpoint_certificate() {
        let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
        let own = ReloadingCertificate::new(own).unwrap().identity();
        let webhook = Readiness::for_context(own, context_with(true));
        let (code, text) = readyz(State((LeaderSlot::default(), Some(webhook)))).await;
        assert_eq!(code, StatusCode::OK);
        assert_eq!(
            text,
            "[+]ping ok\n[+]webhook-certificate ok\n[+]webhook-caches ok\nreadyz check passed\n"
        );
    }
}
