//! One validation rule.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

/// One rule: its CEL expression and its message.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    cel: &'static str,
    message: &'static str,
    /// Field that a rule on a whole object concerns, such as `.spec.queueName`.
    field: Option<&'static str>,
}

impl Rule {
    pub(crate) const fn new(cel: &'static str, message: &'static str) -> Self {
        Self {
            cel,
            message,
            field: None,
        }
    }

    /// Attaches the rule to a field of the object, which the API server then names.
    pub(super) const fn for_field(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// Returns the rule for a CRD's `x-kubernetes-validations`.
    #[must_use]
    pub fn to_cel_rule(&self) -> kube::core::Rule {
        kube::core::Rule {
            field_path: self.field.map(str::to_owned),
            ..kube::core::Rule::new(self.cel).message(self.message)
        }
    }

    /// Returns the rule in the form that is added to an existing schema.
    pub(crate) fn to_schema_rule(self) -> ValidationRule {
        ValidationRule {
            rule: self.cel.to_owned(),
            message: Some(self.message.to_owned()),
            field_path: self.field.map(str::to_owned),
            ..ValidationRule::default()
        }
    }

    /// Returns the CEL expression.
    pub(crate) const fn cel(&self) -> &'static str {
        self.cel
    }

    /// Returns the message of a refusal by this rule.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.message
    }

    /// Returns the result of the rule for a check in the library.
    pub(crate) fn check(&self, ok: bool) -> garde::Result {
        if ok {
            Ok(())
        } else {
            Err(garde::Error::new(self.message))
        }
    }

    /// Returns a violation with details, which the API server does not give: a `messageExpression`
    /// with numbers exceeds the cost budget of a CRD.
    pub(super) fn violated(&self, how: &str) -> garde::Result {
        Err(garde::Error::new(format!("{}; {how}", self.message)))
    }
}
