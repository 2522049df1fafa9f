//! What was typed on the command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use control::FeatureGates;
use jiff::Timestamp;

/// One autoscaler for every layer: game-server fleets, services, and the nodes beneath them.
#[derive(Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What log lines look like
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people, in colour on a terminal unless NO_COLOR is set
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
    Allocate(Allocate),
    Evaluate(Evaluate),
    Install(Install),
    SdkServer(SdkServer),
    SampleServer(SampleServer),
    Completions(Completions),
}

/// Start everything on the embedded engine: a Kubernetes API on this machine, and what runs fleets on it
///
/// Objects are kept in the data directory and are there again after a restart. kubectl and any other client use the
/// kubeconfig that is written there. Ends with Ctrl-C.
#[derive(Parser)]
pub(crate) struct Up {
    /// Objects to apply once it is ready (YAML or JSON; `-` is standard input)
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Where objects are kept [default: $XDG_DATA_HOME/plimsoll, or ~/.local/share/plimsoll]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Keep everything in memory; nothing outlives the process
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// How much of the past is kept for watches, in MiB; who watches from further back has to list again. While many write, the
    /// data directory has up to twice as much of it, and four times as much while a watch lags behind
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) history: usize,
    /// Where to listen; port 0 takes a free one. An address other than a loopback one lets other machines in
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7440")]
    pub(crate) listen: SocketAddr,
    /// Where to write the kubeconfig [default: kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) allocator: AllocatorArgs,
    /// Serve Prometheus' metrics here
    #[arg(long, value_name = "ADDR", conflicts_with = "api_only")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Only the API: nothing is scheduled, run or controlled
    #[arg(long, conflicts_with_all = ["allocator", "images", "simulated_nodes"])]
    pub(crate) api_only: bool,
    /// Run a program of this machine for an image; may be given many times
    #[arg(long = "image", value_name = "IMAGE=PROGRAM", value_parser = image)]
    pub(crate) images: Vec<(String, Vec<String>)>,
    /// So many nodes on which nothing really runs, instead of this machine: pods there only say that they run, and play
    /// their annotation `plimsoll.dev/simulate`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) simulated_nodes: usize,
    #[command(flatten)]
    pub(crate) gates: Gates,
}

/// Where and to whom the allocator answers by gRPC and REST.
#[derive(clap::Args)]
pub(crate) struct AllocatorArgs {
    /// Answer allocations by gRPC and REST here
    #[arg(long, value_name = "ADDR")]
    pub(crate) allocator: Option<SocketAddr>,
    /// The folder with tls.crt and tls.key of --allocator; without it only this machine is answered, in plain text
    #[arg(long, value_name = "DIR", requires = "allocator")]
    pub(crate) allocator_certificates: Option<PathBuf>,
    /// The folder with the certificates (.crt, .pem) of those who may call --allocator, or of their authorities; without it only this machine
    /// may
    #[arg(long, value_name = "DIR", requires = "allocator_certificates")]
    pub(crate) allocator_callers: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Gates {
    /// Agones' feature gates, as A=true&B=false; all are on, and one that is turned off is said
    #[arg(
        long, value_name = "GATES", env = "FEATURE_GATES", default_value = "", hide_default_value = true,
        value_parser = FeatureGates::parse
    )]
    pub(crate) feature_gates: FeatureGates,
}

