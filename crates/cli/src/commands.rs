//! Operator commands. They use only the public API, so the API is complete by construction.

// Suggested reading order.
pub(crate) mod app;
pub(crate) mod audit;
pub(crate) mod rollout;
pub(crate) mod client;
pub(crate) mod deploy;
pub(crate) mod deployment;
pub(crate) mod device;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod events;
pub(crate) mod group;
pub(crate) mod enrollment_token;
pub(crate) mod login;
pub(crate) mod lookup;
pub(crate) mod registry;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod user;

use crate::connection::Target;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use margrave_api::client::{ApiClient, ClientError, ConnectionFault, PageQuery};
use margrave_api::page::{LIMIT_MAX, Page};

/// Shared context of operator commands.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) api: ApiClient,
    pub(crate) out: Output,
    /// Also used for the embedded registry, which accepts the same token.
    pub(crate) target: Target,
}

/// The comment on an action, recorded in the audit log.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct CommentArgs {
    /// Comment, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

/// Confirmation flag of destructive commands.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct YesArgs {
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl Session {
    /// Asks for confirmation. Without a terminal, `--yes` is required.
    pub(crate) fn sure(&self, question: &str, yes: &YesArgs) -> Outcome {
        if yes.yes {
            return Ok(());
        }
        if !self.out.interactive {
            return Err(
                Failure::usage(format!("{question} Cannot ask for confirmation: not a terminal.")).next("add --yes")
            );
        }
        if crate::prompt::confirm(question, false)? { Ok(()) } else { Err(Failure::failed("nothing was changed")) }
    }
}

/// Reads all pages, up to `limit` items.
pub(crate) async fn every<T>(
    limit: Option<usize>,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>, ClientError>,
) -> Outcome<Vec<T>> {
    let requested = limit.unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let size = u32::try_from(requested - items.len()).unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
        let page = fetch(PageQuery { limit: Some(size), after }).await?;
        items.extend(page.items);
        after = page.next;
        if after.is_none() || items.len() >= requested {
            items.truncate(requested);
            return Ok(items);
        }
    }
}

/// Limits the number of items in a list.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LimitArgs {
    /// Show at most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl LimitArgs {
    pub(crate) fn get(&self) -> Option<usize> {
        self.limit.and_then(|limit| usize::try_from(limit).ok())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Problem(problem) => {
                let exit = match problem.status {
                    401 | 403 => Exit::Unauthorized,
                    404 => Exit::NotFound,
                    400..=499 => Exit::Refused,
                    _ => Exit::Failed,
                };
                let mut failure = Self::new(exit, problem.detail.clone());
                for field in problem.errors.iter().filter(|field| !problem.detail.ends_with(&field.message)) {
                    // An error about the request as a whole has no field.
                    failure = failure.because(match field.field.as_str() {
                        "" => field.message.clone(),
                        name => format!("{name}: {}", field.message),
                    });
                }
                if let Some(request) = problem.request_id.as_ref().filter(|_| problem.status >= 500) {
                    failure = failure.because(format!("see request {request} in the server log"));
                }
                match exit {
                    Exit::Unauthorized => failure.next(
                        "`margrave login --url URL --token-file FILE` with a valid token, or `--data DIR` on the server host",
                    ),
                    _ => failure,
                }
            }
            ClientError::Unreachable { .. } => unreachable(&error),
            ClientError::BrokenOff { .. }
            | ClientError::NotMargrave { .. }
            | ClientError::NoAnswer { .. }
            | ClientError::StreamEnded => Self::new(Exit::Unreachable, error.to_string()).sources(&error),
            ClientError::Unreadable { .. } | ClientError::TooLarge { .. } => {
                Self::failed(error.to_string()).sources(&error)
            }
            ClientError::Address(_) | ClientError::Ca(_) | ClientError::Token | ClientError::IdempotencyKey => {
                Self::usage(error.to_string()).sources(&error)
            }
        }
    }
}

impl Failure {
    /// Adds the causes of an error, without the error itself.
    fn sources(self, error: &dyn std::error::Error) -> Self {
        match error.source() {
            Some(source) => self.caused_by(source),
            None => self,
        }
    }
}

fn unreachable(error: &ClientError) -> Failure {
    let failure = Failure::new(Exit::Unreachable, error.to_string());
    let Some(fault) = error.connection_fault() else {
        return failure.sources(error).next("`margrave doctor` checks the connection step by step");
    };
    failure.because(fault.words()).next(match fault {
        ConnectionFault::WithoutTls => "write http:// instead of https:// in the address",
        ConnectionFault::NotHttp => "write https:// instead of http:// in the address",
        ConnectionFault::Untrusted => {
            "pass the server's CA certificate with --ca FILE; `margrave --data DIR trust https-ca` prints it on the server host"
        }
        ConnectionFault::OutOfTime => "check the clock of this machine, then the certificate of the server",
        ConnectionFault::OtherName => "use a name in the certificate; `https.names` in the server's settings adds names to it",
        ConnectionFault::Handshake => "check that the address is the operator listener of a Margrave server",
    })
}

/// Display name of a device: its id, prefixed with its client unless the id already contains it.
pub(crate) fn device_name(client: &str, device: &str) -> String {
    let own = device == client || device.strip_prefix(client).is_some_and(|rest| rest.starts_with('/'));
    if own { device.to_owned() } else { format!("{client}/{device}") }
}

#[cfg(test)]
mod tests {
    use super::device_name;

    #[test]
    fn omits_the_client_if_the_device_id_contains_it() {
        assert_eq!(device_name("press-01", "press-01"), "press-01");
        assert_eq!(device_name("gw", "gw/cell-1"), "gw/cell-1");
        assert_eq!(device_name("gw", "gwx/cell-1"), "gw/gwx/cell-1");
        assert_eq!(device_name("plant", "press-01"), "plant/press-01");
    }
}
