//! AWS Auto Scaling groups: the desired capacity of a group is its target, and its instances are those that AWS lists.
//!
//! AWS has no versions: the desired capacity is read again right before it is changed, and the changes of one process wait for each other.

mod change;
mod instances;
mod machines;
mod region;
mod template;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::plimsoll::node_autoscaler::Aws as Settings;
use futures::future::{BoxFuture, try_join_all};
use process::Clock;
use serde_json::Value;

use super::{Group, NamedGroup, NodeGroupProvider, ProviderError};
use crate::aws::{self, AwsAccount};
use crate::call;
use crate::registry::{Context, read_settings};
use change::Change;
use region::Region;

/// The provider.
struct Aws {
    clock: Clock,
    account: Arc<AwsAccount>,
    settings: Settings,
    /// The region of groups that name none.
    region: String,
    named: Mutex<Vec<NamedGroup>>,
    /// The regions that were called so far, by name.
    regions: Mutex<BTreeMap<String, Arc<Region>>>,
}

/// Where a group is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    region: String,
    name: String,
}

/// Opens the provider. Nothing is sent.
pub(super) fn open(
    context: &Context,
    connection: &Value,
) -> Result<Arc<dyn NodeGroupProvider>, String> {
    let settings: Settings = read_settings(connection)?;
    let endpoints = &settings.endpoints;
    for (field, url) in
        [("autoscaling", &endpoints.autoscaling), ("ec2", &endpoints.ec2), ("eks", &endpoints.eks)]
    {
        check_endpoint(url).map_err(|problem| format!("endpoints.{field}: {problem}"))?;
    }
    let provider = Aws {
        clock: context.clock.clone(),
        account: AwsAccount::from_environment(&context.clock),
        region: aws::region(Some(&settings.region))?,
        settings,
        named: Mutex::default(),
        regions: Mutex::default(),
    };
    provider.region(&provider.region)?;
    Ok(Arc::new(provider))
}

/// Refuses the addresses at which machines and containers find their own credentials.
fn check_endpoint(url: &str) -> Result<(), String> {
    if url.is_empty() {
        return Ok(());
    }
    let parsed = call::parse_url(url).map_err(|error| error.to_string())?;
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_link_local = match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some_and(|address| address.is_link_local())
        }
        Err(_) => false,
    };
    if is_link_local { Err(format!("`{url}` is a link-local address")) } else { Ok(()) }
}

impl NodeGroupProvider for Aws {
    fn set_named_groups(&self, groups: &[NamedGroup]) {
        *lock(&self.named) = groups.to_vec();
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(self.snapshot())
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.change(group)?.increase(by).await })
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.change(group)?.delete(instances).await })
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.change(group)?.decrease_target(by).await })
    }
}

impl Aws {
    async fn snapshot(&self) -> Result<Vec<Group>, ProviderError> {
        let mut ids: BTreeMap<Place, Vec<String>> = BTreeMap::new();
        for group in lock(&self.named).iter() {
            ids.entry(self.place(group)).or_default().push(group.id.clone());
        }
        let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        if !self.settings.discover.is_empty() {
            names.entry(&self.region).or_default();
        }
        for Place { region, name } in ids.keys() {
            names.entry(region).or_default().push(name.clone());
        }
        let regions = names.into_iter().map(|(region, names)| self.read(region, names));
        let mut groups = Vec::new();
        for (region, group) in try_join_all(regions).await?.into_iter().flatten() {
            let place = Place { region, name: group.id.clone() };
            match ids.get(&place) {
                Some(ids) => {
                    groups.extend(ids.iter().map(|id| Group { id: id.clone(), ..group.clone() }));
                }
                None => groups.push(group),
            }
        }
        Ok(groups)
    }

    /// Reads the groups of a region: those with names, and in the connection's own region those that it discovers.
    async fn read(
        &self,
        region: &str,
        names: Vec<String>,
    ) -> Result<Vec<(String, Group)>, ProviderError> {
        let discover: &[_] = if region == self.region { &self.settings.discover } else { &[] };
        let unavailable = |message| ProviderError::Unavailable { message };
        let opened = self.region(region).map_err(unavailable)?;
        let groups = opened.groups(names, discover).await;
        let groups =
            groups.map_err(|failure| unavailable(format!("AWS in {region}: {failure}")))?;
        Ok(groups.into_iter().map(|group| (region.to_owned(), group)).collect())
    }

    /// Finds a group that is to be changed.
    fn change<'a>(&self, id: &'a str) -> Result<Change<'a>, ProviderError> {
        let named = lock(&self.named).iter().find(|group| group.id == id).map(|g| self.place(g));
        let place =
            named.unwrap_or_else(|| Place { region: self.region.clone(), name: id.to_owned() });
        let refused = |message| ProviderError::Refused { group: id.to_owned(), message };
        Ok(Change { id, name: place.name, region: self.region(&place.region).map_err(refused)? })
    }

    fn place(&self, group: &NamedGroup) -> Place {
        let field = |name: &str| group.settings[name].as_str().filter(|text| !text.is_empty());
        Place {
            region: field("region").unwrap_or(&self.region).to_owned(),
            name: field("autoScalingGroup").unwrap_or(&group.id).to_owned(),
        }
    }

    /// Returns a region. Its connections are opened when it is first used.
    fn region(&self, name: &str) -> Result<Arc<Region>, String> {
        let mut regions = lock(&self.regions);
        if let Some(region) = regions.get(name) {
            return Ok(Arc::clone(region));
        }
        let region = Region::open(name, &self.account, &self.settings.endpoints, &self.clock)?;
        let region = Arc::new(region);
        regions.insert(name.to_owned(), Arc::clone(&region));
        Ok(region)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_credentials_are_not_called() {
        for url in
            ["http://169.254.169.254/", "https://[fe80::1]", "http://[::ffff:169.254.1.1]:80"]
        {
            assert_eq!(check_endpoint(url), Err(format!("`{url}` is a link-local address")));
        }
        for url in ["", "http://127.0.0.1:5000", "https://autoscaling.eu-west-1.amazonaws.com"] {
            assert_eq!(check_endpoint(url), Ok(()));
        }
    }
}
