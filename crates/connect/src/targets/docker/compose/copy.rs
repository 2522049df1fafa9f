//! One more container like an existing one.

use serde_json::{Map, Value, json};

use super::NUMBER;
use crate::docker_engine::PROJECT;

/// The request that creates a container.
#[derive(Debug, PartialEq)]
pub(super) struct NewContainer {
    pub(super) name: String,
    pub(super) body: Value,
    /// Networks to connect to before the start: engines before API 1.44 take one at creation.
    pub(super) further_networks: Vec<(String, Value)>,
}

/// Labels of the original alone.
const OWN_LABELS: [&str; 2] = ["com.docker.compose.replace", "com.docker.compose.slug"];

/// Checks that a service can have more than one container.
pub(super) fn check(template: &Value, service: &str) -> Result<(), String> {
    let bindings = template["HostConfig"]["PortBindings"].as_object().into_iter().flatten();
    for (port, bindings) in bindings {
        for binding in bindings.as_array().into_iter().flatten() {
            let host_port = binding["HostPort"].as_str().unwrap_or_default();
            let is_fixed = !host_port.is_empty() && host_port != "0" && !host_port.contains('-');
            if is_fixed {
                return Err(format!(
                    "cannot have more than one container: {port} is bound to the host's port {host_port}; \
                     use a range of ports, or none"
                ));
            }
        }
    }
    if separator(template, service).is_none() {
        let name = name(template);
        return Err(format!(
            "cannot have more than one container: container_name is set to `{name}`"
        ));
    }
    Ok(())
}

/// Returns the container with another number.
pub(super) fn copy(template: &Value, service: &str, number: u32) -> NewContainer {
    let separator = separator(template, service).unwrap_or('-');
    let project = project(template);
    let new_name = format!("{project}{separator}{service}{separator}{number}");
    let mut body = template["Config"].as_object().cloned().unwrap_or_default();
    let id = template["Id"].as_str().unwrap_or_default();
    let short_id = id.get(..12).unwrap_or(id);
    if body.get("Hostname").and_then(Value::as_str) == Some(short_id) {
        body.remove("Hostname");
    }
    for field in ["Domainname", "MacAddress"] {
        body.remove(field);
    }
    // The id and not the tag, which may name another image by now.
    body.insert("Image".to_owned(), template["Image"].clone());
    if let Some(labels) = body.get_mut("Labels").and_then(Value::as_object_mut) {
        OWN_LABELS.iter().for_each(|label| drop(labels.remove(*label)));
        labels.insert(NUMBER.to_owned(), json!(number.to_string()));
    }
    let mut networks = networks(template, service, &new_name);
    let first =
        networks.iter().position(|(network, _)| template["HostConfig"]["NetworkMode"] == **network);
    let at_creation = (!networks.is_empty()).then(|| networks.remove(first.unwrap_or(0)));
    if let Some((network, settings)) = at_creation {
        let endpoints = Map::from_iter([(network, settings)]);
        body.insert("NetworkingConfig".to_owned(), json!({"EndpointsConfig": endpoints}));
    }
    body.insert("HostConfig".to_owned(), template["HostConfig"].clone());
    NewContainer { name: new_name, body: body.into(), further_networks: networks }
}

/// Returns the networks and the settings of the new container in each, without the addresses of the original.
fn networks(template: &Value, service: &str, new_name: &str) -> Vec<(String, Value)> {
    let mode = template["HostConfig"]["NetworkMode"].as_str().unwrap_or_default();
    if matches!(mode, "host" | "none") || mode.starts_with("container:") {
        return Vec::new();
    }
    let id = template["Id"].as_str().unwrap_or_default();
    let (old_name, short_id) = (name(template), id.get(..12).unwrap_or(id));
    let networks = template["NetworkSettings"]["Networks"].as_object().into_iter().flatten();
    networks
        .map(|(network, settings)| {
            let mut kept = Map::new();
            for field in ["Links", "DriverOpts", "GwPriority"] {
                kept.extend(settings.get(field).map(|value| (field.to_owned(), value.clone())));
            }
            // The engine's own network takes no aliases.
            if network != "bridge" && network != "default" {
                let aliases = settings["Aliases"].as_array().into_iter().flatten();
                let mut aliases: Vec<&str> = aliases
                    .filter_map(Value::as_str)
                    .filter(|alias| ![old_name, short_id, id].contains(alias))
                    .chain([new_name, service])
                    .collect();
                aliases.sort_unstable();
                aliases.dedup();
                kept.insert("Aliases".to_owned(), json!(aliases));
            }
            (network.clone(), kept.into())
        })
        .collect()
}

