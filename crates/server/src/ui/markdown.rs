//! Markdown from packages, which is untrusted text: supports what descriptions usually contain, escapes raw HTML, sends
//! no referrer with links, and does not load images.

mod inline;

use super::markup::{Markup, escape};
use inline::inline;
use std::fmt::Write as _;

/// The longest text that is rendered; longer text is shown as plain text.
const BYTES_MAX: usize = 256 << 10;
/// Maximum nesting of lists and quotes; deeper levels are plain text.
const DEPTH_MAX: usize = 6;
/// Maximum columns of a table; a wider table is plain text.
const COLUMNS_MAX: usize = 40;

/// Headings begin at `h3`, below those of the page.
pub(super) fn html(bytes: &[u8]) -> Markup {
    let text = String::from_utf8_lossy(bytes);
    if text.len() > BYTES_MAX {
        return Markup::trusted(format!("<pre tabindex=\"0\">{}</pre>", escape(&text)));
    }
    let text = text.replace('\t', "    ");
    let lines: Vec<&str> = text.lines().collect();
    let mut html = String::with_capacity(text.len() + text.len() / 4);
    blocks(&lines, 0, false, &mut html);
    Markup::trusted(html)
}

/// `tight`: paragraphs without margins, as in a compact list.
fn blocks(lines: &[&str], depth: usize, tight: bool, html: &mut String) {
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        let trimmed = line.trim();
        let nests = depth < DEPTH_MAX;
        rest = if trimmed.is_empty() {
            after
        } else if let Some(fence) = fence(line) {
            fenced(&fence, after, html)
        } else if indent(line) >= 4 {
            indented(rest, html)
        } else if let Some((level, text)) = heading(trimmed) {
            head(level, text, html);
            after
        } else if is_rule(trimmed) {
            html.push_str("<hr>");
            after
        } else if nests && trimmed.starts_with('>') {
            quote(rest, depth, html)
        } else if let Some(item) = Item::read(line).filter(|_| nests) {
            list(&item, rest, depth, html)
        } else if let Some(columns) = table_head(rest) {
            table(columns, rest, html)
        } else {
            paragraph(rest, tight, html)
        };
    }
}

fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

/// A line without up to this many leading spaces.
fn outdented(line: &str, by: usize) -> &str {
    &line[indent(line).min(by)..]
}

fn head(level: usize, text: &str, html: &mut String) {
    let level = (level + 2).min(5);
    let _ = write!(html, "<h{level}>{}</h{level}>", inline(text));
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, rest.trim_end_matches('#').trim()))
}

fn is_rule(line: &str) -> bool {
    ["-", "*", "_"]
        .iter()
        .any(|mark| line.matches(mark).count() >= 3 && line.replace([' '], "").replace(mark, "").is_empty())
}

/// The fence around code, and its indentation.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

fn fence(line: &str) -> Option<Fence> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|letter| *letter == mark).count();
    // "```code``` in a line" is not a fence.
    let code_span = mark == '`' && text[length..].contains('`');
    (length >= 3 && !code_span).then(|| Fence { mark, length, indent: indent(line) })
}

fn fenced<'a, 't>(started: &Fence, lines: &'a [&'t str], html: &mut String) -> &'a [&'t str] {
    let ends = |line: &&str| {
        fence(line).is_some_and(|end| end.mark == started.mark && end.length >= started.length)
            && line.trim().chars().all(|letter| letter == started.mark)
    };
    let end = lines.iter().position(ends).unwrap_or(lines.len());
    code(lines[..end].iter().map(|line| outdented(line, started.indent)), html);
    &lines[(end + 1).min(lines.len())..]
}

fn indented<'a, 't>(lines: &'a [&'t str], html: &mut String) -> &'a [&'t str] {
    let end = lines.iter().position(|line| indent(line) < 4 && !line.trim().is_empty()).unwrap_or(lines.len());
    let end = end - lines[..end].iter().rev().take_while(|line| line.trim().is_empty()).count();
    code(lines[..end].iter().map(|line| outdented(line, 4)), html);
    &lines[end..]
}

/// Wide code blocks scroll with the keyboard too.
fn code<'t>(lines: impl Iterator<Item = &'t str>, html: &mut String) {
    html.push_str("<pre tabindex=\"0\"><code>");
    for line in lines {
        html.push_str(&escape(line));
        html.push('\n');
    }
    html.push_str("</code></pre>");
}

fn quote<'a, 't>(lines: &'a [&'t str], depth: usize, html: &mut String) -> &'a [&'t str] {
    let mut inside: Vec<&str> = Vec::new();
    let mut end = 0;
    for line in lines {
        let trimmed = line.trim_start();
        match trimmed.strip_prefix('>') {
            Some(rest) => inside.push(rest.strip_prefix(' ').unwrap_or(rest)),
            // A paragraph continues without the marker.
            None if is_plain(line) && inside.last().is_some_and(|last| is_plain(last)) => inside.push(trimmed),
            None => break,
        }
        end += 1;
    }
    html.push_str("<blockquote>");
    blocks(&inside, depth + 1, false, html);
    html.push_str("</blockquote>");
    &lines[end..]
}

/// The start of a list item.
struct Item<'t> {
    ordered: bool,
    indent: usize,
    /// The indentation of its content.
    inside: usize,
    text: &'t str,
}

