//! Command-line arguments.

pub(crate) mod cluster_autoscaler;
mod game_servers;
mod objects;
mod sample;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use control::FeatureGates;
use jiff::Timestamp;

pub(crate) use game_servers::{DEFAULT_RANGE, GameServerArgs};
pub(crate) use objects::{
    Apply, Cascade, Delete, Files, Get, ObjectOutput, Selection, Server, View, Watch,
};
pub(crate) use sample::{Load, SampleService};

/// One autoscaler for game-server fleets, services, and the nodes they run on.
#[derive(Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Format of log lines
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable lines, in colour on a terminal unless NO_COLOR is set
    Text,
    /// One JSON object per line
    Json,
}

impl From<LogFormat> for process::log::Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Run(Run),
    Apply(Apply),
    Get(Get),
    Watch(Watch),
    Delete(Delete),
    Allocate(Allocate),
    Evaluate(Evaluate),
    Install(Install),
    SdkServer(SdkServer),
    ClusterAutoscaler(ClusterAutoscaler),
    SampleServer(SampleServer),
    SampleService(SampleService),
    Load(Load),
    Completions(Completions),
}

/// Start everything on this machine: a Kubernetes API server, scheduler, kubelet and all controllers
///
/// Objects are stored in the data directory and survive a restart. A kubeconfig for kubectl and other clients is written
/// there. Press Ctrl-C to stop.
#[derive(Parser)]
pub(crate) struct Up {
    /// Files with objects to apply after startup (YAML or JSON; `-` is standard input)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Directory to store objects in [default: $XDG_DATA_HOME/plimsoll, or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Store objects in memory only; they are lost when the process exits
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Size of the change history for watches, in MiB. A watch from an older resourceVersion gets 410 and has to list again.
    /// The data directory may hold up to twice as much under heavy writes, and four times as much while a watch is behind
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) history: usize,
    /// Address to listen on; port 0 picks a free port. With an address other than loopback, other machines can connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7440")]
    pub(crate) listen: SocketAddr,
    /// File to write the kubeconfig to [default: kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) allocator: AllocatorArgs,
    /// Address for Prometheus metrics
    #[arg(long, value_name = "ADDR", conflicts_with = "api_only")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Run only the API server, without scheduler, kubelet and controllers
    #[arg(long, conflicts_with_all = ["allocator", "images", "simulated_nodes"])]
    pub(crate) api_only: bool,
    /// Run a program on this machine for containers with this image; can be repeated
    #[arg(long = "image", value_name = "IMAGE=PROGRAM", value_parser = image)]
    pub(crate) images: Vec<(String, Vec<String>)>,
    /// Use this many simulated nodes instead of this machine. Their pods have no processes: they become Running and follow
    /// the script in their annotation `plimsoll.dev/simulate`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) simulated_nodes: usize,
    /// Register no node: programs beside this one do, and run the pods. Kubernetes' conformance tests use it, with KWOK
    #[arg(long, hide = true, conflicts_with_all = ["images", "simulated_nodes", "api_only"])]
    pub(crate) no_nodes: bool,
    #[command(flatten)]
    pub(crate) game_servers: GameServerArgs,
    #[command(flatten)]
    pub(crate) gates: Gates,
}

/// The allocator's gRPC and REST listener, and its TLS files.
#[derive(clap::Args)]
pub(crate) struct AllocatorArgs {
    /// Address for allocation requests over gRPC and REST
    #[arg(long, value_name = "ADDR")]
    pub(crate) allocator: Option<SocketAddr>,
    /// Directory with tls.crt and tls.key for --allocator. Without it, only a loopback address is allowed, in plain text
    #[arg(long, value_name = "DIR", requires = "allocator")]
    pub(crate) allocator_certificates: Option<PathBuf>,
    /// Directory with the CA certificates (.crt, .pem) of allowed clients of --allocator, or their own certificates. Without it, only a
    /// loopback address is allowed
    #[arg(long, value_name = "DIR", requires = "allocator_certificates")]
    pub(crate) allocator_callers: Option<PathBuf>,
}

