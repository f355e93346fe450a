//! Where the services are: their usual hosts, or what the user says instead.

use karpenter_transport::Variables;

/// A service of Alibaba Cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Elastic Compute Service.
    Ecs,
    /// Virtual Private Cloud.
    Vpc,
    /// Container Service: ACK.
    Cs,
    /// Security Token Service.
    Sts,
    /// Resource Access Management.
    Ram,
    /// Cloud Monitor.
    Cms,
    /// Simple Message Queue, formerly Message Service. Every account has a host of its own: see [`Endpoints::queues`].
    Mns,
}

impl Service {
    /// The version of its API.
    pub fn version(self) -> &'static str {
        match self {
            Self::Ecs => "2014-05-26",
            Self::Vpc => "2016-04-28",
            Self::Cs => "2015-12-15",
            Self::Sts => "2015-04-01",
            Self::Ram => "2015-05-01",
            Self::Cms => "2019-01-01",
            Self::Mns => "2015-06-06",
        }
    }

    /// The variable that moves it.
    fn variable(self) -> &'static str {
        match self {
            Self::Ecs => "ECS_ENDPOINT",
            Self::Vpc => "VPC_ENDPOINT",
            Self::Cs => "CS_ENDPOINT",
            Self::Sts => "STS_ENDPOINT",
            Self::Ram => "RAM_ENDPOINT",
            Self::Cms => "CMS_ENDPOINT",
            Self::Mns => "MNS_ENDPOINT",
        }
    }

    /// Whether its requests name the region.
    pub(crate) fn is_told_the_region(self) -> bool {
        matches!(self, Self::Ecs | Self::Vpc)
    }

    /// The first part of its host.
    fn host(self) -> &'static str {
        match self {
            Self::Ecs => "ecs",
            Self::Vpc => "vpc",
            Self::Cs => "cs",
            Self::Sts => "sts",
            Self::Ram => "ram",
            Self::Cms => "metrics",
            Self::Mns => "mns",
        }
    }
}

const SERVICES: [Service; 7] =
    [Service::Ecs, Service::Vpc, Service::Cs, Service::Sts, Service::Ram, Service::Cms, Service::Mns];

/// Where the services are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// One address for all.
    all: Option<String>,
    /// Addresses of single services.
    single: Vec<(Service, String)>,
    /// Whether hosts inside the cloud's own network are used.
    internal: bool,
    /// The same for STS alone.
    internal_sts: bool,
}

impl Endpoints {
    /// As the variables say: `ALIBABA_CLOUD_ENDPOINT` for all services, `ECS_ENDPOINT` and so on for one, `ALIBABA_CLOUD_NETWORK=vpc` for
    /// hosts inside the network.
    pub fn new(variables: &Variables) -> Self {
        let single = SERVICES.into_iter().filter_map(|service| {
            variables.get(service.variable()).map(|address| (service, with_scheme(address)))
        });
        Self {
            all: variables.get("ALIBABA_CLOUD_ENDPOINT").map(with_scheme),
            single: single.collect(),
            internal: variables.get("ALIBABA_CLOUD_NETWORK") == Some("vpc"),
            internal_sts: variables.is_true("ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED"),
        }
    }

    /// All services at one address.
    pub fn at(url: &str) -> Self {
        Self { all: Some(with_scheme(url)), ..Self::default() }
    }

    /// The address of a service, without a slash at its end.
    pub fn resolve(&self, service: Service, region: &str) -> String {
        if let Some(address) = self.moved(service) {
            return address;
        }
        let internal = self.internal || (service == Service::Sts && self.internal_sts);
        match (service, region) {
            // One for the world.
            (Service::Ram, _) => "https://ram.aliyuncs.com".to_owned(),
            (Service::Ecs, "cn-hangzhou") if !internal => "https://ecs-cn-hangzhou.aliyuncs.com".to_owned(),
            _ => {
                let inside = if internal { "-vpc" } else { "" };
                format!("https://{}{inside}.{region}.aliyuncs.com", service.host())
            }
        }
    }

    /// The address of the message queues of an account, without a slash at its end.
    pub fn queues(&self, region: &str, account: &str) -> String {
        self.moved(Service::Mns).unwrap_or_else(|| {
            // Inside the network they are spoken to without TLS; requests are signed all the same.
            let (scheme, inside) = if self.internal { ("http", "-internal") } else { ("https", "") };
            format!("{scheme}://{account}.mns.{region}{inside}.aliyuncs.com")
        })
    }

    fn moved(&self, service: Service) -> Option<String> {
        let single = self.single.iter().find(|(moved, _)| *moved == service).map(|(_, address)| address);
        single.or(self.all.as_ref()).cloned()
    }
}

/// A host without a scheme is spoken to over TLS.
fn with_scheme(address: &str) -> String {
    let address = address.trim_end_matches('/');
    if address.contains("://") { address.to_owned() } else { format!("https://{address}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_at_their_hosts_unless_somebody_moves_them() {
        let usual = Endpoints::default();
        assert_eq!(usual.resolve(Service::Ecs, "cn-beijing"), "https://ecs.cn-beijing.aliyuncs.com");
        assert_eq!(usual.resolve(Service::Ecs, "cn-hangzhou"), "https://ecs-cn-hangzhou.aliyuncs.com");
        assert_eq!(usual.resolve(Service::Cms, "cn-beijing"), "https://metrics.cn-beijing.aliyuncs.com");
        assert_eq!(usual.resolve(Service::Ram, "cn-beijing"), "https://ram.aliyuncs.com");

        let inside = Endpoints::new(&Variables::from([("ALIBABA_CLOUD_NETWORK", "vpc")]));
        assert_eq!(inside.resolve(Service::Ecs, "cn-hangzhou"), "https://ecs-vpc.cn-hangzhou.aliyuncs.com");

        assert_eq!(usual.queues("cn-beijing", "12"), "https://12.mns.cn-beijing.aliyuncs.com");
        assert_eq!(inside.queues("cn-beijing", "12"), "http://12.mns.cn-beijing-internal.aliyuncs.com");

        let moved = Endpoints::new(&Variables::from([
            ("ALIBABA_CLOUD_ENDPOINT", "http://127.0.0.1:8080/"),
            ("STS_ENDPOINT", "sts.example.com"),
        ]));
        assert_eq!(moved.resolve(Service::Vpc, "cn-beijing"), "http://127.0.0.1:8080");
        assert_eq!(moved.queues("cn-beijing", "12"), "http://127.0.0.1:8080");
        assert_eq!(moved.resolve(Service::Sts, "cn-beijing"), "https://sts.example.com");

        let sts = Endpoints::new(&Variables::from([("ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED", "true")]));
        assert_eq!(sts.resolve(Service::Sts, "cn-beijing"), "https://sts-vpc.cn-beijing.aliyuncs.com");
        assert_eq!(sts.resolve(Service::Ecs, "cn-beijing"), "https://ecs.cn-beijing.aliyuncs.com");
    }
}
