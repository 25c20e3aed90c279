//! An ordered tree to write documents from: members keep the order they are given in.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Number, Value};

#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// A number without a fraction is written without one.
    pub fn float(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() < 9e15 {
            return Self::Number((number as i64).into());
        }
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }

    pub fn list<T: Into<Tree>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a tree with text keys always serializes into memory")
    }

    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(boolean) => Value::Bool(*boolean),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(members) => {
                Value::Object(members.iter().map(|(key, member)| (key.clone(), member.to_value())).collect())
            }
        }
    }
}

/// Collects members, omitting absent ones.
#[derive(Debug, Default)]
#[must_use]
pub struct Members(Vec<(String, Tree)>);

impl Members {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn with(mut self, key: &str, value: impl Into<Tree>) -> Self {
        self.0.push((key.to_owned(), value.into()));
        self
    }
    pub fn with_some<T: Into<Tree>>(mut self, key: &str, value: Option<T>) -> Self {
        if let Some(value) = value {
            self.0.push((key.to_owned(), value.into()));
        }
        self
    }
    pub fn with_all<'a>(mut self, members: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Self {
        self.0.extend(members.into_iter().map(|(key, value)| (key.clone(), value.into())));
        self
    }
    pub fn build(self) -> Tree {
        Tree::Object(self.0)
    }
}

impl From<Members> for Tree {
    fn from(members: Members) -> Self {
        members.build()
    }
}
impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<&String> for Tree {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}
impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<bool> for Tree {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}
impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}
impl<T: Into<Tree>> From<Vec<T>> for Tree {
    fn from(items: Vec<T>) -> Self {
        Self::list(items)
    }
}
impl From<&Value> for Tree {
    /// Members of an object are sorted, so that the same value always gives the same bytes.
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(boolean) => Self::Boolean(*boolean),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::list(items),
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(key, value)| (key.clone(), value.into())).collect();
                members.sort_by(|(one, _): &(String, Self), (other, _)| one.cmp(other));
                Self::Object(members)
            }
        }
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Boolean(boolean) => serializer.serialize_bool(*boolean),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, member) in members {
                    map.serialize_entry(key, member)?;
                }
                map.end()
            }
        }
    }
}
