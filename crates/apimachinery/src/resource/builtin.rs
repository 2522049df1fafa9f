//! Which of Kubernetes' own kinds does the engine know?
//!
//! Names, scopes and subresources as kube-apiserver's discovery lists them.

use std::sync::Arc;

use super::Subresource::{
    self, Approval, Binding, EphemeralContainers, Eviction, Finalize, Log, Resize, Scale, Status,
    Token,
};
use super::{Origin, Resource, STORED, opening, qualified};
use crate::table::Columns;

const NAMESPACED: bool = true;
const CLUSTER: bool = false;
const CREATE: &[&str] = &["create"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

struct Row {
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: &'static str,
    categories: &'static str,
    subresources: &'static [Subresource],
}

/// Makes every built-in resource.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ROWS.iter().map(Row::resource)
}

impl Row {
    fn resource(&self) -> Resource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        // Both groups of events show the same objects, as do all versions of one group.
        let storage = match (group, self.plural) {
            ("events.k8s.io", "events") => "events".to_owned(),
            _ => qualified(self.plural, group),
        };
        let words = |s: &str| s.split_whitespace().map(str::to_owned).collect();
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            short_names: words(self.short_names),
            categories: words(self.categories),
            namespaced: self.namespaced,
            verbs: self.verbs,
            subresources: self.subresources.to_vec(),
            storage: Arc::from(storage),
            origin: Origin::BuiltIn,
            types: None,
            columns: Columns::BuiltIn { group: group.to_owned(), kind: self.kind.to_owned() },
            selectable: Vec::new(),
            custom: None,
            opening: opening(self.api_version, self.kind),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "it is a row of a table")]
