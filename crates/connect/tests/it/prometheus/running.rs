//! Starts a real Prometheus.

use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A running Prometheus, which ends with this.
pub(crate) struct Prometheus {
    pub(crate) url: String,
    _process: Child,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes an address every second, once for each of the jobs.
    pub(crate) async fn start(program: &str, jobs: &[&str], scraped: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let job =
            |name: &&str| json!({"job_name": name, "static_configs": [{"targets": [scraped]}]});
        let jobs: Vec<_> = jobs.iter().map(job).collect();
        let config = json!({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs});
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut url = None;
        while url.is_none() {
            let line = log.next_line().await.unwrap().expect("Prometheus listens");
            let address = line.split_once("msg=\"Listening on\" address=");
            url = address.map(|(_, address)| format!("http://{}", address.trim()));
        }
        // What it logs from now on is read and dropped, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        Self { url: url.unwrap(), _process: process, _folder: folder }
    }
}
