//! What devices do by themselves about a deployment: the same flags for every command that makes or changes one.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use margrave_api::policies::PolicyWish;
use margrave_core::policy::{Drift, OnFailure, OnRemoval};

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyArgs {
    /// When somebody changes by hand what runs: repair it, only report it, or ignore it [default for new ones: correct]
    #[arg(long, value_name = "POLICY", value_parser = drift())]
    drift: Option<Drift>,
    /// When a component fails: keep the rest and try again, go back to the last revision that ran, or stop [default for new
    /// ones: keep-partial]
    #[arg(long, value_name = "POLICY", value_parser = on_failure())]
    on_failure: Option<OnFailure>,
    /// When the deployment is removed: keep its data volumes or delete them [default for new ones: keep]
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
        self.wish().is_empty()
    }

    pub(crate) fn wish(&self) -> PolicyWish {
        let Self { drift, on_failure, on_removal } = self;
        PolicyWish {
            drift: drift.map(Into::into),
            on_failure: on_failure.map(Into::into),
            on_removal: on_removal.map(Into::into),
        }
    }
}
