//! The tree every document is parsed into: text as written, its style and its line.
//!
//! YAML and JSON share it, so that one [`crate::reader`] serves both. Scalars stay text until a type is
//! requested; only then the rules of YAML 1.2's core schema apply.

use serde_json::{Number, Value};

/// Limits for parsing. A hostile document is rejected before it costs more than these.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes_max: usize,
    /// Nesting: far above what any Margo document needs, far below what a stack can hold.
    pub depth_max: usize,
    /// Scalars, sequences and mappings, with every alias counted as its target.
    pub nodes_max: usize,
}

impl Limits {
    /// Real documents have a few kilobytes and a few hundred nodes.
    pub const DOCUMENT: Self = Self { bytes_max: 1 << 19, depth_max: 64, nodes_max: 20_000 };
    /// A manifest has five nodes per deployment, so this allows ten thousand deployments.
    pub const MANIFEST: Self = Self { bytes_max: 4 << 20, depth_max: 16, nodes_max: 60_000 };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: its type follows from its text.
    Plain,
    /// In quotes or as a block: always text.
    Quoted,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Counted from 1.
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Scalar { text: String, style: Style },
    Sequence(Vec<Node>),
    Mapping(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub key: String,
    pub line: usize,
    pub node: Node,
}

/// What a scalar means.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    /// A number that exceeds 64 bits, or is not finite.
    OutOfRange,
}

impl Node {
    /// The kind of this node in words, for messages.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Sequence(_) => "a list",
            Kind::Mapping(_) => "an object",
            Kind::Scalar { text, style } => match resolve(text, *style) {
                Scalar::Null => "nothing",
                Scalar::Boolean(_) => "a boolean",
                Scalar::Number(_) | Scalar::OutOfRange => "a number",
                Scalar::Text(_) => "text",
            },
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, style: Style::Plain } if is_null(text))
    }

    /// The node as a JSON value; `Err` holds the line of a number that cannot be represented.
    pub fn to_value(&self) -> Result<Value, usize> {
        Ok(match &self.kind {
            Kind::Scalar { text, style } => match resolve(text, *style) {
                Scalar::Null => Value::Null,
                Scalar::Boolean(boolean) => Value::Bool(boolean),
                Scalar::Number(number) => Value::Number(number),
                Scalar::Text(text) => Value::String(text),
                Scalar::OutOfRange => return Err(self.line),
            },
            Kind::Sequence(items) => Value::Array(items.iter().map(Self::to_value).collect::<Result<_, _>>()?),
            Kind::Mapping(members) => Value::Object(
                members
                    .iter()
                    .map(|member| Ok((member.key.clone(), member.node.to_value()?)))
                    .collect::<Result<_, usize>>()?,
            ),
        })
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The core schema of YAML 1.2, of which JSON's rules are a part: `yes`, `1_000` and `12:30` are text,
/// `012` is twelve, `0o14` is twelve, `1.10` is a number unless text is requested.
pub fn resolve(text: &str, style: Style) -> Scalar {
    if style == Style::Quoted {
        return Scalar::Text(text.to_owned());
    }
    match text {
        _ if is_null(text) => Scalar::Null,
        "true" | "True" | "TRUE" => Scalar::Boolean(true),
        "false" | "False" | "FALSE" => Scalar::Boolean(false),
        _ => resolve_number(text).unwrap_or_else(|| Scalar::Text(text.to_owned())),
    }
}

/// The longest text parsed as a number. Every number of 64 bits is far shorter; longer digit strings are rejected
/// unread.
const NUMBER_CHARS_MAX: usize = 1000;

fn resolve_number(text: &str) -> Option<Scalar> {
    if let Some(start) = text.as_bytes().get(..NUMBER_CHARS_MAX) {
        let looks_like_one = start.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E'));
        return looks_like_one.then_some(Scalar::OutOfRange);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Scalar::OutOfRange);
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            return valid.then(|| {
                u64::from_str_radix(digits, radix).map_or(Scalar::OutOfRange, |number| Scalar::Number(number.into()))
            });
        }
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(integer(text).map_or(Scalar::OutOfRange, Scalar::Number));
    }
    is_float(unsigned)
        .then(|| text.parse::<f64>().ok().and_then(Number::from_f64).map_or(Scalar::OutOfRange, Scalar::Number))
}

/// Exact, never through a floating point number.
fn integer(text: &str) -> Option<Number> {
    let text = text.strip_prefix('+').unwrap_or(text);
    text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from)).ok()
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent_holds = exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    let mantissa_holds = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    exponent_holds && mantissa_holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Scalar) {
        assert_eq!(resolve(text, Style::Plain), expected, "{text:?}");
    }

    #[test]
    fn plain_scalars_follow_the_core_schema_of_yaml_1_2() {
        for text in
            ["yes", "no", "on", "y", "1_000", "12:30:45", "0b1", "0x", "0o9", "1e", ".", "+", "-", "1.2.3", "nul"]
        {
            check(text, Scalar::Text(text.to_owned()));
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            check(text, Scalar::Null);
        }
        check("True", Scalar::Boolean(true));
        check("FALSE", Scalar::Boolean(false));
        check("012", Scalar::Number(12.into()));
        check("0o14", Scalar::Number(12.into()));
        check("0xC", Scalar::Number(12.into()));
        check("+7", Scalar::Number(7.into()));
        check("-7", Scalar::Number((-7).into()));
        check("1.10", Scalar::Number(Number::from_f64(1.1).unwrap()));
        check(".5", Scalar::Number(Number::from_f64(0.5).unwrap()));
        check("1e3", Scalar::Number(Number::from_f64(1000.0).unwrap()));
    }

    #[test]
    fn numbers_are_exact_up_to_sixty_four_bits_and_refused_beyond() {
        check("18446744073709551615", Scalar::Number(u64::MAX.into()));
        check("-9223372036854775808", Scalar::Number(i64::MIN.into()));
        for text in
            ["18446744073709551616", "-9223372036854775809", "1e999", ".inf", "-.INF", ".nan", "0xFFFFFFFFFFFFFFFFF"]
        {
            check(text, Scalar::OutOfRange);
        }
    }

    #[test]
    fn quoted_scalars_are_always_text() {
        for text in ["", "true", "12", "~", "1.10"] {
            assert_eq!(resolve(text, Style::Quoted), Scalar::Text(text.to_owned()));
        }
    }
}
