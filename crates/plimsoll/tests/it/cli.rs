//! `plimsoll apply|get|watch|delete`, on `plimsoll up` and on the real API server, and beside the real kubectl.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::{from_env, plimsoll};

const MANIFESTS: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {app: web}}, data: {colour: red}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other, labels: {app: db}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {selector: {app: web}, ports: [{port: 80}]}
";

#[test]
fn objects_live_and_die_without_kubectl_on_the_embedded_server() {
    let up = Up::start(&["--api-only"]);
    let cli = Cli::new(up.folder.path().join("kubeconfig"), "cli");
    life(&cli);
}

#[test]
fn objects_live_and_die_without_kubectl_on_the_real_server() {
    let Some(kubeconfig) = from_env("PLIMSOLL_TEST_KUBECONFIG") else { return };
    let cli = Cli::new(kubeconfig, &format!("cli-{}", std::process::id()));
    life(&cli);
}

/// Creates objects, shows them in every form, changes and deletes them.
fn life(cli: &Cli) {
    let namespace = &cli.namespace;
    let own = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
    cli.ok_with(&["apply", "-"], &own, &format!("namespace/{namespace} created\n"));
    let _cleanup = Cleanup(cli);
    cli.write("objects/all.yaml", MANIFESTS);
    cli.write("objects/readme.txt", "not a manifest");
    let applied = |effect: &str| {
        ["configmap/settings", "configmap/other", "deployment.apps/web", "service/web"]
            .map(|name| format!("{name} {effect}\n"))
            .concat()
    };
    cli.ok(&["apply", "-f", "objects"], &applied("created"));
    cli.ok(&["apply", "objects/all.yaml"], &applied("unchanged"));
    let changed = MANIFESTS.replace("red", "blue");
    cli.write("changed.yaml", &changed);
    let output = cli.out(&["apply", "changed.yaml"]);
    assert!(
        output.starts_with("configmap/settings configured\nconfigmap/other unchanged\n"),
        "{output}"
    );

    shows(cli);

    cli.ok(&["delete", "cm/settings", "-o", "name"], "configmap/settings\n");
    cli.fails(
        &["delete", "cm", "settings"],
        1,
        "Error from server (NotFound): configmaps \"settings\" not found\n",
    );
    cli.ok(&["delete", "cm", "settings", "--ignore-not-found"], "");
    cli.ok(&["delete", "cm", "-l", "app=db"], "configmap \"other\" deleted\n");
    let output = cli.out(&["delete", "-f", "changed.yaml", "--ignore-not-found"]);
    assert_eq!(output, "deployment.apps \"web\" deleted\nservice \"web\" deleted\n");
    cli.ok(&["get", "deploy,svc", "-o", "name"], "");
    cli.fails(&["delete", "cm"], 2, "--all");
}

/// Shows objects in every form.
fn shows(cli: &Cli) {
    let table = cli.out(&["get", "cm", "-l", "app=web"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "DATA", "AGE"], "{table}");
    assert_eq!(lines[1][..2], ["settings", "1"], "{table}");
    assert_eq!(lines.len(), 2, "{table}");
    for word in
        ["deploy", "deployment", "deployments", "Deployment", "deployments.apps", "deploy.v1.apps"]
    {
        cli.ok(&["get", word, "-o", "name"], "deployment.apps/web\n");
    }
    cli.ok(&["get", "svc/web", "cm/other", "-o", "name"], "service/web\nconfigmap/other\n");
    cli.ok(
        &["get", "cm", "--field-selector", "metadata.name=other", "-o", "name"],
        "configmap/other\n",
    );
    let wide = cli.out(&["get", "deploy", "web", "-o", "wide"]);
    assert!(wide.contains("CONTAINERS") && wide.contains("web:1"), "{wide}");
    let several = cli.out(&["get", "svc,deploy"]);
    assert!(several.contains("\nservice/web ") && several.contains("\n\nNAME "), "{several}");
    let yaml = cli.out(&["get", "cm", "settings", "-o", "yaml"]);
    assert!(yaml.contains("\n  colour: blue\n") && !yaml.contains("managedFields"), "{yaml}");
    let json = cli.out(&["get", "cm", "-o", "json", "-l", "app in (web, db)"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["kind"], json["items"].as_array().unwrap().len()), (&"List".into(), 2));
    assert_eq!(json["items"][0]["kind"], "ConfigMap", "{json}");
    let everywhere = cli.out(&["get", "deploy", "-A", "--field-selector", "metadata.name=web"]);
    assert!(everywhere.starts_with("NAMESPACE "), "{everywhere}");
    assert!(everywhere.contains(&format!("\n{} ", cli.namespace)), "{everywhere}");
    // What was printed can be applied.
    cli.write("again.yaml", &yaml.replace("blue", "green"));
    cli.ok(&["apply", "again.yaml"], "configmap/settings configured\n");

    let found = cli.run(&["get", "cm", "settings", "missing", "--no-headers"]).output().unwrap();
    assert_eq!(found.status.code(), Some(1));
    assert!(text(&found.stdout).starts_with("settings "), "the other one is still shown");
    let expected = "Error from server (NotFound): configmaps \"missing\" not found\n";
    assert_eq!(text(&found.stderr), expected);
    cli.ok(&["get", "cm", "missing", "--ignore-not-found"], "");
    cli.fails(&["get", "podz"], 1, "plimsoll: the server doesn't have a resource type \"podz\"\n");
    cli.fails(&["get"], 2, "KIND");
    cli.fails(&["get", "po/a", "b"], 2, "expected KIND/NAME, found `b`");
    let none = cli.run(&["get", "secrets", "-l", "a=b"]).output().unwrap();
    assert_eq!(none.status.code(), Some(0));
    assert_eq!(text(&none.stderr), format!("No resources found in {} namespace.\n", cli.namespace));
}

