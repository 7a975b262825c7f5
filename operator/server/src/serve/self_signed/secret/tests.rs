use std::collections::BTreeSet;

use super::super::issue::issue;
use super::*;

const LIFETIME: Duration = Duration::from_secs(3000);

fn names() -> Vec<String> {
    ["trellis-webhook.trellis-system.svc", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second.saturating_add(1_800_000_000)).unwrap()
}

fn issue_at(second: i64) -> IssuedCertificate {
    issue("trellis-webhook", &names(), at(second), LIFETIME).unwrap()
}

fn started_secret() -> CertificateSecret {
    let mut state = CertificateSecret::default();
    assert_eq!(state.next_step(&names(), at(0), None), RenewalStep::Begin);
    state.start(issue_at(0), at(0));
    state
}

#[test]
fn written_secret_reads_back() {
    let mut state = started_secret();
    state.prepare(issue_at(1), at(1));
    let mut data = BTreeMap::from([("other".to_owned(), ByteString(vec![1]))]);
    state.write(&mut data);
    assert_eq!(CertificateSecret::read(&data), state);
    assert_eq!(data.len(), 6, "what else is in it stays");
    let served = state.current().unwrap();
    assert_eq!(served.names, names());
    assert_eq!(served.not_after, at(3000));
    assert_eq!(served.not_before, at(-300), "clocks may be apart");
    state.swap(at(2));
    state.write(&mut data);
    assert_eq!(CertificateSecret::read(&data), state);
    assert_eq!(data.len(), 4);
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        let mut broken = data.clone();
        broken.insert(name.to_owned(), ByteString(b"-----BEGIN no".to_vec()));
        let read = CertificateSecret::read(&broken);
        assert_ne!(read, state, "{name}");
    }
    assert_eq!(
        CertificateSecret::read(&BTreeMap::new()),
        CertificateSecret::default()
    );
}

fn read_damaged(
    data: &BTreeMap<String, ByteString>,
    name: &str,
    replacement: Option<&[u8]>,
) -> CertificateSecret {
    let mut data = data.clone();
    match replacement {
        Some(bytes) => data.insert(name.to_owned(), ByteString(bytes.to_vec())),
        None => data.remove(name),
    };
    CertificateSecret::read(&data)
}

/// Returns the text with one letter of its body changed.
fn flip_letter(text: &[u8], at: usize) -> Vec<u8> {
    let mut text = text.to_vec();
    text[at] = if text[at] == b'A' { b'B' } else { b'A' };
    text
}

/// If a part of the shown certificate is damaged, the operator makes a new certificate, and then
/// there is nothing to do.
#[test]
fn damaged_certificate_counts_as_missing() {
    let written = |state: &CertificateSecret| {
        let mut data = BTreeMap::new();
        state.write(&mut data);
        data
    };
    let state = started_secret();
    let (data, other) = (written(&state), written(&started_secret()));
    let so_long = Some(Duration::from_secs(99));
    assert_eq!(
        state.next_step(&names(), at(1), so_long),
        RenewalStep::Nothing
    );
    for name in ["tls.key", "tls.crt", "ca.crt"] {
        let original = &data[name].0;
        for way in [None, Some(b"no".as_slice()), Some(&other[name].0)] {
            let mut read = read_damaged(&data, name, way);
            assert_eq!(
                read.next_step(&names(), at(1), so_long),
                RenewalStep::Begin,
                "{name}"
            );
            read.start(issue_at(1), at(1));
            assert_eq!(
                read.next_step(&names(), at(1), so_long),
                RenewalStep::Nothing
            );
            assert_eq!(CertificateSecret::read(&written(&read)), read, "{name}");
        }
        // The last letters do not count, because some of their bits carry no data.
        let body = original.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let foot = original
            .windows(4)
            .rposition(|four| four == b"-END")
            .unwrap();
        for letter in (body..foot - 10).filter(|at| original[*at].is_ascii_alphanumeric()) {
            let way = flip_letter(original, letter);
            let words = String::from_utf8_lossy(&way);
            let step = read_damaged(&data, name, Some(&way)).next_step(&names(), at(1), so_long);
            assert_eq!(step, RenewalStep::Begin, "{name}: {words}");
        }
    }
    // A further authority stays, and a damaged one is removed.
    let both = [&data["ca.crt"].0[..], &other["ca.crt"].0[..]].concat();
    assert_eq!(
        read_damaged(&data, "ca.crt", Some(&both)).authorities.len(),
        2
    );
    let half = [
        &data["ca.crt"].0[..],
        &flip_letter(&other["ca.crt"].0, 200)[..],
    ]
    .concat();
    assert_eq!(read_damaged(&data, "ca.crt", Some(&half)), state);
}

#[test]
fn damaged_next_certificate_is_issued_again() {
    let mut state = started_secret();
    let alone = state.trust_bundle();
    state.prepare(issue_at(1901), at(1901));
    let mut data = BTreeMap::new();
    state.write(&mut data);
    assert_eq!(
        state.next_step(&names(), at(1902), None),
        RenewalStep::Nothing
    );
    for (name, replacement) in [
        ("next.key", Some(b"no".as_slice())),
        ("next.crt", None),
        ("ca.crt", Some(alone.as_bytes())),
    ] {
        let mut read = read_damaged(&data, name, replacement);
        assert!(read.current().is_some(), "{name}");
        assert_eq!(
            read.next_step(&names(), at(1902), None),
            RenewalStep::Prepare,
            "{name}"
        );
        read.prepare(issue_at(1902), at(1902));
        assert_eq!(
            read.next_step(&names(), at(1902), None),
            RenewalStep::Nothing
        );
    }
}

