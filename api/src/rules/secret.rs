//! Rules on the Secrets that a job names.

use std::collections::{BTreeMap, BTreeSet};

use super::names::syntax::is_name;
use super::rule::Rule;
use crate::job::{JobSecret, LocalReference, RemoteValue};

/// Name of a Secret. The names of its objects consist of the job's name and this one.
pub const SECRET_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$') && size(self) <= 63",
    "must be the name of a Secret of at most 63 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// A Secret from a store states its data; an existing Secret states neither data nor refresh.
pub const SECRET_SOURCE: Rule = Rule::new(
    "has(self.store) ? has(self.data) && size(self.data) > 0 : (!has(self.data) || size(self.data) == 0) && !has(self.refreshSeconds)",
    "with store, data must have an entry for each key; without store it is a Secret that is there: remove data and refreshSeconds, or add store",
);
/// Keys that Secrets accept (`validation.IsConfigMapKey`), and the paths of their values.
pub const SECRET_DATA: Rule = Rule::new(
    "self.all(k, size(k) <= 253 && k.matches('^[-._a-zA-Z0-9]+$') && k != '.' && !k.startsWith('..') && self[k].matches('^[^#[:cntrl:]]+(#[^[:cntrl:]]+)?$') && !self[k].matches('//|/(#|$)|(^|/)[.][.]?(/|#|$)'))",
    "every entry must be a key of letters, digits, -, _ and ., with the path of its value in the store, such as ml/wandb, or ml/wandb#token for one property of it; no part of a path is empty, . or ..",
);
/// Interval between two reads of a store.
pub const SECRET_REFRESH: Rule = Rule::new(
    "self >= 60 && self <= 31536000",
    "must be 60 to 31536000 seconds (a year)",
);
/// Secrets have different names. In the CRD the list is a map, so the API server checks this.
pub const UNIQUE_SECRETS: Rule = Rule::new("true", "secrets must have different names");
/// A Secret is named once for pulling images. In the CRD the list is a map, so the API server
/// checks this.
pub const UNIQUE_PULL_SECRETS: Rule = Rule::new(
    "true",
    "must name each Secret once: remove the repeated name",
);

/// Longest key of a Secret, in characters.
const MAX_KEY_LENGTH: usize = 253;

/// [`SECRET_NAME`].
pub fn secret_name(name: &str, _: &()) -> garde::Result {
    SECRET_NAME.check(name.len() <= 63 && is_name(name))
}

/// [`SECRET_SOURCE`].
pub fn secret_source(secret: &JobSecret) -> impl FnOnce(&str, &()) -> garde::Result {
    let ok = match secret.store {
        Some(_) => !secret.data.is_empty(),
        None => secret.data.is_empty() && secret.refresh_seconds.is_none(),
    };
    move |_, ()| SECRET_SOURCE.check(ok)
}

/// [`SECRET_DATA`].
pub fn secret_data(data: &BTreeMap<String, String>, _: &()) -> garde::Result {
    SECRET_DATA.check(
        data.iter()
            .all(|(key, value)| is_key(key) && is_store_value(value) && is_clean_path(value)),
    )
}

fn is_key(key: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !key.is_empty()
        && key.len() <= MAX_KEY_LENGTH
        && key.bytes().all(inner)
        && key != "."
        && !key.starts_with("..")
}

fn is_store_value(written: &str) -> bool {
    let RemoteValue { path, property } = RemoteValue::parse(written);
    !path.is_empty() && property != Some("") && !written.bytes().any(|b| b.is_ascii_control())
}

/// True for a normalized path. Stores normalize paths, but policies decide on the written text, so
/// both must agree. A leading slash is permitted, since it is part of a name in AWS.
fn is_clean_path(written: &str) -> bool {
    let parts: Vec<&str> = written.split('/').collect();
    let last = parts.len().saturating_sub(1);
    parts.iter().enumerate().all(|(at, part)| {
        let name = part.split('#').next().unwrap_or_default();
        let is_first_of_several = at == 0 && last > 0;
        (!name.is_empty() || is_first_of_several) && !matches!(name, "." | "..")
    })
}

/// [`SECRET_REFRESH`].
pub fn secret_refresh(seconds: &i64, _: &()) -> garde::Result {
    SECRET_REFRESH.check((60..=31_536_000).contains(seconds))
}

/// [`UNIQUE_SECRETS`].
pub fn unique_secrets(secrets: &[JobSecret], _: &()) -> garde::Result {
    let names: BTreeSet<_> = secrets.iter().map(|s| s.name.as_str()).collect();
    UNIQUE_SECRETS.check(names.len() == secrets.len())
}

/// [`UNIQUE_PULL_SECRETS`].
pub fn unique_pull_secrets(secrets: &[LocalReference], _: &()) -> garde::Result {
    let names: BTreeSet<_> = secrets.iter().map(|s| s.name.as_str()).collect();
    UNIQUE_PULL_SECRETS.check(names.len() == secrets.len())
}
