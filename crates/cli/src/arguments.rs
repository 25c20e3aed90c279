//! The root command and its subcommands.

use crate::commands::app::AppCommand;
use crate::commands::audit::AuditCommand;
use crate::commands::client::ClientCommand;
use crate::commands::deploy::DeployArgs;
use crate::commands::deployment::DeploymentCommand;
use crate::commands::device::DeviceCommand;
use crate::commands::enrollment_token::EnrollmentTokenCommand;
use crate::commands::events::EventsArgs;
use crate::commands::group::GroupCommand;
use crate::commands::login::LoginArgs;
use crate::commands::registry::RegistryCommand;
use crate::commands::rollout::RolloutCommand;
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

/// Workload fleet manager for the industrial edge: deploys applications to devices and shows what runs there.
#[derive(Debug, Parser)]
#[command(name = "margrave", version, after_help = after_help(), max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Output format on stdout
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
    /// Print less on stderr
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
    /// Start a complete demo with a sample catalog and simulated devices
    Demo(DemoArgs),
    /// Simulate a fleet of devices against a server
    #[command(after_help = SIM_NOTES)]
    Sim(SimArgs),
    /// Check a configuration file, show effective settings, list every setting
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Save a server and a token
    Login(LoginArgs),
    /// Delete the saved server and token
    Logout,
    /// Show a summary of the fleet
    Status,
    /// Manage the catalog: applications, compatibility, parameters
    #[command(visible_alias = "apps")]
    App {
        #[command(subcommand)]
        command: AppCommand,
    },
    /// Manage devices and their labels
    #[command(visible_alias = "devices")]
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
    /// Manage clients: access, identities, enrollment
    #[command(visible_alias = "clients")]
    Client {
        #[command(subcommand)]
        command: ClientCommand,
    },
    /// Manage one-time enrollment tokens
    #[command(visible_alias = "enrollment-tokens")]
    EnrollmentToken {
        #[command(subcommand)]
        command: EnrollmentTokenCommand,
    },
    /// Manage groups (named label selectors)
    #[command(visible_alias = "groups")]
    Group {
        #[command(subcommand)]
        command: GroupCommand,
    },
    /// Deploy an application to devices
    Deploy(DeployArgs),
    /// Manage deployments: show, upgrade, retry, roll back, remove
    #[command(visible_alias = "deployments")]
    Deployment {
        #[command(subcommand)]
        command: DeploymentCommand,
    },
    /// Manage rollouts: show progress, wait, cancel, retry
    #[command(visible_alias = "rollouts")]
    Rollout {
        #[command(subcommand)]
        command: RolloutCommand,
    },
    /// Manage the embedded registry, external registries and copies between them
    Registry {
        #[command(subcommand)]
        command: RegistryCommand,
    },
    /// Show the certificates that devices and clients need to trust this server
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Manage API tokens
    #[command(visible_alias = "tokens")]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Manage users who sign in with a name and a password
    #[command(visible_alias = "users")]
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Manage browser sessions
    #[command(visible_alias = "sessions")]
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Show and verify the audit log
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Show past events, and new ones with --follow
    Events(EventsArgs),
    /// Check the connection, the server and the fleet, and suggest next steps
    Doctor,
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_NOTES)]
    Completions(CompletionsArgs),
    /// Write man pages for every command of margrave and margrave-agent
    Man(ManArgs),
}

const SERVE_NOTES: &str = "\
Without a configuration file the server uses SQLite in its data folder and its own trust domain.
The server writes the initial API token to DIR/admin-token, the initial password of `admin` to DIR/admin-password (until it
is changed), and the bound addresses to DIR/addresses.json.
SIGTERM and Ctrl-C stop it gracefully; SIGHUP reloads certificates and trust anchors.
Flags override the configuration file; docs/configuration.md lists every setting.";

const SIM_NOTES: &str = "\
Virtual devices run the real agent core over real mutual TLS; only the workloads are simulated. The server creates clients
and identities for them; --clean removes them again. The result is printed at the end, also after Ctrl-C; -o json prints it
for programs. The exit code is 1 if devices are not up to date or too many requests failed.";

const COMPLETIONS_NOTES: &str = "\
For this shell only: `source <(margrave completions bash)`, `margrave completions fish | source`.
zsh expects the script as `_margrave` in a folder of $fpath, before `compinit` runs.";

fn after_help() -> String {
    format!(
        "First steps:
  margrave demo                                     start a complete demo with simulated devices
  margrave serve --data ./fleet                     start an empty server in ./fleet
  margrave --data ./fleet client enrollment-token dev-1  enroll a device
  margrave --data ./fleet app import ./my-package   add a package to the catalog
  margrave --data ./fleet app compatibility my-app            check which devices can run it
  margrave --data ./fleet deploy my-app --device dev-1 --wait

Data goes to stdout, everything else to stderr. Colors are off in pipes and with NO_COLOR.

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
