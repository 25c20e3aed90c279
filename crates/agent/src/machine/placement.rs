//! Selects the device of a deployment and checks its constraints (CON-04, GW-04).

use super::Machine;
use crate::codes::Code;
use margo::DeviceId;
use margo::capabilities::DeviceCapabilities;
use margo::constraints::{Outcome, evaluate};
use margo::deployment::ApplicationDeployment;
use margrave_core::runtime;

/// Why a deployment cannot start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) code: Code,
    pub(super) message: String,
    /// The child device of the report, if known.
    pub(super) device: Option<DeviceId>,
    /// The gateway that reports the error; `None` for other errors.
    pub(super) gateway: Option<DeviceId>,
}

impl Machine {
    /// The device to use. `current` is the present device: an autonomous placement stays while it is compatible.
    pub(super) fn place(
        &self,
        document: &ApplicationDeployment,
        current: Option<&DeviceId>,
    ) -> Result<DeviceId, Obstacle> {
        let Some(own) = self.devices.own() else {
            return Err(obstacle(Code::UnknownDevice, "the capabilities of this device are not known yet".to_owned()));
        };
        // Documents of generation A1 name no device: the client has only one.
        let Some(target) = &document.metadata.device_id else { return self.check(document, own).map(|()| own.clone()) };
        if let Some(gateway) = target.gateway() {
            return self.choose_child(document, &gateway, current);
        }
        let Some(device) = target.device() else {
            return Err(obstacle(Code::UnknownDevice, format!("`{target}` is not a device")));
        };
        if self.devices.capabilities(&device).is_some() {
            return self.check(document, &device).map(|()| device);
        }
        if device.root() == own.root() {
            return Err(Obstacle {
                code: Code::UnknownChild,
                message: format!("`{device}` is not a child of this gateway"),
                gateway: Some(own.clone()),
                device: Some(device),
            });
        }
        Err(obstacle(Code::UnknownDevice, format!("`{device}` is not managed by this client")))
    }

    /// GW-04: any compatible child, preferably the current one, else 103.
    fn choose_child(
        &self,
        document: &ApplicationDeployment,
        gateway: &DeviceId,
        current: Option<&DeviceId>,
    ) -> Result<DeviceId, Obstacle> {
        let mut children: Vec<_> = self.devices.children_of(gateway).map(|report| &report.id).collect();
        children.sort_by_key(|child| (Some(*child) != current, self.work.load(child), (*child).clone()));
        let mut why = Vec::new();
        for child in children {
            match self.check(document, child) {
                Ok(()) => return Ok(child.clone()),
                Err(obstacle) => why.push(format!("`{child}`: {}", obstacle.message)),
            }
        }
        let message = if why.is_empty() {
            format!("`{gateway}` has no child devices")
        } else {
            format!("no child device is compatible: {}", why.join("; "))
        };
        Err(Obstacle { code: Code::NoAutonomousPlacement, message, device: None, gateway: Some(gateway.clone()) })
    }

    /// CON-04: the rules are evaluated on the device before deploying. Unknown results do not prevent it.
    fn check(&self, document: &ApplicationDeployment, device: &DeviceId) -> Result<(), Obstacle> {
        let Some(capabilities) = self.devices.capabilities(device) else {
            return Err(obstacle(Code::UnknownDevice, format!("`{device}` is not managed by this client")));
        };
        eligible(document, capabilities).map_err(|(code, message)| Obstacle {
            code,
            message,
            device: Some(device.clone()),
            gateway: None,
        })
    }
}

fn obstacle(code: Code, message: String) -> Obstacle {
    Obstacle { code, message, device: None, gateway: None }
}

fn eligible(document: &ApplicationDeployment, capabilities: &DeviceCapabilities) -> Result<(), (Code, String)> {
    if runtime::has_none(capabilities) {
        return Err((Code::NoRuntime, runtime::NO_RUNTIME.to_owned()));
    }
    let profile = &document.spec.deployment_profile;
    let compatibility = evaluate(profile.profile_type, profile.device_constraints.as_ref(), capabilities);
    if compatibility.outcome != Outcome::No {
        return Ok(());
    }
    let against: Vec<_> = compatibility.reasons.iter().filter(|reason| reason.outcome == Outcome::No).collect();
    let code = match against.first().map(|reason| reason.rule.as_str()) {
        Some("deploymentType") => Code::TypeUnsupported,
        Some("cpu" | "memory" | "storage") => Code::CapacityMissing,
        _ => Code::NotEligible,
    };
    let text: Vec<_> = against.iter().map(|reason| format!("{}: {}", reason.rule, reason.message)).collect();
    Err((code, text.join("; ")))
}