/// Run the controllers and servers on a cluster, as a deployment there does
///
/// Several may run at once: one of them, by a Lease, is active. `plimsoll install` prints a deployment of it.
#[derive(Parser)]
pub(crate) struct Run {
    /// Only these controllers
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub(crate) only: Vec<Part>,
    /// How to reach the API [default: $KUBECONFIG, else that of `plimsoll up`, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Reach the API as a pod of the cluster does
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) in_cluster: bool,
    /// Answer admission webhooks here; needs --certificates
    #[arg(long, value_name = "ADDR")]
    pub(crate) webhooks: Option<SocketAddr>,
    /// Answer for allocation.agones.dev here, to the API server alone; needs --certificates
    #[arg(long, value_name = "ADDR")]
    pub(crate) aggregated_api: Option<SocketAddr>,
    /// The folder with tls.crt and tls.key that the API server is shown; read again when they change
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) allocator: AllocatorArgs,
    /// Serve Prometheus' metrics here
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    /// The image of the SDK server beside each game server
    #[arg(long, value_name = "IMAGE")]
    pub(crate) sidecar_image: Option<String>,
    #[command(flatten)]
    pub(crate) gates: Gates,
    #[arg(long, hide = true, env = "POD_NAME")]
    pub(crate) pod_name: Option<String>,
    #[arg(long, hide = true, env = "POD_NAMESPACE")]
    pub(crate) pod_namespace: Option<String>,
}

/// A controller.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "lowercase")]
pub(crate) enum Part {
    GameServer,
    GameServerSet,
    Fleet,
    FleetAutoscaler,
}

impl Part {
    const ALL: [Self; 4] =
        [Self::GameServer, Self::GameServerSet, Self::Fleet, Self::FleetAutoscaler];
}

fn image(text: &str) -> Result<(String, Vec<String>), String> {
    let (image, program) = text.split_once('=').unwrap_or_default();
    let program: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
    if image.is_empty() || program.is_empty() {
        return Err("expected IMAGE=PROGRAM, like game:1.0=./target/release/game".to_owned());
    }
    Ok((image.to_owned(), program))
}

/// Get a game server of a fleet: one that is Ready becomes Allocated, and its address is printed
///
/// The request goes through the Kubernetes API, as any other client's. Ends with code 1 when there are not as many.
#[derive(Parser)]
pub(crate) struct Allocate {
    /// The fleet
    pub(crate) fleet: String,
    /// How many game servers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,
    /// Labels that the game server must have, as KEY=VALUE,…
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = labels)]
    pub(crate) selector: Option<Labels>,
    /// The namespace of the fleet [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// How to reach the API [default: $KUBECONFIG, else that of `plimsoll up`, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How to print the answers
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Labels and their values.
#[derive(Clone)]
pub(crate) struct Labels(pub(crate) Vec<(String, String)>);

/// Reads labels as `KEY=VALUE,…`.
fn labels(text: &str) -> Result<Labels, String> {
    let label = |pair: &str| match pair.split_once('=') {
        Some((key, value)) => {
            Ok((key.trim().to_owned(), value.trim_matches([' ', '=']).to_owned()))
        }
        None => Err(format!("expected KEY=VALUE, found `{pair}`")),
    };
    text.split(',').map(label).collect::<Result<_, _>>().map(Labels)
}

/// Decide offline: read objects from files, print what would be decided about them, and why
///
/// Files hold Kubernetes objects (YAML or JSON, many documents, or a List). A decision is printed for each object that
/// can be decided with the others as its world; the rest are only validated. Nothing is contacted and nothing is changed.
#[derive(Parser)]
#[command(
    after_help = "Exit code: 0 decided, 2 invalid input (one line per problem: file, document, field, what was expected)."
)]
pub(crate) struct Evaluate {
    /// A file to read; `-` is standard input; may be given many times
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// How to print the decisions
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// The moment at which to decide, as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
    /// The present size of the target, where the files do not hold the target itself
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
}

