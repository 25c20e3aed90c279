//! Patterns in words, for people who fill in a form. Only certain statements are made: a pattern that is not fully
//! understood has no words, or only those for its beginning.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};

/// Longer patterns have no short description.
const PATTERN_BYTES_MAX: usize = 300;
/// How deep groups may be nested.
const NESTING_MAX: u32 = 20;
/// More parts than this are harder to read than an example.
const PARTS_MAX: usize = 3;
/// The most single characters that are listed.
const SINGLES_MAX: usize = 5;
const CHOICES_MAX: usize = 12;

/// ``begins with `https://` ``, `4 digits`, ``only lower-case letters, digits and `-` ``.
pub(super) fn words(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let parsed = ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(pattern).ok()?;
    let HirKind::Concat(parts) = parsed.kind() else { return None };
    let (first, rest) = parts.split_first()?;
    if !matches!(first.kind(), HirKind::Look(Look::Start)) {
        return None;
    }
    let whole = rest.split_last().filter(|(last, _)| matches!(last.kind(), HirKind::Look(Look::End)));
    if let Some(words) = whole.and_then(|(_, between)| of_whole(between)) {
        return Some(words);
    }
    literal(rest.first()?).map(|text| format!("begins with {text}"))
}

/// For everything between the beginning and the end.
fn of_whole(parts: &[Hir]) -> Option<String> {
    match parts {
        [] => None,
        [only] => choice(only).or_else(|| match part(only)? {
            Part { class: true, text } => Some(format!("only {text}")),
            Part { text, .. } => Some(text),
        }),
        [first, rest] if is_anything(rest) => literal(first).map(|text| format!("begins with {text}")),
        [rest, last] if is_anything(rest) => literal(last).map(|text| format!("ends with {text}")),
        parts if parts.len() > PARTS_MAX => None,
        parts => {
            let texts: Option<Vec<String>> = parts.iter().map(|hir| Some(part(hir)?.text)).collect();
            Some(texts?.join(", then "))
        }
    }
}

struct Part {
    /// Any number of characters of some kinds.
    class: bool,
    text: String,
}

fn part(hir: &Hir) -> Option<Part> {
    let hir = inside(hir);
    let counted = |text: String| Some(Part { class: false, text });
    match hir.kind() {
        HirKind::Literal(_) => counted(literal(hir)?),
        HirKind::Class(Class::Unicode(class)) => counted(kinds(class)?.counted(1, Some(1))),
        HirKind::Repetition(repetition) => {
            let HirKind::Class(Class::Unicode(class)) = inside(&repetition.sub).kind() else { return None };
            let kinds = kinds(class)?;
            if (repetition.min, repetition.max) == (1, None) {
                return Some(Part { class: true, text: kinds.listed("and") });
            }
            counted(kinds.counted(repetition.min, repetition.max))
        }
        _ => None,
    }
}

/// The content of a group.
fn inside(hir: &Hir) -> &Hir {
    match hir.kind() {
        HirKind::Capture(capture) => inside(&capture.sub),
        _ => hir,
    }
}

fn literal(hir: &Hir) -> Option<String> {
    let HirKind::Literal(literal) = inside(hir).kind() else { return None };
    let text = std::str::from_utf8(&literal.0).ok()?;
    (!text.chars().any(|letter| letter == '`' || letter.is_control())).then(|| format!("`{text}`"))
}

/// `.+` or `.*`.
fn is_anything(hir: &Hir) -> bool {
    let HirKind::Repetition(repetition) = inside(hir).kind() else { return false };
    let HirKind::Class(Class::Unicode(class)) = inside(&repetition.sub).kind() else { return false };
    let mut others = class.clone();
    others.negate();
    let few = others.ranges().iter().all(|range| range.start() == '\n' && range.end() == '\n');
    repetition.min <= 1 && repetition.max.is_none() && few
}

/// A list of alternative texts.
fn choice(hir: &Hir) -> Option<String> {
    let HirKind::Alternation(choices) = inside(hir).kind() else { return None };
    let texts: Option<Vec<String>> = choices.iter().map(literal).collect();
    texts.filter(|texts| texts.len() <= CHOICES_MAX).map(|texts| format!("one of {}", texts.join(", ")))
}

/// The kinds of characters of a class.
struct Kinds {
    /// Singular and plural of a kind, such as `digit` and `digits`.
    named: Vec<(&'static str, &'static str)>,
    /// Single characters.
    singles: Vec<String>,
    /// Whether the class is negated.
    negated: bool,
}

