//! Which way leads to a webhook: its URL, or an endpoint of its Service.
//!
//! Nothing here routes the addresses of Services, so a Service leads to an endpoint that somebody has written down, in
//! `EndpointSlices` or `Endpoints`: a process on the same host, most of all.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::webhook::{Address, Webhook};
use crate::server::Core;
use crate::store::Key;

const SLICES: &str = "endpointslices.discovery.k8s.io";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The way to a webhook.
#[derive(Debug, Clone, Default)]
pub(super) enum Route {
    /// The one its URL names.
    #[default]
    Url,
    /// An endpoint of its Service.
    Endpoint(SocketAddr),
    /// None, and why.
    Nowhere(String),
}

impl Core {
    /// Finds the way to a webhook.
    pub(super) fn route(&self, webhook: &Webhook) -> Route {
        let Address::Service { namespace, name, port, .. } = &webhook.address else { return Route::Url };
        match self.endpoint(namespace, name, *port) {
            Ok(endpoint) => Route::Endpoint(endpoint),
            Err(why) => Route::Nowhere(why),
        }
    }

    /// Finds an endpoint of a Service, or says as Kubernetes does why there is none.
    fn endpoint(&self, namespace: &str, name: &str, port: u64) -> Result<SocketAddr, String> {
        let key = Key::new(namespace, name);
        let service =
            self.store.get("services", &key).ok_or_else(|| format!("service {name:?} not found"))?;
        let service = service.value();
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let port = ports
            .into_iter()
            .find(|candidate| candidate["port"].as_u64() == Some(port))
            .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let port = port["name"].as_str().unwrap_or_default();
        let slices = self.store.list(SLICES, Some(namespace), None, None);
        let slices = slices.map(|page| page.objects).unwrap_or_default();
        let of_service = slices
            .iter()
            .map(|(_, slice)| slice.value())
            .filter(|slice| slice["metadata"]["labels"][SERVICE_LABEL] == name);
        let endpoints = self.store.get("endpoints", &key).map(|endpoints| endpoints.value());
        let found = of_service.into_iter().find_map(|slice| in_slice(&slice, port)).or_else(|| {
            let subsets = endpoints.as_ref()?["subsets"].as_array()?;
            subsets.iter().find_map(|subset| in_subset(subset, port))
        });
        found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

fn in_slice(slice: &Value, port: &str) -> Option<SocketAddr> {
    let endpoints = slice["endpoints"].as_array()?;
    let ready = endpoints.iter().find(|endpoint| endpoint["conditions"]["ready"] != false)?;
    address(&ready["addresses"][0], &slice["ports"], port)
}

fn in_subset(subset: &Value, port: &str) -> Option<SocketAddr> {
    address(&subset["addresses"][0]["ip"], &subset["ports"], port)
}

fn address(address: &Value, ports: &Value, name: &str) -> Option<SocketAddr> {
    let ports = ports.as_array()?;
    let named = ports.iter().find(|port| port["name"].as_str().unwrap_or_default() == name)?;
    let number = u16::try_from(named["port"].as_u64()?).ok()?;
    Some(SocketAddr::new(address.as_str()?.parse::<IpAddr>().ok()?, number))
}
