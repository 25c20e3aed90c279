//! The `helm` program: own folders, no repositories or logins of users, the same cluster access as the agent.

use super::super::access::Source;
use super::Helm;
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::{failed, from_program};
use crate::runtimes::program::{Output, Program};
use std::time::Duration;

/// Rendering takes seconds; installing talks to a possibly busy cluster, but does not wait for workloads.
pub(super) const PROGRAM_MAX: Duration = Duration::from_mins(5);
/// Inherited environment variables: the API address in a pod.
const POD: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

impl Helm {
    pub(super) fn program(&self) -> Program {
        let folder = self.cluster.folder.join("helm");
        let mut program = Program::new(&self.program, PROGRAM_MAX)
            .variable("HELM_CACHE_HOME", folder.join("cache"))
            .variable("HELM_CONFIG_HOME", folder.join("config"))
            .variable("HELM_DATA_HOME", folder.join("data"))
            .variable("HELM_PLUGINS", folder.join("plugins"))
            .variable("HELM_DRIVER", "secret")
            .variable("HOME", &folder);
        match self.cluster.client.source() {
            Source::File { path, context } => {
                program = program.variable("KUBECONFIG", path);
                if let Some(context) = context {
                    program = program.variable("HELM_KUBECONTEXT", context);
                }
            }
            Source::Pod => {
                for name in POD {
                    if let Some(value) = std::env::var_os(name) {
                        program = program.variable(name, value);
                    }
                }
            }
        }
        program
    }

    /// Its major version, detected once: flags differ between 3 and 4.
    pub(super) async fn major(&self) -> Result<u64, WorkFailure> {
        let ask = || async {
            let output = run(&self.program().arguments(["version", "--short"]), "say its version").await?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let major = major(&text);
            major.filter(|major| matches!(major, 3 | 4)).ok_or_else(|| {
                let text: String = text.chars().take(80).collect();
                failed(format!("helm 3 or 4 is required, this is `{text}`; configure another with `kubernetes.helm`"))
            })
        };
        self.major.get_or_try_init(ask).await.copied()
    }
}

/// Runs it; its error output becomes the failure.
pub(super) async fn run(program: &Program, what: &str) -> Result<Output, WorkFailure> {
    let output = program.run().await.map_err(from_program)?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(failed(format!("helm could not {what}: {}", output.complaint())))
    }
}

/// `v3.17.2+gcc0bbbd`
fn major(text: &str) -> Option<u64> {
    text.trim_start_matches('v').split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_helm_versions() {
        assert_eq!(major("v3.17.2+gcc0bbbd"), Some(3));
        assert_eq!(major("v4.2.3+g43e8b7f"), Some(4));
        assert_eq!(major("WARNING: no"), None);
    }
}
