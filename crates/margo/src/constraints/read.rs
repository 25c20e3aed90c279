//! Reading device constraints (CON-07 to CON-12) and the `requiredResources` of generation A.

use super::{
    CapacityRequirements, CpuRequirement, DeviceConstraints, EligibilityRule, MatchExpression, Operator, Selector,
};
use crate::node::Kind;
use crate::quantity;
use crate::reader::{Cursor, Object, shown};
use crate::tree::{Members, Tree};
use serde_json::{Value, json};

const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "arm", "riscv64", "other"];
const MEMORY_UNITS: [&str; 3] = ["Ki", "Mi", "Gi"];
const STORAGE_UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The constraints of a profile, in the form of either generation.
pub(crate) fn of_profile(profile: &Object<'_>) -> Option<DeviceConstraints> {
    let older = profile.get("requiredResources");
    match (profile.get("deviceConstraints"), older) {
        (Some(cursor), older) => {
            if let Some(older) = older {
                older.warning("is ignored, because `deviceConstraints` is present");
            }
            device_constraints(&cursor)
        }
        (None, Some(older)) => {
            older.warning("is from an older preview; write `deviceConstraints`");
            required_resources(&older)
        }
        (None, None) => None,
    }
}

fn device_constraints(cursor: &Cursor<'_>) -> Option<DeviceConstraints> {
    let object = cursor.object()?;
    let capacity = object.optional("capacityRequirements", capacity);
    let eligibility_rules = object.optional("eligibilityRules", |cursor| cursor.list_of(eligibility_rule));
    object.warn_unread();
    Some(DeviceConstraints { capacity, eligibility_rules, raw: cursor.value()? })
}

fn capacity(cursor: &Cursor<'_>) -> Option<CapacityRequirements> {
    let object = cursor.object()?;
    let capacity = capacity_fields(&object);
    object.warn_unread();
    Some(capacity)
}

fn capacity_fields(object: &Object<'_>) -> CapacityRequirements {
    CapacityRequirements {
        cpu: object.optional("cpu", cpu),
        memory: object.optional("memory", |cursor| quantity(cursor, &MEMORY_UNITS)),
        storage: object.optional("storage", |cursor| quantity(cursor, &STORAGE_UNITS)),
    }
}

fn cpu(cursor: &Cursor<'_>) -> Option<CpuRequirement> {
    let object = cursor.object()?;
    let cores = object.required("cores").and_then(|cursor| {
        let cores = cursor.float()?;
        if cores < 0.0 {
            cursor.error("must not be negative");
        }
        Some(cores)
    });
    let architectures = object.optional("architectures", |cursor| {
        let mut names = cursor.list_of(|cursor| architecture(cursor, &ARCHITECTURES))?;
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Some(names)
    });
    object.warn_unread();
    Some(CpuRequirement { cores: cores?, architectures })
}

/// An architecture by its name in the standard; names from other tools are mapped (W-22).
pub(crate) fn architecture(cursor: &Cursor<'_>, known: &[&str]) -> Option<String> {
    let text = cursor.text()?;
    if known.contains(&text.as_str()) {
        return Some(text);
    }
    let mapped = match text.as_str() {
        "x86_64" | "x86-64" | "x64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" | "armhf" => "arm",
        _ => {
            cursor.error(format!("`{}` is not a known architecture; write one of {}", shown(&text), known.join(", ")));
            return None;
        }
    };
    cursor.warning(format!("`{text}` is read as `{mapped}`"));
    Some(mapped.to_owned())
}

fn quantity(cursor: &Cursor<'_>, units: &[&str]) -> Option<String> {
    let text = cursor.text()?;
    let strict = units.iter().any(|unit| {
        text.strip_suffix(unit).is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    });
    if !strict {
        let hint = format!("write digits and one of {}, such as 512Mi", units.join(", "));
        if quantity::parse_bytes(&text).is_some() {
            cursor.warning(format!("`{}` is not in the form of the standard; {hint}", shown(&text)));
        } else {
            cursor.error(format!("`{}` is not a quantity; {hint}", shown(&text)));
        }
    }
    Some(text)
}

fn eligibility_rule(cursor: &Cursor<'_>) -> Option<EligibilityRule> {
    let object = cursor.object()?;
    let property_selector = object.optional("propertySelector", |cursor| selector(cursor, Keys::Pointers));
    let label_selector = object.optional("labelSelector", |cursor| selector(cursor, Keys::Labels));
    if object.get("propertySelector").is_none() && object.get("labelSelector").is_none() {
        cursor.warning("names neither a `propertySelector` nor a `labelSelector`, so every device matches");
    }
    object.warn_unread();
    Some(EligibilityRule { property_selector, label_selector })
}

