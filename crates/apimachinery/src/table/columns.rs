//! The columns of the built-in kinds.
//!
//! Where kube-apiserver describes a column by the field it shows, the field's published description is used.

use crate::schema::descriptions;
use serde_json::{Value, json};

/// One column.
pub(super) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// Columns above zero are only shown with `-o wide`.
    priority: i32,
    /// A sentence, or `@` followed by the type and field that are shown.
    about: &'static str,
}

const NAME: Column = named(text("Name", "@ObjectMeta name"));
const AGE: Column = text("Age", "@ObjectMeta creationTimestamp");
const CREATED: Column = column("Created At", "date", 0, "@ObjectMeta creationTimestamp");

const fn column(
    name: &'static str,
    kind: &'static str,
    priority: i32,
    about: &'static str,
) -> Column {
    Column { name, kind, format: "", priority, about }
}

const fn text(name: &'static str, about: &'static str) -> Column {
    column(name, "string", 0, about)
}

const fn wide(name: &'static str, about: &'static str) -> Column {
    column(name, "string", 1, about)
}

const fn integer(name: &'static str, about: &'static str) -> Column {
    column(name, "integer", 0, about)
}

const fn boolean(name: &'static str, about: &'static str) -> Column {
    column(name, "boolean", 0, about)
}

const fn named(column: Column) -> Column {
    Column { format: "name", ..column }
}

impl Column {
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": description(self.about),
            "priority": self.priority,
        })
    }
}

/// Resolves a column's `about`.
pub(super) fn description(about: &str) -> String {
    let Some((name, field)) = about.strip_prefix('@').and_then(|about| about.split_once(' '))
    else {
        return about.to_owned();
    };
    let name = match name {
        "ObjectMeta" => "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".to_owned(),
        name => format!("io.k8s.api.{name}"),
    };
    descriptions(&name).and_then(|fields| fields.get(field)).cloned().unwrap_or_default()
}

/// Returns the columns of a kind; a kind without a printer shows name and time.
pub(super) fn for_kind(group: &str, kind: &str) -> &'static [Column] {
    own(group, kind).unwrap_or(&[NAME, CREATED])
}

/// Returns whether a kind has columns of its own.
pub(super) fn has_printer(group: &str, kind: &str) -> bool {
    own(group, kind).is_some()
}

fn own(group: &str, kind: &str) -> Option<&'static [Column]> {
    COLUMNS.iter().find(|(g, k, _)| *g == group && *k == kind).map(|(_, _, columns)| *columns)
}