fn kinds(class: &ClassUnicode) -> Option<Kinds> {
    let unicode = |pattern: &str| match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    };
    if unicode(r"\d").as_ref() == Some(class) {
        return Some(Kinds { named: vec![("digit", "digits")], singles: Vec::new(), negated: false });
    }
    if unicode(r"\w").as_ref() == Some(class) {
        let named = vec![("letter", "letters"), ("digit", "digits")];
        return Some(Kinds { named, singles: vec!["`_`".to_owned()], negated: false });
    }
    let negated = class.ranges().last().is_some_and(|range| range.end() == char::MAX);
    let mut class = class.clone();
    if negated {
        class.negate();
    }
    let has = |from: char, to: char| class.ranges().iter().any(|range| range.start() <= from && range.end() >= to);
    let (capital, small) = (has('A', 'Z'), has('a', 'z'));
    let mut named = match (capital, small) {
        (true, true) => vec![("letter", "letters")],
        (true, false) => vec![("upper-case letter", "upper-case letters")],
        (false, true) => vec![("lower-case letter", "lower-case letters")],
        (false, false) => Vec::new(),
    };
    let digits = has('0', '9');
    named.extend(digits.then_some(("digit", "digits")));
    let mut singles = Vec::new();
    for range in class.ranges() {
        for letter in range.start()..=range.end() {
            let known = (capital && letter.is_ascii_uppercase())
                || (small && letter.is_ascii_lowercase())
                || (digits && letter.is_ascii_digit());
            if known {
                continue;
            }
            if singles.len() == SINGLES_MAX {
                return None;
            }
            match letter {
                ' ' => singles.push("blanks".to_owned()),
                '`' => return None,
                letter if letter.is_ascii_graphic() => singles.push(format!("`{letter}`")),
                _ => return None,
            }
        }
    }
    // A letter in both cases belongs to a case-insensitive word, which is not described letter by letter.
    if singles
        .iter()
        .any(|single| single.to_ascii_uppercase() != *single && singles.contains(&single.to_ascii_uppercase()))
    {
        return None;
    }
    (!named.is_empty() || !singles.is_empty()).then_some(Kinds { named, singles, negated })
}

impl Kinds {
    fn listed(&self, joint: &str) -> String {
        let named = self.named.iter().map(|(_, several)| (*several).to_owned());
        let all: Vec<String> = named.chain(self.singles.iter().cloned()).collect();
        let text = match all.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} {joint} {last}", others.join(", ")),
            None => String::new(),
        };
        if self.negated { format!("characters other than {text}") } else { text }
    }

    fn counted(&self, min: u32, max: Option<u32>) -> String {
        let number = match max {
            Some(max) if max == min => min.to_string(),
            Some(max) => format!("{min} to {max}"),
            None => format!("{min} or more"),
        };
        let one = max == Some(1) && min == 1;
        match (&self.named[..], &self.singles[..], self.negated) {
            ([(singular, plural)], [], false) => format!("{number} {}", if one { singular } else { plural }),
            _ => {
                let noun = if one { "character" } else { "characters" };
                let of = if self.negated { "other than" } else { "of" };
                let list = Self { negated: false, named: self.named.clone(), singles: self.singles.clone() };
                format!("{number} {noun} {of} {}", list.listed("or"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn simple_patterns_have_words() {
        for (pattern, expected_words) in [
            (r"^https://.+$", "begins with `https://`"),
            (r"^/dev/[A-Za-z0-9]+$", "`/dev/`, then letters and digits"),
            (r"^[a-z0-9-]+$", "only lower-case letters, digits and `-`"),
            (r"^[0-9]{4}$", "4 digits"),
            (r"^\d{2,4}$", "2 to 4 digits"),
            (r"^[A-Z]{2}-[0-9]{3}$", "2 upper-case letters, then `-`, then 3 digits"),
            (r"^(red|green|blue)$", "one of `red`, `green`, `blue`"),
            (
                r"^[^@ ]+@[a-z0-9.-]+$",
                "characters other than blanks and `@`, then `@`, then lower-case letters, digits, `-` and `.`",
            ),
            (r"^.+\.example$", "ends with `.example`"),
            (r"^[A-Za-z0-9_]{1,8}$", "1 to 8 characters of letters, digits or `_`"),
            (r"^[A-Z]$", "1 upper-case letter"),
        ] {
            assert_eq!(words(pattern).as_deref(), Some(expected_words), "{pattern}");
        }
    }

    #[test]
    fn describes_only_certain_parts_of_a_pattern() {
        let opc = r"^opc\.tcp://[A-Za-z0-9.-]+(:[0-9]+)?(/.*)?$";
        assert_eq!(words(opc).as_deref(), Some("begins with `opc.tcp://`"));
        for pattern in ["a+", "[0-9]+", "^[a-f0-9]+$", "^(?i)abc$", "^(a|b", "^$", "", "^a$|^b$", "^[^\\p{L}]+$"] {
            assert_eq!(words(pattern), None, "{pattern}");
        }
        assert_eq!(words(&format!("^{}$", "a".repeat(400))), None, "too long to be read");
        assert_eq!(words(&"(".repeat(200)), None);
    }

    #[test]
    fn handles_a_large_character_class() {
        assert_eq!(words("^[\u{1}-\u{10ffff}]+$"), None);
        assert_eq!(words("^[\u{100}-\u{fffff}]+$"), None);
    }
}
