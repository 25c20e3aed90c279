//! Pieces of HTML made in Rust. The one place where text becomes markup without being escaped by a template: everything that goes
//! in is escaped here.

use askama::filters::HtmlSafe;
use std::fmt;

/// HTML that is good as it is.
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

    /// Pieces that are markup already, made of literals and of what went through [`escape`].
    pub(super) fn trusted(html: String) -> Self {
        Self(html)
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

/// A symbol of the layout; says nothing to a screen reader.
pub(super) fn icon(name: &str) -> Markup {
    Markup(format!("<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-{}\"/></svg>", escape(name)))
}

/// A state: always symbol, word and colour.
pub(super) fn state(tone: &str, symbol: &str, word: &str) -> Markup {
    Markup(format!("<span class=\"state tone-{}\">{}{}</span>", escape(tone), icon(symbol), escape(word)))
}

/// Text with `code` in backticks, as sentences of the application have it.
pub(super) fn prose(text: &str) -> Markup {
    let mut html = String::with_capacity(text.len() + 16);
    for (index, part) in text.split('`').enumerate() {
        // An odd number of backticks leaves the last one open; then it is only text.
        if index % 2 == 1 && text.matches('`').count() > index {
            html.push_str("<code>");
            html.push_str(&escape(part));
            html.push_str("</code>");
        } else if index % 2 == 1 {
            html.push('`');
            html.push_str(&escape(part));
        } else {
            html.push_str(&escape(part));
        }
    }
    Markup(html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let hostile = "<script>alert('x')</script>\"&";
        let escaped = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;";
        assert_eq!(Markup::text(hostile).to_string(), escaped);
        assert!(!state("bad", "cross", hostile).to_string().contains("<script"));
        assert!(!prose(&format!("`{hostile}` {hostile}")).to_string().contains("<script"));
    }

    #[test]
    fn backticks_become_code() {
        assert_eq!(prose("run `margrave demo` now").to_string(), "run <code>margrave demo</code> now");
        assert_eq!(prose("a ` b").to_string(), "a ` b");
    }
}
