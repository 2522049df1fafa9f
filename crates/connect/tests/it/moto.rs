//! Starts moto, a stand-in for AWS.

use std::path::Path;

use tokio::process::Command;

use crate::program::{Program, variable};

/// Starts moto, and prepares it with a Python program that gets its address. Returns it, the address and what the program printed.
pub(crate) async fn moto(prepare: &str) -> Option<(Program, String, String)> {
    let program = variable("PLIMSOLL_TEST_MOTO")?;
    variable("AWS_ACCESS_KEY_ID")?;
    let moto = Program::start(&program, |port, _| {
        ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec()
    })
    .await;
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let python = Path::new(&program).with_file_name("python");
    let prepared = Command::new(python).args(["-c", prepare, &endpoint]).output().await.unwrap();
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    Some((moto, endpoint, String::from_utf8(prepared.stdout).unwrap()))
}