#[test]
fn one_object_that_is_refused_does_not_stop_the_others() {
    let up = Up::start(&["--api-only"]);
    let cli = Cli::new(up.folder.path().join("kubeconfig"), "default");
    cli.write(
        "mixed.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name}}\n---\n\
         {apiVersion: example.com/v1, kind: Foo, metadata: {name: a}}\n---\n\
         {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}\n---\n\
         {apiVersion: v1, kind: ConfigMap, metadata: {name: good}}\n",
    );
    let done = cli.run(&["apply", "mixed.yaml"]).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout), "configmap/good created\n");
    let errors = text(&done.stderr);
    let errors: Vec<&str> = errors.lines().collect();
    let [invalid, unknown, elsewhere] = errors[..] else { panic!("{errors:?}") };
    assert!(
        invalid.starts_with("Error from server (Invalid): could not apply configmap/Not_A_Name: ")
    );
    assert!(
        unknown.starts_with("plimsoll: could not apply foo/a: no kind `Foo` is served"),
        "{unknown}"
    );
    assert!(
        elsewhere.ends_with("namespace `other`, the command has --namespace default"),
        "{elsewhere}"
    );
    cli.fails(&["apply", "missing.yaml"], 1, "missing.yaml: could not be read");
    let nowhere = cli.folder.path().join("nowhere");
    let broken = text(&std::fs::read(&cli.kubeconfig).unwrap());
    let server = broken.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap();
    std::fs::write(&nowhere, broken.replace(server, "https://127.0.0.1:1")).unwrap();
    let done = plimsoll().args(["get", "po", "--kubeconfig"]).arg(&nowhere).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("is it running (`plimsoll up`)?"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn a_custom_kind_can_be_used_in_the_file_that_defines_it() {
    let up = Up::start(&["--api-only"]);
    let cli = Cli::new(up.folder.path().join("kubeconfig"), "default");
    cli.write(
        "things.yaml",
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}
",
    );
    let output = cli.out(&["apply", "things.yaml"]);
    assert!(output.ends_with("thing.example.com/a created\n"), "{output}");
    cli.ok(&["get", "th", "-o", "name"], "thing.example.com/a\n");
    // A finalizer that is never removed.
    let held = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: held, finalizers: [example.com/hold]}}";
    cli.ok_with(&["apply", "-f", "-"], held, "thing.example.com/held created\n");
    cli.fails(
        &["delete", "th", "held", "--timeout", "200ms"],
        1,
        "plimsoll: timed out waiting for the deletion of things.example.com/held",
    );
    cli.ok(&["delete", "th", "held", "--wait=false"], "thing.example.com \"held\" deleted\n");
    cli.ok(&["delete", "things", "a"], "thing.example.com \"a\" deleted\n");
}

#[test]
fn a_watch_prints_every_change_with_its_type() {
    let up = Up::start(&["--api-only"]);
    let cli = Cli::new(up.folder.path().join("kubeconfig"), "default");
    let object = |colour: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{colour: {colour}}}}}"
        )
    };
    cli.ok_with(&["apply", "-"], &object("red"), "configmap/a created\n");
    let mut watches = [
        Watching::start(&cli, &["watch", "cm", "--field-selector", "metadata.name=a"]),
        Watching::start(&cli, &["watch", "cm/a", "-o", "name"]),
        Watching::start(&cli, &["get", "cm", "a", "--watch", "--no-headers"]),
    ];
    let [table, names, rows] = &mut watches;
    assert_eq!(table.words(), ["EVENT", "NAME", "DATA", "AGE"]);
    assert_eq!(table.words()[..3], ["ADDED", "a", "1"]);
    assert_eq!(names.words(), ["ADDED", "configmap/a"]);
    assert_eq!(rows.words()[..2], ["a", "1"]);
    cli.ok_with(&["apply", "-"], &object("blue"), "configmap/a configured\n");
    assert_eq!(table.words()[..3], ["MODIFIED", "a", "1"]);
    assert_eq!(names.words(), ["MODIFIED", "configmap/a"]);
    assert_eq!(rows.words()[..2], ["a", "1"]);
    cli.ok(&["delete", "cm", "a"], "configmap \"a\" deleted\n");
    assert_eq!(table.words()[..2], ["DELETED", "a"]);
    assert_eq!(names.words(), ["DELETED", "configmap/a"]);
    cli.fails(&["watch", "cm,po"], 2, "only one kind");
    cli.fails(&["watch", "cm", "missing"], 1, "Error from server (NotFound)");
}

