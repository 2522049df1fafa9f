//! Cells of services, endpoints, ingresses and network policies.

use super::cells::{Row, first_few, or_none};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Builds the cells of a networking kind.
pub(super) fn cells(kind: &str, row: Row<'_>) -> Vec<Value> {
    match kind {
        "Service" => service(row),
        "Endpoints" => vec![row.name(), json!(endpoints(row)), row.age()],
        "EndpointSlice" => endpoint_slice(row),
        "Ingress" => ingress(row),
        "NetworkPolicy" => vec![row.name(), row.selector("/spec/podSelector"), row.age()],
        "IngressClass" => ingress_class(row),
        _ => super::cluster::plain(row),
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

fn service(row: Row<'_>) -> Vec<Value> {
    let address = row.list("/spec/clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>");
    let ports = row.list("/spec/ports").iter().map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or_default();
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
            _ => format!("{}/{protocol}", port["port"]),
        }
    });
    vec![
        row.name(),
        json!(row.text("/spec/type")),
        json!(address),
        json!(external_address(row)),
        json!(or_none(ports.collect::<Vec<_>>().join(","))),
        row.age(),
        row.labels("/spec/selector"),
    ]
}

fn external_address(row: Row<'_>) -> String {
    let own = texts(row.list("/spec/externalIPs"));
    match row.text("/spec/type") {
        "ClusterIP" | "NodePort" => or_none(own.join(",")),
        "LoadBalancer" => {
            let mut all: Vec<String> = balancers(row).into_iter().collect();
            all.extend(own);
            if all.is_empty() { "<pending>".into() } else { all.join(",") }
        }
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => "<unknown>".into(),
    }
}

fn balancers(row: Row<'_>) -> BTreeSet<String> {
    let address = |point: &Value| {
        let found = ["ip", "hostname"].into_iter().filter_map(|name| point[name].as_str());
        found.filter(|text| !text.is_empty()).map(str::to_owned).next()
    };
    row.list("/status/loadBalancer/ingress").iter().filter_map(address).collect()
}

fn endpoints(row: Row<'_>) -> String {
    let subsets = row.list("/subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice).iter();
        let addresses: Vec<&str> =
            addresses.map(|a| a["ip"].as_str().unwrap_or_default()).collect();
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() {
            all.extend(addresses.iter().map(ToString::to_string));
        }
        for port in ports {
            all.extend(addresses.iter().map(|address| host_port(address, &port["port"])));
        }
    }
    first_few(&all, 3, all.len())
}

fn host_port(address: &str, port: &Value) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/ports")
        .iter()
        .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".into(),
        })
        .collect();
    let addresses = row.list("/endpoints").iter();
    let addresses: Vec<String> = addresses
        .flat_map(|e| texts(e["addresses"].as_array().map_or(&[][..], Vec::as_slice)))
        .collect();
    let show = |all: &[String]| {
        let shown = first_few(all, 3, all.len());
        json!(if shown.is_empty() { "<unset>".into() } else { shown })
    };
    vec![row.name(), json!(row.text("/addressType")), show(&ports), show(&addresses), row.age()]
}

fn ingress(row: Row<'_>) -> Vec<Value> {
    let rules = row.list("/spec/rules");
    let hosts: Vec<String> = rules
        .iter()
        .filter_map(|rule| rule["host"].as_str())
        .filter(|h| !h.is_empty())
        .map(str::to_owned)
        .collect();
    let hosts = match hosts.len() {
        0 => "*".into(),
        // Rules without a host count towards the hosts that are not shown.
        3.. => first_few(&hosts, 3, rules.len()),
        _ => hosts.join(","),
    };
    let addresses: Vec<String> = balancers(row).into_iter().collect();
    vec![
        row.name(),
        json!(row.text_or("/spec/ingressClassName", "<none>")),
        json!(hosts),
        json!(addresses.join(",")),
        json!(if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" }),
        row.age(),
    ]
}

fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let is_default =
        row.at("/metadata/annotations")["ingressclass.kubernetes.io/is-default-class"] == "true";
    let name =
        format!("{}{}", row.text("/metadata/name"), if is_default { " (default)" } else { "" });
    let parameters = match row.at("/spec/parameters") {
        Value::Object(_) => {
            let group = row.text("/spec/parameters/apiGroup");
            let dot = if row.at("/spec/parameters/apiGroup").is_null() { "" } else { "." };
            format!(
                "{}{dot}{group}/{}",
                row.text("/spec/parameters/kind"),
                row.text("/spec/parameters/name")
            )
        }
        _ => "<none>".into(),
    };
    vec![json!(name), json!(row.text("/spec/controller")), json!(parameters), row.age()]
}
