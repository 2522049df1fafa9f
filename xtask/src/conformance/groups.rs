//! The selected conformance tests of Kubernetes, and why the others are not run.

/// The tests of one special interest group that are run.
struct Group {
    /// The group's name.
    sig: &'static str,
    /// What their names continue with, as a regular expression.
    tests: &'static str,
    /// Those of them that take little time.
    short: &'static str,
}

/// Together these need an API server, the controllers of workloads and endpoints, and simulated pods.
const RUN: [Group; 3] = [
    Group {
        sig: "sig-api-machinery",
        tests: "AggregatedDiscovery|CustomResourceDefinition |CustomResourcePublishOpenAPI|Discovery|FieldValidation|\
                Garbage collector|Namespaces|OrderedNamespaceDeletion|Servers with support|Watchers|server version",
        short: "AggregatedDiscovery|Discovery|FieldValidation|Servers with support for Table|Watchers|server version",
    },
    Group {
        sig: "sig-apps",
        tests: "Daemon set|Deployment|Job|ReplicaSet",
        short: "Daemon set .*simple daemon|Deployment should run|Job should (create|manage)|ReplicaSet Replace",
    },
    Group {
        sig: "sig-network",
        tests: "API Server should have|EndpointSlice|EndpointSliceMirroring|Endpoints|EndpointsController|Service endpoints|Services",
        short: "EndpointSlice|EndpointSliceMirroring|Endpoints|EndpointsController|Services",
    },
];

/// How many tests are run.
pub(super) const COUNT: usize = 79;

/// Why tests of these groups are left out, and parts of their names.
pub(super) const LEFT_OUT: [(&str, &[&str]); 8] = [
    (
        "waits more than ten minutes for the compaction of etcd, which the embedded engine does not have",
        &[
            "Servers with support for API chunking should support continue listing from the last key if the original version has been compacted away",
        ],
    ),
    (
        "needs the controller of ReplicationControllers, which the embedded engine does not have",
        &[
            "Garbage collector should delete pods created by rc when not orphaning",
            "Garbage collector should keep the rc around until all its pods are deleted if the deleteOptions says so",
            "Garbage collector should not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted",
            "Garbage collector should orphan pods created by rc if delete options say so",
        ],
    ),
    (
        "needs an image that cannot be pulled",
        &[
            "Daemon set [Serial] should rollback without unnecessary restarts",
            "Deployment deployment should support proportional scaling",
        ],
    ),
    (
        "needs a program that answers in the pods",
        &["ReplicaSet should serve a basic image on each replica with a public image"],
    ),
    (
        "needs a program that runs on: the pods of Jobs succeed at once",
        &[
            "Job should adopt matching orphans and release non-matching pods",
            "Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition",
            "Job should apply changes to a job status",
            "Job should delete a job",
        ],
    ),
    (
        "needs a program that fails: the pods of Jobs succeed at once",
        &[
            "Job should allow to use the pod failure policy on exit code to fail the job early",
            "Job should execute all indexes despite some failing when using backoffLimitPerIndex",
            "Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy",
            "Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes",
            "Job with successPolicy succeededCount rule should succeeded even when some indexes remain pending",
            "Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending",
        ],
    ),
    (
        "needs an API server at an address other than loopback, which endpoints may not have",
        &["API Server should have Endpoints and EndpointSlices pointing to API Server"],
    ),
    (
        "sends requests from a pod to a program in others",
        &[
            "EndpointSlice should support a Service with multiple endpoint IPs specified in multiple EndpointSlices",
            "EndpointSlice should support a Service with multiple ports specified in multiple EndpointSlices",
            "Services should be able to change the type from ClusterIP to ExternalName",
            "Services should be able to change the type from ExternalName to ClusterIP",
            "Services should be able to change the type from ExternalName to NodePort",
            "Services should be able to change the type from NodePort to ExternalName",
            "Services should be able to create a functioning NodePort service",
            "Services should be able to switch session affinity for NodePort service",
            "Services should be able to switch session affinity for service with type clusterIP",
            "Services should have session affinity work for NodePort service",
            "Services should have session affinity work for service with type clusterIP",
            "Services should serve a basic endpoint from pods",
            "Services should serve endpoints on same port and different protocols",
            "Services should serve multiport endpoints from pods",
        ],
    ),
];

/// Groups of which no test is run, and why.
pub(super) const OUT_OF_SCOPE: [(&str, &str); 6] = [
    (
        "AdmissionWebhook, ValidatingAdmissionPolicy, MutatingAdmissionPolicy",
        "admission is built in; the tests run a webhook in a pod or need CEL policies",
    ),
    (
        "Aggregator",
        "the tests run an API server in a pod; the embedded API server delegates groups only to services in its own process",
    ),
    (
        "CustomResourceConversionWebhook, CustomResourceFieldSelectors",
        "the tests need a webhook in a pod",
    ),
    ("CustomResourceValidationRules", "CEL rules are not implemented"),
    ("ResourceQuota", "quotas are stored but not enforced"),
    ("API priority and fairness", "not needed for one user on one machine"),
];

/// Returns the regular expression of the tests that are run.
pub(super) fn focus(short: bool) -> String {
    let focus = |group: &Group| {
        let tests = if short { group.short } else { group.tests };
        format!(r"\[{}\] ({tests}).*Conformance", group.sig)
    };
    RUN.iter().map(focus).collect::<Vec<_>>().join("|")
}

/// Returns the regular expression of the tests that are left out.
pub(super) fn skip() -> String {
    let names = LEFT_OUT.iter().flat_map(|(_, names)| names.iter());
    names.map(|name| escape(name)).collect::<Vec<_>>().join("|")
}

/// Escapes what means something in a regular expression.
fn escape(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
