//! The visible text of a page, line by line, without what differs from run to run.

/// Tags within a sentence.
const INLINE: [&str; 15] =
    ["a", "span", "b", "i", "em", "strong", "code", "time", "del", "ins", "small", "noscript", "sup", "sub", "wbr"];
/// Elements without text for people, and reports and commands, which are not wording.
const SKIPPED: [&str; 5] = ["svg", "script", "style", "pre", "title"];
/// Elements whose text is marked, so that a heading that becomes a button is a difference.
const MARKED: [(&str, &str); 6] =
    [("h1", "# "), ("h2", "## "), ("h3", "### "), ("button", "[button] "), ("th", "| "), ("option", "- ")];

/// The visible text of the main part of a page; roles and labels that screen readers say are lines of their own.
pub(super) fn visible(html: &str) -> Vec<String> {
    let main = html.split_once("<main").or_else(|| html.split_once("<body")).map_or(html, |(_, main)| main);
    let mut lines = Lines::default();
    let mut rest = main.split_once('>').map_or("", |(_, rest)| rest);
    while let Some((text, after)) = rest.split_once('<') {
        lines.text(text);
        let Some((tag, after)) = after.split_once('>') else { break };
        let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
        rest = after;
        if SKIPPED.contains(&name) {
            let end = format!("</{name}>");
            rest = rest.split_once(end.as_str()).map_or("", |(_, rest)| rest);
        } else if name == "time" {
            lines.text("TIME");
            rest = rest.split_once("</time>").map_or("", |(_, rest)| rest);
        } else if let Some(mark) = mark(name, tag) {
            lines.end();
            lines.line.push_str(mark);
        } else if !INLINE.contains(&name) && !INLINE.contains(&tag.trim_start_matches('/')) {
            lines.end();
        }
        if let Some(label) = attribute(tag, "aria-label") {
            lines.end();
            lines.line = format!("({label})");
            lines.end();
        }
        if attribute(tag, "role") == Some("alert") && !tag.ends_with(" hidden") {
            lines.end();
            lines.all.push("(alert)".to_owned());
        }
        // Badges and tabs stand apart on the page.
        if matches!(tag, "/span" | "/a") && (rest.starts_with(char::is_alphanumeric) || rest.starts_with("<a")) {
            lines.text(" ");
        }
    }
    lines.end();
    lines.all
}

fn mark(name: &str, tag: &str) -> Option<&'static str> {
    if name == "a" && attribute(tag, "class").is_some_and(|class| class.split(' ').any(|one| one == "button")) {
        return Some("[link] ");
    }
    MARKED.iter().find(|(known, _)| *known == name).map(|(_, mark)| *mark)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[derive(Default)]
struct Lines {
    all: Vec<String>,
    line: String,
}

impl Lines {
    fn text(&mut self, text: &str) {
        self.line.push_str(text);
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = words.join(" ").replace("&#39;", "'").replace("&quot;", "\"").replace("&lt;", "<");
        let line = line.replace("&gt;", ">").replace("&amp;", "&");
        let bare = line.trim_matches(|c: char| "#|[]-. ".contains(c));
        if !matches!(bare, "" | "button" | "link") {
            self.all.push(line);
        }
    }
}

/// The line with ids, times, ports and fingerprints replaced.
pub(in crate::operators) fn normalized(line: &str, ids: &[(String, &'static str)]) -> String {
    let mut line = line.to_owned();
    for (id, word) in ids {
        line = line.replace(id, word);
    }
    let mut text = String::with_capacity(line.len());
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '_' | '.');
    let mut rest = line.as_str();
    while let Some(start) = rest.find(in_word) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !in_word(c)).unwrap_or(word.len()));
        text.push_str(before);
        text.push_str(&replaced(word));
        rest = after;
    }
    text + rest
}

fn replaced(word: &str) -> String {
    let core = word.trim_end_matches(['.', ':']);
    let end = &word[core.len()..];
    let hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit() || "-:".contains(c));
    let is_date = core.len() >= 10 && core.as_bytes()[4] == b'-' && core.starts_with("20");
    if core.starts_with("mgv_") {
        format!("TOKEN{end}")
    } else if core.starts_with("sha256:") || (core.len() >= 32 && hex(core)) {
        format!("ID{end}")
    } else if let Some((host, port)) = core.rsplit_once(':')
        && !port.is_empty()
        && port.chars().all(|c| c.is_ascii_digit())
        && host.contains(|c: char| c.is_ascii_alphanumeric())
    {
        let is_clock = !host.contains(|c: char| c.is_ascii_alphabetic() || c == '.');
        if is_clock { format!("CLOCK{end}") } else { format!("{host}:PORT{end}") }
    } else if is_date && core.chars().all(|c| c.is_ascii_digit() || "-:.TZ".contains(c)) {
        format!("DATE{end}")
    } else {
        word.to_owned()
    }
}

#[test]
fn keeps_only_the_wording() {
    let page = "<body><main id=\"main\"><h1>Deploy <span class=\"soft\">1.0.0</span></h1><pre>{}</pre>\
        <p role=\"alert\">No <b>such</b>&#39;s <time datetime=\"x\">now</time>.</p><svg><use/></svg>\
        <a class=\"button main\" href=\"/\">Go</a><button aria-label=\"Close\">x</button></main>";
    assert_eq!(visible(page), ["# Deploy 1.0.0", "(alert)", "No such's TIME.", "[link] Go", "(Close)", "x"]);
    let line =
        "draft on 127.0.0.1:4711: mgv_abc, 8e6d3a1c-8d0d-4b0a-9a52-0d6a3a3c2f11, 2026-09-21 15:04:05, press-1 1.0.0.";
    let same = "DRAFT on 127.0.0.1:PORT: TOKEN, ID, DATE CLOCK, press-1 1.0.0.";
    assert_eq!(normalized(line, &[("draft".to_owned(), "DRAFT")]), same);
}
