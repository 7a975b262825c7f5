//! Probes for the kubelet: whether the process must be restarted, and whether it can serve.
//!
//! The answers contain only names of the process's own parts, because any client that reaches the
//! port may ask. The port is separate, so that a client that floods the endpoint's port cannot have
//! the process killed.

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

use super::{Lead, Leading};
use crate::serve;
use crate::serve::{Identity, Limits};
use crate::webhook::Readiness;

/// A kubelet probes every few seconds, each time with a new connection. If the network hides client
/// addresses, all other clients may share its address. Then its probe must be answered before so
/// many more connections arrive.
const LIMITS: Limits = Limits {
    connections: 128,
    head_bytes: 8 << 10,
    head: Duration::from_secs(2),
    life: Duration::from_secs(5),
    last: Duration::from_secs(2),
};

/// State of the leader, and the admission webhook of this process, if it has one.
type Asked = (Lead, Option<Readiness>);

/// Serves the probes for as long as it is polled.
pub async fn answer(address: SocketAddr, lead: Lead, webhook: Option<Readiness>) {
    let listener = serve::bind(address, "health").await;
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state((lead, webhook));
    let on = CancellationToken::new();
    serve::serve(listener, LIMITS, None, None, router, on).await;
}

async fn livez(State((lead, _)): State<Asked>) -> (StatusCode, String) {
    told("livez", &live(lead.read().as_ref()))
}

async fn readyz(State((lead, webhook)): State<Asked>) -> (StatusCode, String) {
    let mut checks = ready(lead.read().as_ref());
    checks.extend(reviews(webhook.as_ref(), Timestamp::now()));
    told("readyz", &checks)
}