/// The listener of Cluster Autoscaler's protocol externalgrpc, and its TLS files.
#[derive(clap::Args)]
pub(crate) struct ExternalGrpcArgs {
    /// Address for a Cluster Autoscaler started with --cloud-provider=externalgrpc: it scales the NodeGroups of this cluster
    #[arg(long, value_name = "ADDR")]
    pub(crate) externalgrpc: Option<SocketAddr>,
    /// Directory with tls.crt and tls.key for --externalgrpc. Without it, only a loopback address is allowed, in plain text
    #[arg(long, value_name = "DIR", requires = "externalgrpc")]
    pub(crate) externalgrpc_certificates: Option<PathBuf>,
    /// Directory with the CA certificates (.crt, .pem) of allowed clients of --externalgrpc, or their own certificates. Without it, only a
    /// loopback address is allowed
    #[arg(long, value_name = "DIR", requires = "externalgrpc_certificates")]
    pub(crate) externalgrpc_callers: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Gates {
    /// Agones feature gates, as A=true&B=false. All features are always enabled; disabling one only logs a warning
    #[arg(
        long, value_name = "GATES", env = "FEATURE_GATES", default_value = "", hide_default_value = true,
        value_parser = FeatureGates::parse
    )]
    pub(crate) feature_gates: FeatureGates,
}

/// Run the controllers and servers against an existing cluster
///
/// You can run several replicas: leader election with a Lease makes one of them active. `plimsoll install` prints the manifests for a Deployment.
#[derive(Parser)]
pub(crate) struct Run {
    /// Controllers to run
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub(crate) only: Vec<Part>,
    /// Kubeconfig file [default: $KUBECONFIG, else the file written by `plimsoll up`, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use the ServiceAccount of this pod to connect to the API server
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) in_cluster: bool,
    /// Address for admission webhooks; requires --certificates
    #[arg(long, value_name = "ADDR")]
    pub(crate) webhooks: Option<SocketAddr>,
    /// Address of the aggregated API allocation.agones.dev, for the API server only; requires --certificates
    #[arg(long, value_name = "ADDR")]
    pub(crate) aggregated_api: Option<SocketAddr>,
    /// Directory with tls.crt and tls.key for --webhooks and --aggregated-api; reloaded when the files change
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) allocator: AllocatorArgs,
    #[command(flatten)]
    pub(crate) external_grpc: ExternalGrpcArgs,
    /// Address for Prometheus metrics
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Image of the SDK server sidecar of each game server
    #[arg(long, value_name = "IMAGE")]
    pub(crate) sidecar_image: Option<String>,
    #[command(flatten)]
    pub(crate) game_servers: GameServerArgs,
    #[command(flatten)]
    pub(crate) gates: Gates,
    #[arg(long, hide = true, env = "POD_NAME")]
    pub(crate) pod_name: Option<String>,
    /// Namespace of the Lease, for tests; an environment variable could differ from the one that `up` uses
    #[arg(long, hide = true)]
    pub(crate) pod_namespace: Option<String>,
}

/// A controller.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lowercase")]
pub(crate) enum Part {
    GameServer,
    GameServerSet,
    Fleet,
    FleetAutoscaler,
    ScalingPolicy,
    AutoScalePolicy,
    Nodes,
}

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::GameServer,
        Self::GameServerSet,
        Self::Fleet,
        Self::FleetAutoscaler,
        Self::ScalingPolicy,
        Self::AutoScalePolicy,
        Self::Nodes,
    ];

    /// Returns the argument that runs these parts; `None` for all of them.
    pub(crate) fn only_arg(parts: &[Self]) -> Option<String> {
        let chosen: Vec<Self> = Self::ALL.into_iter().filter(|part| parts.contains(part)).collect();
        let names = chosen.iter().filter_map(Self::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        (chosen.len() < Self::ALL.len()).then(|| format!("--only={}", names.join(",")))
    }
}

