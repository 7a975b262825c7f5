//! Names: those that the server generates, and the rules for all.

const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the five characters that complete a `generateName`. Each number has others.
pub(crate) fn generate_suffix(number: u64) -> String {
    // The multiplier is odd and no multiple of 3, so numbers below 27^5 stay distinct.
    let base = ALPHABET.len() as u64;
    let mut rest = number.wrapping_mul(5_882_353) % base.pow(5);
    let mut suffix = String::new();
    for _ in 0..5 {
        suffix.push(char::from(ALPHABET[(rest % base) as usize]));
        rest /= base;
    }
    suffix
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns why a name is no DNS subdomain, such as `a.b-c`.
pub(crate) fn subdomain_error(name: &str) -> Option<String> {
    let is_valid = name.split('.').all(is_label);
    too_long(name, 253).or_else(|| (!is_valid).then(|| SUBDOMAIN.to_owned()))
}

/// Returns why a name is no DNS label, such as `a-b`.
pub(crate) fn label_error(name: &str) -> Option<String> {
    too_long(name, 63).or_else(|| (!is_label(name)).then(|| LABEL.to_owned()))
}

/// Returns why a name is no segment of a path.
pub(crate) fn path_segment_error(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => {
            let wrong = name.chars().find(|c| matches!(c, '/' | '%'));
            wrong.map(|wrong| format!("may not contain '{wrong}'"))
        }
    }
}

fn is_qualified_part(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_edge) && text.ends_with(is_edge) && text.chars().all(is_inner)
}

/// Returns why a key of labels or annotations is not `name` or `prefix/name`.
pub(crate) fn qualified_name_error(key: &str) -> Option<String> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            if prefix.is_empty() || subdomain_error(prefix).is_some() {
                return Some(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    let long = too_long(name, 63).map(|why| format!("name part {why}"));
    long.or_else(|| (!is_qualified_part(name)).then(|| QUALIFIED.to_owned()))
}

/// Returns why a text is no value of a label.
pub(crate) fn label_value_error(value: &str) -> Option<String> {
    let is_valid = value.is_empty() || is_qualified_part(value);
    too_long(value, 63).or_else(|| (!is_valid).then(|| VALUE.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn generated_suffixes_are_distinct() {
        let suffixes: BTreeSet<String> = (0..100_000).map(generate_suffix).collect();
        assert_eq!(suffixes.len(), 100_000);
    }

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        for (name, is_subdomain, is_label) in [
            ("a.b-c", true, false),
            ("a", true, true),
            ("-a", false, false),
            ("A", false, false),
            ("a.", false, false),
            ("", false, false),
        ] {
            assert_eq!(subdomain_error(name).is_none(), is_subdomain, "{name}");
            assert_eq!(label_error(name).is_none(), is_label, "{name}");
        }
        assert!(qualified_name_error("x.y/A_b").is_none());
        assert!(qualified_name_error("/a").is_some());
        assert!(label_value_error("").is_none());
        assert!(label_value_error("a b").is_some());
    }
}
