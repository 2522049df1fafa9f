//! Arguments of the commands for objects: `apply`, `get`, `watch` and `delete`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};

use super::duration;

/// Create or update objects from files
///
/// Uses server-side apply. Fields that another manager has set are taken over. Prints one line per object: created,
/// configured or unchanged. After an error the remaining objects are applied, and the exit code is 1.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll apply examples/quickstart.yaml          apply a file
  plimsoll apply -f fleets/ -f policies.json       apply the .yaml, .yml and .json files of a directory, and a file
  sed s/2/5/ fleet.yaml | plimsoll apply -         apply standard input
  plimsoll apply -n staging fleet.yaml             apply to a namespace")]
pub(crate) struct Apply {
    /// Files or directories (YAML or JSON, several documents or Lists; `-` is standard input)
    #[arg(value_name = "FILE", required_unless_present = "files")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print only the names of the objects
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<NameOutput>,
}

/// Show objects
///
/// Name a kind by its short name, plural, singular or kind, as in `po`, `pods`, `pod` or `Pod`. Add the group if two kinds share a name:
/// `events.events.k8s.io`. The category `all` stands for the usual kinds.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll get fleets                              the fleets of the namespace
  plimsoll get gs -A -o wide                       all game servers, with more columns
  plimsoll get deploy/web svc/web                  two objects
  plimsoll get po,svc -l app=web                   objects of two kinds by label
  plimsoll get po --field-selector spec.nodeName=local
  plimsoll get fleet quickstart -o yaml            an object as YAML
  plimsoll get fas --watch                         autoscalers, and then every change

Exit code: 0 success, 1 error (such as NotFound), 2 invalid arguments.")]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) view: View,
    /// Print the objects and then every change, until interrupted
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Exit with code 0 if an object does not exist
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
}

/// Show objects and then every change, until interrupted
///
/// Like `get --watch`, with the type of each event: ADDED, MODIFIED or DELETED.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll watch gs                                every change of a game server
  plimsoll watch fleet quickstart                  one object
  plimsoll watch po -l app=web -o json             whole objects as JSON")]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) view: View,
}

/// Delete objects, and wait until they are gone
///
/// Dependents are deleted too: the game servers of a fleet, the pods of a Deployment.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  plimsoll delete fleet quickstart                 delete an object by kind and name
  plimsoll delete deploy/web svc/web               delete two objects
  plimsoll delete -f examples/quickstart.yaml      delete the objects of a file
  plimsoll delete gs -l agones.dev/fleet=arena     delete objects by label
  plimsoll delete pods --all --grace-period 5      delete all objects of a kind in the namespace
  plimsoll delete fleet arena --wait=false         do not wait

Exit code: 0 success, 1 error (such as NotFound, or still there after --timeout), 2 invalid arguments.")]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Delete all objects of the kinds in the namespace
    #[arg(long, conflicts_with_all = ["selector", "field_selector", "files"])]
    pub(crate) all: bool,
    /// Exit with code 0 if an object does not exist
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Seconds that pods have to terminate; 0 kills them at once [default: from the pod]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
    /// When to delete dependents
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) cascade: Cascade,
    /// Wait until the objects are gone
    #[arg(
        long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, value_name = "BOOL",
        default_value_t = true, default_missing_value = "true"
    )]
    pub(crate) wait: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Print only the names of the objects
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<NameOutput>,
}

/// The files of `-f`.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// File or directory with objects; `-` is standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Also read the subdirectories of directories
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// The API server, and the namespace there.
#[derive(clap::Args)]
pub(crate) struct Server {
    /// Namespace [default: the namespace of the kubeconfig]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file [default: $KUBECONFIG, else the file written by `plimsoll up`, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// The objects that a command selects.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// `KIND`, `KIND NAME…`, `KIND,KIND` or `KIND/NAME…`
    #[arg(value_name = "KIND", required_unless_present = "files", conflicts_with = "files")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Objects with these labels, such as app=web,tier!=back or 'tier in (front,back)'
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "files")]
    pub(crate) selector: Option<String>,
    /// Objects with these fields, such as status.phase=Running
    #[arg(long, value_name = "FIELDS", conflicts_with = "files")]
    pub(crate) field_selector: Option<String>,
}

/// The form in which objects are printed.
#[derive(clap::Args)]
pub(crate) struct View {
    /// Output format [default: a table]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<ObjectOutput>,
    /// Print tables without a header
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Print metadata.managedFields, with -o yaml and -o json
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// A table with more columns
    Wide,
    /// YAML
    Yaml,
    /// JSON
    Json,
    /// KIND.GROUP/NAME
    Name,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum NameOutput {
    /// KIND.GROUP/NAME
    Name,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Cascade {
    /// After the object
    #[default]
    Background,
    /// Before the object
    Foreground,
    /// Not at all
    Orphan,
}
