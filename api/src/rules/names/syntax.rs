//! The syntax of names in Kubernetes (apimachinery, `pkg/util/validation`).

/// True for a name that Kubernetes accepts for most objects (roughly a DNS subdomain).
pub(in crate::rules) fn is_name(text: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253
        && text
            .bytes()
            .all(|b| alphanumeric(&b) || b == b'-' || b == b'.')
        && text.as_bytes().first().is_some_and(alphanumeric)
        && text.as_bytes().last().is_some_and(alphanumeric)
}

/// True for a DNS label (RFC 1123) of at most `max` characters.
pub(in crate::rules) fn is_label(text: &str, max: usize) -> bool {
    text.len() <= max && is_name(text) && !text.contains('.')
}

/// True for the part of a qualified name after its domain.
pub(in crate::rules) fn is_qualified_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.bytes().all(inner)
        && text
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric)
        && text
            .as_bytes()
            .last()
            .is_some_and(u8::is_ascii_alphanumeric)
}

/// True for a qualified name: the key of a label, or the name of a resource.
pub(in crate::rules) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_name(domain) && is_qualified_part(name) && name.len() <= 63,
        None => is_qualified_part(text) && text.len() <= 63,
    }
}

/// True for the name of a device resource.
pub(in crate::rules) fn is_extended_resource(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, part)| {
        is_name(domain) && is_qualified_part(part) && !domain.ends_with("kubernetes.io")
    })
}

/// True for the value of a label.
pub(in crate::rules) fn is_label_value(value: &str) -> bool {
    value.len() <= 63 && (value.is_empty() || is_qualified_part(value))
}
