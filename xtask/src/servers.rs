//! Real servers for the tests of metric sources and targets: Debian's packages, and moto from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::{kube, rabbitmq, run};

/// A variable that names a program for the tests, the program, and the package that has it.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("PLIMSOLL_TEST_REDIS", "/usr/bin/redis-server", "redis-server"),
    ("PLIMSOLL_TEST_HAPROXY", "/usr/sbin/haproxy", "haproxy"),
    ("PLIMSOLL_TEST_NATS", "/usr/sbin/nats-server", "nats-server"),
];

/// Names the stand-in for AWS.
const MOTO: &str = "PLIMSOLL_TEST_MOTO";
const MOTO_PACKAGE: &str = "moto[server]==5.2.1";

/// Names the start script of RabbitMQ.
const RABBITMQ: &str = "PLIMSOLL_TEST_RABBITMQ";

/// Returns the variables for the tests; installs what is missing, and prints what cannot be installed.
pub fn variables() -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    for (variable, program, package) in PROGRAMS {
        if std::env::var_os(variable).is_some() {
            continue;
        }
        match install(Path::new(program), package) {
            Ok(()) => found.push((variable, PathBuf::from(program))),
            Err(err) => eprintln!("{err:#}"),
        }
    }
    for (variable, program) in
        [(MOTO, moto as fn() -> anyhow::Result<PathBuf>), (RABBITMQ, rabbitmq::program)]
    {
        if std::env::var_os(variable).is_some() {
            continue;
        }
        match program() {
            Ok(program) => found.push((variable, program)),
            Err(err) => eprintln!("{err:#}"),
        }
    }
    found
}

fn install(program: &Path, package: &str) -> anyhow::Result<()> {
    if program.exists() {
        return Ok(());
    }
    let missing = format!("no {package}: its package could not be installed");
    eprintln!("installing {package} (once)");
    run::command(Command::new("apt-get").args(["update", "-qq"])).context(missing.clone())?;
    let mut command = Command::new("apt-get");
    command.args(["install", "-qq", "--yes", "--no-install-recommends", package]);
    // Only installed: no server is started for the whole machine.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    run::command(&mut command).context(missing)?;
    ensure!(program.exists(), "the package {package} has no {}", program.display());
    Ok(())
}

/// Returns the program of moto; installs its Python environment if it is missing.
fn moto() -> anyhow::Result<PathBuf> {
    let folder = kube::cache()?.join("python").join(MOTO_PACKAGE);
    let program = folder.join("bin/moto_server");
    if program.exists() {
        return Ok(program);
    }
    eprintln!("installing moto for Python (a minute, once)");
    let venv = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder).status()?;
    let pip = Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", MOTO_PACKAGE])
        .status()?;
    if !venv.success() || !pip.success() {
        bail!("could not install {MOTO_PACKAGE}");
    }
    Ok(program)
}