#[test]
fn tables_and_names_are_those_of_kubectl() {
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let up = Up::start(&["--simulated-nodes", "2", "examples/quickstart.yaml"]);
    let cli = Cli::new(up.folder.path().join("kubeconfig"), "default");
    for args in [
        &["get", "fleets"][..],
        &["get", "fleet,fas", "-o", "wide"],
        &["get", "no"],
        &["get", "crd", "-o", "name"],
        &["get", "fleet/quickstart", "ns/default"],
        &["get", "ns", "--no-headers"],
        &["get", "fleet", "quickstart", "-o", "json"],
        &["get", "fleet", "missing"],
    ] {
        // The fleet may still be growing, and objects get older.
        let same = (0..20).any(|_| {
            let ours = cli.run(args).output().unwrap();
            let theirs = Command::new(&kubectl)
                .args(args)
                .arg("--kubeconfig")
                .arg(&cli.kubeconfig)
                .env("HOME", up.folder.path())
                .output()
                .unwrap();
            let is_same = ours.stdout == theirs.stdout
                && ours.stderr == theirs.stderr
                && ours.status.code() == theirs.status.code();
            if !is_same {
                eprintln!("{args:?}:\n{}{}", text(&ours.stdout), text(&ours.stderr));
                eprintln!("kubectl:\n{}{}", text(&theirs.stdout), text(&theirs.stderr));
            }
            is_same
        });
        assert!(same, "{args:?}");
    }
}

/// The program with a kubeconfig, a namespace and a directory.
struct Cli {
    kubeconfig: PathBuf,
    namespace: String,
    folder: tempfile::TempDir,
}

impl Cli {
    fn new(kubeconfig: PathBuf, namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { kubeconfig, namespace: namespace.to_owned(), folder }
    }

    fn run(&self, args: &[&str]) -> Command {
        let mut command = plimsoll();
        command.args(args).arg("--kubeconfig").arg(&self.kubeconfig).stdin(Stdio::null());
        if !args.contains(&"-A") {
            command.args(["--namespace", &self.namespace]);
        }
        command.current_dir(self.folder.path());
        command
    }

    /// Runs a command that must succeed without errors. Returns its output.
    fn out(&self, args: &[&str]) -> String {
        let done = self.run(args).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{args:?}: {done:?}");
        text(&done.stdout)
    }

    fn ok(&self, args: &[&str], printed: &str) {
        assert_eq!(self.out(args), printed, "{args:?}");
    }

    fn ok_with(&self, args: &[&str], input: &str, printed: &str) {
        let mut command = self.run(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A first line that is not JSON.
        write!(child.stdin.take().unwrap(), "---\n{input}\n").unwrap();
        let done: Output = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
        assert_eq!(text(&done.stdout), printed, "{args:?}");
    }

    fn fails(&self, args: &[&str], code: i32, why: &str) {
        let done = self.run(args).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains(why), "{args:?}: {}", text(&done.stderr));
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Deletes the namespace at the end, also of a test that fails.
struct Cleanup<'c>(&'c Cli);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(&["delete", "ns", &self.0.namespace, "--wait=false"]).output();
    }
}

/// A command that prints until it is stopped.
struct Watching {
    child: Child,
    lines: Box<dyn Iterator<Item = std::io::Result<String>>>,
}

impl Watching {
    fn start(cli: &Cli, args: &[&str]) -> Self {
        let mut child = cli.run(args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Box::new(BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, lines }
    }

    /// Waits for the next line.
    fn words(&mut self) -> Vec<String> {
        let line = self.lines.next().expect("the watch goes on").unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `plimsoll up`.
struct Up {
    child: Child,
    folder: tempfile::TempDir,
}

impl Up {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = up(folder.path()).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_up = lines.any(|line| line.starts_with("export KUBECONFIG="));
        // The rest is read too, so that the pipe never fills up.
        std::thread::spawn(move || lines.for_each(drop));
        let up = Self { child, folder };
        assert!(is_up, "`plimsoll up` ended before it was up");
        up
    }
}

fn up(data: &Path) -> Command {
    let mut command = plimsoll();
    command.args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.stderr(Stdio::null());
    command
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