/// Returns the character between the parts of a name: compose 1 wrote `_`. `None` where the name was given by the user.
fn separator(template: &Value, service: &str) -> Option<char> {
    let number = template["Config"]["Labels"][NUMBER].as_str().unwrap_or_default();
    let project = project(template);
    ['-', '_'].into_iter().find(|separator| {
        name(template) == format!("{project}{separator}{service}{separator}{number}")
    })
}

fn project(template: &Value) -> &str {
    template["Config"]["Labels"][PROJECT].as_str().unwrap_or_default()
}

fn name(template: &Value) -> &str {
    template["Name"].as_str().unwrap_or_default().trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Value {
        json!({
            "Id": "0123456789abcdef", "Name": "/shop-web-2", "Image": "sha256:11",
            "Config": {
                "Hostname": "0123456789ab", "Domainname": "", "Image": "web:latest", "Env": ["A=1"], "New": true,
                "Labels": {NUMBER: "2", PROJECT: "shop", "com.docker.compose.replace": "x", "own": "y"},
            },
            "HostConfig": {"NetworkMode": "shop_default", "NanoCpus": 5, "PortBindings": {"80/tcp": [{"HostPort": ""}]}},
            "NetworkSettings": {"Networks": {
                "shop_back": {"Aliases": ["shop-web-2", "web", "0123456789ab", "b"], "IPAddress": "10.0.0.2"},
                "shop_default": {"Aliases": ["web"], "IPAMConfig": {"IPv4Address": "10.0.1.9"}, "MacAddress": "02:00"},
            }},
        })
    }

    #[test]
    fn a_copy_has_a_name_number_and_addresses_of_its_own() {
        let new = copy(&template(), "web", 7);
        assert_eq!(new.name, "shop-web-7");
        assert_eq!(
            new.body,
            json!({
                "Image": "sha256:11", "Env": ["A=1"], "New": true,
                "Labels": {NUMBER: "7", PROJECT: "shop", "own": "y"},
                "HostConfig": template()["HostConfig"],
                "NetworkingConfig": {"EndpointsConfig": {"shop_default": {"Aliases": ["shop-web-7", "web"]}}},
            })
        );
        let back = json!({"Aliases": ["b", "shop-web-7", "web"]});
        assert_eq!(new.further_networks, [("shop_back".to_owned(), back)]);
    }

    #[test]
    fn names_of_compose_1_and_hosts_networks_are_kept() {
        let mut old = template();
        old["Name"] = json!("/shop_web_2");
        old["Config"]["Hostname"] = json!("given");
        old["HostConfig"]["NetworkMode"] = json!("host");
        let new = copy(&old, "web", 3);
        assert_eq!((new.name.as_str(), &new.body["Hostname"]), ("shop_web_3", &json!("given")));
        assert!(new.body.get("NetworkingConfig").is_none() && new.further_networks.is_empty());
    }

    #[test]
    fn a_fixed_port_or_name_allows_one_container() {
        assert_eq!(check(&template(), "web"), Ok(()));
        let mut fixed = template();
        fixed["HostConfig"]["PortBindings"]["80/tcp"][0]["HostPort"] = json!("8080");
        assert!(
            check(&fixed, "web").unwrap_err().contains("80/tcp is bound to the host's port 8080")
        );
        let mut named = template();
        named["Name"] = json!("/frontdoor");
        assert!(check(&named, "web").unwrap_err().contains("container_name is set to `frontdoor`"));
    }
}
