//! Where each service of each region is, and for which region its requests are signed.

use karpenter_transport::Variables;

use crate::profile::Profiles;

/// A service this client speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Virtual machines.
    Ec2,
    /// Roles and instance profiles.
    Iam,
    /// Temporary credentials.
    Sts,
    /// Managed Kubernetes.
    Eks,
    /// Public and own parameters.
    Ssm,
    /// Queues.
    Sqs,
    /// Price lists.
    Pricing,
    /// Objects in buckets.
    S3,
    /// Zones that traffic was moved away from.
    ArcZonalShift,
}

impl Service {
    /// The name in signatures, which is the first label of the host too, prices aside.
    pub fn signing_name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Iam => "iam",
            Self::Sts => "sts",
            Self::Eks => "eks",
            Self::Ssm => "ssm",
            Self::Sqs => "sqs",
            Self::Pricing => "pricing",
            Self::S3 => "s3",
            Self::ArcZonalShift => "arc-zonal-shift",
        }
    }

    /// The name by which AWS's SDKs call the service.
    pub fn sdk_name(self) -> &'static str {
        match self {
            Self::Ec2 => "EC2",
            Self::Iam => "IAM",
            Self::Sts => "STS",
            Self::Eks => "EKS",
            Self::Ssm => "SSM",
            Self::Sqs => "SQS",
            Self::Pricing => "Pricing",
            Self::S3 => "S3",
            Self::ArcZonalShift => "ARC Zonal Shift",
        }
    }

    fn host_name(self) -> &'static str {
        match self {
            Self::Pricing => "api.pricing",
            other => other.signing_name(),
        }
    }
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host and port, perhaps a path, without a slash at the end.
    pub url: String,
    /// The region in signatures.
    pub signing_region: String,
    /// Whether the user chose the address.
    pub custom: bool,
}

/// Which variants of the endpoints are wanted, and which the user has replaced.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    fips: bool,
    dual_stack: bool,
    overrides: Vec<(Service, String)>,
    all: Option<String>,
}

const SERVICES: [Service; 9] = [
    Service::Ec2,
    Service::Iam,
    Service::Sts,
    Service::Eks,
    Service::Ssm,
    Service::Sqs,
    Service::Pricing,
    Service::S3,
    Service::ArcZonalShift,
];

impl Endpoints {
    /// Takes what the user has set: one address per service before one for all, variables before the profile.
    pub fn new(variables: &Variables, profiles: &Profiles) -> Self {
        let chosen = |variable: &str, setting: &str| {
            variables.get(variable).map_or_else(
                || profiles.setting(setting).is_some_and(|value| value.eq_ignore_ascii_case("true")),
                |value| value.eq_ignore_ascii_case("true"),
            )
        };
        let mut endpoints = Self {
            fips: chosen("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
            dual_stack: chosen("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"),
            ..Self::default()
        };
        if variables.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            return endpoints;
        }
        for service in SERVICES {
            let suffix = service.signing_name().to_uppercase().replace('-', "_");
            if let Some(url) = variables.get(&format!("AWS_ENDPOINT_URL_{suffix}")) {
                endpoints.overrides.push((service, trimmed(url)));
            }
        }
        endpoints.all =
            variables.get("AWS_ENDPOINT_URL").or_else(|| profiles.setting("endpoint_url")).map(trimmed);
        endpoints
    }

    /// All services at one address: a simulated cloud.
    pub fn at(url: &str) -> Self {
        Self { all: Some(trimmed(url)), ..Self::default() }
    }

    /// The endpoint of `service` for `region`.
    pub fn resolve(&self, service: Service, region: &str) -> Endpoint {
        let signing_region = signing_region(service, region).to_owned();
        let own = self.overrides.iter().find(|(replaced, _)| *replaced == service).map(|(_, url)| url);
        match own.or(self.all.as_ref()) {
            Some(url) => Endpoint { url: url.clone(), signing_region, custom: true },
            None => Endpoint {
                url: format!("https://{}", self.host(service, region)),
                signing_region,
                custom: false,
            },
        }
    }

    fn host(&self, service: Service, region: &str) -> String {
        let partition = partition(region);
        let name = service.host_name();
        if service == Service::Iam {
            return self.identity_host(region, partition);
        }
        if service == Service::S3 {
            let fips = if self.fips { "-fips" } else { "" };
            let stack = if self.dual_stack { ".dualstack" } else { "" };
            return format!("s3{fips}{stack}.{region}.{}", partition.suffix);
        }
        let suffix = if self.dual_stack { partition.dual_stack_suffix } else { partition.suffix };
        // GovCloud's ordinary endpoints are validated ones, for those who have been there from the start.
        let ordinary = region.starts_with("us-gov-")
            && matches!(service, Service::Ec2 | Service::Sqs | Service::Ssm | Service::Eks | Service::Sts);
        match (self.fips && (self.dual_stack || !ordinary), service, self.dual_stack) {
            (false, ..) => format!("{name}.{region}.{suffix}"),
            (true, Service::Eks, false) if partition.suffix == COMMERCIAL.suffix => {
                format!("fips.eks.{region}.{suffix}")
            }
            (true, ..) => format!("{name}-fips.{region}.{suffix}"),
        }
    }

