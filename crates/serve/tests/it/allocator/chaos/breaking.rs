//! Faults: processes that can be killed, and connections that can be cut.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use plimsoll_serve::allocator::{Endpoint, Endpoints, Settings, serve};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::allocator::world::followed;

/// The kubeconfig of a process that is an allocator.
const KUBECONFIG: &str = "PLIMSOLL_TEST_ALLOCATOR_KUBECONFIG";

/// Whether it replaces servers instead of patching them.
const REPLACES: &str = "PLIMSOLL_TEST_ALLOCATOR_REPLACES";

/// An allocator in a process of its own; killed with this.
pub(super) struct Process {
    child: Child,
    pub(super) port: u16,
}

impl Process {
    /// Starts this very program again, as an allocator.
    pub(super) async fn start(kubeconfig: &Path, replaces: bool) -> Self {
        let test = "allocator::chaos::breaking::allocator_process";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(KUBECONFIG, kubeconfig)
            .env(REPLACES, replaces.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(port) = line.split("port=").nth(1) {
                return Self { child, port: port.trim().parse().unwrap() };
            }
        }
        panic!("the process ended before it listened");
    }

    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }
}

/// Runs the allocator in a process that [`Process::start`] started; does nothing in a normal test run.
#[test]
fn allocator_process() {
    let Some(kubeconfig) = std::env::var_os(KUBECONFIG).map(PathBuf::from) else { return };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = crate::allocator::real::connect(&kubeconfig).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("port={}", listener.local_addr().unwrap().port());
        let endpoint = Endpoint { listener, tls: None, allow_anonymous: false };
        let endpoints = Endpoints { matchmakers: Some(endpoint), ..Endpoints::default() };
        // The starting process holds the other end; when it exits, this process exits too.
        let orphaned = tokio::task::spawn_blocking(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        });
        let stop = async {
            let _ = orphaned.await;
        };
        let replaces = std::env::var(REPLACES).is_ok_and(|replaces| replaces == "true");
        let settings = Settings::default();
        let caches = followed(&client, replaces, &settings.supervisor);
        serve(client, caches, settings, endpoints, stop).await.unwrap();
    });
}

/// Passes connections on, until they are cut.
pub(super) struct Proxy {
    pub(super) port: u16,
    target: Arc<AtomicU16>,
    cuts: watch::Sender<usize>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let target = Arc::new(AtomicU16::new(port));
        let (cuts, is_cut) = watch::channel(0);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&target), is_cut));
        Self { port: own, target, cuts, accepting }
    }

    /// Leads new connections elsewhere.
    pub(super) fn lead_to(&self, port: u16) {
        self.target.store(port, Ordering::Relaxed);
    }

    /// Cuts every connection that is there.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, target: Arc<AtomicU16>, is_cut: watch::Receiver<usize>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (target, mut is_cut) = (Arc::clone(&target), is_cut.clone());
        is_cut.mark_unchanged();
        tokio::spawn(async move {
            let port = target.load(Ordering::Relaxed);
            let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = is_cut.changed() => {}
            }
        });
    }
}
