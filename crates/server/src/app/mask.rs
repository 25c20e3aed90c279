//! Masks sensitive values in everything shown to operators (PRM-09).

use margo::deployment::ApplicationDeployment;
use margo::description::ApplicationDescription;
use margo::parameters::ParameterValues;
use serde_json::Value;

/// Shown instead of a value.
pub const MASK: &str = "********";

/// Which parameters of a version are sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sensitive {
    /// The description is gone, so all values count as sensitive.
    All,
    Some(Vec<String>),
}

/// There are no values to hide, and the reader needs to know that.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

impl Sensitive {
    pub fn of(description: Option<&ApplicationDescription>) -> Self {
        let Some(description) = description else { return Self::All };
        let Some(configuration) = &description.configuration else { return Self::Some(Vec::new()) };
        let is_sensitive =
            |name: &str| configuration.schema.iter().any(|schema| schema.name == name && schema.sensitive);
        let names = configuration
            .sections
            .iter()
            .flat_map(|section| &section.settings)
            .filter(|setting| is_sensitive(&setting.schema))
            .map(|setting| setting.parameter.clone())
            .collect();
        Self::Some(names)
    }

    /// Parameters that are sensitive in either of two versions.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Some(mut names), Self::Some(others)) => {
                names.extend(others);
                Self::Some(names)
            }
            _ => Self::All,
        }
    }

    pub fn has(&self, parameter: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.iter().any(|name| name == parameter),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(names) if names.is_empty())
    }

    /// Whether these values include sensitive ones.
    pub fn is_in(&self, values: &ParameterValues) -> bool {
        !self.is_empty() && values.keys().any(|name| self.has(name))
    }

    pub fn mask_values(&self, mut values: ParameterValues) -> ParameterValues {
        for (name, value) in &mut values {
            if self.has(name) && !is_nothing(value) {
                *value = Value::from(MASK);
            }
        }
        values
    }

    /// Masks the values in a document; `previous` shows which of them changed.
    pub fn mask_document(&self, document: &mut ApplicationDeployment, previous: Option<&ApplicationDeployment>) {
        for (name, parameter) in &mut document.spec.parameters {
            if !self.has(name) || is_nothing(&parameter.value) {
                continue;
            }
            let before = previous.and_then(|previous| previous.spec.parameters.get(name));
            let changed = before.is_some_and(|before| before.value != parameter.value);
            parameter.value = Value::from(if changed { format!("{MASK} (changed)") } else { MASK.to_owned() });
        }
    }
}
