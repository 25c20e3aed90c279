//! Constraints in words: what is required, and what the device has instead. A pointer is shown only if there is no word
//! for its target.

use super::{CpuRequirement, MatchExpression, Operator, Outcome};
use crate::capabilities::Cpu;
use crate::description::ProfileType;
use crate::quantity;
use crate::reader::shown;
use serde_json::Value;

/// Elements of a list that are listed; a device has a handful.
const ITEMS_MAX: usize = 6;

/// What an expression refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Labels the device reports, by name.
    Label,
    /// Properties of the device, by pointer.
    Property,
}

impl MatchExpression {
    /// A requirement that follows "needs": ``the label `line` (one of `7`, `8`)``.
    pub fn needs(&self, subject: Subject) -> String {
        let noun = noun(subject, &self.key).text;
        match self.operator {
            Operator::Exists => format!("the {noun}"),
            Operator::DoesNotExist => format!("no {noun}"),
            Operator::ContainsAll | Operator::ContainsAny => element(self),
            _ => format!("the {noun} ({})", demand(self)),
        }
    }
}

pub(super) fn deployment_type(wanted: ProfileType, types: &[String]) -> String {
    let offered: Vec<&str> = types.iter().map(|known| type_name(known)).collect();
    let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(" and ") };
    format!("runs {offered}, needs {}", type_name(wanted.as_str()))
}

fn type_name(word: &str) -> &str {
    match word {
        "helm" => "Helm",
        "compose" => "Compose",
        "custom" => "a custom runtime",
        other => other,
    }
}

pub(super) fn cpu(needed: &CpuRequirement, offered: Option<&[Cpu]>) -> String {
    let of = needed.architectures.as_ref().map_or_else(String::new, |list| format!(" of {}", list.join(" or ")));
    let wanted = format!("{}{of}", cores(needed.cores));
    let Some(offered) = offered else {
        return format!("needs {wanted}, the device does not report its processors");
    };
    let each: Vec<_> = offered
        .iter()
        .map(|cpu| {
            let of = cpu.architecture.as_deref().unwrap_or("an architecture it does not report");
            format!("{} of {of}", cores(cpu.cores))
        })
        .collect();
    let has = if each.is_empty() { "no processor".to_owned() } else { each.join(" and ") };
    format!("has {has}, needs {wanted}")
}

fn cores(number: f64) -> String {
    let noun = if number.total_cmp(&1.0).is_eq() { "core" } else { "cores" };
    format!("{number} {noun}")
}

/// Memory or storage, as sent and converted.
pub(super) fn capacity(rule: &str, needed: &str, offered: Option<&str>, outcome: Outcome) -> String {
    let wanted = readable(needed);
    let Some(sent) = offered else { return format!("needs {wanted} of {rule}, the device does not report it") };
    if quantity::parse_bytes(needed).is_none() {
        return format!("needs {wanted} of {rule}, which is not a quantity");
    }
    if quantity::parse_bytes(sent).is_none() {
        return format!("needs {wanted} of {rule}, the device reports `{}`, which is not a quantity", shown(sent));
    }
    let has = readable(sent);
    // If rounding hides the difference, show the values as sent.
    if outcome == Outcome::No && has == wanted {
        return format!("has {} of {rule}, needs {}", shown(sent), shown(needed));
    }
    format!("has {has} of {rule}, needs {wanted}")
}

fn readable(text: &str) -> String {
    quantity::parse_bytes(text).map_or_else(|| shown(text), quantity::words)
}

/// A key that the device does not have.
pub(super) fn missing(subject: Subject, expression: &MatchExpression) -> String {
    let needs = expression.needs(subject);
    match expression.operator {
        Operator::DoesNotExist => format!("needs {needs}, the device reports none"),
        Operator::ContainsAll | Operator::ContainsAny => {
            format!("needs {needs}, the device reports no {}", noun(subject, &expression.key).text)
        }
        _ => format!("needs {needs}, which the device does not report"),
    }
}

/// A value, or values, and what they are compared with.
pub(super) fn present(subject: Subject, expression: &MatchExpression, values: &[&Value]) -> String {
    let Noun { text, plural } = noun(subject, &expression.key);
    let is = if plural || values.len() > 1 { "are" } else { "is" };
    let texts = |values: &mut dyn Iterator<Item = &Value>| values.map(quoted).collect::<Vec<_>>().join(", ");
    let has = if values.is_empty() { "none".to_owned() } else { shown(&texts(&mut values.iter().copied())) };
    // 2 is not "2", and in words both look the same.
    let alike =
        |value: &&Value| expression.values.iter().any(|wanted| wanted != *value && plain(wanted) == plain(value));
    if let Some(value) = values.iter().copied().find(alike).filter(|_| expression.operator == Operator::In) {
        let kind = |value: &Value| match value {
            Value::String(_) => "text",
            Value::Bool(_) => "a boolean",
            _ => "a number",
        };
        let other = expression.values.first().map_or("", kind);
        return format!("{text} {is} {has} as {}, needs {} as {other}", kind(value), demand(expression));
    }
    let number = super::evaluate::as_number;
    let compares = matches!(expression.operator, Operator::Gt | Operator::Lt);
    if compares && values.iter().any(|value| number(value).is_none()) {
        return format!("{text} {is} {has}, which is not a number; needs {}", demand(expression));
    }
    format!("{text} {is} {has}, needs {}", demand(expression))
}

