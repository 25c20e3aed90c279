//! The only place that uses the YAML library. Bounded in size, depth, nodes and aliases.

use crate::finding::{Finding, Findings, Severity};
use crate::node::{Kind, Limits, Member, Node, Style};
use crate::tree::Tree;
use granit_parser::{Event, Parser, ScalarStyle, Tag};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Problems after which parsing continues; more of them are a flood, not mistakes.
const FOUND_MAX: usize = 32;

/// Parses exactly one YAML 1.2 document. Rejects duplicate keys, merge keys, private tags and further documents.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Node, Findings> {
    match parse_on(bytes, limits)? {
        (node, found) if found.is_empty() => Ok(node),
        (_, found) => Err(Findings(found)),
    }
}

/// Continues after problems that leave the rest of the text readable, to report everything at once. The caller
/// rejects the document if any problem was found.
pub(crate) fn parse_on(bytes: &[u8], limits: Limits) -> Result<(Node, Vec<Finding>), Findings> {
    if bytes.len() > limits.bytes_max {
        return Err(refuse(None, format!("the document is larger than {} bytes", limits.bytes_max)));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        refuse(Some(line), "the text is not UTF-8")
    })?;
    let options = granit_parser::options! {
        flow_nesting_limit: limits.depth_max,
        block_nesting_limit: limits.depth_max,
    };
    let mut builder = Builder::new(limits);
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = match event {
            Ok((event, span)) => builder.take(event, span.start.line().max(1)),
            Err(error) => {
                let line = error.marker().line().max(1);
                Err(refuse(Some(line), format!("the text is not valid YAML: {}", error.info())))
            }
        };
        if let Err(Findings(fatal)) = taken {
            builder.found.extend(fatal);
            return Err(Findings(builder.found));
        }
        if builder.documents > 1 {
            break;
        }
    }
    let found = builder.found;
    builder.root.map(|root| (root, found)).ok_or_else(|| refuse(None, "the document is empty"))
}

/// Writes block YAML; quotes every text that some YAML reader could read as another type.
pub fn write(tree: &Tree) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false, compact_list_indent: false };
    let mut out = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut out, tree, options)
        .expect("a tree of texts, numbers, lists and text-keyed mappings always serializes into memory");
    out
}

fn refuse(line: Option<usize>, message: impl Into<String>) -> Findings {
    Findings(vec![Finding { severity: Severity::Error, path: String::new(), line, message: message.into() }])
}

/// A collection whose end was not reached yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next, in a mapping.
    key: Option<(String, usize)>,
    keys: HashSet<String>,
    /// Nodes and bytes counted before this collection began.
    nodes_before: usize,
    bytes_before: usize,
}

/// An anchored node with the cost of repeating it.
struct Anchored {
    node: Node,
    nodes: usize,
    bytes: usize,
}

struct Builder {
    limits: Limits,
    nodes: usize,
    bytes: usize,
    documents: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    root: Option<Node>,
    /// Problems that left the rest readable.
    found: Vec<Finding>,
}