/// The kind of a key.
#[derive(Clone, Copy, PartialEq)]
enum Keys {
    /// JSON Pointer (CON-08).
    Pointers,
    /// Label name, exactly (CON-09).
    Labels,
}

fn selector(cursor: &Cursor<'_>, keys: Keys) -> Option<Selector> {
    let object = cursor.object()?;
    let match_expressions =
        object.required("matchExpressions").and_then(|cursor| cursor.list_of(|cursor| match_expression(cursor, keys)));
    object.warn_unread();
    Some(Selector { match_expressions: match_expressions? })
}

fn match_expression(cursor: &Cursor<'_>, keys: Keys) -> Option<MatchExpression> {
    let object = cursor.object()?;
    let key = object.required("key").and_then(|cursor| {
        let text = cursor.text()?;
        if keys == Keys::Pointers && !is_pointer(&text) {
            cursor.error(format!("`{}` is not a JSON Pointer: it must begin with `/`", shown(&text)));
        }
        Some(text)
    });
    let operator = object.required("operator").and_then(|cursor| operator(&cursor));
    let values_cursor = object.get("values");
    let values = values_cursor.as_ref().map(|cursor| cursor.list_of(Cursor::value));
    let item_cursor = object.get("itemSelector");
    let item_selector = item_cursor.as_ref().map(|cursor| selector(cursor, Keys::Pointers));
    object.warn_unread();
    match operator {
        Some(operator) => {
            let given = match &values {
                None => Given::Nothing,
                Some(None) => Given::Unreadable,
                Some(Some(values)) => Given::Values(values),
            };
            let is_empty = |list: Cursor<'_>| matches!(&list.node().kind, Kind::Sequence(items) if items.is_empty());
            let items = item_cursor.as_ref().map(|cursor| !cursor.peek("matchExpressions").is_some_and(is_empty));
            for problem in problems(operator, given, items, keys) {
                cursor.error(problem);
            }
        }
        None => cursor.blocks_check(&object.path_of("operator"), "what it is compared with"),
    }
    let values = values.map_or(Some(Vec::new()), |values| values);
    let item_selector = match item_selector {
        Some(None) => return None,
        Some(Some(selector)) => Some(selector),
        None => None,
    };
    Some(MatchExpression { key: key?, operator: operator?, values: values?, item_selector })
}

fn operator(cursor: &Cursor<'_>) -> Option<Operator> {
    let text = cursor.text()?;
    let found = Operator::ALL.into_iter().find(|operator| operator.as_str() == text);
    if found.is_none() {
        let known = Operator::ALL.map(Operator::as_str).join(", ");
        // CON-12: the prose misspells one of them, the enumeration does not.
        let hint = if text == "ContainersAny" { " (did you mean `ContainsAny`?)" } else { "" };
        cursor.error(format!("`{}` is not an operator{hint}; write one of {known}", shown(&text)));
    }
    found
}

/// The content of `values`.
#[derive(Clone, Copy)]
enum Given<'a> {
    Nothing,
    /// Present, with a problem of its own.
    Unreadable,
    Values(&'a [Value]),
}

