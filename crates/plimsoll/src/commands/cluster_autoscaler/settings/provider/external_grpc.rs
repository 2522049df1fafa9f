//! The connection to a server of the external gRPC protocol, from the YAML file of `--cloud-config`.

use api::plimsoll::Span;
use api::plimsoll::node_autoscaler::ExternalGrpc;
use serde::Deserialize;

use super::TlsFiles;

/// The file. Unknown keys are ignored, as in Cluster Autoscaler.
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
    grpc_timeout: Option<Span>,
}

/// Returns the settings of the connection, and the files of its certificates. Without a certificate it is plaintext.
pub(super) fn read(file: Option<&str>) -> Result<(ExternalGrpc, Option<TlsFiles>), String> {
    let file = file.ok_or("--cloud-config is missing; --cloud-provider=externalgrpc needs it")?;
    let config: CloudConfig = serde_saphyr::from_str(file)
        .map_err(|error| format!("--cloud-config: expected YAML with an address: {error}"))?;
    let CloudConfig { address, key, cert, cacert, grpc_timeout } = config;
    if address.is_empty() {
        let problem = "--cloud-config: the address is missing; write `address: HOST:PORT`";
        return Err(problem.to_owned());
    }
    let timeout = grpc_timeout;
    let connection = ExternalGrpc { address, timeout, discover: true, ..ExternalGrpc::default() };
    if cert.is_empty() {
        return Ok((connection, None));
    }
    if key.is_empty() || cacert.is_empty() {
        return Err("--cloud-config: cert, key and cacert must be given together".to_owned());
    }
    let tls = TlsFiles { ca: cacert.into(), certificate: cert.into(), key: key.into() };
    Ok((connection, Some(tls)))
}
