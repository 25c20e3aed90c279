//! `margrave config`: check a configuration file, show effective settings, print every setting.

use crate::connection::ConnectionArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Output};
use crate::serve::{ServeArgs, apply};
use margrave_server::config::{Config, ConfigFile};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file and this machine, and report all problems
    Check(CheckArgs),
    /// Print the effective settings and their sources, without passwords
    Show(ServeArgs),
    /// Print a commented configuration file with every setting, its default and its meaning
    Example,
    /// Print every setting with its default and meaning as a table
    Reference,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Configuration file (TOML); same as --config
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(crate) fn run(command: ConfigCommand, connection: &ConnectionArgs, out: Output) -> Outcome {
    match command {
        ConfigCommand::Check(CheckArgs { file, mut serve }) => {
            serve.config = file.or(serve.config);
            check(serve, connection, out)
        }
        ConfigCommand::Show(args) => show(args, connection, out),
        ConfigCommand::Example => out.data(&Config::example()),
        ConfigCommand::Reference => reference(out),
    }
}

/// For `-o json`.
#[derive(serde::Serialize)]
struct Checked {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    usable: bool,
    problems: Vec<Found>,
}

#[derive(serde::Serialize)]
struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    key: String,
    problem: String,
}

fn open(path: &Path) -> Outcome<ConfigFile> {
    ConfigFile::read(path).map_err(|error| {
        Failure::usage(format!("use the configuration file `{}`", path.display()))
            .caused_by(&error)
            .next("`margrave config example` prints a template")
    })
}

/// The configuration file, if given, overridden by flags.
fn read(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome<(ConfigFile, SettingsFromFlags)> {
    let mut file = match &args.config {
        Some(path) => open(path)?,
        None => ConfigFile::parse(Path::new(""), ""),
    };
    let decided = file.config.as_mut().map(|config| apply(config, args, connection, out)).unwrap_or_default();
    for (key, _) in &decided {
        // A setting from a flag no longer comes from the file.
        file.places.remove(*key);
    }
    Ok((file, decided))
}

/// Settings set by flags, each with its flag.
type SettingsFromFlags = Vec<(&'static str, &'static str)>;

fn check(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let path = args.config.clone();
    let (mut file, decided) = read(args, connection, out)?;
    if let Some(config) = &file.config {
        let mut found = config.problems();
        found.extend(config.machine_problems());
        file.add(found);
    }
    let name = path.as_ref().map_or("the command line".to_owned(), |path| path.display().to_string());
    let mut failure = Failure::usage(format!("the configuration of {name} is not valid"));
    let mut problems = Vec::new();
    for problem in file.problems {
        let by = decided.iter().find(|(key, _)| *key == problem.key).map(|(_, by)| *by);
        let place = match (problem.place, by) {
            (Some(place), _) => format!("{name}, {place}: "),
            (None, Some(by)) => format!("{by}: "),
            (None, None) => String::new(),
        };
        let key = if problem.key.is_empty() { String::new() } else { format!("`{}` ", problem.key) };
        failure = failure.because(format!("{place}{key}{}", problem.text));
        problems.push(Found {
            line: problem.place.map(|place| place.line),
            column: problem.place.map(|place| place.column),
            key: problem.key,
            problem: problem.text,
        });
    }
    let usable = problems.is_empty();
    if out.format != Format::Table {
        out.show(&Checked { file: path, usable, problems }, |_| String::new())?;
    }
    if usable {
        out.say(format!("The configuration of {name} is valid."));
        return Ok(());
    }
    Err(failure.next("`margrave config example` shows every setting"))
}

/// An effective setting, for `-o json`.
#[derive(serde::Serialize)]
struct EffectiveSetting {
    setting: String,
    /// Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<toml::Value>,
    from: String,
}

fn show(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let path = args.config.clone().unwrap_or_default();
    let (file, decided) = read(args, connection, out)?;
    let places = file.places.clone();
    let config = file.finish().map_err(|error| {
        Failure::usage(format!("use the configuration file `{}`", path.display()))
            .caused_by(&error)
            .next(format!("`margrave config check {}` shows details", path.display()))
    })?;
    let from = |key: &str| match (decided.iter().find(|(decided, _)| *decided == key), places.get(key)) {
        (Some((_, by)), _) => (*by).to_owned(),
        (None, Some(place)) => format!("{}, {place}", path.display()),
        (None, None) => "default".to_owned(),
    };
    let settings: Vec<_> = config
        .in_effect()
        .into_iter()
        .map(|(setting, value)| EffectiveSetting { from: from(&setting), setting, value })
        .collect();
    out.show(&settings, |out| {
        let rows = settings.iter().map(|EffectiveSetting { setting, value, from }| {
            let value = value.as_ref().map_or_else(|| "(not set)".to_owned(), ToString::to_string);
            vec![setting.clone(), value, from.clone()]
        });
        out.table(&["setting", "value", "source"], rows)
    })
}

/// A setting for `-o json`.
#[derive(serde::Serialize)]
struct SettingDescription {
    setting: String,
    kind: &'static str,
    /// As written in the file; empty if there is none.
    default: String,
    meaning: String,
}

fn reference(out: Output) -> Outcome {
    let settings: Vec<_> = Config::reference()
        .into_iter()
        .map(|setting| SettingDescription {
            setting: setting.key,
            kind: setting.kind,
            default: setting.default,
            meaning: setting.text,
        })
        .collect();
    out.show(&settings, |out| {
        let rows = settings.iter().map(|SettingDescription { setting, kind, default, meaning }| {
            vec![setting.clone(), (*kind).replace('`', ""), default.clone(), meaning.clone()]
        });
        out.table(&["setting", "kind", "default", "meaning"], rows)
    })
}