/// Add and remove nodes in place of Cluster Autoscaler, with its flags
///
/// The same happens when the program is started under the name `cluster-autoscaler`. All settings come from the flags; Plimsoll's own kinds
/// need not be installed. `plimsoll cluster-autoscaler --help` lists the flags.
#[derive(Parser)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct ClusterAutoscaler {
    /// Cluster Autoscaler's flags
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) flags: Vec<OsString>,
}

fn image(text: &str) -> Result<(String, Vec<String>), String> {
    let (image, program) = text.split_once('=').unwrap_or_default();
    let program: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
    if image.is_empty() || program.is_empty() {
        return Err("expected IMAGE=PROGRAM, like game:1.0=./target/release/game".to_owned());
    }
    Ok((image.to_owned(), program))
}

/// Parses a duration such as `90s` or `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = decide::duration::parse(text)?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

/// Exits with code 2 because of an invalid combination of arguments.
pub(crate) fn usage(message: &str) -> ! {
    Args::command().error(ErrorKind::ValueValidation, message).exit()
}

/// Allocate a game server of a fleet and print its address
///
/// Creates a GameServerAllocation through the Kubernetes API. The exit code is 1 if fewer game servers than requested could be allocated.
#[derive(Parser)]
pub(crate) struct Allocate {
    /// Name of the fleet
    pub(crate) fleet: String,
    /// Number of game servers to allocate
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,
    /// Labels that the game servers must have, as KEY=VALUE,…
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = labels)]
    pub(crate) selector: Option<Labels>,
    /// Namespace of the fleet [default: the namespace of the kubeconfig]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file [default: $KUBECONFIG, else the file written by `plimsoll up`, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Labels and their values.
#[derive(Clone)]
pub(crate) struct Labels(pub(crate) Vec<(String, String)>);

/// Parses labels in the form `KEY=VALUE,…`.
fn labels(text: &str) -> Result<Labels, String> {
    let label = |pair: &str| match pair.split_once('=') {
        Some((key, value)) => {
            Ok((key.trim().to_owned(), value.trim_matches([' ', '=']).to_owned()))
        }
        None => Err(format!("expected KEY=VALUE, found `{pair}`")),
    };
    text.split(',').map(label).collect::<Result<_, _>>().map(Labels)
}

/// Evaluate objects from files offline, and print each decision with its reasons
///
/// Files contain Kubernetes objects (YAML or JSON, one or more documents, or a List). A decision is printed for each autoscaler,
/// policy, allocation, Fleet and recorded Decision, based on the other objects in the files. All other objects are only validated. Makes no network
/// calls and changes nothing.
#[derive(Parser)]
#[command(
    after_help = "Exit code: 0 success, 2 invalid input (one line per problem: file, document, field, expected value)."
)]
pub(crate) struct Evaluate {
    /// File to read; `-` is standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Time of the evaluation, as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
    /// Current size of the target, if the files do not contain the target
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
}

