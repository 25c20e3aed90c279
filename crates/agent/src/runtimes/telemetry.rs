//! Environment variables for every container: the collector of this device (OBS-05).

use crate::config::TelemetryConfig;
use serde_json::{Map, Value, json};

/// Where containers find the certificate of the collector.
pub(super) const CERTIFICATE_TARGET: &str = "/run/margrave/collector-ca.pem";

pub(super) fn variables(telemetry: &TelemetryConfig) -> Map<String, Value> {
    let TelemetryConfig { http_endpoint, grpc_endpoint, certificate, protocol } = telemetry;
    let address = |url: &url::Url| json!(url.as_str().trim_end_matches('/'));
    let all = [
        ("HTTP_OTEL_EXPORTER_OTLP_ENDPOINT", http_endpoint.as_ref().map(address)),
        ("GRPC_OTEL_EXPORTER_OTLP_ENDPOINT", grpc_endpoint.as_ref().map(address)),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate.as_ref().map(|_| json!(CERTIFICATE_TARGET))),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_ref().map(|text| json!(text))),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