impl<'t> Item<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let trimmed = line.trim_start();
        if is_rule(trimmed.trim_end()) {
            return None;
        }
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (ordered, rest) = if (1..=9).contains(&digits) {
            (true, trimmed[digits..].strip_prefix(['.', ')'])?)
        } else {
            (false, trimmed.strip_prefix(['-', '*', '+'])?)
        };
        let text = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
        let text = if indent(text) < 4 { text.trim_start() } else { text };
        let inside = line.len() - text.len();
        Some(Self { ordered, indent: indent(line), inside, text })
    }
}

fn list<'a, 't>(first: &Item<'_>, lines: &'a [&'t str], depth: usize, html: &mut String) -> &'a [&'t str] {
    let mut items: Vec<Vec<&str>> = Vec::new();
    let (mut inside, mut blank, mut loose, mut end) = (first.inside, false, false, lines.len());
    for (index, line) in lines.iter().enumerate() {
        if line.trim().is_empty() {
            blank = true;
            if let Some(item) = items.last_mut() {
                item.push("");
            }
            continue;
        }
        let item = Item::read(line);
        // Authors often indent sub-items by two spaces, also below a number, where Markdown requires three.
        let begins = item.filter(|item| item.indent < inside.min(first.indent + 2));
        if let Some(item) = begins {
            if item.ordered != first.ordered {
                end = index;
                break;
            }
            loose |= blank && !items.is_empty();
            inside = item.inside;
            items.push(vec![item.text]);
        } else if indent(line) >= inside.min(first.indent + 2) {
            loose |= blank && Item::read(line).is_none();
            if let Some(item) = items.last_mut() {
                item.push(outdented(line, inside));
            }
        } else if !blank && is_plain(line) {
            if let Some(item) = items.last_mut() {
                item.push(line.trim_start());
            }
        } else {
            end = index;
            break;
        }
        blank = false;
    }
    let tag = if first.ordered { "ol" } else { "ul" };
    let _ = write!(html, "<{tag}>");
    for item in &items {
        html.push_str("<li>");
        blocks(item, depth + 1, !loose, html);
        html.push_str("</li>");
    }
    let _ = write!(html, "</{tag}>");
    &lines[end..]
}

/// The cells of a row, without the outer bars.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().replace("\\|", "\u{1}");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// If a table begins here: for each column, whether it is right-aligned.
fn table_head(lines: &[&str]) -> Option<Vec<bool>> {
    let [head, rule, ..] = lines else { return None };
    if !head.contains('|') || !rule.contains('-') || !rule.trim().chars().all(|letter| "|-: ".contains(letter)) {
        return None;
    }
    let columns = cells(rule);
    let is_column = |cell: &String| {
        let dashes = cell.trim_matches(':');
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    let is_table = columns.iter().all(is_column) && columns.len() <= COLUMNS_MAX && columns.len() == cells(head).len();
    is_table.then(|| columns.iter().map(|cell| cell.ends_with(':') && !cell.starts_with(':')).collect())
}

fn table<'a, 't>(columns: Vec<bool>, lines: &'a [&'t str], html: &mut String) -> &'a [&'t str] {
    let row = |tag: &str, scope: &str, line: &str, html: &mut String| {
        html.push_str("<tr>");
        let mut found = cells(line).into_iter();
        for right in &columns {
            let class = if *right { " class=\"right\"" } else { "" };
            let _ = write!(html, "<{tag}{scope}{class}>{}</{tag}>", inline(&found.next().unwrap_or_default()));
        }
        html.push_str("</tr>");
    };
    let rows = lines[2..].iter().take_while(|line| line.contains('|')).count();
    let end = 2 + rows;
    html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead>");
    row("th", " scope=\"col\"", lines[0], html);
    html.push_str("</thead><tbody>");
    for line in &lines[2..end] {
        row("td", "", line, html);
    }
    html.push_str("</tbody></table></div>");
    &lines[end..]
}

/// A line that can only be part of a paragraph.
fn is_plain(line: &str) -> bool {
    let trimmed = line.trim();
    !trimmed.is_empty()
        && fence(line).is_none()
        && heading(trimmed).is_none()
        && !is_rule(trimmed)
        && !trimmed.starts_with('>')
        && Item::read(line).is_none_or(|item| item.text.is_empty())
}

fn paragraph<'a, 't>(lines: &'a [&'t str], tight: bool, html: &mut String) -> &'a [&'t str] {
    let mut text = String::new();
    let mut end = 0;
    for line in lines {
        let trimmed = line.trim();
        // An underlined paragraph is a heading.
        let under = |mark: char| end > 0 && trimmed.len() >= 2 && trimmed.chars().all(|letter| letter == mark);
        if under('=') || under('-') {
            head(if under('=') { 1 } else { 2 }, text.trim_end_matches(['\n', ' ']), html);
            return &lines[end + 1..];
        }
        if end > 0 && (!is_plain(line) || table_head(&lines[end..]).is_some()) {
            break;
        }
        // Two trailing spaces or a backslash are a line break.
        let broken = line.ends_with("  ") || trimmed.ends_with('\\');
        text.push_str(trimmed.strip_suffix('\\').unwrap_or(trimmed).trim_end());
        text.push(if broken { '\n' } else { ' ' });
        end += 1;
    }
    let text = inline(text.trim_end_matches(['\n', ' ']));
    if tight {
        html.push_str(&text);
    } else {
        let _ = write!(html, "<p>{text}</p>");
    }
    &lines[end..]
}

#[cfg(test)]
mod tests;