#[rustfmt::skip]
static COLUMNS: &[(&str, &str, &[Column])] = &[
    ("", "Namespace", &[NAME, text("Status", "The phase of the namespace."), AGE]),
    ("", "Node", &[NAME, text("Status", "Whether the node is ready, and open to pods."), text("Roles", "ValueType the node is for."), AGE, text("Version", "@core.v1.NodeSystemInfo kubeletVersion"), wide("Internal-IP", "@core.v1.NodeStatus addresses"), wide("External-IP", "@core.v1.NodeStatus addresses"), wide("OS-Image", "@core.v1.NodeSystemInfo osImage"), wide("Kernel-Version", "@core.v1.NodeSystemInfo kernelVersion"), wide("Container-Runtime", "@core.v1.NodeSystemInfo containerRuntimeVersion")]),
    ("", "Pod", &[NAME, text("Ready", "How many containers are ready, of all."), text("Status", "ValueType the containers are doing, in a word."), text("Restarts", "How often containers were restarted, and when last."), AGE, wide("IP", "@core.v1.PodStatus podIP"), wide("Node", "@core.v1.PodSpec nodeName"), wide("Nominated Node", "@core.v1.PodStatus nominatedNodeName"), wide("Readiness Gates", "@core.v1.PodSpec readinessGates")]),
    ("", "Event", &[text("Last Seen", "@core.v1.Event lastTimestamp"), text("Type", "@core.v1.Event type"), text("Reason", "@core.v1.Event reason"), text("Object", "@core.v1.Event involvedObject"), wide("Subobject", "@core.v1.ObjectReference fieldPath"), wide("Source", "@core.v1.Event source"), text("Message", "@core.v1.Event message"), wide("First Seen", "@core.v1.Event firstTimestamp"), wide("Count", "@core.v1.Event count"), named(wide("Name", "@ObjectMeta name"))]),
    ("", "ConfigMap", &[NAME, text("Data", "@core.v1.ConfigMap data"), AGE]),
    ("", "Secret", &[NAME, text("Type", "@core.v1.Secret type"), text("Data", "@core.v1.Secret data"), AGE]),
    ("", "Service", &[NAME, text("Type", "@core.v1.ServiceSpec type"), text("Cluster-IP", "@core.v1.ServiceSpec clusterIP"), text("External-IP", "@core.v1.ServiceSpec externalIPs"), text("Port(s)", "@core.v1.ServiceSpec ports"), AGE, wide("Selector", "@core.v1.ServiceSpec selector")]),
    ("", "ServiceAccount", &[NAME, AGE]),
    ("", "Endpoints", &[NAME, text("Endpoints", "@core.v1.Endpoints subsets"), AGE]),
    ("", "PodTemplate", &[NAME, text("Containers", "The names of the containers."), text("Images", "The images of the containers."), text("Pod Labels", "The labels of the pods.")]),
    ("", "ReplicationController", &[NAME, integer("Desired", "@core.v1.ReplicationControllerSpec replicas"), integer("Current", "@core.v1.ReplicationControllerStatus replicas"), integer("Ready", "@core.v1.ReplicationControllerStatus readyReplicas"), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@core.v1.ReplicationControllerSpec selector")]),
    ("", "ResourceQuota", &[NAME, text("Request", "ValueType is used of each limit on requests."), text("Limit", "ValueType is used of each limit on limits."), AGE]),
    ("", "PersistentVolume", &[NAME, text("Capacity", "@core.v1.PersistentVolumeSpec capacity"), text("Access Modes", "@core.v1.PersistentVolumeSpec accessModes"), text("Reclaim Policy", "@core.v1.PersistentVolumeSpec persistentVolumeReclaimPolicy"), text("Status", "@core.v1.PersistentVolumeStatus phase"), text("Claim", "@core.v1.PersistentVolumeSpec claimRef"), text("StorageClass", "The storage class."), text("VolumeAttributesClass", "The volume attributes class."), text("Reason", "@core.v1.PersistentVolumeStatus reason"), AGE, wide("VolumeMode", "@core.v1.PersistentVolumeSpec volumeMode")]),
    ("", "PersistentVolumeClaim", &[NAME, text("Status", "@core.v1.PersistentVolumeClaimStatus phase"), text("Volume", "@core.v1.PersistentVolumeClaimSpec volumeName"), text("Capacity", "@core.v1.PersistentVolumeClaimStatus capacity"), text("Access Modes", "@core.v1.PersistentVolumeClaimStatus accessModes"), text("StorageClass", "The storage class."), text("VolumeAttributesClass", "The volume attributes class."), AGE, wide("VolumeMode", "@core.v1.PersistentVolumeClaimSpec volumeMode")]),
    ("apps", "Deployment", &[NAME, text("Ready", "How many pods are ready, of those wanted."), text("Up-to-date", "@apps.v1.DeploymentStatus updatedReplicas"), text("Available", "@apps.v1.DeploymentStatus availableReplicas"), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@apps.v1.DeploymentSpec selector")]),
    ("apps", "ReplicaSet", &[NAME, integer("Desired", "@apps.v1.ReplicaSetSpec replicas"), integer("Current", "@apps.v1.ReplicaSetStatus replicas"), integer("Ready", "@apps.v1.ReplicaSetStatus readyReplicas"), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@apps.v1.ReplicaSetSpec selector")]),
    ("apps", "DaemonSet", &[NAME, integer("Desired", "@apps.v1.DaemonSetStatus desiredNumberScheduled"), integer("Current", "@apps.v1.DaemonSetStatus currentNumberScheduled"), integer("Ready", "@apps.v1.DaemonSetStatus numberReady"), integer("Up-to-date", "@apps.v1.DaemonSetStatus updatedNumberScheduled"), integer("Available", "@apps.v1.DaemonSetStatus numberAvailable"), text("Node Selector", "@core.v1.PodSpec nodeSelector"), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@apps.v1.DaemonSetSpec selector")]),
    ("apps", "StatefulSet", &[NAME, text("Ready", "How many pods are ready, of those wanted."), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers.")]),
    ("apps", "ControllerRevision", &[NAME, text("Controller", "The owner."), text("Revision", "@apps.v1.ControllerRevision revision"), AGE]),
    ("batch", "Job", &[NAME, text("Status", "Where the job stands."), text("Completions", "@batch.v1.JobStatus succeeded"), text("Duration", "How long the job took, or has taken so far."), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@batch.v1.JobSpec selector")]),
    ("batch", "CronJob", &[NAME, text("Schedule", "@batch.v1.CronJobSpec schedule"), text("Timezone", "@batch.v1.CronJobSpec timeZone"), boolean("Suspend", "@batch.v1.CronJobSpec suspend"), integer("Active", "@batch.v1.CronJobStatus active"), text("Last Schedule", "@batch.v1.CronJobStatus lastScheduleTime"), AGE, wide("Containers", "The names of the containers."), wide("Images", "The images of the containers."), wide("Selector", "@batch.v1.JobSpec selector")]),
    ("policy", "PodDisruptionBudget", &[NAME, text("Min Available", "How many pods must stay."), text("Max Unavailable", "How many pods may be away."), integer("Allowed Disruptions", "How many pods may be disrupted now."), AGE]),
    ("coordination.k8s.io", "Lease", &[NAME, text("Holder", "@coordination.v1.LeaseSpec holderIdentity"), AGE]),
    ("events.k8s.io", "Event", &[text("Last Seen", "@core.v1.Event lastTimestamp"), text("Type", "@core.v1.Event type"), text("Reason", "@core.v1.Event reason"), text("Object", "@core.v1.Event involvedObject"), wide("Subobject", "@core.v1.ObjectReference fieldPath"), wide("Source", "@core.v1.Event source"), text("Message", "@core.v1.Event message"), wide("First Seen", "@core.v1.Event firstTimestamp"), wide("Count", "@core.v1.Event count"), named(wide("Name", "@ObjectMeta name"))]),
    ("scheduling.k8s.io", "PriorityClass", &[NAME, integer("Value", "@scheduling.v1.PriorityClass value"), boolean("Global-Default", "@scheduling.v1.PriorityClass globalDefault"), AGE, text("PreemptionPolicy", "@scheduling.v1.PriorityClass preemptionPolicy")]),
    ("storage.k8s.io", "StorageClass", &[NAME, text("Provisioner", "@storage.v1.StorageClass provisioner"), text("ReclaimPolicy", "@storage.v1.StorageClass reclaimPolicy"), text("VolumeBindingMode", "@storage.v1.StorageClass volumeBindingMode"), text("AllowVolumeExpansion", "@storage.v1.StorageClass allowVolumeExpansion"), AGE]),
    ("storage.k8s.io", "CSINode", &[NAME, integer("Drivers", "How many drivers there are on the node."), AGE]),
    ("storage.k8s.io", "VolumeAttachment", &[NAME, named(text("Attacher", "@storage.v1.VolumeAttachmentSpec attacher")), text("PV", "@storage.v1.VolumeAttachmentSource persistentVolumeName"), text("Node", "@storage.v1.VolumeAttachmentSpec nodeName"), boolean("Attached", "@storage.v1.VolumeAttachmentStatus attached"), AGE]),
    ("storage.k8s.io", "CSIDriver", &[NAME, boolean("AttachRequired", "@storage.v1.CSIDriverSpec attachRequired"), boolean("PodInfoOnMount", "@storage.v1.CSIDriverSpec podInfoOnMount"), boolean("StorageCapacity", "@storage.v1.CSIDriverSpec storageCapacity"), text("TokenRequests", "@storage.v1.CSIDriverSpec tokenRequests"), boolean("RequiresRepublish", "@storage.v1.CSIDriverSpec requiresRepublish"), text("Modes", "@storage.v1.CSIDriverSpec volumeLifecycleModes"), AGE]),
    ("autoscaling", "HorizontalPodAutoscaler", &[NAME, text("Reference", "@autoscaling.v2.HorizontalPodAutoscalerSpec scaleTargetRef"), text("Targets", "@autoscaling.v2.HorizontalPodAutoscalerSpec metrics"), text("MinPods", "@autoscaling.v1.HorizontalPodAutoscalerSpec minReplicas"), text("MaxPods", "@autoscaling.v2.HorizontalPodAutoscalerSpec maxReplicas"), text("Replicas", "@autoscaling.v2.HorizontalPodAutoscalerStatus currentReplicas"), AGE]),
    ("discovery.k8s.io", "EndpointSlice", &[NAME, text("AddressType", "@discovery.v1.EndpointSlice addressType"), text("Ports", "@discovery.v1.EndpointSlice ports"), text("Endpoints", "@discovery.v1.EndpointSlice endpoints"), AGE]),
    ("networking.k8s.io", "Ingress", &[NAME, text("Class", "The ingress class."), text("Hosts", "The hosts the rules are for."), text("Address", "Where the ingress answers."), text("Ports", "The ports it answers on."), AGE]),
    ("networking.k8s.io", "NetworkPolicy", &[NAME, text("Pod-Selector", "@networking.v1.NetworkPolicySpec podSelector"), AGE]),
    ("networking.k8s.io", "IngressClass", &[NAME, text("Controller", "Who carries ingresses of this class out."), text("Parameters", "Where more settings are."), AGE]),
    ("node.k8s.io", "RuntimeClass", &[NAME, text("Handler", ""), AGE]),
    ("certificates.k8s.io", "CertificateSigningRequest", &[NAME, AGE, text("SignerName", "Who is to sign."), text("Requestor", "Who asked."), text("RequestedDuration", "@certificates.v1.CertificateSigningRequestSpec expirationSeconds"), text("Condition", "Whether it was approved, and issued.")]),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", &[NAME, integer("Webhooks", "How many webhooks there are."), AGE]),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", &[NAME, integer("Webhooks", "How many webhooks there are."), AGE]),
    ("apiregistration.k8s.io", "APIService", &[NAME, text("Service", "The service behind the API."), text("Available", "Whether the API answers."), AGE]),
    ("rbac.authorization.k8s.io", "RoleBinding", &[NAME, text("Role", "The role it gives."), AGE, wide("Users", "The users among the subjects."), wide("Groups", "The groups among the subjects."), wide("ServiceAccounts", "The service accounts among the subjects.")]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &[NAME, text("Role", "The role it gives."), AGE, wide("Users", "The users among the subjects."), wide("Groups", "The groups among the subjects."), wide("ServiceAccounts", "The service accounts among the subjects.")]),
    ("autoscaling", "Scale", &[text("Name", "@ObjectMeta name"), integer("Desired", "@autoscaling.v1.ScaleSpec replicas"), integer("Available", "@autoscaling.v1.ScaleStatus replicas"), AGE]),
];