/// What an expression must contain (CON-11). `items` says whether there is an item selector, and whether it has any
/// expression.
fn problems(operator: Operator, given: Given<'_>, items: Option<bool>, keys: Keys) -> Vec<&'static str> {
    let mut problems = Vec::new();
    let is_there = !matches!(given, Given::Nothing);
    let readable = match given {
        Given::Nothing => Some(&[][..]),
        Given::Unreadable => None,
        Given::Values(values) => Some(values),
    };
    match operator {
        Operator::In | Operator::NotIn => {
            let same_type = |values: &[Value]| {
                values.iter().all(Value::is_string)
                    || values.iter().all(Value::is_number)
                    || (values.len() == 1 && values[0].is_boolean())
            };
            if readable.is_some_and(|values| values.is_empty() || !same_type(values)) {
                problems.push("`In` and `NotIn` need `values`: texts, or numbers, or exactly one boolean");
            }
        }
        Operator::Gt | Operator::Lt => {
            let number = |values: &[Value]| values.len() == 1 && super::evaluate::as_number(&values[0]).is_some();
            if readable.is_some_and(|values| !number(values)) {
                problems.push("`Gt` and `Lt` need `values` with exactly one number");
            }
        }
        Operator::Exists | Operator::DoesNotExist => {
            if is_there {
                problems.push("`Exists` and `DoesNotExist` take no `values`");
            }
        }
        Operator::ContainsAll | Operator::ContainsAny => {
            if is_there {
                problems.push("`ContainsAll` and `ContainsAny` take no `values`");
            }
            if items != Some(true) {
                problems.push("`ContainsAll` and `ContainsAny` need an `itemSelector` with at least one expression");
            }
            if keys == Keys::Labels {
                problems.push("`ContainsAll` and `ContainsAny` apply to lists of objects, which labels cannot hold");
            }
        }
    }
    if items.is_some() && !matches!(operator, Operator::ContainsAll | Operator::ContainsAny) {
        problems.push("`itemSelector` belongs to `ContainsAll` and `ContainsAny` only");
    }
    problems
}

/// RFC 6901: empty, or steps that begin with `/`, with `~` only in `~0` and `~1`.
fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'))
}

/// Generation A: what a device must have, as one rule over its properties.
fn required_resources(cursor: &Cursor<'_>) -> Option<DeviceConstraints> {
    let object = cursor.object()?;
    let capacity = capacity_fields(&object);
    let mut expressions = Vec::new();
    for (list, fields) in [("peripherals", &["type", "manufacturer", "model"][..]), ("interfaces", &["type"])] {
        let items = object.optional(list, |cursor| cursor.list_of(|cursor| item_fields(cursor, fields)));
        expressions.extend(items.into_iter().flatten().map(|item| contains(list, item)));
    }
    object.warn_unread();
    let rules = (!expressions.is_empty()).then(|| {
        let property_selector = Some(Selector { match_expressions: expressions });
        vec![EligibilityRule { property_selector, label_selector: None }]
    });
    let raw = to_raw(&capacity, rules.as_deref());
    Some(DeviceConstraints { capacity: Some(capacity), eligibility_rules: rules, raw })
}

fn item_fields(cursor: &Cursor<'_>, fields: &[&'static str]) -> Option<Vec<(&'static str, String)>> {
    let object = cursor.object()?;
    let has_type = object.required("type").is_some();
    let read = fields.iter().filter_map(|field| Some((*field, object.text(field)?))).collect();
    object.warn_unread();
    has_type.then_some(read)
}

/// At least one element of the list has all these fields.
fn contains(list: &str, fields: Vec<(&'static str, String)>) -> MatchExpression {
    let match_expressions = fields
        .into_iter()
        .map(|(field, text)| MatchExpression {
            key: format!("/{field}"),
            operator: Operator::In,
            values: vec![json!(text)],
            item_selector: None,
        })
        .collect();
    MatchExpression {
        key: format!("/{list}"),
        operator: Operator::ContainsAll,
        values: Vec::new(),
        item_selector: Some(Selector { match_expressions }),
    }
}

fn to_raw(capacity: &CapacityRequirements, rules: Option<&[EligibilityRule]>) -> Value {
    let cpu = capacity.cpu.as_ref().map(|cpu| {
        Members::new()
            .with("cores", Tree::float(cpu.cores))
            .with_some("architectures", cpu.architectures.as_ref().map(Tree::list))
    });
    let capacity = Members::new()
        .with_some("cpu", cpu)
        .with_some("memory", capacity.memory.as_ref())
        .with_some("storage", capacity.storage.as_ref());
    let rules = rules.map(|rules| {
        Tree::list(rules.iter().map(|rule| {
            Members::new()
                .with_some("propertySelector", rule.property_selector.as_ref().map(selector_tree))
                .with_some("labelSelector", rule.label_selector.as_ref().map(selector_tree))
        }))
    });
    Members::new().with("capacityRequirements", capacity).with_some("eligibilityRules", rules).build().to_value()
}

fn selector_tree(selector: &Selector) -> Tree {
    let expressions = selector.match_expressions.iter().map(|expression| {
        Members::new()
            .with("key", &expression.key)
            .with("operator", expression.operator.as_str())
            .with_some("values", (!expression.values.is_empty()).then(|| Tree::list(&expression.values)))
            .with_some("itemSelector", expression.item_selector.as_ref().map(selector_tree))
    });
    Members::new().with("matchExpressions", Tree::list(expressions)).build()
}