impl Builder {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            nodes: 0,
            bytes: 0,
            documents: 0,
            open: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            found: Vec::new(),
        }
    }

    /// Notes a problem and continues, unless there are too many.
    fn note(&mut self, problem: Findings) -> Result<(), Findings> {
        if self.found.len() >= FOUND_MAX {
            return Err(problem);
        }
        self.found.extend(problem.0);
        Ok(())
    }

    fn check_tag(&mut self, tag: Option<&Tag>, expected: &str, line: usize) -> Result<(), Findings> {
        match tag {
            Some(tag) if tag.core_suffix() != Some(expected) => self.note(private_tag(tag, line)),
            _ => Ok(()),
        }
    }

    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Findings> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return self
                        .note(refuse(Some(line), "only one YAML document is allowed, a second one begins here"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag, line),
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", line)?;
                self.begin(Kind::Sequence(Vec::new()), anchor, line)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", line)?;
                self.begin(Kind::Mapping(Vec::new()), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let (nodes, bytes) = (self.nodes - open.nodes_before, self.bytes - open.bytes_before);
                self.place(open.node, open.anchor, nodes, bytes)
            }
            Event::Alias(id) => self.alias(id, line),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        line: usize,
    ) -> Result<(), Findings> {
        let mut style = if style == ScalarStyle::Plain { Style::Plain } else { Style::Quoted };
        if let Some(tag) = tag.as_deref() {
            match tag.core_suffix() {
                Some("str") => style = Style::Quoted,
                Some("int" | "float" | "bool" | "null") => style = Style::Plain,
                _ => self.note(private_tag(tag, line))?,
            }
        }
        self.count(1, text.len(), line)?;
        let node = Node { line, kind: Kind::Scalar { text: text.to_owned(), style } };
        if self.key_is_next() {
            if anchor != 0 {
                self.anchors.insert(anchor, Anchored { node, nodes: 1, bytes: text.len() });
            }
            return self.key(text, style, line);
        }
        self.place(node, anchor, 1, text.len())
    }

    fn begin(&mut self, kind: Kind, anchor: usize, line: usize) -> Result<(), Findings> {
        if self.key_is_next() {
            return Err(refuse(Some(line), "a key must be plain text, not a list or an object"));
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(refuse(Some(line), format!("the document is nested deeper than {}", self.limits.depth_max)));
        }
        let (nodes_before, bytes_before) = (self.nodes, self.bytes);
        self.count(1, 0, line)?;
        let node = Node { line, kind };
        self.open.push(Open { node, anchor, key: None, keys: HashSet::new(), nodes_before, bytes_before });
        Ok(())
    }

    fn alias(&mut self, id: usize, line: usize) -> Result<(), Findings> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(refuse(Some(line), "an alias is inside the node it refers to"));
        };
        let (nodes, bytes) = (anchored.nodes, anchored.bytes);
        // Counted before it is copied: this stops alias bombs.
        self.count(nodes, bytes, line)?;
        let anchored = &self.anchors[&id];
        if self.key_is_next() {
            return match &anchored.node.kind {
                Kind::Scalar { text, style } => {
                    let (text, style) = (text.clone(), *style);
                    self.key(&text, style, line)
                }
                _ => Err(refuse(Some(line), "a key must be plain text, not a list or an object")),
            };
        }
        let depth = self.open.len() + depth(&anchored.node);
        if depth > self.limits.depth_max {
            return Err(refuse(Some(line), format!("the document is nested deeper than {}", self.limits.depth_max)));
        }
        let node = anchored.node.clone();
        self.place(node, 0, nodes, bytes)
    }

    fn key_is_next(&self) -> bool {
        matches!(self.open.last(), Some(Open { node: Node { kind: Kind::Mapping(_), .. }, key: None, .. }))
    }

    fn key(&mut self, text: &str, style: Style, line: usize) -> Result<(), Findings> {
        if text == "<<" && style == Style::Plain {
            return Err(refuse(Some(line), "merge keys (`<<`) are not part of YAML 1.2, write out the members"));
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        open.key = Some((text.to_owned(), line));
        if open.keys.insert(text.to_owned()) {
            return Ok(());
        }
        let shown: String = text.chars().take(80).collect();
        self.note(refuse(Some(line), format!("the key `{shown}` occurs twice in the same object")))
    }

    fn place(&mut self, node: Node, anchor: usize, nodes: usize, bytes: usize) -> Result<(), Findings> {
        if anchor != 0 {
            // The copy kept for aliases costs memory too.
            self.count(nodes, bytes, node.line)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), nodes, bytes });
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(open) => match &mut open.node.kind {
                Kind::Sequence(items) => items.push(node),
                Kind::Mapping(members) => {
                    if let Some((key, line)) = open.key.take() {
                        members.push(Member { key, line, node });
                    }
                }
                Kind::Scalar { .. } => {}
            },
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, bytes: usize, line: usize) -> Result<(), Findings> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes > self.limits.nodes_max {
            return Err(refuse(Some(line), format!("the document has more than {} nodes", self.limits.nodes_max)));
        }
        // Escapes can make text longer than its source, aliases can repeat it.
        if self.bytes > self.limits.bytes_max.saturating_mul(2) {
            return Err(refuse(Some(line), "the document is too large after its aliases are expanded"));
        }
        Ok(())
    }
}

fn depth(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 0,
        Kind::Sequence(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Kind::Mapping(members) => 1 + members.iter().map(|member| depth(&member.node)).max().unwrap_or(0),
    }
}

fn private_tag(tag: &Tag, line: usize) -> Findings {
    let shown: String = tag.original().chars().take(80).collect();
    refuse(Some(line), format!("the tag `{shown}` is not supported"))
}

#[cfg(test)]
mod tests;
