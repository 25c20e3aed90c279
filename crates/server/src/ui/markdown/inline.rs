//! Inline elements: emphasis, code, links, entities. Depth and length of every search are bounded, so that no text is read
//! more than a few times.

use super::super::markup::escape;

/// Maximum nesting of emphasis; deeper levels are plain text.
const DEPTH_MAX: usize = 5;
/// The longest text and target of a link.
const WORDS_MAX: usize = 200;
const TARGET_MAX: usize = 1_000;

/// `\n` is an explicit line break.
pub(super) fn inline(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    Inline { html: &mut html, depth: 0, in_link: false }.read(text);
    html
}

struct Inline<'a> {
    html: &'a mut String,
    depth: usize,
    in_link: bool,
}

impl Inline<'_> {
    fn read(&mut self, text: &str) {
        // Markers without an end: no end follows later either.
        let mut open_ended: Vec<(char, usize)> = Vec::new();
        let (mut rest, mut before) = (text, ' ');
        while let Some(letter) = rest.chars().next() {
            let taken = match letter {
                '\n' => {
                    self.html.push_str("<br>");
                    Some(&rest[1..])
                }
                '\\' => self.escaped(rest),
                '`' => self.code(rest, &mut open_ended),
                '*' | '_' | '~' => self.emphasis(rest, letter, before, &mut open_ended),
                '[' | '!' => self.link(rest),
                '<' => self.bracketed(rest),
                'h' if !before.is_alphanumeric() => self.bare(rest),
                '&' => self.entity(rest),
                _ => None,
            };
            if let Some(after) = taken {
                before = rest[..rest.len() - after.len()].chars().next_back().unwrap_or(' ');
                rest = after;
            } else {
                // Skip a run of the same marker as a whole, so that its end is not taken for a shorter marker.
                let run = if matches!(letter, '*' | '_' | '~' | '`') { run(rest, letter) } else { letter.len_utf8() };
                self.html.push_str(&escape(&rest[..run]));
                before = letter;
                rest = &rest[run..];
            }
        }
    }

    fn within(&mut self, text: &str) {
        if self.depth >= DEPTH_MAX {
            self.html.push_str(&escape(text));
            return;
        }
        self.depth += 1;
        self.read(text);
        self.depth -= 1;
    }

    fn escaped<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let mark = text[1..].chars().next().filter(char::is_ascii_punctuation)?;
        self.html.push_str(&escape(mark.encode_utf8(&mut [0; 4])));
        Some(&text[2..])
    }

    fn code<'t>(&mut self, text: &'t str, open_ended: &mut Vec<(char, usize)>) -> Option<&'t str> {
        let length = run(text, '`');
        let (inside, after) = ended(&text[length..], '`', length, open_ended)?;
        self.html.push_str("<code>");
        self.html.push_str(&escape(inside.trim()));
        self.html.push_str("</code>");
        Some(after)
    }

    fn emphasis<'t>(
        &mut self,
        text: &'t str,
        mark: char,
        before: char,
        open_ended: &mut Vec<(char, usize)>,
    ) -> Option<&'t str> {
        let length = run(text, mark);
        let (begin, end) = match (mark, length) {
            ('~', 2) => ("<del>", "</del>"),
            ('*' | '_', 1) => ("<em>", "</em>"),
            ('*' | '_', 2) => ("<strong>", "</strong>"),
            ('*' | '_', 3) => ("<em><strong>", "</strong></em>"),
            _ => return None,
        };
        // `snake_case_names` are not emphasis.
        let in_word = mark == '_' && before.is_alphanumeric();
        let next = text[length..].chars().next()?;
        if in_word || next.is_whitespace() {
            return None;
        }
        let (inside, after) = ended(&text[length..], mark, length, open_ended)?;
        self.html.push_str(begin);
        self.within(inside);
        self.html.push_str(end);
        Some(after)
    }

    /// Only web and mail links; an image becomes its alternative text.
    fn link<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let (picture, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (words, after) = enclosed(text, '[', ']', WORDS_MAX)?;
        let (target, after) = enclosed(after, '(', ')', TARGET_MAX)?;
        if words.trim().is_empty() {
            return None;
        }
        let target = target.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']);
        if picture || self.in_link || !may_lead(target) {
            if picture {
                self.html.push_str(&escape(words));
            } else {
                self.within(words);
            }
            return Some(after);
        }
        self.html.push_str(&opened(target));
        self.in_link = true;
        self.within(words);
        self.in_link = false;
        self.html.push_str("</a>");
        Some(after)
    }

    /// `<https://example.com>`
    fn bracketed<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if !may_lead(&text[1..]) {
            return None;
        }
        let (target, after) = enclosed(text, '<', '>', TARGET_MAX)?;
        if target.contains(char::is_whitespace) {
            return None;
        }
        self.address(target).then_some(after)
    }

    /// A bare URL, without a trailing full stop.
    fn bare<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return None;
        }
        let ends = |(_, letter): &(usize, char)| letter.is_whitespace() || "<>`*|\"".contains(*letter);
        let end = text.char_indices().take(TARGET_MAX).find(ends).map_or(text.len(), |(index, _)| index);
        let target = text[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', ')', ']', '_', '~']);
        (target.len() <= TARGET_MAX && self.address(target)).then(|| &text[target.len()..])
    }

    fn address(&mut self, target: &str) -> bool {
        if self.in_link || !may_lead(target) {
            return false;
        }
        self.html.push_str(&opened(target));
        self.html.push_str(&escape(target.strip_prefix("mailto:").unwrap_or(target)));
        self.html.push_str("</a>");
        true
    }

    fn entity<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let end = text.bytes().take(12).position(|byte| byte == b';')?;
        let letter = match &text[1..end] {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => '\u{a0}',
            "copy" => '©',
            "reg" => '®',
            "trade" => '™',
            "deg" => '°',
            "micro" => 'µ',
            "middot" => '·',
            "bull" => '•',
            "times" => '×',
            "plusmn" => '±',
            "hellip" => '…',
            "ndash" => '–',
            "mdash" => '—',
            "larr" => '←',
            "rarr" => '→',
            "euro" => '€',
            "szlig" => 'ß',
            "auml" => 'ä',
            "ouml" => 'ö',
            "uuml" => 'ü',
            name => numbered(name)?,
        };
        self.html.push_str(&escape(letter.encode_utf8(&mut [0; 4])));
        Some(&text[end + 1..])
    }
}