/// Run the SDK server beside a game server, or stand in for one on a developer's machine
///
/// As a sidecar it speaks for the GameServer named by --gameserver-name and --pod-namespace. With --local there is no
/// control plane: the GameServer is made up, or read from a file, and changes at once.
#[derive(Parser)]
pub(crate) struct SdkServer {
    /// Stand in with no control plane
    #[arg(long, env = "LOCAL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) local: bool,
    /// With --local: the GameServer, as YAML or JSON; read again whenever the file changes
    #[arg(short, long, env = "FILE", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Where to listen; empty is every address
    #[arg(long, env = "ADDRESS", value_name = "HOST", default_value = "localhost")]
    pub(crate) address: String,
    /// The port for gRPC
    #[arg(long, env = "GRPC_PORT", value_name = "PORT", default_value_t = 9357)]
    pub(crate) grpc_port: u16,
    /// The port for REST
    #[arg(long, env = "HTTP_PORT", value_name = "PORT", default_value_t = 9358)]
    pub(crate) http_port: u16,
    /// The port for probes
    #[arg(long, env = "HEALTH_PORT", value_name = "PORT", default_value_t = 8080)]
    pub(crate) health_port: u16,
    /// Where to listen for probes; empty is every address, because kubelets come from outside
    #[arg(long, env = "HEALTH_ADDRESS", value_name = "HOST", default_value = "")]
    pub(crate) health_address: String,
    /// Stand in for a client's conformance test: the calls that it is to make, by name
    #[arg(long, env = "TEST", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) test: Vec<String>,
    /// The client under test, for the log
    #[arg(long, env = "SDK_NAME", value_name = "NAME", default_value = "")]
    pub(crate) sdk_name: String,
    /// Seconds to wait before the start
    #[arg(long, env = "DELAY", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) delay: u64,
    /// With --local or --test: seconds after which to end; 0 is never
    #[arg(long, env = "TIMEOUT", value_name = "SECONDS", default_value_t = 0)]
    pub(crate) timeout: u64,
    /// The name of the GameServer to speak for
    #[arg(long, env = "GAMESERVER_NAME", value_name = "NAME")]
    pub(crate) gameserver_name: Option<String>,
    /// Its namespace
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) pod_namespace: Option<String>,
    /// The cluster; inside one, it is found without
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The least time between two writes [default: 500ms]
    #[arg(long, env = "REQUEST_RATE_LIMIT", value_name = "DURATION")]
    pub(crate) request_rate_limit: Option<String>,
    /// Without native sidecars: go on after SIGTERM until the GameServer is Shutdown
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) graceful_termination: bool,
    #[command(flatten)]
    pub(crate) gates: Gates,
    /// How much to log: Error, Info, Debug or Trace
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "Info")]
    pub(crate) log_level: String,
}

/// Run the sample game server, as the process runtime does for its image; -- --help shows its flags
#[derive(Parser)]
pub(crate) struct SampleServer {
    /// Its flags
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) flags: Vec<OsString>,
}

/// Print what lets a shell complete command lines of Plimsoll
#[derive(Parser)]
#[command(after_help = "In bash: source <(plimsoll completions bash)")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Print what a cluster needs to run Plimsoll, as manifests
///
/// CRDs, accounts and their rights, certificates made on the spot, the Deployment and its Services, the group of allocations,
/// and the webhooks. Nothing is contacted:
/// `plimsoll install | kubectl apply --server-side -f -`.
#[derive(Parser)]
pub(crate) struct Install {
    /// The namespace that Plimsoll runs in
    #[arg(long, value_name = "NAME", default_value = "plimsoll-system")]
    pub(crate) namespace: String,
    /// A namespace in which game servers run; may be given many times
    #[arg(long = "game-namespace", value_name = "NAME", default_value = "default")]
    pub(crate) game_namespaces: Vec<String>,
    /// The image of Plimsoll
    #[arg(long, default_value = concat!("plimsoll:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// How many of it run; one of them is active
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) replicas: u32,
    /// A Secret in the namespaces with game servers that a GameServerAllocationPolicy names, to reach another cluster; may be given
    /// many times. No other Secret can be read
    #[arg(long = "cluster-secret", value_name = "NAME")]
    pub(crate) cluster_secrets: Vec<String>,
    /// Print a script that takes all of it off a cluster again, in the right order
    #[arg(long)]
    pub(crate) uninstall: bool,
}
