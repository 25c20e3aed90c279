//! Markdown from packages, which is foreign text: a small part of it is understood, raw HTML is only text, links go out without
//! telling where from, pictures stay out.

use super::markup::{Markup, escape};
use std::fmt::Write as _;

/// The longest text that is laid out; more is shown as it is.
const BYTES_MAX: usize = 256 << 10;

/// Headings begin at `h3`: the page has its own above.
pub(super) fn html(bytes: &[u8]) -> Markup {
    let text = String::from_utf8_lossy(bytes);
    if text.len() > BYTES_MAX {
        return Markup::trusted(format!("<pre>{}</pre>", escape(&text)));
    }
    let mut out = Out::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if let Some(fence) = trimmed.strip_prefix("```").map(|_| "```").or(trimmed.strip_prefix("~~~").map(|_| "~~~")) {
            out.close();
            let mut code = String::new();
            for line in lines.by_ref().take_while(|line| !line.trim().starts_with(fence)) {
                code.push_str(line);
                code.push('\n');
            }
            let _ = write!(out.html, "<pre><code>{}</code></pre>", escape(&code));
        } else if trimmed.is_empty() {
            out.close();
        } else if let Some((level, rest)) = heading(trimmed) {
            out.close();
            let level = (level + 2).min(5);
            let _ = write!(out.html, "<h{level}>{}</h{level}>", inline(rest));
        } else if is_rule(trimmed) {
            out.close();
            out.html.push_str("<hr>");
        } else if let Some(item) = bullet(trimmed) {
            out.item("ul", item);
        } else if let Some(item) = numbered(trimmed) {
            out.item("ol", item);
        } else {
            out.text(trimmed);
        }
    }
    out.close();
    Markup::trusted(out.html)
}

#[derive(Default)]
struct Out {
    html: String,
    /// Lines of the paragraph or item at hand.
    pending: String,
    list: Option<&'static str>,
}

impl Out {
    fn text(&mut self, line: &str) {
        if !self.pending.is_empty() {
            self.pending.push(' ');
        }
        self.pending.push_str(line);
    }

    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let text = inline(&std::mem::take(&mut self.pending));
        let tag = if self.list.is_some() { "li" } else { "p" };
        let _ = write!(self.html, "<{tag}>{text}</{tag}>");
    }

    fn item(&mut self, list: &'static str, text: &str) {
        self.flush();
        if self.list != Some(list) {
            self.close();
            let _ = write!(self.html, "<{list}>");
            self.list = Some(list);
        }
        self.text(text);
    }

    fn close(&mut self) {
        self.flush();
        if let Some(list) = self.list.take() {
            let _ = write!(self.html, "</{list}>");
        }
    }
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, rest.trim_end_matches('#').trim()))
}

fn is_rule(line: &str) -> bool {
    line.len() >= 3 && ["-", "*", "_"].iter().any(|mark| line.replace(' ', "").replace(mark, "").is_empty())
}

fn bullet(line: &str) -> Option<&str> {
    ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark))
}

fn numbered(line: &str) -> Option<&str> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 9 {
        return None;
    }
    line[digits..].strip_prefix(". ").or_else(|| line[digits..].strip_prefix(") "))
}

/// Code, strong and emphasised text, links; everything else is text.
fn inline(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['`', '*', '[', '!']) {
        html.push_str(&escape(&rest[..place]));
        rest = &rest[place..];
        let taken = code(rest).or_else(|| strong(rest)).or_else(|| emphasis(rest)).or_else(|| link(rest));
        match taken {
            Some((piece, after)) => {
                html.push_str(&piece);
                rest = after;
            }
            None => {
                html.push_str(&escape(&rest[..1]));
                rest = &rest[1..];
            }
        }
    }
    html.push_str(&escape(rest));
    html
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    let (inside, after) = text.strip_prefix(open)?.split_once(close)?;
    (!inside.trim().is_empty()).then_some((inside, after))
}

fn code(text: &str) -> Option<(String, &str)> {
    between(text, "`", "`").map(|(inside, after)| (format!("<code>{}</code>", escape(inside)), after))
}

fn strong(text: &str) -> Option<(String, &str)> {
    between(text, "**", "**").map(|(inside, after)| (format!("<strong>{}</strong>", escape(inside)), after))
}

fn emphasis(text: &str) -> Option<(String, &str)> {
    let (inside, after) = between(text, "*", "*")?;
    (!inside.starts_with(['*', ' '])).then(|| (format!("<em>{}</em>", escape(inside)), after))
}

/// Only to the web; a picture is its words.
fn link(text: &str) -> Option<(String, &str)> {
    let (picture, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let (words, after) = between(text, "[", "](")?;
    let (target, after) = after.split_once(')')?;
    let target = target.split_whitespace().next().unwrap_or_default();
    if picture || !(target.starts_with("https://") || target.starts_with("http://")) {
        return Some((escape(words), after));
    }
    let link = format!("<a href=\"{}\" rel=\"noopener noreferrer nofollow\">{}</a>", escape(target), escape(words));
    Some((link, after))
}

#[cfg(test)]
mod tests {
    use super::html;

    fn check(text: &str, expected: &str) {
        assert_eq!(html(text.as_bytes()).to_string(), expected, "{text}");
    }

    #[test]
    fn lays_out_what_descriptions_have() {
        check("# Line Monitor\n\nReads the\ncounters.", "<h3>Line Monitor</h3><p>Reads the counters.</p>");
        check("- one\n- two\n  more\n\n1. first", "<ul><li>one</li><li>two more</li></ul><ol><li>first</li></ol>");
        check("**bold**, *soft* and `code`", "<p><strong>bold</strong>, <em>soft</em> and <code>code</code></p>");
        check("```\na < b\n```", "<pre><code>a &lt; b\n</code></pre>");
        check("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>");
    }

    #[test]
    fn raw_html_is_only_text() {
        check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
        check("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>");
        check("**<b>**", "<p><strong>&lt;b&gt;</strong></p>");
    }

    #[test]
    fn links_go_to_the_web_only() {
        check(
            "[site](https://a.example/?x=\"1\")",
            "<p><a href=\"https://a.example/?x=&quot;1&quot;\" rel=\"noopener noreferrer nofollow\">site</a></p>",
        );
        check("[x](javascript:alert(1))", "<p>x)</p>");
        check("![picture](https://a.example/p.png)", "<p>picture</p>");
        check("[a](data:text/html,x)", "<p>a</p>");
    }

    #[test]
    fn odd_marks_stay_as_they_are() {
        check("a * b ` c [d] !", "<p>a * b ` c [d] !</p>");
        check("2 * 3 * 4", "<p>2 * 3 * 4</p>");
    }
}
