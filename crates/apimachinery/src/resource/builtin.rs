//! The table of Kubernetes' own kinds.
//!
//! Names, scopes and subresources as kube-apiserver's discovery lists them, and how requests about a kind differ from those about
//! others: the REST API reads that here instead of knowing kinds by name.

use std::sync::Arc;

use super::Subresource::{
    self, Approval, Attach, Binding, EphemeralContainers, Eviction, Exec, Finalize, Log,
    PortForward, Resize, Scale, Status, Token,
};
use super::{
    Action, Conversion, Origin, Removal, Resource, Review, STORED_VERBS, WriteRules, json_prefix,
    qualified,
};
use crate::crd;
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
    rules: WriteRules,
    action: Option<Action>,
    deprecation: Option<&'static str>,
}

/// Builds every built-in resource.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ROWS.iter().map(Row::resource)
}

impl Row {
    fn resource(&self) -> Resource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        // Both event groups serve the same objects, as do all versions of one group.
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
            rules: self.rules,
            action: self.action,
            deprecation: self.deprecation,
            json_prefix: json_prefix(self.api_version, self.kind),
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
    let rules = WriteRules::BUILT_IN;
    Row {
        api_version,
        plural,
        kind,
        namespaced,
        verbs,
        short_names,
        categories,
        subresources,
        rules,
        action: None,
        deprecation: None,
    }
}

impl Row {
    /// An update must name the version that it was made from.
    const fn conditional(mut self) -> Self {
        self.rules.unconditional_update = false;
        self
    }

    /// An update creates an object that does not exist.
    const fn created_by_update(mut self) -> Self {
        self.rules.create_on_update = true;
        self
    }

    /// A deletion returns the object instead of a success status.
    const fn returned_when_deleted(mut self) -> Self {
        self.rules.returns_deleted = true;
        self
    }

    /// A deletion is the same whatever its propagation policy.
    const fn without_propagation(mut self) -> Self {
        self.rules.propagates_deletion = false;
        self
    }

    /// It is stored in another version, with other fields.
    const fn converted(mut self, conversion: Conversion) -> Self {
        self.rules.conversion = Some(conversion);
        self
    }

    /// A deleted object is removed later than at once.
    const fn removed(mut self, removal: Removal) -> Self {
        self.rules.removal = removal;
        self
    }

    /// A deletion leaves the dependents, unless the request or the object has another policy.
    const fn orphaning(mut self) -> Self {
        self.rules.orphans_dependents = true;
        self
    }

    /// Its objects define other kinds, and are removed after the objects of these.
    const fn defining_kinds(mut self) -> Self {
        self.rules.defines_kinds = true;
        self.rules.finalizer = Some(crd::CLEANUP_FINALIZER);
        self
    }

    /// Its objects get addresses and node ports.
    const fn with_addresses(mut self) -> Self {
        self.rules.has_addresses = true;
        self
    }

    /// Its objects get a priority.
    const fn with_priority(mut self) -> Self {
        self.rules.has_priority = true;
        self
    }

    /// Its clients get a warning.
    const fn deprecated(mut self, warning: &'static str) -> Self {
        self.deprecation = Some(warning);
        self
    }

