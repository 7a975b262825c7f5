//! Translates serde's messages into a rule and a fix for authors of YAML.

use super::foreign_fields;
use crate::Quantity;
use crate::quantity::Amount;

/// Message for an unknown field if the known fields are not available.
pub(crate) const UNKNOWN_FIELD: &str = "is no known field: correct its name or remove it";

/// Message for a label that is written directly into a label selector.
pub(super) const LABEL_IN_SELECTOR: &str =
    "is no field of a label selector: write it into matchLabels, as {matchLabels: {KEY: VALUE}}";

/// Message for a list in place of a mapping.
pub(super) const LIST_FOR_MAPPING: &str =
    "must be a mapping, not a list: write its fields by name, without dashes";

/// A field and its problem.
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) message: String,
    /// True if the field does not exist: its name is wrong, not its value.
    pub(super) is_unknown: bool,
}

/// Explains serde's `message` about the value at `path`.
pub(crate) fn explain_serde_error(message: &str, path: &str) -> FieldError {
    let at = |field: String, message: String, is_unknown: bool| FieldError {
        field,
        message,
        is_unknown,
    };
    if let Some(rest) = message.strip_prefix("missing field ") {
        let field = join(path, quoted(rest).first().copied().unwrap_or_default());
        return at(field, "is required: add it".to_owned(), false);
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let names = quoted(rest);
        let (name, known) = names.split_first().unwrap_or((&"", &[]));
        // The path may already end with the unknown key.
        let field = if path == *name || path.ends_with(&format!(".{name}")) {
            path.to_owned()
        } else {
            join(path, name)
        };
        return at(field, unknown_field_message(name, known), true);
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted(rest);
        let (name, known) = names.split_first().unwrap_or((&"", &[]));
        let message = format!("must be one of {}, not {name:?}", known.join(", "));
        return at(path.to_owned(), message, false);
    }
    let wrong = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.split_once(", expected "));
    if let Some((is, expected)) = wrong {
        return at(
            path.to_owned(),
            type_mismatch_message(is, expected, path),
            false,
        );
    }
    // serde accepts a list of a struct's field values, which users never intend.
    if message.starts_with("invalid length ") && message.contains(", expected struct ") {
        return at(path.to_owned(), LIST_FOR_MAPPING.to_owned(), false);
    }
    if path.ends_with("Time") || path.ends_with("Timestamp") {
        let message = "must be a time, such as \"2026-01-31T12:00:00Z\"";
        return at(path.to_owned(), message.to_owned(), false);
    }
    at(path.to_owned(), message.to_owned(), false)
}

/// Returns the known word that is closest to a written one, if it is close: a typing error, a
/// missing end (`priority`), or missing letters (`img`).
pub(super) fn nearest_word<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = |least: usize, of: &dyn Fn(&'a str) -> (usize, usize)| {
        let near = known.iter().map(|k| (of(k), *k));
        let near = near
            .filter(|((distance, letters), _)| distance.saturating_mul(3) <= *letters.max(&least));
        near.min().map(|(_, k)| k)
    };
    let whole = |k: &'a str| (distance(name, k), k.chars().count());
    let start = |k: &'a str| (prefix_distance(name, k), name.chars().count());
    let short = |k: &&&str| is_abbreviation(name, k);
    best(3, &whole)
        .or_else(|| {
            let long = name.chars().count() > 3;
            long.then(|| best(0, &start)).flatten()
        })
        .or_else(|| known.iter().filter(short).min_by_key(|k| k.len()).copied())
}

/// Returns the smallest distance to any prefix of a word.
fn prefix_distance(name: &str, word: &str) -> usize {
    let ends = word.char_indices().map(|(end, _)| end).skip(1);
    let starts = ends.filter_map(|end| word.get(..end));
    starts
        .map(|start| distance(name, start))
        .min()
        .unwrap_or(usize::MAX)
}

/// True if a word has the same first letter, and contains all letters of the name in this order.
fn is_abbreviation(name: &str, word: &str) -> bool {
    let lower = |text: &str| text.to_ascii_lowercase();
    let (name, word) = (lower(name), lower(word));
    let mut rest = word.chars();
    name.len() > 1
        && name.chars().next() == word.chars().next()
        && name.chars().all(|letter| rest.any(|other| other == letter))
}

fn unknown_field_message(name: &str, known: &[&str]) -> String {
    // Fields that users know from a container's resources.
    if let Some(instead) = foreign_fields::suggest_field(name, known) {
        return format!("is no known field: {instead}");
    }
    match nearest_word(name, known) {
        Some(near) => format!("is no known field: did you mean {near:?}?"),
        None if known.is_empty() => UNKNOWN_FIELD.to_owned(),
        None => format!("is no known field: known are {}", known.join(", ")),
    }
}

