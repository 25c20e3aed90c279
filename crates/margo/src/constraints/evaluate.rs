//! Whether a device satisfies constraints, and why (CON-05 to CON-11).

use super::{
    CapacityRequirements, CpuRequirement, DeviceConstraints, EligibilityRule, Fit, MatchExpression, Operator, Outcome,
    Reason, Selector,
};
use crate::capabilities::{DeviceCapabilities, DeviceProperties};
use crate::description::ProfileType;
use crate::quantity::parse_bytes;
use crate::reader::shown;
use serde_json::Value;

pub(super) fn evaluate(
    profile_type: ProfileType,
    constraints: Option<&DeviceConstraints>,
    capabilities: &DeviceCapabilities,
) -> Fit {
    let properties = &capabilities.properties;
    let Some(types) = &properties.supported_deployment_types else {
        // CAP-06
        let message = "the device does not host workloads".to_owned();
        return fit(vec![Reason { rule: "deploymentType".to_owned(), outcome: Outcome::No, message }]);
    };
    let mut reasons = vec![deployment_type(profile_type, types)];
    let Some(constraints) = constraints else { return fit(reasons) };
    let capacity = constraints.capacity.iter().flat_map(|capacity| capacity_reasons(capacity, properties));
    reasons.extend(capacity);
    // CON-05: rules only for devices that pass. What is unknown may still pass, so the rules are worth a look.
    let capacity_fails = reasons.iter().skip(1).any(|reason| reason.outcome == Outcome::No);
    let Some(rules) = constraints.eligibility_rules.as_deref().filter(|rules| !rules.is_empty() && !capacity_fails)
    else {
        return fit(reasons);
    };
    let (outcome, rule_reasons) = rules_reasons(rules, capabilities);
    let overall = all(reasons.iter().map(|reason| reason.outcome).chain([outcome]));
    reasons.extend(rule_reasons);
    Fit { outcome: overall, reasons }
}

fn fit(reasons: Vec<Reason>) -> Fit {
    Fit { outcome: all(reasons.iter().map(|reason| reason.outcome)), reasons }
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

fn deployment_type(profile_type: ProfileType, types: &[String]) -> Reason {
    let wanted = profile_type.as_str();
    let outcome = yes_no(types.iter().any(|supported| supported == wanted));
    let message = format!("needs the deployment type {wanted}, supports {}", types.join(", "));
    Reason { rule: "deploymentType".to_owned(), outcome, message }
}

fn capacity_reasons(capacity: &CapacityRequirements, properties: &DeviceProperties) -> Vec<Reason> {
    let mut reasons = Vec::new();
    reasons.extend(capacity.cpu.as_ref().map(|cpu| cpu_reason(cpu, properties)));
    for (rule, needed, offered) in
        [("memory", &capacity.memory, &properties.memory), ("storage", &capacity.storage, &properties.storage)]
    {
        reasons.extend(needed.as_ref().map(|needed| quantity_reason(rule, needed, offered.as_deref())));
    }
    reasons
}

/// One single entry must do it; entries are never added up (CON-06).
fn cpu_reason(needed: &CpuRequirement, properties: &DeviceProperties) -> Reason {
    let reason = |outcome, message| Reason { rule: "cpu".to_owned(), outcome, message };
    let wanted = match &needed.architectures {
        Some(architectures) => format!("needs {} cores of {}", needed.cores, architectures.join(" or ")),
        None => format!("needs {} cores", needed.cores),
    };
    let Some(cpus) = &properties.cpus else {
        return reason(Outcome::Unknown, format!("{wanted}, the device does not report its CPUs"));
    };
    let outcome = any(cpus.iter().map(|cpu| {
        let architecture = match (&needed.architectures, &cpu.architecture) {
            (None, _) => Outcome::Yes,
            (Some(_), None) => Outcome::Unknown,
            (Some(wanted), Some(offered)) => yes_no(wanted.contains(offered)),
        };
        all([yes_no(cpu.cores >= needed.cores), architecture].into_iter())
    }));
    let offered: Vec<_> = cpus
        .iter()
        .map(|cpu| format!("{} of {}", cpu.cores, cpu.architecture.as_deref().unwrap_or("unknown architecture")))
        .collect();
    let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(" and ") };
    reason(outcome, format!("{wanted}, has {offered}"))
}

