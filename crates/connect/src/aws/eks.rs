//! The one call of EKS: what it knows about the nodes of a managed node group.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::AwsService;
use super::query::{Failure, Purpose, not_answered, not_done};

/// EKS in a region.
pub(crate) struct Eks {
    service: AwsService,
}

/// A managed node group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ManagedNodeGroup {
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) taints: Option<Vec<ManagedTaint>>,
    pub(crate) capacity_type: Option<String>,
}

/// A taint, with EKS's word for the effect: `NO_SCHEDULE`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ManagedTaint {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) effect: String,
}

#[derive(Deserialize)]
struct Answer {
    nodegroup: ManagedNodeGroup,
}

impl Eks {
    pub(crate) fn new(service: AwsService) -> Self {
        Self { service }
    }

    /// Reads a managed node group.
    pub(crate) async fn node_group(
        &self,
        cluster: &str,
        name: &str,
    ) -> Result<ManagedNodeGroup, Failure> {
        let answer = self.service.get(&["clusters", cluster, "node-groups", name]).await;
        let answer = answer.map_err(|error| not_answered(&error, Purpose::Read))?;
        if !answer.status.is_success() {
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            let kind = text("__type");
            let code = kind.rsplit('#').next().unwrap_or_default();
            let code = if code.is_empty() { "EKS" } else { code };
            return Err(not_done(&answer, code, &text("message"), Purpose::Read));
        }
        let found: Answer = serde_json::from_slice(&answer.body).map_err(|error| {
            Failure::Unavailable(format!(
                "DescribeNodegroup was answered with something unexpected: {error}"
            ))
        })?;
        Ok(found.nodegroup)
    }
}
