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

fn issued(second: i64) -> Issued {
    issue("trellis-webhook", &names(), at(second), LIFETIME).unwrap()
}

fn begun() -> Kept {
    let mut kept = Kept::default();
    assert_eq!(kept.step(&names(), at(0), None), Step::Begin);
    kept.begin(issued(0), at(0));
    kept
}

#[test]
fn what_is_written_is_what_is_read() {
    let mut kept = begun();
    kept.prepare(issued(1), at(1));
    let mut data = BTreeMap::from([("other".to_owned(), ByteString(vec![1]))]);
    kept.write(&mut data);
    assert_eq!(Kept::read(&data), kept);
    assert_eq!(data.len(), 6, "what else is in it stays");
    let shown = kept.shown().unwrap();
    assert_eq!(shown.names, names());
    assert_eq!(shown.ends, at(3000));
    assert_eq!(shown.begins, at(-300), "clocks may be apart");
    kept.swap(at(2));
    kept.write(&mut data);
    assert_eq!(Kept::read(&data), kept);
    assert_eq!(data.len(), 4);
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        let mut broken = data.clone();
        broken.insert(name.to_owned(), ByteString(b"-----BEGIN no".to_vec()));
        let read = Kept::read(&broken);
        assert_ne!(read, kept, "{name}");
    }
    assert_eq!(Kept::read(&BTreeMap::new()), Kept::default());
}

fn spoilt(data: &BTreeMap<String, ByteString>, name: &str, by: Option<&[u8]>) -> Kept {
    let mut data = data.clone();
    match by {
        Some(bytes) => data.insert(name.to_owned(), ByteString(bytes.to_vec())),
        None => data.remove(name),
    };
    Kept::read(&data)
}

/// The text with one letter of its body changed.
fn flipped(text: &[u8], at: usize) -> Vec<u8> {
    let mut text = text.to_vec();
    text[at] = if text[at] == b'A' { b'B' } else { b'A' };
    text
}

/// A damaged part of the shown certificate makes a new one, and then everything is in order.
#[test]
fn what_is_spoilt_is_as_good_as_gone() {
    let written = |kept: &Kept| {
        let mut data = BTreeMap::new();
        kept.write(&mut data);
        data
    };
    let kept = begun();
    let (data, other) = (written(&kept), written(&begun()));
    let so_long = Some(Duration::from_secs(99));
    assert_eq!(kept.step(&names(), at(1), so_long), Step::Nothing);
    for name in ["tls.key", "tls.crt", "ca.crt"] {
        let good = &data[name].0;
        for way in [None, Some(b"no".as_slice()), Some(&other[name].0)] {
            let mut read = spoilt(&data, name, way);
            assert_eq!(read.step(&names(), at(1), so_long), Step::Begin, "{name}");
            read.begin(issued(1), at(1));
            assert_eq!(read.step(&names(), at(1), so_long), Step::Nothing);
            assert_eq!(Kept::read(&written(&read)), read, "{name}");
        }
        // Not the last letters: some of their bits say nothing.
        let body = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let foot = good.windows(4).rposition(|four| four == b"-END").unwrap();
        for letter in (body..foot - 10).filter(|at| good[*at].is_ascii_alphanumeric()) {
            let way = flipped(good, letter);
            let words = String::from_utf8_lossy(&way);
            let step = spoilt(&data, name, Some(&way)).step(&names(), at(1), so_long);
            assert_eq!(step, Step::Begin, "{name}: {words}");
        }
    }
    // A further authority does no harm, and a damaged one does not stay.
    let both = [&data["ca.crt"].0[..], &other["ca.crt"].0[..]].concat();
    assert_eq!(spoilt(&data, "ca.crt", Some(&both)).authorities.len(), 2);
    let half = [&data["ca.crt"].0[..], &flipped(&other["ca.crt"].0, 200)[..]].concat();
    assert_eq!(spoilt(&data, "ca.crt", Some(&half)), kept);
}

#[test]
fn a_next_one_that_is_spoilt_is_made_anew() {
    let mut kept = begun();
    let alone = kept.trusted();
    kept.prepare(issued(1901), at(1901));
    let mut data = BTreeMap::new();
    kept.write(&mut data);
    assert_eq!(kept.step(&names(), at(1902), None), Step::Nothing);
    for (name, by) in [
        ("next.key", Some(b"no".as_slice())),
        ("next.crt", None),
        ("ca.crt", Some(alone.as_bytes())),
    ] {
        let mut read = spoilt(&data, name, by);
        assert!(read.shown().is_some(), "{name}");
        assert_eq!(read.step(&names(), at(1902), None), Step::Prepare, "{name}");
        read.prepare(issued(1902), at(1902));
        assert_eq!(read.step(&names(), at(1902), None), Step::Nothing);
    }
}

