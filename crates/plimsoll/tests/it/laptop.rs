//! A machine on which `plimsoll up` runs an example, for tests that put load on it.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::plimsoll;

/// How long a step may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `plimsoll up`; it is stopped as by Ctrl-C when this is dropped.
pub(crate) struct Laptop {
    child: Child,
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Laptop {
    /// Starts an example whose port 8080 is replaced by a free one.
    pub(crate) fn start(example: &str) -> Self {
        Self::start_with(example, |text| text)
    }

    /// Starts an example that is changed before.
    pub(crate) fn start_with(example: &str, change: impl FnOnce(String) -> String) -> Self {
        let text = std::fs::read_to_string(crate::root().join("examples").join(example)).unwrap();
        Self::start_objects(&text, change)
    }

    /// Starts with other objects than those of an example.
    pub(crate) fn with_objects(text: &str) -> Self {
        Self::start_objects(text, |text| text)
    }

    fn start_objects(text: &str, change: impl FnOnce(String) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let with_port = |text: &str, before: &str| {
            text.replace(&format!("{before}8080"), &format!("{before}{}", free.port()))
        };
        let text = change(with_port(&with_port(text, " port: "), "127.0.0.1:"));
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, text).unwrap();
        let mut child = plimsoll()
            .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path())
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_up = lines.any(|line| line.starts_with("export KUBECONFIG="));
        std::thread::spawn(move || lines.for_each(drop));
        let laptop = Self { child, folder, address: free };
        assert!(is_up, "it ended before it was up");
        laptop
    }

    /// Returns the file with the objects of the example.
    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.path().join("objects.yaml")
    }

    /// Returns the address of the Service.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects a program to this cluster.
    pub(crate) fn connect(&self, mut program: Command) -> Command {
        program.env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        program.env("HOME", self.folder.path()).stdin(Stdio::null());
        program
    }

    /// Returns a client.
    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.folder.path().join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Starts to send requests through the Service.
    pub(crate) fn load(&self, args: &[&str]) -> Child {
        let mut command = plimsoll();
        command.arg("load").arg(format!("http://{}", self.address)).args(args).args(["-o", "json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        interrupt(&self.child);
        let _ = self.child.wait();
    }
}

/// Sends what Ctrl-C sends.
pub(crate) fn interrupt(child: &Child) {
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