fn type_mismatch_message(is: &str, expected: &str, path: &str) -> String {
    let expected_type = match expected {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        _ if expected == "a map" || expected.starts_with("struct ") => "a mapping",
        other => other,
    };
    let kind = is.split(['`', '"']).next().unwrap_or(is).trim();
    let found = match kind {
        "integer" | "floating point" => is.replacen(kind, "the number", 1),
        "boolean" => is.replacen("boolean ", "", 1),
        "string" => is.replacen("string", "the text", 1),
        "sequence" => "a list".to_owned(),
        "map" => "a mapping".to_owned(),
        _ => is.to_owned(),
    }
    .replace('`', "");
    let value = is.split(['`', '"']).nth(1).unwrap_or_default();
    let fix = match (expected_type, kind) {
        ("a text", "integer" | "floating point" | "boolean") => ": put it in quotes".to_owned(),
        ("a list", "map") if path.ends_with("limits.resources") => {
            ": write - {resource: NAME, max: AMOUNT}".to_owned()
        }
        ("a list", "string" | "map") => ": begin it with a dash".to_owned(),
        ("a mapping", _) => {
            let expected_type = expected.strip_prefix("struct ");
            let mapping = expected_type
                .and_then(|expected_type| foreign_fields::suggest_mapping(expected_type, value));
            mapping.map_or_else(String::new, |mapping| format!(": write {mapping}"))
        }
        ("a whole number", "string") if value.parse::<i64>().is_ok() => {
            ": remove the quotes".to_owned()
        }
        ("a whole number", "string") => match convert_span(path, value) {
            Some(number) => format!(": write {number}"),
            None => String::new(),
        },
        (_, "floating point") if expected_type.starts_with("a quantity") => {
            let millis = Quantity::new(value).amount().ok();
            match millis.and_then(Amount::ceil_millis) {
                Some(millis) if path.ends_with("cpu") => {
                    format!(": write {millis}m or \"{value}\"")
                }
                _ => format!(": write \"{value}\", in quotes"),
            }
        }
        _ => String::new(),
    };
    format!("must be {expected_type}, not {found}{fix}")
}

/// Converts a time span such as `24h` into the unit at the end of the field's name. Returns None if
/// the text is no time span, or the span is no whole number of units.
fn convert_span(path: &str, span: &str) -> Option<i64> {
    let seconds = |unit: char| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    };
    let unit = match path {
        _ if path.ends_with("Seconds") || path.ends_with("SecondsPerJob") => 1,
        _ if path.ends_with("Hours") => 3_600,
        _ => return None,
    };
    let last = span.chars().last()?;
    let number: i64 = span.strip_suffix(last)?.parse().ok()?;
    let all = number.checked_mul(seconds(last)?)?;
    (all.checked_rem(unit)? == 0).then(|| all.checked_div(unit))?
}

/// Returns the texts in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// Returns the number of letters to change, insert or remove (Levenshtein), ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut next = Vec::with_capacity(row.len());
        let mut left = i.saturating_add(1);
        next.push(left);
        for (b, pair) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            let changed = diagonal.saturating_add(usize::from(a != *b));
            left = changed
                .min(left.saturating_add(1))
                .min(above.saturating_add(1));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_field_error_suggests_the_nearest_field() {
        let explained = explain_serde_error(
            "unknown field `replicaas`, expected one of `name`, `replicas`",
            "spec.taskGroups[0].replicaas",
        );
        assert_eq!(explained.field, "spec.taskGroups[0].replicaas");
        assert_eq!(
            explained.message,
            "is no known field: did you mean \"replicas\"?"
        );
        assert!(explained.is_unknown);
        let explained =
            explain_serde_error("unknown field `zzz`, expected `name` or `image`", "spec");
        assert_eq!(explained.field, "spec.zzz");
        assert_eq!(
            explained.message,
            "is no known field: known are name, image"
        );
    }

    #[test]
    fn type_error_names_types_as_in_yaml() {
        let cases = [
            (
                "invalid type: string \"many\", expected i64",
                "must be a whole number, not the text \"many\"",
            ),
            (
                "invalid type: integer `1`, expected a string",
                "must be a text, not the number 1: put it in quotes",
            ),
            (
                "invalid type: boolean `true`, expected a string",
                "must be a text, not true: put it in quotes",
            ),
            (
                "invalid type: map, expected a sequence",
                "must be a list, not a mapping: begin it with a dash",
            ),
            (
                "unknown variant `Torch`, expected `PyTorch` or `None`",
                "must be one of PyTorch, None, not \"Torch\"",
            ),
            ("quantity is empty", "quantity is empty"),
        ];
        for (serde, ours) in cases {
            assert_eq!(explain_serde_error(serde, "spec").message, ours);
        }
    }

    #[test]
    fn nearest_word_accepts_typos_prefixes_and_abbreviations() {
        let known = [
            "name",
            "replicas",
            "image",
            "imagePullPolicy",
            "memory",
            "command",
            "priorityClassName",
            "serviceAccountName",
        ];
        for (written, meant) in [
            ("prioritty", Some("priorityClassName")),
            ("priority", Some("priorityClassName")),
            ("serviceAccount", Some("serviceAccountName")),
            ("img", Some("image")),
            ("mem", Some("memory")),
            ("cmd", Some("command")),
            ("nam", Some("name")),
            ("Image", Some("image")),
            ("resources", None),
            ("x", None),
            ("im", Some("image")),
            ("zzz", None),
        ] {
            assert_eq!(nearest_word(written, &known), meant, "{written}");
        }
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("gpuss", "gpus"), 1);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("taskgroups", "taskGroups"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
