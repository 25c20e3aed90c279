//! Writing parameters and configuration.

use super::{Configuration, Parameter, Schema, Section, Setting, Target};
use crate::tree::{Members, Tree};
use indexmap::IndexMap;

pub(crate) fn parameters(parameters: &IndexMap<String, Parameter>) -> Tree {
    parameters
        .iter()
        .fold(Members::new(), |members, (name, parameter)| {
            let parameter = Members::new()
                .with_some("value", parameter.value.as_ref())
                .with("targets", targets(&parameter.targets));
            members.with(name, parameter)
        })
        .build()
}

pub(crate) fn targets(targets: &[Target]) -> Tree {
    Tree::list(targets.iter().map(|target| {
        Members::new().with("pointer", &target.pointer).with("components", Tree::list(&target.components))
    }))
}

pub(crate) fn configuration(configuration: &Configuration) -> Tree {
    Members::new()
        .with("sections", Tree::list(configuration.sections.iter().map(section)))
        .with("schema", Tree::list(configuration.schema.iter().map(schema)))
        .build()
}

fn section(section: &Section) -> Tree {
    Members::new()
        .with("name", &section.name)
        .with("settings", Tree::list(section.settings.iter().map(setting)))
        .build()
}

fn setting(setting: &Setting) -> Tree {
    Members::new()
        .with("parameter", &setting.parameter)
        .with("name", &setting.name)
        .with_some("description", setting.description.as_ref())
        .with_some("immutable", setting.immutable.then_some(true))
        .with("schema", &setting.schema)
        .build()
}

fn schema(schema: &Schema) -> Tree {
    Members::new()
        .with("name", &schema.name)
        .with("dataType", schema.data_type.as_str())
        .with("allowEmpty", schema.allow_empty)
        .with_some("minLength", schema.min_length)
        .with_some("maxLength", schema.max_length)
        .with_some("regexMatch", schema.regex_match.as_ref())
        .with_some("minValue", schema.min_value.map(Tree::float))
        .with_some("maxValue", schema.max_value.map(Tree::float))
        .with_some("minPrecision", schema.min_precision)
        .with_some("maxPrecision", schema.max_precision)
        .with_some("multiselect", schema.multiselect.then_some(true))
        .with_some("options", schema.options.as_ref().map(Tree::list))
        .with_some("sensitive", schema.sensitive.then_some(true))
        .build()
}