    /// Creating an object does something, and stores nothing.
    const fn acting(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    row("v1", "bindings", "Binding", NAMESPACED, CREATE, "", "", &[]).acting(Action::Bind),
    row("v1", "configmaps", "ConfigMap", NAMESPACED, STORED_VERBS, "cm", "", &[]),
    row("v1", "endpoints", "Endpoints", NAMESPACED, STORED_VERBS, "ep", "", &[]).created_by_update().deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    row("v1", "events", "Event", NAMESPACED, STORED_VERBS, "ev", "", &[]).created_by_update().without_propagation(),
    row("v1", "limitranges", "LimitRange", NAMESPACED, STORED_VERBS, "limits", "", &[]).created_by_update(),
    row("v1", "namespaces", "Namespace", CLUSTER, NO_COLLECTION, "ns", "", &[Status, Finalize]).returned_when_deleted().removed(Removal::WhenFinalized),
    row("v1", "nodes", "Node", CLUSTER, STORED_VERBS, "no", "", &[Status]),
    row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", NAMESPACED, STORED_VERBS, "pvc", "", &[Status]).returned_when_deleted(),
    row("v1", "persistentvolumes", "PersistentVolume", CLUSTER, STORED_VERBS, "pv", "", &[Status]).returned_when_deleted(),
    row("v1", "pods", "Pod", NAMESPACED, STORED_VERBS, "po", "all", &[Status, Attach, Binding, Eviction, EphemeralContainers, Exec, Log, PortForward, Resize]).returned_when_deleted().removed(Removal::AfterGracePeriod).with_priority(),
    row("v1", "podtemplates", "PodTemplate", NAMESPACED, STORED_VERBS, "", "", &[]).returned_when_deleted(),
    row("v1", "replicationcontrollers", "ReplicationController", NAMESPACED, STORED_VERBS, "rc", "all", &[Status, Scale]).orphaning(),
    row("v1", "resourcequotas", "ResourceQuota", NAMESPACED, STORED_VERBS, "quota", "", &[Status]).returned_when_deleted(),
    row("v1", "secrets", "Secret", NAMESPACED, STORED_VERBS, "", "", &[]),
    row("v1", "serviceaccounts", "ServiceAccount", NAMESPACED, STORED_VERBS, "sa", "", &[Token]).returned_when_deleted(),
    row("v1", "services", "Service", NAMESPACED, STORED_VERBS, "svc", "all", &[Status]).created_by_update().returned_when_deleted().with_addresses(),
    row("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", CLUSTER, STORED_VERBS, "", "api-extensions", &[]).conditional(),
    row("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", CLUSTER, STORED_VERBS, "", "api-extensions", &[]).conditional(),
    row("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", CLUSTER, STORED_VERBS, "crd crds", "api-extensions", &[Status]).conditional().defining_kinds(),
    row("apiregistration.k8s.io/v1", "apiservices", "APIService", CLUSTER, STORED_VERBS, "", "api-extensions", &[Status]).conditional(),
    row("apps/v1", "controllerrevisions", "ControllerRevision", NAMESPACED, STORED_VERBS, "", "", &[]),
    row("apps/v1", "daemonsets", "DaemonSet", NAMESPACED, STORED_VERBS, "ds", "all", &[Status]),
    row("apps/v1", "deployments", "Deployment", NAMESPACED, STORED_VERBS, "deploy", "all", &[Status, Scale]),
    row("apps/v1", "replicasets", "ReplicaSet", NAMESPACED, STORED_VERBS, "rs", "all", &[Status, Scale]),
    row("apps/v1", "statefulsets", "StatefulSet", NAMESPACED, STORED_VERBS, "sts", "all", &[Status, Scale]),
    row("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", CLUSTER, CREATE, "", "", &[]).acting(Action::Review(Review::Caller)),
    row("authentication.k8s.io/v1", "tokenreviews", "TokenReview", CLUSTER, CREATE, "", "", &[]).acting(Action::Review(Review::Token)),
    row("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", NAMESPACED, CREATE, "", "", &[]).acting(Action::Review(Review::UserAccess)),
    row("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", CLUSTER, CREATE, "", "", &[]).acting(Action::Review(Review::CallerAccess)),
    row("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", CLUSTER, CREATE, "", "", &[]).acting(Action::Review(Review::CallerRules)),
    row("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", CLUSTER, CREATE, "", "", &[]).acting(Action::Review(Review::UserAccess)),
    row("autoscaling/v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", NAMESPACED, STORED_VERBS, "hpa", "all", &[Status]).converted(Conversion::Autoscaler),
    row("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", NAMESPACED, STORED_VERBS, "hpa", "all", &[Status]),
    row("batch/v1", "cronjobs", "CronJob", NAMESPACED, STORED_VERBS, "cj", "all", &[Status]),
    row("batch/v1", "jobs", "Job", NAMESPACED, STORED_VERBS, "", "all", &[Status]).orphaning(),
    row("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", CLUSTER, STORED_VERBS, "csr", "", &[Status, Approval]),
    row("coordination.k8s.io/v1", "leases", "Lease", NAMESPACED, STORED_VERBS, "", "", &[]).conditional().created_by_update(),
    row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", NAMESPACED, STORED_VERBS, "", "", &[]),
    row("events.k8s.io/v1", "events", "Event", NAMESPACED, STORED_VERBS, "ev", "", &[]).created_by_update().without_propagation().converted(Conversion::Event),
    row("networking.k8s.io/v1", "ingressclasses", "IngressClass", CLUSTER, STORED_VERBS, "", "", &[]),
    row("networking.k8s.io/v1", "ingresses", "Ingress", NAMESPACED, STORED_VERBS, "ing", "", &[Status]),
    row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", NAMESPACED, STORED_VERBS, "netpol", "", &[]),
    row("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", CLUSTER, STORED_VERBS, "", "", &[]).conditional().created_by_update(),
    // kube-scheduler does not start without these.
    row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", CLUSTER, STORED_VERBS, "", "", &[]),
    row("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", NAMESPACED, STORED_VERBS, "", "", &[Status]),
    row("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", NAMESPACED, STORED_VERBS, "", "", &[]),
    row("resource.k8s.io/v1", "resourceslices", "ResourceSlice", CLUSTER, STORED_VERBS, "", "", &[]),
    row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", NAMESPACED, STORED_VERBS, "pdb", "", &[Status]).conditional(),
    row("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", CLUSTER, STORED_VERBS, "", "", &[]).created_by_update(),
    row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", CLUSTER, STORED_VERBS, "", "", &[]).created_by_update(),
    row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", NAMESPACED, STORED_VERBS, "", "", &[]).created_by_update(),
    row("rbac.authorization.k8s.io/v1", "roles", "Role", NAMESPACED, STORED_VERBS, "", "", &[]).created_by_update(),
    row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", CLUSTER, STORED_VERBS, "pc", "", &[]),
    row("storage.k8s.io/v1", "csidrivers", "CSIDriver", CLUSTER, STORED_VERBS, "", "", &[]).conditional().returned_when_deleted(),
    row("storage.k8s.io/v1", "csinodes", "CSINode", CLUSTER, STORED_VERBS, "", "", &[]).conditional().returned_when_deleted(),
    row("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", NAMESPACED, STORED_VERBS, "", "", &[]).conditional(),
    row("storage.k8s.io/v1", "storageclasses", "StorageClass", CLUSTER, STORED_VERBS, "sc", "", &[]).returned_when_deleted(),
    row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", CLUSTER, STORED_VERBS, "", "", &[Status]).conditional().returned_when_deleted(),
    row("storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", CLUSTER, STORED_VERBS, "vac", "", &[]).returned_when_deleted(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_kinds_that_are_not_stored_have_an_action() {
        for resource in resources() {
            assert_eq!(resource.action.is_some(), !resource.is_stored(), "{}", resource.kind);
        }
    }
}
