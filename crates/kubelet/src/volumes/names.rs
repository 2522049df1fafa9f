//! The files by which programs in a pod find Services by name: `resolv.conf`, and `nsswitch.conf` where the machine has one.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::PodVolumes;
use crate::launch::Mount;

const RESOLVER: &str = "/etc/resolv.conf";
/// Some machines ask other services for names before name servers, which do not know Services.
const SWITCH: &str = "/etc/nsswitch.conf";

impl PodVolumes {
    /// Writes the files, and returns their mounts. Those that the container mounts itself are left to it.
    pub(crate) fn names(&self, name_server: IpAddr, own: &[Mount]) -> io::Result<Vec<Mount>> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        let mut files = vec![(RESOLVER, resolver(name_server, namespace))];
        if let Ok(switch) = fs::read_to_string(SWITCH) {
            files.push((SWITCH, hosts_from_dns(&switch)));
        }
        files.retain(|(path, _)| {
            !own.iter().any(|mount| Path::new(path).starts_with(&mount.target))
        });
        let dir = self.root.pod(&self.uid, false)?;
        let mount = |(path, text): (&str, String)| {
            let target = PathBuf::from(path);
            // The name of a volume has no dot at its start.
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            let source = dir.join(format!(".{name}"));
            if !source.exists() {
                fs::write(&source, text)?;
            }
            Ok(Mount { source, target, read_only: true })
        };
        files.into_iter().map(mount).collect()
    }
}

fn resolver(name_server: IpAddr, namespace: &str) -> String {
    format!(
        "search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n\
         nameserver {name_server}\n\
         options ndots:5\n"
    )
}

/// Returns the text of `nsswitch.conf` with hosts looked up in files and by DNS.
fn hosts_from_dns(text: &str) -> String {
    let line = |line: &str| match line.trim_start().starts_with("hosts:") {
        true => "hosts: files dns\n".to_owned(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_source_of_hosts_is_replaced() {
        let text = "passwd: files systemd\n hosts: mymachines resolve [!UNAVAIL=return] dns\n# end";
        assert_eq!(hosts_from_dns(text), "passwd: files systemd\nhosts: files dns\n# end\n");
    }
}
