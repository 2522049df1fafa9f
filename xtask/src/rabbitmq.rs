//! A real RabbitMQ for the tests of the metric source: Debian's packages, unpacked once, outside the checkout.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::debian;

/// RabbitMQ, which contains its management plugin, and the parts of Erlang that it needs.
const PACKAGES: [&str; 18] = [
    "rabbitmq-server",
    "erlang-base",
    "erlang-asn1",
    "erlang-crypto",
    "erlang-eldap",
    "erlang-ftp",
    "erlang-inets",
    "erlang-mnesia",
    "erlang-os-mon",
    "erlang-parsetools",
    "erlang-public-key",
    "erlang-runtime-tools",
    "erlang-snmp",
    "erlang-ssl",
    "erlang-syntax-tools",
    "erlang-tftp",
    "erlang-tools",
    "erlang-xmerl",
];

/// Where Erlang is installed, which its start script names.
const ERLANG: &str = "/usr/lib/erlang";

/// Returns the path of the server's start script, and downloads it where it is missing.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let folder = debian::unpacked("rabbitmq", &PACKAGES, relocate)?;
    let program = folder.join("usr/lib/rabbitmq/bin/rabbitmq-server");
    ensure!(program.exists(), "there is no {}; delete {}", program.display(), folder.display());
    Ok(program)
}

/// Names the place of the unpacked Erlang in its start script.
fn relocate(part: &Path, folder: &Path) -> anyhow::Result<()> {
    let script = part.join(ERLANG.trim_start_matches('/')).join("bin/erl");
    let text = std::fs::read_to_string(&script)
        .with_context(|| format!("could not read {}", script.display()))?;
    let text = text.replace(ERLANG, &format!("{}{ERLANG}", folder.display()));
    std::fs::write(&script, text)?;
    Ok(())
}
