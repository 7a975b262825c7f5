//! Parameters of `ray start`.

use serde_json::Value;
use trellis_api::framework::ray::{DASHBOARD_PORT, GCS_PORT, RAYLET_PORT};
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
/// Options that take the value true or false. All others are flags, which KubeRay writes without a
/// value, or leaves out (`convertParamMap`).
const BOOLEAN_OPTIONS: [&str; 3] = ["include-dashboard", "include-log-monitor", "log-color"];

/// Returns the variable with the parameters of a group. None: the group has none.
pub(super) fn read_start_params(group: &Fields<'_>) -> Option<EnvVar> {
    let mut words = Vec::new();
    for (key, field) in group.entries("rayStartParams") {
        let Some(text) = field.as_text() else {
            continue;
        };
        let value = compact(&text);
        if SET_BY_SCRIPT.contains(&key.as_str()) {
            if script_value(&key).is_some_and(|own| own != value) {
                field.note(
                    "is set by Trellis to another value",
                    "use the ports of docs/frameworks/ray.md",
                );
            }
            continue;
        }
        if value.contains(char::is_whitespace) {
            field.note(
                format!("has spaces, and {VARIABLE} is split at spaces"),
                "write the value without spaces",
            );
        } else if value.contains('$') && !value.contains("$(") {
            field.note(
                "is expanded by a shell in KubeRay, and here Kubernetes expands only $(NAME)",
                format!("write $(NAME) into {VARIABLE}"),
            );
        } else {
            words.extend(option(&key, &value));
        }
    }
    (!words.is_empty()).then(|| EnvVar {
        name: VARIABLE.to_owned(),
        value: Some(words.join(" ")),
        ..EnvVar::default()
    })
}

/// Returns the value that the script sets for a parameter. None: it sets no fixed value.
fn script_value(key: &str) -> Option<String> {
    let port = match key {
        "dashboard-host" => return Some("0.0.0.0".to_owned()),
        "dashboard-port" => DASHBOARD_PORT,
        "node-manager-port" => RAYLET_PORT,
        "port" => GCS_PORT,
        _ => return None,
    };
    Some(port.to_string())
}

/// Formats a parameter for the command line of `ray start`. None: the flag is not set.
fn option(key: &str, value: &str) -> Option<String> {
    let is_flag = !BOOLEAN_OPTIONS.contains(&key);
    match value {
        "true" if is_flag => Some(format!("--{key}")),
        "false" if is_flag => None,
        value => Some(format!("--{key}={value}")),
    }
}

/// Returns the value as one word. KubeRay passes values through a shell, so JSON values are quoted.
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

    #[test]
    fn flags_have_no_value() {
        assert_eq!(option("no-monitor", "true").unwrap(), "--no-monitor");
        assert_eq!(option("disable-usage-stats", "false"), None);
        assert_eq!(option("num-cpus", "0").unwrap(), "--num-cpus=0");
        let log_color = option("log-color", "true");
        assert_eq!(log_color.unwrap(), "--log-color=true");
    }
}