    /// IAM has one endpoint for a whole partition.
    fn identity_host(&self, region: &str, partition: &Partition) -> String {
        let fips = if self.fips { "-fips" } else { "" };
        if region.starts_with("us-gov-") {
            let suffix = if self.dual_stack { partition.dual_stack_suffix } else { partition.suffix };
            return format!("iam.us-gov.{suffix}");
        }
        if self.dual_stack {
            return format!("iam{fips}.global.{}", partition.dual_stack_suffix);
        }
        if partition.suffix == COMMERCIAL.suffix || self.fips {
            return format!("iam{fips}.{}", partition.suffix);
        }
        format!("iam.{}.{}", signing_region(Service::Iam, region), partition.suffix)
    }
}

fn trimmed(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

/// Regions of one partition share domains, identities and prices.
struct Partition {
    prefix: &'static str,
    suffix: &'static str,
    dual_stack_suffix: &'static str,
    /// Where IAM's signatures belong.
    identity_region: &'static str,
}

const COMMERCIAL: Partition = Partition {
    prefix: "",
    suffix: "amazonaws.com",
    dual_stack_suffix: "api.aws",
    identity_region: "us-east-1",
};

const PARTITIONS: &[Partition] = &[
    Partition {
        prefix: "cn-",
        suffix: "amazonaws.com.cn",
        dual_stack_suffix: "api.amazonwebservices.com.cn",
        identity_region: "cn-north-1",
    },
    Partition { prefix: "us-gov-", identity_region: "us-gov-west-1", ..COMMERCIAL },
    Partition {
        prefix: "us-iso-",
        suffix: "c2s.ic.gov",
        dual_stack_suffix: "api.aws.ic.gov",
        identity_region: "us-iso-east-1",
    },
    Partition {
        prefix: "us-isob-",
        suffix: "sc2s.sgov.gov",
        dual_stack_suffix: "api.aws.scloud",
        identity_region: "us-isob-east-1",
    },
    Partition {
        prefix: "us-isof-",
        suffix: "csp.hci.ic.gov",
        dual_stack_suffix: "api.aws.hci.ic.gov",
        identity_region: "us-isof-south-1",
    },
    Partition {
        prefix: "eu-isoe-",
        suffix: "cloud.adc-e.uk",
        dual_stack_suffix: "api.cloud-aws.adc-e.uk",
        identity_region: "eu-isoe-west-1",
    },
    Partition {
        prefix: "eusc-",
        suffix: "amazonaws.eu",
        dual_stack_suffix: "api.amazonwebservices.eu",
        identity_region: "eusc-de-east-1",
    },
    COMMERCIAL,
];

fn partition(region: &str) -> &'static Partition {
    PARTITIONS.iter().find(|partition| region.starts_with(partition.prefix)).unwrap_or(&COMMERCIAL)
}

fn signing_region(service: Service, region: &str) -> &str {
    if service == Service::Iam { partition(region).identity_region } else { region }
}

/// The region whose endpoint knows the prices of `region`.
pub fn pricing_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What botocore 1.44 answers: fips, dual stack, service, region, address, signing region.
    const ENDPOINTS: &str = include_str!("../tests/data/endpoints.tsv");

    #[test]
    fn endpoints_are_those_botocore_resolves() {
        let mut compared = 0;
        for line in ENDPOINTS.lines().filter(|line| !line.starts_with('#')) {
            let [fips, dual, service, region, url, signing] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let service = SERVICES.into_iter().find(|known| known.signing_name() == service).unwrap();
            let endpoints = Endpoints { fips: fips == "1", dual_stack: dual == "1", ..Endpoints::default() };
            let expected =
                Endpoint { url: url.to_owned(), signing_region: signing.to_owned(), custom: false };
            assert_eq!(endpoints.resolve(service, region), expected, "{line}");
            compared += 1;
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn an_address_per_service_goes_before_one_for_all() {
        let variables = Variables::from([
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1/"),
            ("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:2"),
            ("AWS_ENDPOINT_URL_ARC_ZONAL_SHIFT", "http://127.0.0.1:3"),
        ]);
        let endpoints = Endpoints::new(&variables, &Profiles::default());
        let url = |service| endpoints.resolve(service, "us-west-2").url;
        assert_eq!(url(Service::Ec2), "http://127.0.0.1:2");
        assert_eq!(url(Service::ArcZonalShift), "http://127.0.0.1:3");
        assert_eq!(url(Service::Iam), "http://127.0.0.1:1");
        assert_eq!(endpoints.resolve(Service::Iam, "us-west-2").signing_region, "us-east-1");
    }

    #[test]
    fn configured_addresses_can_be_ignored() {
        let variables = Variables::from([
            ("AWS_ENDPOINT_URL", "http://x"),
            ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"),
        ]);
        let endpoints = Endpoints::new(&variables, &Profiles::default());
        assert_eq!(endpoints.resolve(Service::Ec2, "us-west-2").url, "https://ec2.us-west-2.amazonaws.com");
    }

    #[test]
    fn prices_are_asked_where_they_are_known() {
        let asked = ["us-west-2", "ap-east-1", "cn-north-1", "eu-west-1", "sa-east-1"].map(pricing_region);
        assert_eq!(asked, ["us-east-1", "ap-south-1", "cn-northwest-1", "eu-central-1", "us-east-1"]);
    }
}
