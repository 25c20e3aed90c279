//! Heads of sortable columns: links that sort, so that an address contains the order and pages work without script.

use super::query::link;
use crate::ui::markup::{Markup, escape};
use std::cmp::Ordering;

/// The heads of one table.
#[derive(Debug, Clone, Default)]
pub(in crate::ui::routes) struct Heads {
    path: String,
    /// The filter, which stays.
    members: Vec<(String, String)>,
    /// As in the address: `last-seen`, `-last-seen`, or nothing.
    pub(in crate::ui::routes) sort: String,
    kind: Kind,
}

/// What a head is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Link,
    /// The table is part of a form whose input must be kept.
    Button,
    /// The list has one order only.
    Text,
}

impl Heads {
    pub(in crate::ui::routes) fn new(path: &str, members: &[(&str, &str)], sort: &str) -> Self {
        let stored = members.iter().filter(|(_, value)| !value.is_empty());
        Self {
            path: path.to_owned(),
            members: stored.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            sort: sort.to_owned(),
            kind: Kind::Link,
        }
    }

    /// For a table in a form: a head sends the form with `go` set to `sort:COLUMN`.
    pub(in crate::ui::routes) fn in_form(sort: &str) -> Self {
        Self { sort: sort.to_owned(), kind: Kind::Button, ..Self::default() }
    }

    /// For a list that has one order only.
    pub(in crate::ui::routes) fn fixed() -> Self {
        Self { kind: Kind::Text, ..Self::default() }
    }

    /// A column that is sorted in ascending order first.
    pub(in crate::ui::routes) fn column(&self, column: &str, label: &str, class: &str) -> Markup {
        self.head(column, label, class, column)
    }

    /// A column of times: the newest first.
    pub(in crate::ui::routes) fn time(&self, column: &str, label: &str, class: &str) -> Markup {
        self.head(column, label, class, &format!("-{column}"))
    }

    /// A column of absolute times, with their zone.
    pub(in crate::ui::routes) fn zoned(&self, column: &str, label: &str) -> Markup {
        let text = format!("{} (<span data-zone>UTC</span>)", escape(label));
        let (aria, control) = self.parts(column, &text, &format!("-{column}"));
        Markup::trusted(format!("<th scope=\"col\"{aria}>{control}</th>"))
    }

    /// The same for a list that is not a table.
    pub(in crate::ui::routes) fn control(&self, column: &str, label: &str) -> Markup {
        let (_, control) = self.parts(column, &escape(label), &format!("-{column}"));
        let order = if self.sort.starts_with('-') { "newest first" } else { "oldest first" };
        Markup::trusted(format!("<span class=\"soft small\">{control}, {order}</span>"))
    }

    fn head(&self, column: &str, label: &str, class: &str, first: &str) -> Markup {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", escape(class)) };
        let (aria, control) = self.parts(column, &escape(label), first);
        Markup::trusted(format!("<th scope=\"col\"{class}{aria}>{control}</th>"))
    }

    /// The attribute with the order, and the link or button with this HTML as label.
    fn parts(&self, column: &str, label: &str, first: &str) -> (&'static str, String) {
        let is_sorted = self.sort.trim_start_matches('-') == column;
        let next = match self.sort.strip_prefix('-') {
            _ if !is_sorted => first.to_owned(),
            Some(column) => column.to_owned(),
            None => format!("-{column}"),
        };
        let aria = match (is_sorted, self.sort.starts_with('-')) {
            (false, _) => "",
            (true, false) => " aria-sort=\"ascending\"",
            (true, true) => " aria-sort=\"descending\"",
        };
        let column = escape(column);
        let control = match self.kind {
            Kind::Text => return ("", label.to_owned()),
            Kind::Button => format!(
                "<button class=\"sort\" name=\"go\" value=\"sort:{}\" data-action=\"sort\" data-column=\"{column}\">{label}</button>",
                escape(&next)
            ),
            Kind::Link => {
                let mut members: Vec<(&str, &str)> =
                    self.members.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                members.push(("sort", &next));
                let href = escape(&link(&self.path, &members));
                format!("<a class=\"sort\" href=\"{href}\" data-action=\"sort\" data-column=\"{column}\">{label}</a>")
            }
        };
        (aria, control)
    }
}

/// Compares two rows by one column.
pub(in crate::ui::routes) type Compare<T> = fn(&T, &T) -> Ordering;

/// Sorts a short list; without a known column it stays as it is.
pub(in crate::ui::routes) fn sort_rows<T>(rows: &mut [T], sort: &str, columns: &[(&str, Compare<T>)]) {
    let (name, descending) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let Some((_, compare)) = columns.iter().find(|(column, _)| *column == name) else { return };
    rows.sort_by(|one, other| if descending { compare(other, one) } else { compare(one, other) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(heads: &Heads) -> String {
        format!("{} {}", heads.column("device", "Device", ""), heads.time("last-seen", "Last seen", "wide"))
    }

    #[test]
    fn a_head_sorts_by_its_column_and_then_the_other_way_round() {
        let at = |sort: &str| shown(&Heads::new("/devices", &[("q", "press 7"), ("site", "")], sort));
        assert!(at("").contains("href=\"/devices?q=press+7&amp;sort=device\""), "{}", at(""));
        assert!(at("").contains("sort=-last-seen\"") && !at("").contains("aria-sort"), "{}", at(""));
        assert!(at("device").contains("aria-sort=\"ascending\"><a") && at("device").contains("sort=-device\""));
        assert!(at("-device").contains("aria-sort=\"descending\"") && at("-device").contains("sort=device\""));
        assert!(at("-last-seen").contains("class=\"wide\" aria-sort=\"descending\""), "{}", at("-last-seen"));
    }

    #[test]
    fn heads_in_a_form_are_buttons() {
        let text = shown(&Heads::in_form("device"));
        assert!(text.contains("<button class=\"sort\" name=\"go\" value=\"sort:-device\""), "{text}");
    }

    #[test]
    fn sorts_a_short_list_and_ignores_unknown_columns() {
        let columns: &[(&str, Compare<u32>)] = &[("number", Ord::cmp)];
        for (sort, expected) in [("number", [1, 2, 3]), ("-number", [3, 2, 1]), ("name", [2, 3, 1]), ("", [2, 3, 1])] {
            let mut rows = [2, 3, 1];
            sort_rows(&mut rows, sort, columns);
            assert_eq!(rows, expected, "{sort}");
        }
    }
}
