//! Parses JSON into the same tree as YAML: with lines and exact numbers; rejects duplicate keys.

use crate::finding::{Finding, Findings, Severity};
use crate::node::{Kind, Limits, Member, Node, Style};
use crate::tree::Tree;
use std::collections::HashSet;

/// The longest number: those of 64 bits have 20 digits, and no writer of doubles needs more than this.
const LITERAL_CHARS_MAX: usize = 1000;

/// The most members of one object: free keys are parameters and labels, of which there are dozens.
const MEMBERS_MAX: usize = 5000;

/// Parses one JSON text (RFC 8259) within the limits.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Node, Findings> {
    if bytes.len() > limits.bytes_max {
        return Err(refuse(None, format!("the document is larger than {} bytes", limits.bytes_max)));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| refuse(None, "the text is not UTF-8"))?;
    let mut parser = Parser { text, bytes, at: 0, line: 1, nodes: 0, limits };
    parser.blanks();
    let root = parser.value(0)?;
    parser.blanks();
    if parser.at < bytes.len() {
        return Err(parser.error("unexpected data after the end of the document"));
    }
    Ok(root)
}

/// Deterministic JSON in the manner of RFC 8785: members sorted, no whitespace. Integers stay exact beyond 2^53.
pub fn canonical(tree: &Tree) -> Vec<u8> {
    sorted(tree).to_json()
}

fn sorted(tree: &Tree) -> Tree {
    match tree {
        Tree::List(items) => Tree::List(items.iter().map(sorted).collect()),
        Tree::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(key, member)| (key.clone(), sorted(member))).collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            Tree::Object(members)
        }
        other => other.clone(),
    }
}

fn refuse(line: Option<usize>, message: impl Into<String>) -> Findings {
    Findings(vec![Finding { severity: Severity::Error, path: String::new(), line, message: message.into() }])
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: usize,
    nodes: usize,
    limits: Limits,
}

impl Parser<'_> {
    fn error(&self, message: &str) -> Findings {
        refuse(Some(self.line), format!("the text is not valid JSON: {message}"))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.line += usize::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Findings> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes_max {
            return Err(refuse(Some(self.line), format!("the document has more than {} nodes", self.limits.nodes_max)));
        }
        if depth > self.limits.depth_max {
            return Err(refuse(
                Some(self.line),
                format!("the document is nested deeper than {}", self.limits.depth_max),
            ));
        }
        let line = self.line;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Kind::Scalar { text: self.string()?, style: Style::Quoted },
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => Kind::Scalar { text: self.literal()?, style: Style::Plain },
            Some(_) => return Err(self.error("expected a value")),
            None => return Err(self.error("it ends where a value is expected")),
        };
        Ok(Node { line, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Findings> {
        let mut members = Vec::new();
        let mut keys = HashSet::new();
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Mapping(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in double quotes"));
            }
            let line = self.line;
            let key = self.string()?;
            if !keys.insert(key.clone()) {
                let shown: String = key.chars().take(80).collect();
                return Err(refuse(Some(line), format!("the key `{shown}` occurs twice in the same object")));
            }
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.error("expected `:` after a key"));
            }
            self.at += 1;
            self.blanks();
            members.push(Member { key, line, node: self.value(depth + 1)? });
            if members.len() > MEMBERS_MAX {
                return Err(refuse(Some(line), format!("an object has more than {MEMBERS_MAX} members")));
            }
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("expected `,` or `}` after a member")),
            }
            self.blanks();
        }
        self.at += 1;
        Ok(Kind::Mapping(members))
    }

    fn list(&mut self, depth: usize) -> Result<Kind, Findings> {
        let mut items = Vec::new();
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Sequence(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("expected `,` or `]` after an item")),
            }
            self.blanks();
        }
        self.at += 1;
        Ok(Kind::Sequence(items))
    }

    /// Finds the end of the string; serde_json decodes it.
    fn string(&mut self) -> Result<String, Findings> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0..0x20) => return Err(self.error("a string contains a control character")),
                Some(_) => self.at += 1,
                None => return Err(self.error("a string is not closed")),
            }
        }
        self.at += 1;
        if !escaped {
            return Ok(self.text[start + 1..self.at - 1].to_owned());
        }
        serde_json::from_str(&self.text[start..self.at]).map_err(|_| self.error("a string contains an invalid escape"))
    }

    /// A number, `true`, `false` or `null`, kept as written.
    fn literal(&mut self) -> Result<String, Findings> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') = self.peek() {
            self.at += 1;
            if self.at - start > LITERAL_CHARS_MAX {
                return Err(self.error("a number is too long"));
            }
        }
        let text = &self.text[start..self.at];
        if matches!(text, "true" | "false" | "null") || is_number(text) {
            Ok(text.to_owned())
        } else {
            Err(self.error("expected a value"))
        }
    }
}

/// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests;
