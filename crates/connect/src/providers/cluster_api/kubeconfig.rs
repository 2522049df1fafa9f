//! The client of a kubeconfig that is kept in a Secret.

use cluster::error::api_message;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Makes a client from a kubeconfig. Unless it is trusted, it must need no files and no programs: both would be those of the machine
/// that Plimsoll runs on.
pub(super) async fn client(kubeconfig: &[u8], is_trusted: bool) -> Result<Client, String> {
    let text = std::str::from_utf8(kubeconfig).map_err(|_| "expected UTF-8")?;
    // The cause may quote the credential.
    let kubeconfig =
        Kubeconfig::from_yaml(text).map_err(|_| "expected a kubeconfig in YAML".to_owned())?;
    if !is_trusted {
        check_self_contained(&kubeconfig)?;
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| error.to_string())?;
    Client::try_from(config).map_err(|error| api_message(&error))
}

fn check_self_contained(kubeconfig: &Kubeconfig) -> Result<(), String> {
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    for user in users {
        let programs =
            [("exec", user.exec.is_some()), ("auth-provider", user.auth_provider.is_some())];
        if let Some((field, _)) = programs.into_iter().find(|(_, is_set)| *is_set) {
            return Err(format!(
                "user.{field}: a kubeconfig in a Secret cannot start programs; use a token or client-certificate-data"
            ));
        }
        for (field, file) in [
            ("tokenFile", &user.token_file),
            ("client-certificate", &user.client_certificate),
            ("client-key", &user.client_key),
        ] {
            check_no_file("user", field, file.as_ref())?;
        }
    }
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    for cluster in clusters {
        let file = cluster.certificate_authority.as_ref();
        check_no_file("cluster", "certificate-authority", file)?;
    }
    Ok(())
}

fn check_no_file(of: &str, field: &str, file: Option<&String>) -> Result<(), String> {
    match file {
        Some(_) => Err(format!(
            "{of}.{field}: a kubeconfig in a Secret cannot name files; embed the contents"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_in_a_secret_must_not_need_files_or_programs() {
        let kubeconfig = |user: &str, cluster: &str| {
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                 contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}]\n\
                 users: [{{name: u, user: {{{user}}}}}]\n"
            )
        };
        for (user, cluster, problem) in [
            ("exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}", "", "user.exec"),
            ("tokenFile: /etc/token", "", "user.tokenFile"),
            ("client-key: /etc/key", "", "user.client-key"),
            ("token: t", "certificate-authority: /etc/ca", "cluster.certificate-authority"),
        ] {
            let text = kubeconfig(user, cluster);
            let refused = client(text.as_bytes(), false).await.map(drop).unwrap_err();
            assert!(refused.starts_with(problem), "{refused}");
        }
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "t").unwrap();
        let text = kubeconfig(&format!("tokenFile: {}", token.display()), "");
        assert!(client(text.as_bytes(), true).await.is_ok());
        let refused = client(b"token: secret: x", false).await.map(drop).unwrap_err();
        assert_eq!(refused, "expected a kubeconfig in YAML");
    }
}
