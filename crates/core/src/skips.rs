//! Why a rollout skips a device: stored as kind and data, rendered by [`SkipReason`]'s `Display` when it is read.

#[cfg(test)]
mod tests;

use margo::ids::DeploymentId;
use serde_json::{Value, json};
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum SkipReason {
    /// Without the id when reasons are counted.
    AlreadyDeployed {
        deployment: Option<DeploymentId>,
    },
    BelongsToAnotherClient,
    /// A deployment to withdraw was changed by a later rollout, or its device came online.
    ChangedOrOnline,
    /// Its manifest cannot be published; other clients of the rollout are not affected.
    ClientCannotBePublished {
        problem: PublishProblem,
        /// For the administrator of the server: what exactly cannot be read.
        detail: String,
    },
    ClientNotFound {
        client: String,
    },
    DeploymentIdTaken,
    /// It existed when the rollout was planned.
    DeploymentGone,
    DeploymentNotFound,
    DeploymentRemoved,
    DuplicateTarget,
    /// The explanation is the one of the compatibility check.
    Incompatible {
        explanation: String,
    },
    InvalidValues {
        problems: Vec<ValueProblem>,
    },
    OnAnotherVersion {
        version: String,
    },
    RevisionChanged {
        current: i64,
        expected: i64,
    },
    Unchanged,
    VersionNotFound {
        application: String,
        version: String,
    },
    WrongDocument {
        deployment: DeploymentId,
    },
    /// A kind, or data of a kind, that this version does not know.
    Other {
        kind: String,
        data: Value,
    },
}

/// Why the manifest of a client cannot be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishProblem {
    /// All manifest versions are used.
    VersionsExhausted,
    /// A row or a document of the client is damaged or missing.
    Unreadable,
}

impl PublishProblem {
    const ALL: [Self; 2] = [Self::VersionsExhausted, Self::Unreadable];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::VersionsExhausted => "versions-exhausted",
            Self::Unreadable => "unreadable",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueProblem {
    pub field: String,
    /// `None` for a sensitive value: the message may contain it.
    pub message: Option<String>,
}

impl SkipReason {
    pub fn kind(&self) -> &str {
        match self {
            Self::AlreadyDeployed { .. } => "already-deployed",
            Self::BelongsToAnotherClient => "belongs-to-another-client",
            Self::ChangedOrOnline => "changed-or-online",
            Self::ClientCannotBePublished { .. } => "client-cannot-be-published",
            Self::ClientNotFound { .. } => "client-not-found",
            Self::DeploymentIdTaken => "deployment-id-taken",
            Self::DeploymentGone => "deployment-gone",
            Self::DeploymentNotFound => "deployment-not-found",
            Self::DeploymentRemoved => "deployment-removed",
            Self::DuplicateTarget => "duplicate-target",
            Self::Incompatible { .. } => "incompatible",
            Self::InvalidValues { .. } => "invalid-values",
            Self::OnAnotherVersion { .. } => "on-another-version",
            Self::RevisionChanged { .. } => "revision-changed",
            Self::Unchanged => "unchanged",
            Self::VersionNotFound { .. } => "version-not-found",
            Self::WrongDocument { .. } => "wrong-document",
            Self::Other { kind, .. } => kind,
        }
    }

    pub fn data(&self) -> Value {
        match self {
            Self::AlreadyDeployed { deployment } => match deployment {
                Some(deployment) => json!({ "deployment": deployment.to_string() }),
                None => json!({}),
            },
            Self::BelongsToAnotherClient
            | Self::ChangedOrOnline
            | Self::DeploymentIdTaken
            | Self::DeploymentGone
            | Self::DeploymentNotFound
            | Self::DeploymentRemoved
            | Self::DuplicateTarget
            | Self::Unchanged => json!({}),
            Self::ClientCannotBePublished { problem, detail } => {
                json!({ "problem": problem.as_str(), "detail": detail })
            }
            Self::ClientNotFound { client } => json!({ "client": client }),
            Self::Incompatible { explanation } => json!({ "explanation": explanation }),
            Self::InvalidValues { problems } => {
                let problem = |problem: &ValueProblem| match &problem.message {
                    Some(message) => json!({ "field": problem.field, "message": message }),
                    None => json!({ "field": problem.field }),
                };
                json!({ "problems": problems.iter().map(problem).collect::<Vec<_>>() })
            }
            Self::OnAnotherVersion { version } => json!({ "version": version }),
            Self::RevisionChanged { current, expected } => json!({ "current": current, "expected": expected }),
            Self::VersionNotFound { application, version } => json!({ "application": application, "version": version }),
            Self::WrongDocument { deployment } => json!({ "deployment": deployment.to_string() }),
            Self::Other { data, .. } => data.clone(),
        }
    }

    /// The inverse of [`SkipReason::kind`] and [`SkipReason::data`].
    pub fn from_parts(kind: String, data: Value) -> Self {
        read(&kind, &data).unwrap_or(Self::Other { kind, data })
    }