/// `#8364` and `#x20ac`
fn numbered(name: &str) -> Option<char> {
    let digits = name.strip_prefix('#')?;
    let number = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    char::from_u32(number).filter(|letter| !letter.is_control())
}

fn may_lead(target: &str) -> bool {
    let lower = target.get(..8).unwrap_or(target).to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme) && target.len() > scheme.len())
}

fn opened(target: &str) -> String {
    format!("<a href=\"{}\" rel=\"noopener noreferrer nofollow\">", escape(target))
}

/// The number of equal markers at the start.
fn run(text: &str, mark: char) -> usize {
    text.bytes().take_while(|byte| char::from(*byte) == mark).count()
}

/// Splits at the next run of exactly this many markers that follows non-space text.
fn ended<'t>(
    text: &'t str,
    mark: char,
    length: usize,
    open_ended: &mut Vec<(char, usize)>,
) -> Option<(&'t str, &'t str)> {
    if open_ended.contains(&(mark, length)) {
        return None;
    }
    let mut at = 0;
    while let Some(found) = text[at..].find(mark) {
        let begin = at + found;
        let here = run(&text[begin..], mark);
        let (inside, after) = (&text[..begin], &text[begin + here..]);
        let closes = mark == '`' || inside.chars().next_back().is_some_and(|letter| !letter.is_whitespace());
        let in_word = mark == '_' && after.chars().next().is_some_and(char::is_alphanumeric);
        if here == length && closes && !in_word && !inside.trim().is_empty() {
            return Some((inside, after));
        }
        at = begin + here;
    }
    open_ended.push((mark, length));
    None
}

/// The text between two brackets that may be nested, and the rest.
fn enclosed(text: &str, open: char, close: char, bytes_max: usize) -> Option<(&str, &str)> {
    text.strip_prefix(open)?;
    let mut deep = 0_usize;
    for (index, letter) in text.char_indices().take_while(|(index, _)| *index <= bytes_max) {
        if letter == open {
            deep += 1;
        } else if letter == close {
            deep -= 1;
            if deep == 0 {
                return Some((&text[1..index], &text[index + 1..]));
            }
        }
    }
    None
}
