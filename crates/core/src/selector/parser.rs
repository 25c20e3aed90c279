//! The grammar of label selectors, parsed by hand so that an error can give its position.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = "!" key | key [ ("=" | "==" | "!=") [ value ] | ("in" | "notin") "(" value { "," value } ")" ]
//! key, value  = bare word | quoted text
//! ```

use super::{LabelSelector, Requirement, SelectorError};

/// Far above what people type and pages build, and small enough to keep hostile input cheap.
pub const SELECTOR_BYTES_MAX: usize = 8 * 1024;

pub(super) fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
    let mut parser = Parser { text, position: 0 };
    parser.selector().map_err(|problem| SelectorError { text: shorten(text), problem })
}

/// Whether a word needs no quotes.
pub(super) fn is_bare(word: &str) -> bool {
    !word.is_empty() && word.chars().all(is_bare_char)
}

fn is_bare_char(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | '(' | ')' | '=' | '!' | '"' | '\\')
}

fn shorten(text: &str) -> String {
    text.chars().take(120).collect()
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl Parser<'_> {
    fn selector(&mut self) -> Result<LabelSelector, String> {
        if self.text.len() > SELECTOR_BYTES_MAX {
            return Err(format!("it is longer than {SELECTOR_BYTES_MAX} bytes"));
        }
        let mut requirements = Vec::new();
        self.skip_blanks();
        if self.peek().is_none() {
            return Ok(LabelSelector { requirements });
        }
        loop {
            requirements.push(self.requirement()?);
            self.skip_blanks();
            if self.peek().is_none() {
                return Ok(LabelSelector { requirements });
            }
            self.expect(',', "`,` or the end")?;
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        self.skip_blanks();
        if self.take('!') {
            return Ok(Requirement::DoesNotExist(self.key()?));
        }
        let key = self.key()?;
        self.skip_blanks();
        if self.take('!') {
            self.expect('=', "`=` after `!`")?;
            return Ok(Requirement::NotEquals(key, self.value()?));
        }
        if self.take('=') {
            self.take('=');
            return Ok(Requirement::Equals(key, self.value()?));
        }
        let place = self.place();
        match self.bare_word() {
            "" => Ok(Requirement::Exists(key)),
            "in" => Ok(Requirement::In(key, self.values()?)),
            "notin" => Ok(Requirement::NotIn(key, self.values()?)),
            other => {
                Err(format!("at character {place}: expected `=`, `!=`, `in`, `notin`, `,` or the end, found `{other}`"))
            }
        }
    }

    fn key(&mut self) -> Result<String, String> {
        self.skip_blanks();
        let place = self.place();
        let key = self.word()?;
        if key.is_empty() {
            Err(format!("at character {place}: expected a key, found {}", self.found()))
        } else {
            Ok(key)
        }
    }

    /// A value may be empty: `spare=` matches the empty text.
    fn value(&mut self) -> Result<String, String> {
        self.skip_blanks();
        self.word()
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.skip_blanks();
        self.expect('(', "`(`")?;
        self.skip_blanks();
        if self.peek() == Some(')') {
            return Err(format!("at character {}: expected a value between the parentheses", self.place()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.skip_blanks();
            if self.take(')') {
                return Ok(values);
            }
            self.expect(',', "`,` or `)`")?;
        }
    }

    fn word(&mut self) -> Result<String, String> {
        if self.peek() == Some('"') { self.quoted() } else { Ok(self.bare_word().to_owned()) }
    }

    fn bare_word(&mut self) -> &str {
        let rest = &self.text[self.position..];
        let length = rest.find(|c| !is_bare_char(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn quoted(&mut self) -> Result<String, String> {
        let opened_at = self.place();
        self.take('"');
        let mut out = String::new();
        while let Some(c) = self.next() {
            match c {
                '"' => return Ok(out),
                '\\' => match self.next() {
                    Some(escaped @ ('"' | '\\')) => out.push(escaped),
                    _ => {
                        return Err(format!(
                            "at character {}: only `\\\"` and `\\\\` may follow `\\`",
                            self.place() - 1
                        ));
                    }
                },
                other => out.push(other),
            }
        }
        Err(format!("at character {opened_at}: the quote is not closed"))
    }

    fn expect(&mut self, wanted: char, name: &str) -> Result<(), String> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(format!("at character {}: expected {name}, found {}", self.place(), self.found()))
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.position += wanted.len_utf8();
        }
        there
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    fn found(&self) -> String {
        self.peek().map_or_else(|| "the end".to_owned(), |c| format!("`{c}`"))
    }

    /// Counted from one, in characters, as in an editor.
    fn place(&self) -> usize {
        self.text[..self.position].chars().count() + 1
    }
}