    /// The same reason without the id of a deployment, which means nothing to people and makes every reason distinct.
    #[must_use]
    pub fn without_id(self) -> Self {
        match self {
            Self::AlreadyDeployed { .. } => Self::AlreadyDeployed { deployment: None },
            other => other,
        }
    }
}

fn read(kind: &str, data: &Value) -> Option<SkipReason> {
    let text = |member: &str| data.get(member).and_then(Value::as_str).map(str::to_owned);
    let number = |member: &str| data.get(member).and_then(Value::as_i64);
    let id = |member: &str| data.get(member).and_then(Value::as_str).and_then(|text| text.parse::<DeploymentId>().ok());
    Some(match kind {
        "already-deployed" => SkipReason::AlreadyDeployed { deployment: id("deployment") },
        "belongs-to-another-client" => SkipReason::BelongsToAnotherClient,
        "changed-or-online" => SkipReason::ChangedOrOnline,
        "client-cannot-be-published" => {
            let problem = text("problem")?;
            let problem = PublishProblem::ALL.into_iter().find(|known| known.as_str() == problem)?;
            SkipReason::ClientCannotBePublished { problem, detail: text("detail")? }
        }
        "client-not-found" => SkipReason::ClientNotFound { client: text("client")? },
        "deployment-id-taken" => SkipReason::DeploymentIdTaken,
        "deployment-gone" => SkipReason::DeploymentGone,
        "deployment-not-found" => SkipReason::DeploymentNotFound,
        "deployment-removed" => SkipReason::DeploymentRemoved,
        "duplicate-target" => SkipReason::DuplicateTarget,
        "incompatible" => SkipReason::Incompatible { explanation: text("explanation")? },
        "invalid-values" => {
            let problem = |value: &Value| {
                let text = |member: &str| value.get(member).and_then(Value::as_str).map(str::to_owned);
                Some(ValueProblem { field: text("field")?, message: text("message") })
            };
            let problems = data.get("problems")?.as_array()?.iter().map(problem).collect::<Option<_>>()?;
            SkipReason::InvalidValues { problems }
        }
        "on-another-version" => SkipReason::OnAnotherVersion { version: text("version")? },
        "revision-changed" => {
            SkipReason::RevisionChanged { current: number("current")?, expected: number("expected")? }
        }
        "unchanged" => SkipReason::Unchanged,
        "version-not-found" => {
            SkipReason::VersionNotFound { application: text("application")?, version: text("version")? }
        }
        "wrong-document" => SkipReason::WrongDocument { deployment: id("deployment")? },
        _ => return None,
    })
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyDeployed { deployment } => {
                f.write_str("already has it")?;
                if let Some(deployment) = deployment {
                    write!(f, ", as deployment {deployment}")?;
                }
                f.write_str("; upgrade or reconfigure that one")
            }
            Self::BelongsToAnotherClient => f.write_str("the deployment belongs to another client"),
            Self::ChangedOrOnline => f.write_str("it was changed again in the meantime, or its device is online again"),
            Self::ClientCannotBePublished { problem: PublishProblem::VersionsExhausted, .. } => {
                f.write_str("its client has no manifest versions left; enroll the device under another client id")
            }
            Self::ClientCannotBePublished { problem: PublishProblem::Unreadable, detail } => {
                write!(f, "its desired state cannot be read: {detail}; restore the database from a backup")
            }
            Self::ClientNotFound { client } => write!(f, "client `{client}` does not exist"),
            Self::DeploymentIdTaken => f.write_str("a deployment with this id already exists"),
            Self::DeploymentGone => f.write_str("the deployment no longer exists"),
            Self::DeploymentNotFound => f.write_str("the deployment does not exist"),
            Self::DeploymentRemoved => f.write_str("the deployment was removed in the meantime"),
            Self::DuplicateTarget => f.write_str("the batch contains the deployment twice"),
            Self::Incompatible { explanation } => f.write_str(explanation),
            Self::InvalidValues { problems } => {
                for (index, ValueProblem { field, message }) in problems.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    let message = message.as_deref().unwrap_or("its value is not accepted");
                    write!(f, "{separator}{field}: {message}")?;
                }
                Ok(())
            }
            Self::OnAnotherVersion { version } => write!(f, "it is on {version} now"),
            Self::RevisionChanged { current, expected } => {
                write!(f, "the deployment is now at revision {current}, the rollout was planned for {expected}")
            }
            Self::Unchanged => f.write_str("nothing would change"),
            Self::VersionNotFound { application, version } => {
                write!(f, "`{application}` {version} is no longer in the catalog")
            }
            Self::WrongDocument { deployment } => write!(f, "the document is for deployment {deployment}"),
            Self::Other { kind, .. } => write!(f, "another reason ({kind})"),
        }
    }
}