#[test]
fn the_next_is_shown_once_it_has_been_trusted_for_a_while() {
    let mut kept = begun();
    let step = |kept: &Kept, second, trusted: Option<u64>| {
        kept.step(&names(), at(second), trusted.map(Duration::from_secs))
    };
    // At 1901 less than a third of the lifetime is left.
    assert_eq!(step(&kept, 1900, Some(9)), Step::Nothing);
    assert_eq!(step(&kept, 1901, Some(9)), Step::Prepare);
    kept.prepare(issued(1901), at(1901));
    assert_eq!(step(&kept, 1902, None), Step::Nothing);
    assert_eq!(kept.settles_in(), Duration::from_secs(60));
    assert_eq!(step(&kept, 1902, Some(59)), Step::Nothing);
    assert_eq!(step(&kept, 1902, Some(60)), Step::Swap);
    // An expired certificate is useless, trusted or not.
    assert_eq!(step(&kept, 3000, None), Step::Swap);
    let both = kept.trusted();
    kept.swap(at(1970));
    assert_eq!(kept.trusted(), both, "others may show the first still");
    assert_eq!(step(&kept, 1970, Some(60)), Step::Nothing);
    // The authority goes with the next renewal after its end.
    kept.prepare(issued(3900), at(3900));
    assert_eq!(kept.authorities.len(), 2);
    // No replica has looked for a long time.
    let begun = begun();
    assert_eq!(step(&begun, 3000, Some(99)), Step::Begin);
}

#[test]
fn another_name_is_a_reason_to_renew() {
    let mut kept = begun();
    let mut more = names();
    more.push("webhook.example".to_owned());
    assert_eq!(kept.step(&more, at(1), None), Step::Prepare);
    kept.prepare(
        issue("trellis-webhook", &more, at(1), LIFETIME).unwrap(),
        at(1),
    );
    assert_eq!(kept.step(&more, at(1), None), Step::Nothing);
    // For who is not started with that name it is as good.
    assert_eq!(kept.step(&names(), at(1), None), Step::Nothing);
}

/// Three of us, each looking now and then, and an API server that hears of what it is to trust
/// only a while later: at no moment one of us shows what it does not trust.
#[test]
fn nobody_shows_what_is_not_trusted_yet_or_any_more() {
    let mut secret = BTreeMap::new();
    // The authorities that the API server will trust, and from when on.
    let mut told: Vec<(i64, String)> = Vec::new();
    let mut shows: [Option<Certificate>; 3] = Default::default();
    let mut since: [Option<(String, i64)>; 3] = Default::default();
    let mut shown = BTreeSet::new();
    for second in (0..10_000_i64).step_by(5) {
        for replica in 0..3_usize {
            // Two replicas look every ten seconds, the third every fifty.
            let every = if replica == 2 { 50 } else { 10 };
            if (second + 5 * i64::try_from(replica).unwrap()) % every != 0 {
                continue;
            }
            let mut kept = Kept::read(&secret);
            shows[replica] = kept.shown().cloned();
            let wanted = kept.trusted();
            let is_told = told.last().is_some_and(|(_, last)| *last == wanted);
            since[replica] = match since[replica].take() {
                Some((trusted, since)) if is_told && trusted == wanted => Some((trusted, since)),
                _ => is_told.then(|| (wanted.clone(), second)),
            };
            if !is_told && !wanted.is_empty() {
                told.push((second + 20, wanted));
            }
            let so_long = since[replica].as_ref().map(|(_, since)| second - since);
            let so_long = so_long.map(|s| Duration::from_secs(s.try_into().unwrap()));
            let now = at(second);
            match kept.step(&names(), now, so_long) {
                Step::Nothing => continue,
                Step::Begin => kept.begin(issued(second), now),
                Step::Prepare => kept.prepare(issued(second), now),
                Step::Swap => kept.swap(now),
            }
            kept.write(&mut secret);
        }
        let trusted = told.iter().rev().find(|(from, _)| *from <= second);
        // Before the first has been told nobody can be trusted.
        let Some((_, trusted)) = trusted else {
            assert!(second < 200, "never told");
            continue;
        };
        let trusted = split(trusted);
        for certificate in shows.iter().flatten() {
            assert!(certificate.ends > at(second), "{second}: it has ended");
            let der = CertificateDer::from_pem_slice(&certificate.pem.certificate).unwrap();
            let (_, read) = X509Certificate::from_der(&der).unwrap();
            let is_trusted = trusted.iter().any(|authority| {
                let der = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
                let (_, known) = X509Certificate::from_der(&der).unwrap();
                known.subject() == read.issuer() && authority.ends > at(second)
            });
            assert!(is_trusted, "{second}: shown and not trusted");
            shown.insert(certificate.pem.certificate.clone());
        }
    }
    assert!(shown.len() >= 4, "{} certificates", shown.len());
}
