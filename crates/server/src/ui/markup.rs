//! HTML fragments built in Rust. This is the only place where text becomes markup without escaping by a template: all
//! input is escaped here.

use askama::filters::HtmlSafe;
use std::fmt::{self, Write as _};

/// HTML that is already escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

impl Markup {
    /// Text, escaped.
    pub(super) fn text(text: &str) -> Self {
        Self(escape(text))
    }

    /// Markup made of literals and of text that went through [`escape`].
    pub(super) fn trusted(html: String) -> Self {
        Self(html)
    }
}

impl Markup {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An icon of the layout, hidden from screen readers.
pub(super) fn icon(name: &str) -> Markup {
    Markup(format!("<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-{}\"/></svg>", escape(name)))
}

/// A state: always icon, label and color; `key` is its API value, in `data-state`.
pub(super) fn state(key: &str, tone: &str, symbol: &str, word: &str) -> Markup {
    Markup(format!(
        "<span class=\"state tone-{}\" data-state=\"{}\">{}{}</span>",
        escape(tone),
        escape(key),
        icon(symbol),
        escape(word)
    ))
}

/// The longest name in a title that is never wrapped.
const UNBROKEN_CHARS_MAX: usize = 24;

/// A title in which short names are not wrapped at their dashes.
pub(super) fn unbroken(text: &str) -> Markup {
    let words = text.split(' ').map(|word| {
        if word.contains('-') && word.chars().count() <= UNBROKEN_CHARS_MAX {
            return format!("<span class=\"short\">{}</span>", escape(word));
        }
        escape(word)
    });
    Markup(words.collect::<Vec<_>>().join(" "))
}

/// Text with `code` in backticks.
pub(super) fn prose(text: &str) -> Markup {
    let mut html = String::with_capacity(text.len() + 16);
    for (index, part) in text.split('`').enumerate() {
        // With an odd number of backticks, the last one is plain text.
        if index % 2 == 1 && text.matches('`').count() > index {
            html.push_str("<code>");
            html.push_str(&escape(part));
            html.push_str("</code>");
        } else if index % 2 == 1 {
            html.push('`');
            html.push_str(&escape(part));
        } else {
            html.push_str(&times(&escape(part)));
        }
    }
    Markup(html)
}

/// Wraps instants (`2026-11-17 09:04:47 UTC`) in `<time>`, which the script converts to the time zone of the browser.
fn times(text: &str) -> String {
    const SHAPE: &[u8] = b"0000-00-00 00:00:00";
    let is_instant = |text: &str| {
        let digit = |(found, shape): (u8, &u8)| if *shape == b'0' { found.is_ascii_digit() } else { found == *shape };
        text.len() == SHAPE.len() && text.bytes().zip(SHAPE).all(digit)
    };
    let mut html = String::with_capacity(text.len());
    let mut pieces = text.split(" UTC").peekable();
    while let Some(piece) = pieces.next() {
        let begins = piece.len().saturating_sub(SHAPE.len());
        match (pieces.peek(), piece.get(begins..)) {
            (Some(_), Some(instant)) if is_instant(instant) => {
                html.push_str(&piece[..begins]);
                let stamp = instant.replace(' ', "T");
                let _ = write!(html, "<time datetime=\"{stamp}Z\" data-exact>{instant} UTC</time>");
            }
            (Some(_), _) => {
                html.push_str(piece);
                html.push_str(" UTC");
            }
            (None, _) => html.push_str(piece),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_foreign_text() {
        let hostile = "<script>alert('x')</script>\"&";
        let escaped = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;";
        assert_eq!(Markup::text(hostile).to_string(), escaped);
        assert!(!state(hostile, "bad", "cross", hostile).to_string().contains("<script"));
        assert!(state("failed", "bad", "cross", "Failed").to_string().contains("data-state=\"failed\""));
        assert!(!prose(&format!("`{hostile}` {hostile}")).to_string().contains("<script"));
    }

    #[test]
    fn short_names_in_titles_are_not_wrapped() {
        assert_eq!(unbroken("Retry on press-03?").to_string(), "Retry on <span class=\"short\">press-03?</span>");
        assert_eq!(unbroken("a-<b>").to_string(), "<span class=\"short\">a-&lt;b&gt;</span>");
        let long = "a-name-that-is-longer-than-the-limit";
        assert_eq!(unbroken(long).to_string(), long);
    }

    #[test]
    fn instants_become_times() {
        let text = "offline since 2026-11-17 09:04:47 UTC; what is UTC? <b>2026-11-17 09:04:47 UTC";
        let time = "<time datetime=\"2026-11-17T09:04:47Z\" data-exact>2026-11-17 09:04:47 UTC</time>";
        assert_eq!(prose(text).to_string(), format!("offline since {time}; what is UTC? &lt;b&gt;{time}"));
        assert_eq!(prose("äöü UTC").to_string(), "äöü UTC");
    }

    #[test]
    fn backticks_become_code() {
        assert_eq!(prose("run `margrave demo` now").to_string(), "run <code>margrave demo</code> now");
        assert_eq!(prose("a ` b").to_string(), "a ` b");
    }
}
