//! The command line as a whole.

use crate::commands::app::AppCommand;
use crate::commands::audit::AuditCommand;
use crate::commands::change::ChangeCommand;
use crate::commands::client::ClientCommand;
use crate::commands::deploy::DeployArgs;
use crate::commands::deployment::DeploymentCommand;
use crate::commands::device::DeviceCommand;
use crate::commands::events::EventsArgs;
use crate::commands::group::GroupCommand;
use crate::commands::invitation::InvitationCommand;
use crate::commands::login::LoginArgs;
use crate::commands::registry::RegistryCommand;
use crate::commands::session::SessionCommand;
use crate::commands::token::TokenCommand;
use crate::commands::trust::TrustCommand;
use crate::commands::user::UserCommand;
use crate::config::ConfigCommand;
use crate::connection::ConnectionArgs;
use crate::demo::DemoArgs;
use crate::failure::EXIT_CODES;
use crate::output::Format;
use crate::serve::ServeArgs;
use crate::shell::{CompletionsArgs, ManArgs};
use crate::sim::SimArgs;
use clap::{Parser, Subcommand};

/// Workload fleet manager for the industrial edge: which applications run on which devices, and what really runs.
#[derive(Debug, Parser)]
#[command(name = "margrave", version, after_help = after_help(), max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// How data is written to stdout
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value = "table",
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) output: Format,
    /// Say less on stderr
    #[arg(long, short, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(after_help = SERVE_NOTES)]
    Serve(ServeArgs),
    /// Start everything at once, with a sample catalog and simulated devices
    Demo(DemoArgs),
    /// Simulate a fleet of devices against a server
    #[command(after_help = SIM_NOTES)]
    Sim(SimArgs),
    /// Check a configuration file, show what is in effect, list every setting
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Remember a server and a token
    Login(LoginArgs),
    /// Forget the remembered server and token
    Logout,
    /// The fleet at a glance
    Status,
    /// The catalog: applications, where they fit, what they ask
    #[command(visible_alias = "apps")]
    App {
        #[command(subcommand)]
        command: AppCommand,
    },
    /// Devices and their labels
    #[command(visible_alias = "devices")]
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
    /// Clients: who may connect, identities, enrolment
    #[command(visible_alias = "clients")]
    Client {
        #[command(subcommand)]
        command: ClientCommand,
    },
    /// Invitations: one-time tokens devices join with
    #[command(visible_alias = "invitations")]
    Invitation {
        #[command(subcommand)]
        command: InvitationCommand,
    },
    /// Groups: named label selectors
    #[command(visible_alias = "groups")]
    Group {
        #[command(subcommand)]
        command: GroupCommand,
    },
    /// Deploy an application to devices
    Deploy(DeployArgs),
    /// Deployments: look, reconfigure, upgrade, retry, revert, remove
    #[command(visible_alias = "deployments")]
    Deployment {
        #[command(subcommand)]
        command: DeploymentCommand,
    },
    /// Changes: what was asked for, how far it is, cancel the rest
    #[command(visible_alias = "changes")]
    Change {
        #[command(subcommand)]
        command: ChangeCommand,
    },
    /// The registry of the server, and copies from others into it
    Registry {
        #[command(subcommand)]
        command: RegistryCommand,
    },
    /// What others need to trust this server
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// API tokens
    #[command(visible_alias = "tokens")]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// People who sign in with a name and a password
    #[command(visible_alias = "users")]
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Browsers that are signed in
    #[command(visible_alias = "sessions")]
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Who changed what, when and why
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Show what happened, and with --follow what happens
    Events(EventsArgs),
    /// Check the connection, the server and the fleet, with what to do next
    Doctor,
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_NOTES)]
    Completions(CompletionsArgs),
    /// Write man pages for every command of margrave and margrave-agent
    Man(ManArgs),
}

const SERVE_NOTES: &str = "\
With no file at all the server starts on SQLite in its data folder, with a trust domain of its own.
The first API token is written to DIR/admin-token, the first password of the operator `admin` to DIR/admin-password (until it
is changed), the addresses really bound to DIR/addresses.json.
SIGTERM and Ctrl-C stop it gracefully; SIGHUP reloads certificates and trust anchors.
Flags go before the configuration file; docs/configuration.md lists every setting.";

const SIM_NOTES: &str = "\
Virtual devices run the real agent's core over real mutual TLS; only the workloads are made up. Clients and identities
are made for them on the server, and taken away again with --clean. The result comes at the end, after Ctrl-C too; with
-o json for programs. The exit code is 1 when devices have not converged or too many requests went wrong.";

const COMPLETIONS_NOTES: &str = "\
For this shell only: `source <(margrave completions bash)`, `margrave completions fish | source`.
zsh wants the script as `_margrave` in a folder of $fpath, before `compinit` is called.";

fn after_help() -> String {
    format!(
        "First steps:
  margrave demo                                     everything at once, with simulated devices
  margrave serve --data ./fleet                     an empty server in ./fleet
  margrave --data ./fleet client enrol-token dev-1  bring a device in
  margrave --data ./fleet app import ./my-package   fill the catalog
  margrave --data ./fleet app fit my-app            see where it can run, and why
  margrave --data ./fleet deploy my-app --device dev-1 --wait

Data goes to stdout, everything else to stderr. Colours are off in pipes and with NO_COLOR.

{EXIT_CODES}"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        crate::examples::command().debug_assert();
    }
}
