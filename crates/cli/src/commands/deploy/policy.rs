//! Deployment policies: flags shared by all commands that create or change a deployment.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use margrave_api::policies::PolicyPatch;
use margrave_core::policy::{Drift, OnFailure, OnRemoval};

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyArgs {
    /// Drift (manual changes): correct and report, report only, or ignore [default for new deployments: correct]
    #[arg(long, value_name = "POLICY", value_parser = drift())]
    drift: Option<Drift>,
    /// On failure: keep running parts and retry, roll back to the last working revision, or stop [default for new
    /// deployments: keep-partial]
    #[arg(long, value_name = "POLICY", value_parser = on_failure())]
    on_failure: Option<OnFailure>,
    /// On removal: keep or delete its data volumes [default for new deployments: keep]
    #[arg(long, value_name = "POLICY", value_parser = on_removal())]
    on_removal: Option<OnRemoval>,
}

fn drift() -> impl TypedValueParser<Value = Drift> {
    PossibleValuesParser::new(Drift::ALL.iter().map(|word| word.as_str())).try_map(|word| word.parse::<Drift>())
}

fn on_failure() -> impl TypedValueParser<Value = OnFailure> {
    PossibleValuesParser::new(OnFailure::ALL.iter().map(|word| word.as_str())).try_map(|word| word.parse::<OnFailure>())
}

fn on_removal() -> impl TypedValueParser<Value = OnRemoval> {
    PossibleValuesParser::new(OnRemoval::ALL.iter().map(|word| word.as_str())).try_map(|word| word.parse::<OnRemoval>())
}

impl PolicyArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.patch().is_empty()
    }

    pub(crate) fn patch(&self) -> PolicyPatch {
        let Self { drift, on_failure, on_removal } = self;
        PolicyPatch {
            drift: drift.map(Into::into),
            on_failure: on_failure.map(Into::into),
            on_removal: on_removal.map(Into::into),
        }
    }
}