/// A value to which the operator does not apply (CON-08).
pub(super) fn unsuitable(subject: Subject, expression: &MatchExpression, value: &Value) -> String {
    let what = match value {
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        _ => "a single value",
    };
    let operator = expression.operator.as_str();
    format!(
        "needs {}, but `{}` is {what}, which `{operator}` does not support",
        expression.needs(subject),
        shown(&expression.key)
    )
}

/// A list of which one element must match.
pub(super) fn elements(expression: &MatchExpression, items: &[Value]) -> String {
    let keys: Vec<&str> = inner(expression).iter().map(|expression| expression.key.as_str()).collect();
    let mut known: Vec<String> = Vec::new();
    for item in items {
        let values = keys.iter().filter_map(|key| item.pointer(key));
        let text =
            values.filter(|value| !value.is_object() && !value.is_array()).map(plain).collect::<Vec<_>>().join(" ");
        let text = format!("`{text}`");
        if text.len() > 2 && !known.contains(&text) {
            known.push(text);
        }
    }
    let more = known.len().saturating_sub(ITEMS_MAX);
    known.truncate(ITEMS_MAX);
    let has = match (items.is_empty(), known.is_empty(), more) {
        (true, ..) => "none".to_owned(),
        (false, true, _) => "none that reports it".to_owned(),
        (false, false, 0) => known.join(", "),
        (false, false, more) => format!("{} and {more} more", known.join(", ")),
    };
    format!("needs {}, has {has}", element(expression))
}

struct Noun {
    text: String,
    plural: bool,
}

/// The name of a key's target (§7 of the requirements names the properties).
fn noun(subject: Subject, key: &str) -> Noun {
    let one = |text: &str| Noun { text: text.to_owned(), plural: false };
    let many = |text: &str| Noun { text: text.to_owned(), plural: true };
    if subject == Subject::Label {
        return one(&format!("label `{}`", shown(key)));
    }
    match key {
        "/id" => one("id"),
        "/vendor" => one("vendor"),
        "/modelNumber" => one("model"),
        "/serialNumber" => one("serial number"),
        "/memory" => one("memory"),
        "/storage" => one("storage"),
        "/otelCollector" => one("telemetry collector"),
        "/cpus" => many("processors"),
        "/peripherals" => many("peripherals"),
        "/interfaces" => many("interfaces"),
        "/supportedRuntimes" => many("runtimes"),
        "/supportedDeploymentTypes" => many("deployment types"),
        other => processor(other).unwrap_or_else(|| one(&format!("property `{}`", shown(other)))),
    }
}

/// `/cpus/0/cores` and similar.
fn processor(key: &str) -> Option<Noun> {
    let (index, field) = key.strip_prefix("/cpus/")?.split_once('/')?;
    let number = index.parse::<u16>().ok()? + 1;
    match field {
        "cores" => Some(Noun { text: format!("number of cores of processor {number}"), plural: false }),
        "architecture" => Some(Noun { text: format!("architecture of processor {number}"), plural: false }),
        _ => None,
    }
}

/// What the value must be.
fn demand(expression: &MatchExpression) -> String {
    let values = shown(&expression.values.iter().map(quoted).collect::<Vec<_>>().join(", "));
    match expression.operator {
        Operator::In if expression.values.len() == 1 => values,
        Operator::In => format!("one of {values}"),
        Operator::NotIn => format!("anything but {values}"),
        Operator::Exists => "any value".to_owned(),
        Operator::DoesNotExist => "a device without it".to_owned(),
        Operator::Gt => format!("more than {values}"),
        Operator::Lt => format!("less than {values}"),
        Operator::ContainsAll | Operator::ContainsAny => element(expression),
    }
}

fn inner(expression: &MatchExpression) -> &[MatchExpression] {
    expression.item_selector.as_ref().map(|items| &items.match_expressions[..]).unwrap_or_default()
}

/// ``a peripheral with type `camera` and manufacturer `Ardent` ``.
fn element(expression: &MatchExpression) -> String {
    let one = match expression.key.as_str() {
        "/cpus" => "a processor".to_owned(),
        "/peripherals" => "a peripheral".to_owned(),
        "/interfaces" => "an interface".to_owned(),
        other => format!("an element of `{}`", shown(other)),
    };
    let joint = if expression.operator == Operator::ContainsAll { " and " } else { " or " };
    let texts: Vec<_> = inner(expression).iter().map(trait_of).collect();
    format!("{one} with {}", texts.join(joint))
}

/// One requirement for an element.
fn trait_of(expression: &MatchExpression) -> String {
    let name = match expression.key.strip_prefix('/') {
        Some(name) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic()) => spaced(name),
        _ => format!("`{}`", shown(&expression.key)),
    };
    match expression.operator {
        Operator::Exists => format!("any {name}"),
        Operator::DoesNotExist => format!("no {name}"),
        Operator::In => {
            let values: Vec<_> = expression.values.iter().map(quoted).collect();
            format!("{name} {}", shown(&values.join(" or ")))
        }
        _ => format!("{name} {}", demand(expression)),
    }
}

/// `modelNumber` as `model number`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(value: &Value) -> String {
    format!("`{}`", plain(value))
}
