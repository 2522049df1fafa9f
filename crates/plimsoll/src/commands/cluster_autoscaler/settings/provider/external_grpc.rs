//! The connection to a provider that speaks the external gRPC protocol, from the YAML of `--cloud-config`.

use serde::Deserialize;
use serde_json::{Value, json};

/// The file. Unknown keys are ignored, as Cluster Autoscaler does.
#[derive(Deserialize)]
struct CloudConfig {
    #[serde(default)]
    address: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    cert: String,
    #[serde(default)]
    cacert: String,
    grpc_timeout: Option<String>,
}

/// Returns the settings of the connection.
pub(super) fn connection(file: Option<&str>) -> Result<Value, String> {
    let file = file.ok_or("--cloud-config is missing; --cloud-provider=externalgrpc needs it")?;
    let config: CloudConfig = serde_saphyr::from_str(file)
        .map_err(|error| format!("--cloud-config: expected YAML with an address: {error}"))?;
    if config.address.is_empty() {
        return Err("--cloud-config: the address is missing; write `address: HOST:PORT`".to_owned());
    }
    let mut connection = json!({"address": config.address, "discover": true});
    if let Some(timeout) = config.grpc_timeout {
        decide::duration::parse(&timeout)
            .map_err(|cause| format!("--cloud-config: grpc_timeout: {cause}"))?;
        connection["timeout"] = timeout.into();
    }
    if !config.cert.is_empty() {
        for (field, path) in [("key", &config.key), ("cacert", &config.cacert)] {
            if path.is_empty() {
                return Err(format!("--cloud-config: {field} is missing; cert, key and cacert go together"));
            }
        }
        connection["tls"] =
            json!({"caFile": config.cacert, "certFile": config.cert, "keyFile": config.key});
    }
    Ok(connection)
}
