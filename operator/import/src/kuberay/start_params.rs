//! Parameters of `ray start`.

use serde_json::Value;
use trellis_api::job::EnvVar;

use crate::fields::Fields;

/// Variable whose words the job's script adds to `ray start` (docs/frameworks/ray.md).
const VARIABLE: &str = "RAY_START_ARGS";
/// Parameters that the script sets.
const SET_BY_SCRIPT: [&str; 7] = [
    "address",
    "block",
    "dashboard-host",
    "dashboard-port",
    "head",
    "node-manager-port",
    "port",
];

/// The variable with the parameters of a group. None: the group has none.
pub(super) fn read_start_params(group: &Fields<'_>) -> Option<EnvVar> {
    let mut words = Vec::new();
    for (key, field) in group.entries("rayStartParams") {
        let Some(text) = field.as_text() else {
            continue;
        };
        if SET_BY_SCRIPT.contains(&key.as_str()) {
            continue;
        }
        let value = compact(&text);
        if value.contains(char::is_whitespace) {
            field.note(
                format!("has spaces, and {VARIABLE} is split at spaces"),
                "write the value without spaces",
            );
            continue;
        }
        words.push(format!("--{key}={value}"));
    }
    (!words.is_empty()).then(|| EnvVar {
        name: VARIABLE.to_owned(),
        value: Some(words.join(" ")),
        ..EnvVar::default()
    })
}

/// The value as one word. KubeRay passes values through a shell, so JSON is quoted there.
fn compact(text: &str) -> String {
    let bare = text.trim().trim_matches(['"', '\'']).replace("\\\"", "\"");
    match serde_json::from_str::<Value>(&bare) {
        Ok(json @ Value::Object(_)) => json.to_string(),
        _ => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_a_shell_word_loses_quotes_and_spaces() {
        for (text, expected) in [
            ("2", "2"),
            ("\"{\\\"TPU\\\": 4}\"", "{\"TPU\":4}"),
            ("'{\"TPU\": 4}'", "{\"TPU\":4}"),
            ("a b", "a b"),
        ] {
            assert_eq!(compact(text), expected, "{text}");
        }
    }
}
