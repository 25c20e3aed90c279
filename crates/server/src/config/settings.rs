//! A struct, its defaults and its documentation from one definition, so that they stay in sync.

use super::{LogFormat, Span, UnknownTypes};
use std::net::SocketAddr;
use std::path::PathBuf;

/// One line of the configuration reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted key, such as `listeners.devices.address`.
    pub key: String,
    /// The kind of value, with its unit.
    pub kind: &'static str,
    /// The default as written in the file; empty when there is none.
    pub default: String,
    pub text: String,
}

/// A section or a setting as the struct describes it.
#[derive(Debug)]
pub(crate) enum Described {
    Section { key: String, text: String },
    Value { key: String, kind: &'static str, text: String },
}

/// How a value of this type is described to people.
pub(super) trait Kind {
    const KIND: &'static str;
}

macro_rules! kinds {
    ($($type:ty => $kind:literal,)*) => { $( impl Kind for $type { const KIND: &'static str = $kind; } )* };
}

kinds! {
    bool => "`true` or `false`",
    u32 => "whole number",
    u64 => "whole number",
    usize => "whole number",
    String => "text",
    PathBuf => "path",
    SocketAddr => "address and port",
    Span => "duration",
    Vec<String> => "list of texts",
    UnknownTypes => "`refuse` or `custom`",
    LogFormat => "`json` or `text`",
}

impl<T: Kind> Kind for Option<T> {
    const KIND: &'static str = T::KIND;
}

/// The kind with its unit: keys of byte counts contain `bytes`.
pub(super) fn kind_of<T: Kind>(field: &str) -> &'static str {
    if T::KIND == u64::KIND && field.contains("bytes") { "whole number of bytes" } else { T::KIND }
}

/// Declares a section of the configuration file: settings with their defaults, then subsections.
macro_rules! settings {
    (
        $(#[doc = $section_text:literal])*
        pub struct $name:ident {
            $( $(#[doc = $text:literal])+ $field:ident: $type:ty = $default:expr, )*
        }
        $(sections { $( $(#[doc = $inner_text:literal])* $inner:ident: $inner_type:ty, )* })?
    ) => {
        $(#[doc = $section_text])*
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $text])+ pub $field: $type, )*
            $( $( $(#[doc = $inner_text])* pub $inner: $inner_type, )* )?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $( $inner: <$inner_type>::default(), )* )?
                }
            }
        }

        impl $name {
            /// Every key of this section with its text, in the order of the struct.
            pub(super) fn describe(key: &str, out: &mut Vec<crate::config::settings::Described>) {
                use crate::config::settings::Described;
                let text = [$($section_text),*].map(str::trim).join(" ");
                out.push(Described::Section { key: key.to_owned(), text });
                let inside = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
                $( out.push(Described::Value {
                    key: inside(stringify!($field)),
                    kind: crate::config::settings::kind_of::<$type>(stringify!($field)),
                    text: [$($text),+].map(str::trim).join(" "),
                }); )*
                $( $( <$inner_type>::describe(&inside(stringify!($inner)), out); )* )?
                let _ = inside;
            }
        }
    };
}
pub(super) use settings;
