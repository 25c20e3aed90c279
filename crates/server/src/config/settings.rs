//! A struct, its defaults and its documentation from one text, so that the three cannot drift apart.

/// One line of the configuration reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted key, such as `listeners.devices.address`.
    pub key: String,
    /// The default as it would stand in the file; empty when there is none.
    pub default: String,
    pub text: String,
}

/// Declares a section of the configuration file: values with their defaults, then sections inside it.
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
            pub(super) fn describe(prefix: &str, out: &mut Vec<(String, String)>) {
                $( out.push((
                    format!("{prefix}{}", stringify!($field)),
                    [$($text),+].map(str::trim).join(" "),
                )); )*
                $( $( <$inner_type>::describe(&format!("{prefix}{}.", stringify!($inner)), out); )* )?
                let _ = (prefix, out);
            }
        }
    };
}
pub(super) use settings;
