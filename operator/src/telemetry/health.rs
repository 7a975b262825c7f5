//! What a kubelet asks: whether the process is to be started again, and whether it can be asked.
//!
//! Neither tells anything but names of its own parts, since whoever reaches the port may ask. It
//! is a port of its own: whoever keeps that of the endpoint busy must not have the process killed.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{Lead, Leading};
use crate::serve::{self, Identity, Limits};
use crate::world::World;

/// A kubelet asks every few seconds, and takes a new connection each time.
const LIMITS: Limits = Limits {
    connections: 16,
    head: Duration::from_secs(2),
    life: Duration::from_secs(5),
    last: Duration::from_secs(2),
};

/// The certificates by which API servers know this process, leader or not. None: they do not
/// come here.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// The admission webhook's.
    pub webhook: Option<Identity>,
    /// The endpoint's, where it serves their API group.
    pub endpoint: Option<Identity>,
}

/// Answers for as long as it is polled.
pub async fn answer(address: SocketAddr, lead: Lead, identities: Identities) {
    let listener = serve::bind(address, "health").await;
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state((lead, identities));
    serve::serve_plain(listener, LIMITS, router, CancellationToken::new()).await;
}

async fn livez(State((lead, _)): State<(Lead, Identities)>) -> (StatusCode, String) {
    told("livez", &live(lead.read().as_ref()))
}

async fn readyz(State((lead, identities)): State<(Lead, Identities)>) -> (StatusCode, String) {
    let mut checks = ready(lead.read().as_ref());
    checks.extend(certificates(&identities, Timestamp::now()));
    told("readyz", &checks)
}

fn told(path: &str, checks: &[Check]) -> (StatusCode, String) {
    let (is_well, text) = report(path, checks);
    match is_well {
        true => (StatusCode::OK, text),
        // The API server's own code for it.
        false => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// The scheduler looks at its news at least once a minute. Where it has not for so long it hangs.
const HANGS: Duration = Duration::from_secs(300);

/// One part, and what is wrong with it. None: nothing.
type Check = (&'static str, Option<String>);

/// Whether the process does what it should, or must be started again. One that stands by does.
fn live(leading: Option<&Leading>) -> Vec<Check> {
    let Some(Leading { world, .. }) = leading else {
        return vec![("ping", None)];
    };
    let idle = world.scheduler.age();
    // Until all is listed it has nothing to look at.
    let hangs = world.is_synced() && idle > HANGS;
    let hangs = hangs.then(|| format!("it has not looked at its news for {} s", idle.as_secs()));
    vec![("ping", None), ("scheduler", hangs)]
}

/// Whether the process knows what it is asked about. One that stands by is ready to lead.
fn ready(leading: Option<&Leading>) -> Vec<Check> {
    let Some(Leading { world, commands }) = leading else {
        return vec![("ping", None)];
    };
    let lease = commands.epoch().err().map(|error| error.to_string());
    vec![
        ("lease", lease),
        ("caches", unlisted(world)),
        ("watches", stale(world)),
    ]
}

/// An API server sends its requests to who is ready. Nobody waits for that to make a certificate,
/// or to lead: with none, or one that has ended, there is a way back.
fn certificates(identities: &Identities, now: Timestamp) -> Vec<Check> {
    let of = |name, identity: &Option<Identity>| Some((name, unusable(identity.as_ref()?, now)));
    let all = [
        of("webhook-certificate", &identities.webhook),
        of("endpoint-certificate", &identities.endpoint),
    ];
    all.into_iter().flatten().collect()
}

fn unusable(identity: &Identity, now: Timestamp) -> Option<String> {
    match identity.ends() {
        None => Some("there is none yet; the log says why".to_owned()),
        Some(ends) if ends <= now => Some(format!("it has ended at {ends}; the log says why")),
        Some(_) => None,
    }
}

fn unlisted(world: &World) -> Option<String> {
    (!world.is_synced()).then(|| "not all that is watched has been listed yet".to_owned())
}

fn stale(world: &World) -> Option<String> {
    let kind = world.unseen()?;
    Some(format!("nothing has been heard of {kind} for minutes"))
}

/// Whether all is well, and a line for each part, as the API server writes them.
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
    use super::*;
    use crate::commands::Commands;
    use crate::leader::Leadership;
    use crate::serve::{Certificate, Tls};
    use kube::Client;

    fn leading(left: Duration) -> Leading {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (world, _heard) = World::of(crate::watch::Unhealthy::default(), 0);
        Leading {
            world,
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
        leading.world.scheduler.beat();
        assert!(says("livez", &live(Some(&leading))).0);
        assert!(says("livez", &live(None)).0, "one that stands by");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_lost_its_lease_or_sees_nothing_is_not_ready() {
        let blind = leading(Duration::from_secs(3600));
        let _pods = blind.world.pulse("pods");
        assert!(says("readyz", &ready(Some(&blind))).0);
        tokio::time::advance(Duration::from_secs(181)).await;
        let (is_well, text) = says("readyz", &ready(Some(&blind)));
        assert!(!is_well && text.contains("[-]watches failed: nothing has been heard of pods"));
        let lost = leading(Duration::ZERO);
        let (is_well, text) = says("readyz", &ready(Some(&lost)));
        assert!(!is_well && text.contains("[-]lease failed"), "{text}");
        assert!(says("readyz", &ready(None)).0);
    }

    #[test]
    fn who_has_no_certificate_for_api_servers_or_one_that_has_ended_is_not_ready() {
        let own = || {
            let own = Certificate::Own(vec!["localhost".to_owned()]);
            Tls::new(own).unwrap().identity()
        };
        let now = Timestamp::now();
        let asked = |identities: &Identities, now| says("readyz", &certificates(identities, now));
        let nobody = asked(&Identities::default(), now);
        assert_eq!(nobody, (true, "readyz check passed\n".to_owned()));

        let mut identities = Identities {
            webhook: Some(Identity::default()),
            endpoint: Some(own()),
        };
        let without = "[-]webhook-certificate failed: there is none yet; the log says why\n\
            [+]endpoint-certificate ok\nreadyz check failed\n";
        assert_eq!(asked(&identities, now), (false, without.to_owned()));
        let webhook = own();
        identities.webhook = Some(webhook.clone());
        assert!(asked(&identities, now).0);
        let last = webhook.ends().unwrap();
        assert!(!asked(&identities, last).0, "its last second is over");
        identities.webhook = None;
        identities.endpoint = Some(Identity::default());
        let (is_well, text) = asked(&identities, now);
        assert!(
            !is_well && text.starts_with("[-]endpoint-certificate"),
            "{text}"
        );
    }
}
