//! Other autoscalers: the object that each of them sizes, and whether it is active.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::CacheEntry;

/// The object that an autoscaler sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleTargetRef {
    /// The group and version; KEDA's default is `apps/v1`.
    pub api_version: Option<String>,
    /// The kind; KEDA's default is Deployment.
    pub kind: Option<String>,
    /// The name.
    pub name: String,
}

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = v2::HorizontalPodAutoscaler)]
pub struct HorizontalPodAutoscaler {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: HpaSpec,
}

/// The spec of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HpaSpec {
    /// The object that is sized.
    pub scale_target_ref: ScaleTargetRef,
    /// How fast, in each direction.
    pub behavior: HpaBehavior,
}

/// How fast a HorizontalPodAutoscaler scales.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HpaBehavior {
    /// Upwards.
    pub scale_up: HpaRules,
    /// Downwards.
    pub scale_down: HpaRules,
}

/// The rules of a HorizontalPodAutoscaler for one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HpaRules {
    /// `Max`, `Min` or `Disabled`.
    pub select_policy: String,
}

impl HorizontalPodAutoscaler {
    /// Whether it scales in either direction.
    pub fn is_active(&self) -> bool {
        let HpaBehavior { scale_up, scale_down } = &self.spec.behavior;
        [scale_up, scale_down].iter().any(|rules| rules.select_policy != "Disabled")
    }
}

impl CacheEntry for HorizontalPodAutoscaler {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A ScaledObject of KEDA.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScaledObject {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: ScaledObjectSpec,
}

/// The spec of a ScaledObject.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaledObjectSpec {
    /// The object that is sized.
    pub scale_target_ref: ScaleTargetRef,
}

impl ScaledObject {
    /// Whether it is not paused.
    pub fn is_active(&self) -> bool {
        let annotations = self.metadata.annotations.iter().flatten();
        !annotations.into_iter().any(|(name, value)| match name.as_str() {
            "autoscaling.keda.sh/paused" => value != "false",
            "autoscaling.keda.sh/paused-replicas" => true,
            _ => false,
        })
    }
}

impl Resource for ScaledObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ScaledObject".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "keda.sh".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "scaledobjects".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl CacheEntry for ScaledObject {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn autoscalers_that_are_paused_or_disabled_do_not_act() {
        let hpa = |up: &str, down: &str| {
            let behavior =
                json!({"scaleUp": {"selectPolicy": up}, "scaleDown": {"selectPolicy": down}});
            let object = json!({"metadata": {}, "spec": {"scaleTargetRef": {"name": "a"}, "behavior": behavior}});
            serde_json::from_value::<HorizontalPodAutoscaler>(object).unwrap().is_active()
        };
        assert!(hpa("Max", "Max") && hpa("Disabled", "Min") && !hpa("Disabled", "Disabled"));
        let keda = |annotations: serde_json::Value| {
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"scaleTargetRef": {"name": "a"}}});
            serde_json::from_value::<ScaledObject>(object).unwrap().is_active()
        };
        assert!(keda(json!({})) && keda(json!({"autoscaling.keda.sh/paused": "false"})));
        assert!(!keda(json!({"autoscaling.keda.sh/paused": "true"})));
        assert!(!keda(json!({"autoscaling.keda.sh/paused-replicas": "3"})));
    }
}
