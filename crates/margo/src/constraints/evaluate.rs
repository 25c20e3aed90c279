//! Whether a device satisfies constraints, and why (CON-05 to CON-11).

use super::words::{self, Subject};
use super::{
    CapacityRequirements, CompatibilityCheck, CpuRequirement, DeviceConstraints, EligibilityRule, MatchExpression,
    Operator, Outcome, Reason, Selector,
};
use crate::capabilities::{DeviceCapabilities, DeviceProperties};
use crate::description::ProfileType;
use crate::quantity::parse_bytes;
use serde_json::Value;

/// Whether to write reasons. They cost more than the evaluation, and for a whole fleet hardly any is read.
#[derive(Clone, Copy)]
pub(super) enum ReasonDetail {
    Omitted,
    Full,
}

impl ReasonDetail {
    fn text(self, text: impl FnOnce() -> String) -> String {
        match self {
            Self::Omitted => String::new(),
            Self::Full => text(),
        }
    }
}

pub(super) fn evaluate(
    profile_type: ProfileType,
    constraints: Option<&DeviceConstraints>,
    capabilities: &DeviceCapabilities,
    detail: ReasonDetail,
) -> CompatibilityCheck {
    let properties = &capabilities.properties;
    let Some(types) = &properties.supported_deployment_types else {
        // CAP-06
        let message = detail.text(|| "the device does not host workloads".to_owned());
        let rule = detail.text(|| "deploymentType".to_owned());
        return check_of(vec![Reason { rule, outcome: Outcome::No, message, label: None }]);
    };
    let mut reasons = vec![deployment_type(profile_type, types, detail)];
    let Some(constraints) = constraints else { return check_of(reasons) };
    let capacity = constraints.capacity.iter().flat_map(|capacity| capacity_reasons(capacity, properties, detail));
    reasons.extend(capacity);
    // CON-05: rules only for devices that pass. An unknown capacity may still pass, so the rules are evaluated.
    let capacity_fails = reasons.iter().skip(1).any(|reason| reason.outcome == Outcome::No);
    let Some(rules) = constraints.eligibility_rules.as_deref().filter(|rules| !rules.is_empty() && !capacity_fails)
    else {
        return check_of(reasons);
    };
    let (outcome, rule_reasons) = rules_reasons(rules, capabilities, detail);
    let overall = all(reasons.iter().map(|reason| reason.outcome).chain([outcome]));
    reasons.extend(rule_reasons);
    CompatibilityCheck { outcome: overall, reasons }
}

fn check_of(reasons: Vec<Reason>) -> CompatibilityCheck {
    CompatibilityCheck { outcome: all(reasons.iter().map(|reason| reason.outcome)), reasons }
}

