//! Selects the devices of a rollout.

use super::super::{Session, device};
use crate::failure::Outcome;
use margrave_api::rollouts::Scope;

#[derive(Debug, Clone, Default, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ScopeArgs {
    /// A device: its id, client/device, or gateway/* to let the gateway select one; repeatable
    #[arg(long, short, value_name = "DEVICE")]
    device: Vec<String>,
    /// All devices with these labels, such as `site=graz,line in (1,2),!spare`
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// All devices of this group
    #[arg(long, short, value_name = "GROUP")]
    group: Option<String>,
    /// All devices
    #[arg(long)]
    all: bool,
}

impl ScopeArgs {
    pub(crate) async fn resolve(&self, session: &Session) -> Outcome<Scope> {
        let mut scope = Scope::default();
        if !self.device.is_empty() {
            let mut devices = Vec::with_capacity(self.device.len());
            for name in &self.device {
                let found = device::find(session, name).await?;
                if !devices.contains(&found) {
                    devices.push(found);
                }
            }
            scope.devices = Some(devices);
        } else if self.all {
            scope.selector = Some(String::new());
        } else {
            scope.selector.clone_from(&self.selector);
            scope.group.clone_from(&self.group);
        }
        Ok(scope)
    }
}

/// Existing deployments, selected by id or by application and device.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ExistingArgs {
    /// Deployment ids, or unique prefixes
    #[arg(value_name = "DEPLOYMENT", required_unless_present = "app", conflicts_with = "app")]
    pub(crate) deployments: Vec<String>,
    /// Instead of ids: the deployments of this application on the devices selected by --device, --selector, --group or --all
    #[arg(long, value_name = "APPLICATION", requires = "where")]
    pub(crate) app: Option<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[group(id = "where", required = false, multiple = false, requires = "app")]
pub(crate) struct PlaceArgs {
    /// A device, with --app; repeatable
    #[arg(long, short, value_name = "DEVICE")]
    device: Vec<String>,
    /// All devices with these labels, with --app
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// All devices of this group, with --app
    #[arg(long, short, value_name = "GROUP")]
    group: Option<String>,
    /// All devices, with --app
    #[arg(long)]
    all: bool,
}

impl PlaceArgs {
    pub(crate) async fn resolve(self, session: &Session) -> Outcome<Scope> {
        let Self { device, selector, group, all } = self;
        ScopeArgs { device, selector, group, all }.resolve(session).await
    }
}
