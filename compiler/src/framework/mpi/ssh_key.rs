//! The SSH key of an MPI job. All of its pods log in with it and recognize each other by it. ECDSA
//! on P-521.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use p521::elliptic_curve::sec1::ToSec1Point;
use p521::pkcs8::LineEnding;
use p521::{PublicKey, SecretKey};
use trellis_api::{ValidatedJob, names};

use crate::objects::metadata;

/// The key's name in ssh (RFC 5656, 3.1 and 10.1).
const ALGORITHM: &str = "ecdsa-sha2-nistp521";
const CURVE: &str = "nistp521";

/// The Secret, from random bytes. None: no key is made of them, as of one in 2^260.
pub(super) fn ssh_key_secret(job: &ValidatedJob, mut random: [u8; 66]) -> Option<Secret> {
    // 521 bits.
    if let Some(first) = random.first_mut() {
        *first &= 1;
    }
    let key = SecretKey::from_slice(&random).ok()?;
    let private = key.to_sec1_pem(LineEnding::LF).ok()?;
    let public = format!("{ALGORITHM} {}", encode_public_key(&key.public_key())?);
    let data = [
        // Kubernetes asks for this one in a Secret of that type.
        ("ssh-privatekey", private.to_string()),
        ("authorized_keys", format!("{public}\n")),
        ("known_hosts", format!("* {public}\n")),
    ];
    let data: BTreeMap<_, _> = data
        .into_iter()
        .map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())))
        .collect();
    let mut secret = Secret {
        metadata: metadata::child_metadata(job),
        type_: Some("kubernetes.io/ssh-auth".to_owned()),
        immutable: Some(true),
        data: Some(data),
        ..Secret::default()
    };
    secret.metadata.name = Some(names::ssh_secret_name(job.name(), job.uid()));
    Some(secret)
}

/// A public key as ssh writes it: strings with their lengths, in base64.
fn encode_public_key(key: &PublicKey) -> Option<String> {
    let point = key.to_sec1_point(false);
    let mut blob = Vec::new();
    for part in [ALGORITHM.as_bytes(), CURVE.as_bytes(), point.as_bytes()] {
        blob.extend(u32::try_from(part.len()).ok()?.to_be_bytes());
        blob.extend(part);
    }
    // ByteString is base64 in JSON.
    let json = serde_json::to_value(ByteString(blob)).ok()?;
    json.as_str().map(str::to_owned)
}
