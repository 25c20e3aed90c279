//! Options for a registry other than the embedded one.

use crate::failure::{Failure, Outcome};
use margrave_oci::{Connection, Credentials};
use std::io::Read as _;
use std::path::PathBuf;

/// Passwords are short; a larger input is a wrong file.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RegistryArgs {
    /// User name for the registry
    #[arg(long, requires = "password_stdin")]
    pub(crate) username: Option<String>,
    /// Read the registry password from stdin; it is used once and never stored
    #[arg(long, requires = "username")]
    pub(crate) password_stdin: bool,
    /// Use plain HTTP; loopback addresses only
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// PEM file of a certificate authority to trust for the registry
    #[arg(long, value_name = "FILE")]
    pub(crate) registry_ca: Option<PathBuf>,
}

impl RegistryArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.username.is_some() || self.password_stdin || self.plain_http || self.registry_ca.is_some()
    }

    pub(crate) fn password(&self) -> Outcome<Option<String>> {
        self.password_stdin.then(read_password).transpose()
    }

    pub(crate) fn ca(&self) -> Outcome<Option<String>> {
        self.registry_ca.as_ref().map(|path| crate::connection::read_text(path, "CA file")).transpose()
    }

    pub(crate) fn connection(&self) -> Outcome<Connection> {
        let credentials = Credentials::new(self.username.clone(), self.password()?)
            .map_err(|(field, message)| Failure::usage(format!("{field}: {message}")))?;
        Ok(Connection { plain_http: self.plain_http, ca: self.ca()?, credentials })
    }
}

fn read_password() -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin()
        .take(PASSWORD_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage("read the password from stdin").caused_by(&error))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
