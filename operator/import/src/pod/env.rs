//! Environment variables.

use trellis_api::job::{EnvFromSource, EnvVar, EnvVarSource, Framework};
use trellis_api::rules;

use super::traced_value::TracedValue;
use crate::fields::Fields;

/// Labels and annotations that other systems set on pods, and the equivalent variable of Trellis.
const EQUIVALENTS: [(&str, &str); 15] = [
    (
        "annotations['batch.kubernetes.io/job-completion-index']",
        "TRELLIS_INDEX",
    ),
    (
        "labels['batch.kubernetes.io/job-completion-index']",
        "TRELLIS_INDEX",
    ),
    ("annotations['volcano.sh/task-index']", "TRELLIS_INDEX"),
    ("labels['volcano.sh/task-index']", "TRELLIS_INDEX"),
    (
        "labels['training.kubeflow.org/replica-index']",
        "TRELLIS_INDEX",
    ),
    ("annotations['volcano.sh/task-spec']", "TRELLIS_GROUP"),
    ("labels['volcano.sh/task-spec']", "TRELLIS_GROUP"),
    (
        "labels['training.kubeflow.org/replica-type']",
        "TRELLIS_GROUP",
    ),
    ("annotations['volcano.sh/job-name']", "TRELLIS_JOB"),
    ("labels['volcano.sh/job-name']", "TRELLIS_JOB"),
    ("labels['training.kubeflow.org/job-name']", "TRELLIS_JOB"),
    ("labels['batch.kubernetes.io/job-name']", "TRELLIS_JOB"),
    ("labels['job-name']", "TRELLIS_JOB"),
    ("labels['lattice.dev/job']", "TRELLIS_JOB"),
    ("annotations['volcano.sh/job-version']", "TRELLIS_ATTEMPT"),
];

/// Reads the variables of the main container: those with a short form, and the others unchanged.
pub(super) fn read_variables(
    container: &Fields<'_>,
    framework: Framework,
) -> (Vec<EnvVar>, Option<TracedValue>) {
    let mut short: Vec<EnvVar> = Vec::new();
    let mut output = Vec::new();
    for variable in container.objects("env") {
        let Some(name) = variable.text("name") else {
            let path = variable.field_path("name");
            variable.log().add_problem(&path, "is required: add it");
            continue;
        };
        if rules::is_reserved_env(&name, framework) {
            let reason = match framework {
                _ if rules::is_trellis_env(&name) => "is set by Trellis".to_owned(),
                framework => format!("is set by Trellis for framework {framework:?}"),
            };
            variable.note(reason, "leave it out: docs/frameworks has its value");
        } else if let Some(env_variable) = read_variable(&name, &variable) {
            if let Some(before) = short.iter().position(|v| v.name == name) {
                let reason = "is set twice, and the last one counts";
                variable.note(reason, "remove the first one");
                short.remove(before);
            }
            short.push(env_variable);
        } else {
            output.push(TracedValue::from_fields(&variable));
        }
    }
    let path = container.field_path("env");
    let output = Some(TracedValue::list(&path, output)).filter(|output| !output.is_empty());
    (short, output)
}

/// Returns a variable in its short form, if it has one.
fn read_variable(name: &str, variable: &Fields<'_>) -> Option<EnvVar> {
    let env_variable = EnvVar {
        name: name.to_owned(),
        ..EnvVar::default()
    };
    let Some(from) = variable.object("valueFrom") else {
        let value = variable.get("value").map_or_else(
            // A variable without a value is set to an empty text.
            || Some(String::new()),
            |value| value.as_text(),
        );
        return Some(EnvVar {
            value,
            ..env_variable
        });
    };
    let mut source: EnvVarSource = serde_json::from_value(from.value().clone()).ok()?;
    if from.keys().len() != 1 {
        return None;
    }
    from.mark_read();
    let field = source.field_ref.as_mut().and_then(|field| {
        field.api_version = None;
        field.field_path.strip_prefix("metadata.")
    });
    let equivalent = EQUIVALENTS
        .iter()
        .find(|(their_field, _)| Some(*their_field) == field);
    Some(match equivalent {
        Some((_, ours)) => EnvVar {
            value: Some(format!("$({ours})")),
            ..env_variable
        },
        None => EnvVar {
            value_from: Some(source),
            ..env_variable
        },
    })
}

/// Reads the variables from all keys of ConfigMaps and Secrets: those with a short form, and the
/// others unchanged.
pub(super) fn read_sources(container: &Fields<'_>) -> (Vec<EnvFromSource>, Option<TracedValue>) {
    let mut short = Vec::new();
    let mut output = Vec::new();
    for from in container.objects("envFrom") {
        let source: Option<EnvFromSource> = serde_json::from_value(from.value().clone()).ok();
        match source {
            Some(source) if source.config_map_ref.is_some() != source.secret_ref.is_some() => {
                from.mark_read();
                short.push(source);
            }
            _ => output.push(TracedValue::from_fields(&from)),
        }
    }
    let path = container.field_path("envFrom");
    let output = Some(TracedValue::list(&path, output)).filter(|output| !output.is_empty());
    (short, output)
}

/// Returns true if a text reads the variable by `$NAME`, `${NAME}` or `$(NAME)`.
pub(crate) fn reads_variable(text: &str, name: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = rest.get(at.saturating_add(1)..).unwrap_or_default();
        let inner = rest.strip_prefix(['{', '(']).unwrap_or(rest);
        let is_read = inner.strip_prefix(name).is_some_and(|after| {
            !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        });
        if is_read {
            return true;
        }
    }
    false
}

/// Returns a variable with this value.
pub(crate) fn new_variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}