fn told(path: &str, checks: &[Check]) -> (StatusCode, String) {
    let (is_well, text) = report(path, checks);
    match is_well {
        true => (StatusCode::OK, text),
        // The code that the API server uses, too.
        false => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The scheduler works on its events at least once a minute. If it has not for so long, it hangs.
const HANGS: Duration = Duration::from_secs(300);

/// A part, and its problem. None: it works.
type Check = (&'static str, Option<String>);

/// Checks whether the process works or has to be restarted. A standby replica works.
fn live(leading: Option<&Leading>) -> Vec<Check> {
    let Some(Leading { context, .. }) = leading else {
        return vec![("ping", None)];
    };
    let idle = context.scheduler.age();
    // Before everything is listed, the scheduler has nothing to do.
    let hangs = context.cache.is_synced() && idle > HANGS;
    let hangs = hangs.then(|| format!("it has not looked at its news for {} s", idle.as_secs()));
    vec![("ping", None), ("scheduler", hangs)]
}

/// Checks whether the process knows the cluster's state. A standby replica is ready.
fn ready(leading: Option<&Leading>) -> Vec<Check> {
    let Some(Leading { context, commands }) = leading else {
        return vec![("ping", None)];
    };
    let lease = commands.epoch().err().map(|error| error.to_string());
    vec![
        ("lease", lease),
        ("caches", unlisted(&context.cache)),
        ("watches", stale(&context.cache)),
    ]
}

/// Checks whether the process can answer reviews, because an API server sends them to ready
/// replicas. Making a certificate, reading the cluster and becoming leader never depend on this
/// readiness, so no deadlock is possible. The endpoint's certificate is left out: the webhook
/// answers without it. A replica with a stalled watch judges no job, but another one may. If all of
/// them are unready, jobs pass as they would have.
fn reviews(webhook: Option<&Readiness>, now: Timestamp) -> Vec<Check> {
    let Some(webhook) = webhook else {
        return Vec::new();
    };
    let caches = match webhook.knows_all() {
        false => Some("not all that answers hang on has been listed yet".to_owned()),
        true => webhook.unseen().map(unheard),
    };
    vec![
        ("webhook-certificate", unusable(webhook.identity(), now)),
        ("webhook-caches", caches),
    ]
}

fn unusable(identity: &Identity, now: Timestamp) -> Option<String> {
    match identity.ends() {
        None => Some("there is none yet; the log says why".to_owned()),
        Some(ends) if ends <= now => Some(format!("it has ended at {ends}; the log says why")),
        Some(_) => None,
    }
}

fn unlisted(cache: &Cache) -> Option<String> {
    (!cache.is_synced()).then(|| "not all that is watched has been listed yet".to_owned())
}

fn stale(cache: &Cache) -> Option<String> {
    cache.unseen().map(unheard)
}

fn unheard(kind: String) -> String {
    format!("nothing has been heard of {kind} for minutes")
}

/// Overall result, and a line for each part, in the format of the API server.
fn report(path: &str, checks: &[Check]) -> (bool, String) {
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
    use trellis_policies::cedar::Loader;

    use super::*;
    use crate::serve::{Certificate, Tls};

    fn leading(left: Duration) -> Leading {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (context, _heard) = Context::of(trellis_gang::observed::Unhealthy::default(), 0);
        Leading {
            context,
            commands: Commands::new(client, Leadership::with_left(left)),
        }
    }

    fn says(path: &str, checks: &[Check]) -> (bool, String) {
        report(path, checks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_that_hangs_is_started_again_and_one_that_waits_is_not() {
        let leading = leading(Duration::from_secs(3600));
        assert!(says("livez", &live(Some(&leading))).0);
        tokio::time::advance(HANGS).await;
        assert!(says("livez", &live(Some(&leading))).0);
        tokio::time::advance(Duration::from_secs(1)).await;
        let (is_well, text) = says("livez", &live(Some(&leading)));
        assert!(!is_well);
        assert_eq!(
            text,
            "[+]ping ok\n[-]scheduler failed: it has not looked at its news for 301 s\n\
             livez check failed\n"
        );
        leading.context.scheduler.beat();
        assert!(says("livez", &live(Some(&leading))).0);
        assert!(says("livez", &live(None)).0, "one that stands by");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_lost_its_lease_or_sees_nothing_is_not_ready() {
        let blind = leading(Duration::from_secs(3600));
        let _pods = blind.context.cache.pulse("pods");
        assert!(says("readyz", &ready(Some(&blind))).0);
        tokio::time::advance(Duration::from_secs(181)).await;
        let (is_well, text) = says("readyz", &ready(Some(&blind)));
        assert!(!is_well && text.contains("[-]watches failed: nothing has been heard of pods"));
        let lost = leading(Duration::ZERO);
        let (is_well, text) = says("readyz", &ready(Some(&lost)));
        assert!(!is_well && text.contains("[-]lease failed"), "{text}");
        assert!(says("readyz", &ready(None)).0);
    }

    /// A context whose cache has policies, or none.
    fn known(with_policies: bool) -> Arc<Context> {
        let (context, _) = Context::of(trellis_gang::observed::Unhealthy::default(), 0);
        if with_policies {
            let (policies, _) = Loader::new().unwrap().load(None, Vec::new());
            context.cache.policies.replace(Arc::new(policies));
        }
        context
    }

    fn asked(webhook: Option<&Readiness>, now: Timestamp) -> (bool, String) {
        says("readyz", &reviews(webhook, now))
    }

    #[test]
    fn whose_webhook_has_no_certificate_or_one_that_has_ended_is_not_ready() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let own = Tls::new(own).unwrap().identity();
        let now = Timestamp::now();
        let nobody = asked(None, now);
        assert_eq!(nobody, (true, "readyz check passed\n".to_owned()));

        let none = Readiness::of(Identity::default(), known(true));
        let without = "[-]webhook-certificate failed: there is none yet; the log says why\n\
            [+]webhook-caches ok\nreadyz check failed\n";
        assert_eq!(asked(Some(&none), now), (false, without.to_owned()));
        let last = own.ends().unwrap();
        let webhook = Readiness::of(own, known(true));
        assert!(asked(Some(&webhook), now).0);
        assert!(!asked(Some(&webhook), last).0, "its last second is over");
    }

    /// A fresh replica would answer that the cluster has not been read yet.
    #[test]
    fn whose_webhook_has_not_read_the_cluster_is_not_ready() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let own = Tls::new(own).unwrap().identity();
        let now = Timestamp::now();
        let webhook = Readiness::of(own.clone(), known(false));
        let unread = "[+]webhook-certificate ok\n[-]webhook-caches failed: \
            not all that answers hang on has been listed yet\nreadyz check failed\n";
        assert_eq!(asked(Some(&webhook), now), (false, unread.to_owned()));
        let (unlisted, _) = Context::of(trellis_gang::observed::Unhealthy::default(), 1);
        let webhook = Readiness::of(own, unlisted);
        assert!(!asked(Some(&webhook), now).0);
    }

    /// It would answer that what it knows is minutes old.
    #[tokio::test(start_paused = true)]
    async fn whose_webhook_has_heard_nothing_for_minutes_is_not_ready_until_it_does() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let own = Tls::new(own).unwrap().identity();
        let context = known(true);
        let namespaces = context.cache.pulse("namespaces");
        let webhook = Readiness::of(own, context);
        tokio::time::advance(Duration::from_secs(179)).await;
        assert!(asked(Some(&webhook), Timestamp::now()).0);
        tokio::time::advance(Duration::from_secs(2)).await;
        let (is_well, text) = asked(Some(&webhook), Timestamp::now());
        let stalled = "[-]webhook-caches failed: nothing has been heard of namespaces for minutes";
        assert!(!is_well && text.contains(stalled), "{text}");
        namespaces.beat();
        assert!(asked(Some(&webhook), Timestamp::now()).0);
    }

    /// An end of the endpoint's certificate is not to take the webhook away too: nothing is asked
    /// of the endpoint.
    #[tokio::test]
    async fn readiness_asks_of_the_webhook_alone_whether_one_leads_or_not() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let own = Tls::new(own).unwrap().identity();
        let webhook = Readiness::of(own, known(true));
        let (code, text) = readyz(State((Lead::default(), Some(webhook)))).await;
        assert_eq!(code, StatusCode::OK);
        assert_eq!(
            text,
            "[+]ping ok\n[+]webhook-certificate ok\n[+]webhook-caches ok\nreadyz check passed\n"
        );
    }
}