fn quantity_reason(rule: &str, needed: &str, offered: Option<&str>) -> Reason {
    let wanted = format!("needs {needed} of {rule}");
    let (outcome, message) = match (parse_bytes(needed), offered, offered.and_then(parse_bytes)) {
        (None, _, _) => (Outcome::Unknown, format!("{wanted}, which is not a quantity")),
        (_, None, _) => (Outcome::Unknown, format!("{wanted}, the device does not report it")),
        (_, Some(text), None) => {
            (Outcome::Unknown, format!("{wanted}, the device reports `{}`, which is not a quantity", shown(text)))
        }
        (Some(needed), Some(text), Some(offered)) => (yes_no(offered >= needed), format!("{wanted}, has {text}")),
    };
    Reason { rule: rule.to_owned(), outcome, message }
}

/// One rule suffices; within a rule everything must hold (CON-07).
fn rules_reasons(rules: &[EligibilityRule], capabilities: &DeviceCapabilities) -> (Outcome, Vec<Reason>) {
    let mut outcomes = Vec::new();
    let mut reasons = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("eligibilityRules[{index}]");
        let mut found = Vec::new();
        for (name, source, selector) in [
            ("propertySelector", Source::Properties(&capabilities.raw_properties), &rule.property_selector),
            ("labelSelector", Source::Labels(capabilities), &rule.label_selector),
        ] {
            let Some(selector) = selector else { continue };
            found.extend(selector.match_expressions.iter().enumerate().map(|(index, expression)| {
                let (holds, message) = expression_holds(expression, source);
                let rule = format!("{path}.{name}.matchExpressions[{index}]");
                Reason { rule, outcome: yes_no(holds), message }
            }));
        }
        outcomes.push(all(found.iter().map(|reason| reason.outcome)));
        reasons.extend(found);
    }
    let outcome = any(outcomes.iter().copied());
    if rules.len() > 1 {
        let message = match outcomes.iter().position(|outcome| *outcome == Outcome::Yes) {
            Some(index) => format!("one of {} rules must hold, rule {} does", rules.len(), index + 1),
            None => format!("one of {} rules must hold, none does", rules.len()),
        };
        reasons.push(Reason { rule: "eligibilityRules".to_owned(), outcome, message });
    }
    (outcome, reasons)
}

/// Where a key is looked up.
#[derive(Clone, Copy)]
enum Source<'a> {
    Properties(&'a Value),
    Labels(&'a DeviceCapabilities),
}

impl<'a> Source<'a> {
    fn get(self, key: &str) -> Option<&'a Value> {
        match self {
            Self::Properties(root) => root.pointer(key),
            Self::Labels(capabilities) => capabilities.labels.get(key),
        }
    }
}

/// What a value may be for a selector (CON-08, CON-09).
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

fn expression_holds(expression: &MatchExpression, source: Source<'_>) -> (bool, String) {
    let key = shown(&expression.key);
    let wanted = format!("`{key}` {}", demand(expression));
    let Some(value) = source.get(&expression.key) else {
        let holds = expression.operator == Operator::DoesNotExist;
        return (holds, format!("{wanted}, the device does not report it"));
    };
    let has = format!("{wanted}, has {}", shown(&value.to_string()));
    let holds = match (shape(value), expression.operator) {
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
    };
    (holds, has)
}

fn item_holds(operator: Operator, selector: &Selector, item: &Value) -> bool {
    let mut holds =
        selector.match_expressions.iter().map(|expression| expression_holds(expression, Source::Properties(item)).0);
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

/// Texts exactly and with case (CON-11), numbers by value.
fn contains(values: &[Value], wanted: &Value) -> bool {
    values.iter().any(|value| {
        value == wanted
            || matches!((value.as_f64(), wanted.as_f64()), (Some(one), Some(other)) if one.total_cmp(&other).is_eq())
    })
}

fn demand(expression: &MatchExpression) -> String {
    let values = || {
        let texts: Vec<_> = expression
            .values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        shown(&texts.join(", "))
    };
    let items = || {
        let expressions =
            expression.item_selector.as_ref().map(|items| &items.match_expressions[..]).unwrap_or_default();
        let joint = if expression.operator == Operator::ContainsAll { " and " } else { " or " };
        let texts: Vec<_> = expressions
            .iter()
            .map(|expression| format!("`{}` {}", shown(&expression.key), demand(expression)))
            .collect();
        texts.join(joint)
    };
    match expression.operator {
        Operator::In => format!("must be one of {}", values()),
        Operator::NotIn => format!("must be there and be none of {}", values()),
        Operator::Exists => "must be there".to_owned(),
        Operator::DoesNotExist => "must not be there".to_owned(),
        Operator::Gt => format!("must be greater than {}", values()),
        Operator::Lt => format!("must be less than {}", values()),
        Operator::ContainsAll | Operator::ContainsAny => format!("must hold an element where {}", items()),
    }
}