const fn row(
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: &'static str,
    categories: &'static str,
    subresources: &'static [Subresource],
) -> Row {
    Row { api_version, plural, kind, namespaced, verbs, short_names, categories, subresources }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    row("v1", "bindings", "Binding", NAMESPACED, CREATE, "", "", &[]),
    row("v1", "configmaps", "ConfigMap", NAMESPACED, STORED, "cm", "", &[]),
    row("v1", "endpoints", "Endpoints", NAMESPACED, STORED, "ep", "", &[]),
    row("v1", "events", "Event", NAMESPACED, STORED, "ev", "", &[]),
    row("v1", "limitranges", "LimitRange", NAMESPACED, STORED, "limits", "", &[]),
    row("v1", "namespaces", "Namespace", CLUSTER, NO_COLLECTION, "ns", "", &[Status, Finalize]),
    row("v1", "nodes", "Node", CLUSTER, STORED, "no", "", &[Status]),
    row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", NAMESPACED, STORED, "pvc", "", &[Status]),
    row("v1", "persistentvolumes", "PersistentVolume", CLUSTER, STORED, "pv", "", &[Status]),
    row("v1", "pods", "Pod", NAMESPACED, STORED, "po", "all", &[Status, Binding, Eviction, EphemeralContainers, Log, Resize]),
    row("v1", "podtemplates", "PodTemplate", NAMESPACED, STORED, "", "", &[]),
    row("v1", "replicationcontrollers", "ReplicationController", NAMESPACED, STORED, "rc", "all", &[Status, Scale]),
    row("v1", "resourcequotas", "ResourceQuota", NAMESPACED, STORED, "quota", "", &[Status]),
    row("v1", "secrets", "Secret", NAMESPACED, STORED, "", "", &[]),
    row("v1", "serviceaccounts", "ServiceAccount", NAMESPACED, STORED, "sa", "", &[Token]),
    row("v1", "services", "Service", NAMESPACED, STORED, "svc", "all", &[Status]),
    row("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", CLUSTER, STORED, "", "api-extensions", &[]),
    row("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", CLUSTER, STORED, "", "api-extensions", &[]),
    row("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", CLUSTER, STORED, "crd crds", "api-extensions", &[Status]),
    row("apiregistration.k8s.io/v1", "apiservices", "APIService", CLUSTER, STORED, "", "api-extensions", &[Status]),
    row("apps/v1", "controllerrevisions", "ControllerRevision", NAMESPACED, STORED, "", "", &[]),
    row("apps/v1", "daemonsets", "DaemonSet", NAMESPACED, STORED, "ds", "all", &[Status]),
    row("apps/v1", "deployments", "Deployment", NAMESPACED, STORED, "deploy", "all", &[Status, Scale]),
    row("apps/v1", "replicasets", "ReplicaSet", NAMESPACED, STORED, "rs", "all", &[Status, Scale]),
    row("apps/v1", "statefulsets", "StatefulSet", NAMESPACED, STORED, "sts", "all", &[Status, Scale]),
    row("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", CLUSTER, CREATE, "", "", &[]),
    row("authentication.k8s.io/v1", "tokenreviews", "TokenReview", CLUSTER, CREATE, "", "", &[]),
    row("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", NAMESPACED, CREATE, "", "", &[]),
    row("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", CLUSTER, CREATE, "", "", &[]),
    row("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", CLUSTER, CREATE, "", "", &[]),
    row("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", CLUSTER, CREATE, "", "", &[]),
    row("autoscaling/v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", NAMESPACED, STORED, "hpa", "all", &[Status]),
    row("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", NAMESPACED, STORED, "hpa", "all", &[Status]),
    row("batch/v1", "cronjobs", "CronJob", NAMESPACED, STORED, "cj", "all", &[Status]),
    row("batch/v1", "jobs", "Job", NAMESPACED, STORED, "", "all", &[Status]),
    row("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", CLUSTER, STORED, "csr", "", &[Status, Approval]),
    row("coordination.k8s.io/v1", "leases", "Lease", NAMESPACED, STORED, "", "", &[]),
    row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", NAMESPACED, STORED, "", "", &[]),
    row("events.k8s.io/v1", "events", "Event", NAMESPACED, STORED, "ev", "", &[]),
    row("networking.k8s.io/v1", "ingressclasses", "IngressClass", CLUSTER, STORED, "", "", &[]),
    row("networking.k8s.io/v1", "ingresses", "Ingress", NAMESPACED, STORED, "ing", "", &[Status]),
    row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", NAMESPACED, STORED, "netpol", "", &[]),
    row("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", CLUSTER, STORED, "", "", &[]),
    // kube-scheduler does not start without these.
    row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", CLUSTER, STORED, "", "", &[]),
    row("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", NAMESPACED, STORED, "", "", &[Status]),
    row(
        "resource.k8s.io/v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        NAMESPACED,
        STORED,
        "",
        "",
        &[],
    ),
    row("resource.k8s.io/v1", "resourceslices", "ResourceSlice", CLUSTER, STORED, "", "", &[]),
    row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", NAMESPACED, STORED, "pdb", "", &[Status]),
    row("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", CLUSTER, STORED, "", "", &[]),
    row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", CLUSTER, STORED, "", "", &[]),
    row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", NAMESPACED, STORED, "", "", &[]),
    row("rbac.authorization.k8s.io/v1", "roles", "Role", NAMESPACED, STORED, "", "", &[]),
    row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", CLUSTER, STORED, "pc", "", &[]),
    row("storage.k8s.io/v1", "csidrivers", "CSIDriver", CLUSTER, STORED, "", "", &[]),
    row("storage.k8s.io/v1", "csinodes", "CSINode", CLUSTER, STORED, "", "", &[]),
    row("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", NAMESPACED, STORED, "", "", &[]),
    row("storage.k8s.io/v1", "storageclasses", "StorageClass", CLUSTER, STORED, "sc", "", &[]),
    row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", CLUSTER, STORED, "", "", &[Status]),
    row("storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", CLUSTER, STORED, "vac", "", &[]),
];
