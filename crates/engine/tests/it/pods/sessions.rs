//! The real kubectl runs commands in pods, copies files, and attaches.

mod ports;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use kube::api::DeleteParams;
use kubelet::{Local, Settings, Simulated};
use plimsoll_engine::Listening;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, Command};

use super::{Machine, docker, local, shell};
use crate::{ephemeral, kubectls};

/// No step takes longer than this, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine, and a kubectl that talks to it.
struct Kubectl {
    machine: Machine,
    program: OsString,
    dir: tempfile::TempDir,
    _listening: Listening,
}

impl Kubectl {
    /// Starts one machine for each kubectl.
    async fn each(local: impl Fn() -> Local) -> Vec<Self> {
        Self::each_with(|| Settings { local: Some(local()), simulated: None }).await
    }

    async fn each_with(settings: impl Fn() -> Settings) -> Vec<Self> {
        let mut all = Vec::new();
        for program in kubectls() {
            let engine = ephemeral().await;
            let runtime = engine.run(settings()).await.unwrap();
            let machine = Machine { client: engine.client(), engine, runtime };
            let dir = tempfile::tempdir().unwrap();
            let listening = machine.engine.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            machine.engine.write_kubeconfig(&dir.path().join("kubeconfig"), &listening).unwrap();
            all.push(Self { machine, program, dir, _listening: listening });
        }
        all
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", self.config()).args(args).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs kubectl, and returns its exit code and output.
    async fn run(&self, args: &[&str]) -> (i32, String, String) {
        read(output(&mut self.command(args)).await)
    }

    /// Runs kubectl with some input.
    async fn run_with(&self, args: &[&str], input: &[u8]) -> (i32, String, String) {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let write = async {
            // A command may end before it has read everything.
            let _ = stdin.write_all(input).await;
            drop(stdin);
        };
        let ended = async { tokio::join!(write, child.wait_with_output()).1.unwrap() };
        read(tokio::time::timeout(PATIENCE, ended).await.expect("kubectl ends"))
    }
}

async fn output(command: &mut Command) -> Output {
    tokio::time::timeout(PATIENCE, command.output()).await.expect("kubectl ends").unwrap()
}

fn read(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Reads the next line that a child writes.
async fn next_line(from: &mut (impl AsyncBufRead + Unpin)) -> String {
    let mut line = String::new();
    let read = tokio::time::timeout(PATIENCE, from.read_line(&mut line));
    read.await.expect("a line is written").unwrap();
    line
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn sleeper() -> Value {
    json!({"terminationGracePeriodSeconds": 0, "containers": [{
        "name": "main", "image": "shell", "command": ["sh", "-c", "sleep 1000"],
        "env": [{"name": "WHO", "value": "me"}], "workingDir": "/usr",
    }, shell("second", "sleep 1000")]})
}

/// Commands have the environment of their container, input, both outputs, and an exit code.
async fn run_commands(kubectl: &Kubectl) {
    let script = "echo $WHO; pwd >&2; exit 3";
    let ran = kubectl.run(&["exec", "p", "-c", "main", "--", "sh", "-c", script]).await;
    let ended = "command terminated with exit code 3\n";
    assert_eq!(ran, (3, "me\n".to_owned(), format!("/usr\n{ended}")));
    let input = "line\n".repeat(100_000);
    let ran = kubectl.run_with(&["exec", "-i", "p", "--", "cat"], input.as_bytes()).await;
    assert_eq!((ran.0, ran.1.len(), ran.1 == input), (0, input.len(), true), "{}", ran.2);
    let first = &["exec", "-i", "p", "--", "head", "-n", "1"];
    let ran = kubectl.run_with(first, input.as_bytes()).await;
    assert_eq!((ran.0, ran.1.as_str()), (0, "line\n"), "{}", ran.2);
    let left_behind = "sleep 1000 & echo done";
    let ran = kubectl.run(&["exec", "p", "--", "sh", "-c", left_behind]).await;
    assert_eq!((ran.0, ran.1.as_str()), (0, "done\n"), "{}", ran.2);
}

async fn refuse_commands(kubectl: &Kubectl) {
    for (args, why) in [
        (&["exec", "nobody", "--", "true"][..], "pods \"nobody\" not found"),
        (&["exec", "p", "-c", "third", "--", "true"], "container third"),
        (&["exec", "p", "--", "no-such-program"], "exit code 127"),
        (&["exec", "waiting", "--", "true"], "waiting"),
    ] {
        let (code, _, error) = kubectl.run(args).await;
        assert!(code != 0 && error.contains(why), "{args:?}: {error}");
    }
    let mut spdy = kubectl.command(&["exec", "p", "--", "true"]);
    let (code, _, error) =
        read(output(spdy.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")).await);
    assert!(code != 0 && error.contains("only websockets are supported"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_runs_commands_and_gets_reasons_for_failures() {
    for kubectl in Kubectl::each(local).await {
        kubectl.machine.create("p", sleeper()).await;
        let cannot_start = json!({"name": "c", "image": "i", "command": ["/no/such/program"]});
        kubectl.machine.create("waiting", json!({"containers": [cannot_start]})).await;
        kubectl.machine.until_phase("p", "Running").await;
        run_commands(&kubectl).await;
        refuse_commands(&kubectl).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_attaches_a_terminal_to_a_command() {
    for kubectl in Kubectl::each(local).await {
        kubectl.machine.create("p", sleeper()).await;
        kubectl.machine.until_phase("p", "Running").await;
        let program = Path::new(&kubectl.program).display().to_string();
        // Its size is sent right after the start.
        let inside = "while test \"$(stty size)\" = \"0 0\"; do sleep 0.1; done; stty size; tty; echo $TERM; read word; echo got $word; exit 5";
        let exec =
            format!("stty rows 33 cols 77; {program} exec -it p -c main -- sh -c '{inside}'");
        let mut script = Command::new("script");
        script.args(["-qefc", &exec, "/dev/null"]).env("KUBECONFIG", kubectl.config());
        script.env("SHELL", "/bin/sh").kill_on_drop(true);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(next_line(&mut lines).await.trim(), "33 77");
        let tty = next_line(&mut lines).await;
        assert!(tty.starts_with("/dev/pts/"), "{tty:?}");
        assert_eq!(next_line(&mut lines).await.trim(), "xterm");
        stdin.write_all(b"hello\r").await.unwrap();
        let mut rest = String::new();
        let reading = lines.read_to_string(&mut rest);
        tokio::time::timeout(PATIENCE, reading).await.expect("it ends").unwrap();
        assert!(rest.contains("hello") && rest.contains("got hello"), "{rest:?}");
        assert_eq!(child.wait().await.unwrap().code(), Some(5));
    }
}

/// Whether a process runs; one that has ended and was not waited for does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_client_and_with_its_pod() {
    for kubectl in Kubectl::each(local).await {
        kubectl.machine.create("p", sleeper()).await;
        kubectl.machine.until_phase("p", "Running").await;
        let start = async |input: Stdio| -> (Child, String) {
            let script = "echo $$; sleep 1000";
            let command = &["exec", "-i", "p", "-c", "main", "--", "sh", "-c", script];
            let mut child = kubectl.command(command).stdin(input).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            let pid = next_line(&mut lines).await.trim().to_owned();
            assert!(runs(&pid));
            (child, pid)
        };
        // The client of a command that reads no input is missed, too.
        let endless = || Stdio::from(std::fs::File::open("/dev/zero").unwrap());
        for input in [Stdio::null(), endless()] {
            let (mut child, pid) = start(input).await;
            child.kill().await.unwrap();
            until("the command ends with its client", || !runs(&pid)).await;
        }
        let (child, pid) = start(endless()).await;
        kubectl.machine.pods().delete("p", &DeleteParams::default()).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap();
        let (code, _, error) = read(ended.unwrap());
        assert_eq!(code, 137, "{error}");
        until("the command ends with its pod", || !runs(&pid)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_copies_files_both_ways() {
    for kubectl in Kubectl::each(local).await {
        kubectl.machine.create("p", sleeper()).await;
        kubectl.machine.until_phase("p", "Running").await;
        let inside = format!("p:{}", kubectl.dir.path().join("inside").display());
        copies_both_ways(&kubectl, &inside).await;
    }
}

/// Copies a folder into a container and back.
async fn copies_both_ways(kubectl: &Kubectl, inside: &str) {
    let path = |name: &str| kubectl.dir.path().join(name);
    let contents: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::create_dir_all(path("from/deeper")).unwrap();
    std::fs::write(path("from/a"), &contents).unwrap();
    std::fs::write(path("from/deeper/b"), b"b").unwrap();
    let from = path("from").display().to_string();
    let (code, _, error) = kubectl.run(&["cp", "-c", "main", &from, inside]).await;
    assert_eq!(code, 0, "{error}");
    let back = path("back").display().to_string();
    let (code, _, error) = kubectl.run(&["cp", "-c", "main", inside, &back]).await;
    assert_eq!(code, 0, "{error}");
    assert!(std::fs::read(path("back/a")).unwrap() == contents);
    assert_eq!(std::fs::read(path("back/deeper/b")).unwrap(), b"b");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_attaches_to_the_process_of_a_container() {
    for kubectl in Kubectl::each(local).await {
        let read = "echo early; while read line; do echo \"got $line\"; echo \"err $line\" >&2; \
                    test \"$line\" = end && exit 0; done";
        let mut container = shell("c", read);
        container["stdin"] = json!(true);
        let spec = json!({"restartPolicy": "Never", "containers": [container]});
        kubectl.machine.create("p", spec).await;
        kubectl.machine.until_phase("p", "Running").await;
        let mut first = kubectl.command(&["attach", "-i", "p"]);
        let mut first = first.stdin(Stdio::piped()).spawn().unwrap();
        first.stdin.as_mut().unwrap().write_all(b"one\n").await.unwrap();
        let mut lines = BufReader::new(first.stdout.take().unwrap());
        assert_eq!(next_line(&mut lines).await, "got one\n");
        first.kill().await.unwrap();
        let (code, output, error) = kubectl.run_with(&["attach", "-i", "p"], b"two\nend\n").await;
        assert_eq!(code, 0, "{error}");
        assert!(output.contains("got two\ngot end\n") && !output.contains("early"), "{output:?}");
        assert!(error.contains("err two\nerr end\n"), "{error:?}");
        kubectl.machine.until_phase("p", "Succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_a_terminal_that_kubectl_attaches_to() {
    for kubectl in Kubectl::each(local).await {
        let script = "tty; echo $TERM; while read line; do echo \"got $line\"; \
                    test \"$line\" = end && exit 0; done";
        let mut container = shell("c", script);
        (container["stdin"], container["tty"]) = (json!(true), json!(true));
        let spec = json!({"restartPolicy": "Never", "containers": [container]});
        kubectl.machine.create("p", spec).await;
        kubectl.machine.until_phase("p", "Running").await;
        let attach = format!("{} attach -it p", Path::new(&kubectl.program).display());
        let mut script = Command::new("script");
        script.args(["-qefc", &attach, "/dev/null"]).env("KUBECONFIG", kubectl.config());
        let script = script.env("SHELL", "/bin/sh").kill_on_drop(true);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"one\rend\r").await.unwrap();
        let ended =
            tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends");
        let (code, output, _) = read(ended.unwrap());
        assert!(code == 0 && output.contains("got one\r\n"), "{code} {output:?}");
        kubectl.machine.until_phase("p", "Succeeded").await;
        let log = kubectl.machine.logs("p").await;
        assert!(log.starts_with("/dev/pts/") && log.contains("xterm\r\n"), "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_pod_has_nothing_to_connect_to() {
    let simulated = || {
        let simulated = Simulated { count: 1, ..Simulated::default() };
        Settings { local: None, simulated: Some(simulated) }
    };
    for kubectl in Kubectl::each_with(simulated).await {
        kubectl.machine.create("p", json!({"containers": [shell("c", "sleep 1000")]})).await;
        kubectl.machine.until_phase("p", "Running").await;
        for args in
            [&["exec", "p", "--", "true"][..], &["attach", "p"], &["port-forward", "p", ":80"]]
        {
            let (code, _, error) = kubectl.run(args).await;
            assert!(code != 0 && error.contains("is simulated"), "{args:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_connects_to_docker_containers() {
    let Some((socket, image)) = docker::real() else { return };
    let with_docker = || Local { docker: Some(socket.clone()), ..local() };
    for kubectl in Kubectl::each(with_docker).await {
        let read = "while read line; do echo \"got $line\"; test \"$line\" = end && exit 0; done";
        let container = json!({"name": "c", "image": image, "args": ["sh", "-c", read],
            "stdin": true, "env": [{"name": "WHO", "value": "me"}]});
        kubectl
            .machine
            .create("p", json!({"restartPolicy": "Never", "containers": [container]}))
            .await;
        kubectl.machine.until_phase("p", "Running").await;
        let script = "echo $WHO; echo oops >&2; exit 3";
        let ran = kubectl.run(&["exec", "p", "--", "sh", "-c", script]).await;
        let ended = "oops\ncommand terminated with exit code 3\n";
        assert_eq!(ran, (3, "me\n".to_owned(), ended.to_owned()));
        let input = "line\n".repeat(10_000);
        let cat = &["exec", "-i", "p", "--", "sh", "-c", "cat"];
        let ran = kubectl.run_with(cat, input.as_bytes()).await;
        assert_eq!((ran.0, ran.1.len(), ran.1 == input), (0, input.len(), true), "{}", ran.2);
        let program = Path::new(&kubectl.program).display();
        let exec = format!("{program} exec -it p -- sh -c 'test -t 0 && test -t 1 && exit 5'");
        let mut script = Command::new("script");
        script.args(["-qefc", &exec, "/dev/null"]).env("KUBECONFIG", kubectl.config());
        let (code, output, _) = read_output(&mut script).await;
        assert_eq!(code, 5, "{output}");
        let (code, output, error) = kubectl.run_with(&["attach", "-i", "p"], b"one\nend\n").await;
        assert_eq!(code, 0, "{error}");
        assert!(output.contains("got one\ngot end\n"), "{output:?} {error:?}");
        kubectl.machine.until_phase("p", "Succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_copies_files_to_and_from_docker_containers() {
    let Some((socket, image)) = docker::real() else { return };
    let with_docker = || Local { docker: Some(socket.clone()), ..local() };
    for kubectl in Kubectl::each(with_docker).await {
        kubectl.machine.create("p", docker_sleeper(&image, "sleep 1000")).await;
        kubectl.machine.until_phase("p", "Running").await;
        copies_both_ways(&kubectl, "p:/copied").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_forwards_ports_of_docker_containers() {
    let Some((socket, image)) = docker::real() else { return };
    let with_docker = || Local { docker: Some(socket.clone()), ..local() };
    for kubectl in Kubectl::each(with_docker).await {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let serve = format!("exec nc -ll -p {} -e sh -c 'read line; echo got $line'", free.port());
        kubectl.machine.create("p", docker_sleeper(&image, &serve)).await;
        kubectl.machine.until_phase("p", "Running").await;
        // A container shares the network of the machine, so that its port shows when it listens.
        until("it listens", || std::net::TcpStream::connect(free).is_ok()).await;
        ports::echoes(&kubectl, "p", free.port(), "got hello\n").await;
    }
}

/// A pod with one container of an image, which runs a shell script.
fn docker_sleeper(image: &str, script: &str) -> Value {
    let container = json!({"name": "main", "image": image, "args": ["sh", "-c", script]});
    json!({"terminationGracePeriodSeconds": 0, "containers": [container]})
}

/// Runs a command without input.
async fn read_output(command: &mut Command) -> (i32, String, String) {
    command.stdin(Stdio::null()).kill_on_drop(true);
    read(output(command).await)
}
