//! Lists the types that the API server needs, and where they are published.

/// A document of the OpenAPI directory, and the kinds wanted from it. Lists of these kinds and everything that they
/// refer to come along.
pub(crate) const WANTED: &[(&str, &[&str])] = &[
    (
        "api__v1",
        &[
            "Binding",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "apis__apps__v1",
        &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "ControllerRevision"],
    ),
    ("apis__batch__v1", &["Job", "CronJob"]),
    ("apis__policy__v1", &["PodDisruptionBudget", "Eviction"]),
    ("apis__coordination.k8s.io__v1", &["Lease"]),
    ("apis__events.k8s.io__v1", &["Event"]),
    ("apis__scheduling.k8s.io__v1", &["PriorityClass"]),
    (
        "apis__storage.k8s.io__v1",
        &[
            "StorageClass",
            "CSINode",
            "CSIDriver",
            "CSIStorageCapacity",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("apis__apiextensions.k8s.io__v1", &["CustomResourceDefinition"]),
    ("apis__autoscaling__v1", &["HorizontalPodAutoscaler", "Scale"]),
    ("apis__autoscaling__v2", &["HorizontalPodAutoscaler"]),
    ("apis__discovery.k8s.io__v1", &["EndpointSlice"]),
    ("apis__networking.k8s.io__v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("apis__node.k8s.io__v1", &["RuntimeClass"]),
    (
        "apis__resource.k8s.io__v1",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
    ),
    ("apis__certificates.k8s.io__v1", &["CertificateSigningRequest"]),
    (
        "apis__admissionregistration.k8s.io__v1",
        &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"],
    ),
    ("apis__apiregistration.k8s.io__v1", &["APIService"]),
    (
        "apis__rbac.authorization.k8s.io__v1",
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    ),
    ("apis__authentication.k8s.io__v1", &["TokenReview", "TokenRequest", "SelfSubjectReview"]),
    (
        "apis__authorization.k8s.io__v1",
        &[
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
            "LocalSubjectAccessReview",
            "SelfSubjectRulesReview",
        ],
    ),
];

/// Types of the API machinery that requests and answers use.
pub(crate) const META: &[&str] = &[
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "DeleteOptions",
    "ObjectMeta",
    "Patch",
    "Status",
    "WatchEvent",
];

/// The start of the names of the API machinery's types.
pub(crate) const META_PREFIX: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Where the Go types behind a prefix of OpenAPI names are: module, version, folder.
pub(crate) const PACKAGES: &[(&str, &str, &str)] = &[
    ("io.k8s.api.", "k8s.io/api@v0.36.3", ""),
    ("io.k8s.apimachinery.pkg.", "k8s.io/apimachinery@v0.36.3", "pkg/"),
    ("io.k8s.apiextensions-apiserver.pkg.", "k8s.io/apiextensions-apiserver@v0.36.3", "pkg/"),
    ("io.k8s.kube-aggregator.pkg.", "k8s.io/kube-aggregator@v0.36.3", "pkg/"),
];