/// A definite no wins over unknown, unknown over yes.
fn all(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    outcomes.fold(Outcome::Yes, |joined, outcome| match (joined, outcome) {
        (Outcome::No, _) | (_, Outcome::No) => Outcome::No,
        (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
        _ => Outcome::Yes,
    })
}

/// A definite yes wins over unknown, unknown over no.
fn any(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    outcomes.fold(Outcome::No, |joined, outcome| match (joined, outcome) {
        (Outcome::Yes, _) | (_, Outcome::Yes) => Outcome::Yes,
        (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
        _ => Outcome::No,
    })
}

fn yes_no(holds: bool) -> Outcome {
    if holds { Outcome::Yes } else { Outcome::No }
}

fn deployment_type(profile_type: ProfileType, types: &[String], detail: ReasonDetail) -> Reason {
    let wanted = profile_type.as_str();
    let outcome = yes_no(types.iter().any(|supported| supported == wanted));
    let message = detail.text(|| words::deployment_type(profile_type, types));
    Reason { rule: detail.text(|| "deploymentType".to_owned()), outcome, message, label: None }
}

fn capacity_reasons(
    capacity: &CapacityRequirements,
    properties: &DeviceProperties,
    detail: ReasonDetail,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(capacity.cpu.as_ref().map(|cpu| cpu_reason(cpu, properties, detail)));
    for (rule, needed, offered) in
        [("memory", &capacity.memory, &properties.memory), ("storage", &capacity.storage, &properties.storage)]
    {
        reasons.extend(needed.as_ref().map(|needed| quantity_reason(rule, needed, offered.as_deref(), detail)));
    }
    reasons
}

/// One single entry must suffice; entries are never added up (CON-06).
fn cpu_reason(needed: &CpuRequirement, properties: &DeviceProperties, detail: ReasonDetail) -> Reason {
    let message = detail.text(|| words::cpu(needed, properties.cpus.as_deref()));
    let reason = |outcome| Reason { rule: detail.text(|| "cpu".to_owned()), outcome, message, label: None };
    let Some(cpus) = &properties.cpus else { return reason(Outcome::Unknown) };
    reason(any(cpus.iter().map(|cpu| {
        let architecture = match (&needed.architectures, &cpu.architecture) {
            (None, _) => Outcome::Yes,
            (Some(_), None) => Outcome::Unknown,
            (Some(wanted), Some(offered)) => yes_no(wanted.contains(offered)),
        };
        all([yes_no(cpu.cores >= needed.cores), architecture].into_iter())
    })))
}

fn quantity_reason(rule: &str, needed: &str, offered: Option<&str>, detail: ReasonDetail) -> Reason {
    let outcome = match (parse_bytes(needed), offered.and_then(parse_bytes)) {
        (Some(needed), Some(offered)) => yes_no(offered >= needed),
        _ => Outcome::Unknown,
    };
    let message = detail.text(|| words::capacity(rule, needed, offered, outcome));
    Reason { rule: detail.text(|| rule.to_owned()), outcome, message, label: None }
}

/// One rule is enough; within a rule everything must hold (CON-07).
fn rules_reasons(
    rules: &[EligibilityRule],
    capabilities: &DeviceCapabilities,
    detail: ReasonDetail,
) -> (Outcome, Vec<Reason>) {
    let mut outcomes = Vec::new();
    let mut reasons = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let alternative = index;
        let mut found = Vec::new();
        for (name, source, selector) in [
            ("propertySelector", Source::Properties(&capabilities.raw_properties), &rule.property_selector),
            ("labelSelector", Source::Labels(capabilities), &rule.label_selector),
        ] {
            let Some(selector) = selector else { continue };
            found.extend(selector.match_expressions.iter().enumerate().map(|(index, expression)| {
                let holds = expression_holds(expression, source);
                let message = detail.text(|| expression_words(expression, source));
                let rule = detail.text(|| format!("eligibilityRules[{alternative}].{name}.matchExpressions[{index}]"));
                let wants_label = name == "labelSelector" && expression.operator != Operator::DoesNotExist;
                let label = wants_label.then(|| detail.text(|| expression.key.clone()));
                Reason { rule, outcome: yes_no(holds), message, label }
            }));
        }
        outcomes.push(all(found.iter().map(|reason| reason.outcome)));
        reasons.extend(found);
    }
    let outcome = any(outcomes.iter().copied());
    if rules.len() > 1 {
        let message = detail.text(|| match outcomes.iter().position(|outcome| *outcome == Outcome::Yes) {
            Some(index) => format!("alternative {} of {} matches; one is enough", index + 1, rules.len()),
            None => format!("none of {} alternatives matches", rules.len()),
        });
        let rule = detail.text(|| "eligibilityRules".to_owned());
        reasons.push(Reason { rule, outcome, message, label: None });
    }
    (outcome, reasons)
}

/// Where to look up a key.
#[derive(Clone, Copy)]
enum Source<'a> {
    Properties(&'a Value),
    Labels(&'a DeviceCapabilities),
}

impl<'a> Source<'a> {
    fn subject(self) -> Subject {
        match self {
            Self::Properties(_) => Subject::Property,
            Self::Labels(_) => Subject::Label,
        }
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        match self {
            Self::Properties(root) => root.pointer(key),
            Self::Labels(capabilities) => capabilities.labels.get(key),
        }
    }
}

/// The kinds of value a selector may find (CON-08, CON-09).
enum Shape<'a> {
    Scalar(&'a Value),
    Scalars(&'a [Value]),
    Objects(&'a [Value]),
    Other,
}

fn shape(value: &Value) -> Shape<'_> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Shape::Scalar(value),
        Value::Array(items) if items.iter().all(Value::is_string) || items.iter().all(Value::is_number) => {
            Shape::Scalars(items)
        }
        Value::Array(items) if items.iter().all(Value::is_object) => Shape::Objects(items),
        _ => Shape::Other,
    }
}

fn expression_words(expression: &MatchExpression, source: Source<'_>) -> String {
    let subject = source.subject();
    let Some(value) = source.get(&expression.key) else { return words::missing(subject, expression) };
    let items = matches!(expression.operator, Operator::ContainsAll | Operator::ContainsAny);
    match shape(value) {
        Shape::Scalar(value) if !items => words::present(subject, expression, &[value]),
        Shape::Scalars(values) if !items => words::present(subject, expression, &values.iter().collect::<Vec<_>>()),
        Shape::Scalars([]) => words::elements(expression, &[]),
        Shape::Objects(values) if items => words::elements(expression, values),
        _ => words::unsuitable(subject, expression, value),
    }
}

fn expression_holds(expression: &MatchExpression, source: Source<'_>) -> bool {
    let Some(value) = source.get(&expression.key) else { return expression.operator == Operator::DoesNotExist };
    match (shape(value), expression.operator) {
        (Shape::Scalar(_) | Shape::Scalars(_), Operator::Exists) => true,
        (Shape::Scalar(value), Operator::In) => contains(&expression.values, value),
        (Shape::Scalars(items), Operator::In) => items.iter().any(|item| contains(&expression.values, item)),
        (Shape::Scalar(value), Operator::NotIn) => !contains(&expression.values, value),
        (Shape::Scalars(items), Operator::NotIn) => !items.iter().any(|item| contains(&expression.values, item)),
        (Shape::Scalar(value), Operator::Gt | Operator::Lt) => compares(expression, value),
        (Shape::Objects(items), Operator::ContainsAll | Operator::ContainsAny) => items.iter().any(|item| {
            expression.item_selector.as_ref().is_some_and(|items| item_holds(expression.operator, items, item))
        }),
        // Everything else is false, an array of objects under a plain operator too (CON-08).
        _ => false,
    }
}

fn item_holds(operator: Operator, selector: &Selector, item: &Value) -> bool {
    let mut holds =
        selector.match_expressions.iter().map(|expression| expression_holds(expression, Source::Properties(item)));
    match operator {
        Operator::ContainsAll => holds.all(|holds| holds),
        _ => holds.any(|holds| holds),
    }
}

fn compares(expression: &MatchExpression, value: &Value) -> bool {
    let bound = expression.values.first().and_then(as_number);
    match (as_number(value), bound) {
        (Some(number), Some(bound)) if expression.operator == Operator::Gt => number > bound,
        (Some(number), Some(bound)) => number < bound,
        _ => false,
    }
}

/// A number, or text that is one (CON-11: "parseable as number").
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Text exactly and case-sensitive (CON-11), numbers by value.
fn contains(values: &[Value], wanted: &Value) -> bool {
    values.iter().any(|value| {
        value == wanted
            || matches!((value.as_f64(), wanted.as_f64()), (Some(one), Some(other)) if one.total_cmp(&other).is_eq())
    })
}