/// Run the SDK server, as a sidecar of a game server or locally without a control plane
///
/// As a sidecar it serves the GameServer named by --gameserver-name and --pod-namespace. With --local it needs no
/// control plane: the GameServer is a built-in example, or read from a file, and changes take effect immediately.
#[derive(Parser)]
pub(crate) struct SdkServer {
    /// Run locally, without a control plane
    #[arg(long, env = "LOCAL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) local: bool,
    /// With --local: file with the GameServer, as YAML or JSON; reloaded whenever it changes
    #[arg(short, long, env = "FILE", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Host to listen on; empty means all addresses
    #[arg(long, env = "ADDRESS", value_name = "HOST", default_value = "localhost")]
    pub(crate) address: String,
    /// Port for gRPC
    #[arg(long, env = "GRPC_PORT", value_name = "PORT", default_value_t = 9357)]
    pub(crate) grpc_port: u16,
    /// Port for REST
    #[arg(long, env = "HTTP_PORT", value_name = "PORT", default_value_t = 9358)]
    pub(crate) http_port: u16,
    /// Port for health probes
    #[arg(long, env = "HEALTH_PORT", value_name = "PORT", default_value_t = 8080)]
    pub(crate) health_port: u16,
    /// Host to listen on for health probes; empty means all addresses, because the kubelet connects from outside the pod
    #[arg(long, env = "HEALTH_ADDRESS", value_name = "HOST", default_value = "")]
    pub(crate) health_address: String,
    /// Run the conformance test of a client library: the names of the expected calls
    #[arg(long, env = "TEST", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) test: Vec<String>,
    /// Name of the client library under test, for the log
    #[arg(long, env = "SDK_NAME", value_name = "NAME", default_value = "")]
    pub(crate) sdk_name: String,
    /// Seconds to wait before starting
    #[arg(long, env = "DELAY", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) delay: u64,
    /// With --local or --test: seconds after which to exit; 0 means never
    #[arg(long, env = "TIMEOUT", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) timeout: u64,
    /// Name of the GameServer
    #[arg(long, env = "GAMESERVER_NAME", value_name = "NAME")]
    pub(crate) gameserver_name: Option<String>,
    /// Namespace of the GameServer
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) pod_namespace: Option<String>,
    /// Kubeconfig of the cluster; not needed inside a pod
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Minimum time between two writes [default: 500ms]
    #[arg(long, env = "REQUEST_RATE_LIMIT", value_name = "DURATION")]
    pub(crate) request_rate_limit: Option<String>,
    /// Without native sidecars: keep running after SIGTERM until the GameServer is Shutdown
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) graceful_termination: bool,
    #[command(flatten)]
    pub(crate) gates: Gates,
    /// Log level: Error, Info, Debug or Trace
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "Info")]
    pub(crate) log_level: String,
}

/// Run the sample game server; `-- --help` shows its flags
#[derive(Parser)]
pub(crate) struct SampleServer {
    /// Flags of the sample game server
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) flags: Vec<OsString>,
}

/// Print a shell completion script
#[derive(Parser)]
#[command(after_help = "In bash: source <(plimsoll completions bash)")]
pub(crate) struct Completions {
    /// Shell to print the script for
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable text
    #[default]
    Text,
    /// JSON
    Json,
}

/// Print the manifests to install Plimsoll on a cluster
///
/// They contain CRDs, ServiceAccounts and roles, newly generated certificates, the Deployment and its Services, the APIService for allocations,
/// and the admission webhooks. Makes no network calls; apply the output with
/// `plimsoll install | kubectl apply --server-side -f -`.
#[derive(Parser)]
pub(crate) struct Install {
    /// Namespace to install Plimsoll in
    #[arg(long, value_name = "NAME", default_value = "plimsoll-system")]
    pub(crate) namespace: String,
    /// Namespace for game servers; can be repeated
    #[arg(long = "game-namespace", value_name = "NAME", default_value = "default")]
    pub(crate) game_namespaces: Vec<String>,
    /// Image of Plimsoll
    #[arg(long, default_value = concat!("plimsoll:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Number of replicas; one of them is active
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) replicas: u32,
    /// Secret in the game-server namespaces that a GameServerAllocationPolicy uses to connect to another cluster; can be repeated.
    /// Plimsoll cannot read any other Secret
    #[arg(long = "cluster-secret", value_name = "NAME")]
    pub(crate) cluster_secrets: Vec<String>,
    /// Secret in the namespace plimsoll-system with credentials of a MetricSource, of a policy's target or of a provider of node groups; can
    /// be repeated
    #[arg(long = "source-secret", value_name = "NAME")]
    pub(crate) source_secrets: Vec<String>,
    /// Let node groups be those of a Cluster API that runs on this cluster
    #[arg(long)]
    pub(crate) cluster_api: bool,
    /// Resource of infrastructure.cluster.x-k8s.io, such as awsmachinetemplates, that describes the nodes of groups without any; can be
    /// repeated
    #[arg(long = "machine-template", value_name = "RESOURCE", requires = "cluster_api")]
    pub(crate) machine_templates: Vec<String>,
    /// Controllers to run; Plimsoll is granted only what they use
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub(crate) only: Vec<Part>,
    #[command(flatten)]
    pub(crate) game_servers: GameServerArgs,
    /// Print a script that removes everything from a cluster in the right order
    #[arg(long)]
    pub(crate) uninstall: bool,
}
