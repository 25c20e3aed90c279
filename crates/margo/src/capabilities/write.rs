//! Writing DeviceCapabilities of generation B, without the envelope (W-16).

use super::{DeviceCapabilities, DeviceProperties};
use crate::quantity::without_blanks;
use crate::tree::{Members, Tree};

pub(super) fn capabilities(capabilities: &DeviceCapabilities) -> Tree {
    let labels = Members::new().with_all(&capabilities.labels);
    Members::new()
        .with("properties", properties(&capabilities.properties))
        .with_some("labels", (!capabilities.labels.is_empty()).then_some(labels))
        .with_all(&capabilities.extensions)
        .build()
}

pub(super) fn properties(properties: &DeviceProperties) -> Tree {
    let cpus = properties.cpus.as_ref().map(|cpus| {
        Tree::list(cpus.iter().map(|cpu| {
            Members::new().with("cores", Tree::float(cpu.cores)).with_some("architecture", cpu.architecture.as_ref())
        }))
    });
    let peripherals = properties.peripherals.as_ref().map(|peripherals| {
        Tree::list(peripherals.iter().map(|peripheral| {
            Members::new()
                .with("type", &peripheral.kind)
                .with_some("manufacturer", peripheral.manufacturer.as_ref())
                .with_some("model", peripheral.model.as_ref())
        }))
    });
    let interfaces = properties
        .interfaces
        .as_ref()
        .map(|interfaces| Tree::list(interfaces.iter().map(|interface| Members::new().with("type", &interface.kind))));
    Members::new()
        .with("id", properties.id.as_str())
        .with("vendor", &properties.vendor)
        .with("modelNumber", &properties.model_number)
        .with("serialNumber", &properties.serial_number)
        .with_some("cpus", cpus)
        .with_some("memory", properties.memory.as_deref().map(without_blanks))
        .with_some("storage", properties.storage.as_deref().map(without_blanks))
        .with_some("peripherals", peripherals)
        .with_some("interfaces", interfaces)
        .with_some("otelCollector", properties.otel_collector)
        .with_some("supportedRuntimes", properties.supported_runtimes.as_ref().map(Tree::list))
        .with_some("supportedDeploymentTypes", properties.supported_deployment_types.as_ref().map(Tree::list))
        .build()
}