#[test]
fn next_certificate_is_served_once_trusted_long_enough() {
    let mut state = started_secret();
    let step = |state: &CertificateSecret, second, trusted: Option<u64>| {
        state.next_step(&names(), at(second), trusted.map(Duration::from_secs))
    };
    // At 1901 less than a third of the lifetime is left.
    assert_eq!(step(&state, 1900, Some(9)), RenewalStep::Nothing);
    assert_eq!(step(&state, 1901, Some(9)), RenewalStep::Prepare);
    state.prepare(issue_at(1901), at(1901));
    assert_eq!(step(&state, 1902, None), RenewalStep::Nothing);
    assert_eq!(state.settle_time(), Duration::from_secs(60));
    assert_eq!(step(&state, 1902, Some(59)), RenewalStep::Nothing);
    assert_eq!(step(&state, 1902, Some(60)), RenewalStep::Swap);
    // An expired certificate is useless, so the next one need not be trusted yet.
    assert_eq!(step(&state, 3000, None), RenewalStep::Swap);
    let both = state.trust_bundle();
    state.swap(at(1970));
    assert_eq!(
        state.trust_bundle(),
        both,
        "others may show the first still"
    );
    assert_eq!(step(&state, 1970, Some(60)), RenewalStep::Nothing);
    // The first renewal after its expiry removes an authority.
    state.prepare(issue_at(3900), at(3900));
    assert_eq!(state.authorities.len(), 2);
    // No replica has read the Secret for a long time.
    let begun = started_secret();
    assert_eq!(step(&begun, 3000, Some(99)), RenewalStep::Begin);
}

#[test]
fn new_host_name_causes_a_renewal() {
    let mut state = started_secret();
    let mut more = names();
    more.push("webhook.example".to_owned());
    assert_eq!(state.next_step(&more, at(1), None), RenewalStep::Prepare);
    state.prepare(
        issue("trellis-webhook", &more, at(1), LIFETIME).unwrap(),
        at(1),
    );
    assert_eq!(state.next_step(&more, at(1), None), RenewalStep::Nothing);
    // A replica without this name in its options accepts the certificate.
    assert_eq!(state.next_step(&names(), at(1), None), RenewalStep::Nothing);
}

/// Three replicas read the Secret at intervals, and an API server learns of authorities with a
/// delay. No replica ever shows a certificate that the API server does not trust.
#[test]
fn replicas_serve_only_trusted_certificates() {
    let mut secret = BTreeMap::new();
    // The authorities that the API server will trust, and the time from which it does.
    let mut published: Vec<(i64, String)> = Vec::new();
    let mut shows: [Option<StoredCertificate>; 3] = Default::default();
    let mut since: [Option<(String, i64)>; 3] = Default::default();
    let mut served = BTreeSet::new();
    for second in (0..10_000_i64).step_by(5) {
        for replica in 0..3_usize {
            // Two replicas read the Secret every ten seconds, the third every fifty.
            let every = if replica == 2 { 50 } else { 10 };
            if (second + 5 * i64::try_from(replica).unwrap()) % every != 0 {
                continue;
            }
            let mut state = CertificateSecret::read(&secret);
            shows[replica] = state.current().cloned();
            let bundle = state.trust_bundle();
            let is_published = published.last().is_some_and(|(_, last)| *last == bundle);
            since[replica] = match since[replica].take() {
                Some((trusted, since)) if is_published && trusted == bundle => {
                    Some((trusted, since))
                }
                _ => is_published.then(|| (bundle.clone(), second)),
            };
            if !is_published && !bundle.is_empty() {
                published.push((second + 20, bundle));
            }
            let so_long = since[replica].as_ref().map(|(_, since)| second - since);
            let so_long = so_long.map(|s| Duration::from_secs(s.try_into().unwrap()));
            let now = at(second);
            match state.next_step(&names(), now, so_long) {
                RenewalStep::Nothing => continue,
                RenewalStep::Begin => state.start(issue_at(second), now),
                RenewalStep::Prepare => state.prepare(issue_at(second), now),
                RenewalStep::Swap => state.swap(now),
            }
            state.write(&mut secret);
        }
        let trusted = published.iter().rev().find(|(from, _)| *from <= second);
        // Until the first authority is published, the API server trusts no certificate.
        let Some((_, trusted)) = trusted else {
            assert!(second < 200, "never told");
            continue;
        };
        let trusted = parse_authorities(trusted);
        for certificate in shows.iter().flatten() {
            assert!(certificate.not_after > at(second), "{second}: it has ended");
            let der = CertificateDer::from_pem_slice(&certificate.pem.certificate).unwrap();
            let (_, read) = X509Certificate::from_der(&der).unwrap();
            let is_trusted = trusted.iter().any(|authority| {
                let der = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
                let (_, authority_certificate) = X509Certificate::from_der(&der).unwrap();
                authority_certificate.subject() == read.issuer() && authority.not_after > at(second)
            });
            assert!(is_trusted, "{second}: shown and not trusted");
            served.insert(certificate.pem.certificate.clone());
        }
    }
    assert!(served.len() >= 4, "{} certificates", served.len());
}
