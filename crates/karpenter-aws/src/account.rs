//! Calls to EC2 within the rates of an account, the urgent ones first.
//!
//! Every action has a bucket of its own, as EC2 keeps them; one bucket over all of them makes a termination go before a launch, and a
//! launch before a look-up, when many wait.

use std::time::Duration;

use karpenter_aws_client::{Client, Error, ErrorKind, PagedOperation, Pages, QueryOperation};
use karpenter_transport::{Rate, Rates, Urgency};

/// How often a call is tried, and how long to wait after the first time; then twice as long each time.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// All calls together.
const ALL: &str = "EC2";
const LOOK_UP: Rate = Rate { per_second: 20.0, burst: 100.0 };
const CHANGE: Rate = Rate { per_second: 5.0, burst: 50.0 };

/// What EC2 allows an account per second and at once, by action.
const RATES: &[(&str, Rate)] = &[
    (ALL, Rate { per_second: 40.0, burst: 200.0 }),
    ("CreateFleet", CHANGE),
    ("CreateLaunchTemplate", CHANGE),
    ("CreateTags", Rate { per_second: 10.0, burst: 100.0 }),
    ("DeleteLaunchTemplate", CHANGE),
    ("DescribeCapacityReservations", LOOK_UP),
    ("DescribeImages", LOOK_UP),
    ("DescribeInstanceStatus", LOOK_UP),
    ("DescribeInstanceTypeOfferings", LOOK_UP),
    ("DescribeInstanceTypes", LOOK_UP),
    ("DescribeInstances", LOOK_UP),
    ("DescribeLaunchTemplates", LOOK_UP),
    ("DescribePlacementGroups", LOOK_UP),
    ("DescribeSecurityGroups", LOOK_UP),
    ("DescribeSpotPriceHistory", LOOK_UP),
    ("DescribeSubnets", LOOK_UP),
    ("RebootInstances", CHANGE),
    ("RunInstances", Rate { per_second: 2.0, burst: 5.0 }),
    ("TerminateInstances", Rate { per_second: 5.0, burst: 100.0 }),
];

/// An AWS account. Clones share its rates.
#[derive(Clone)]
pub struct Account {
    client: Client,
    rates: Rates,
}

impl Account {
    /// The account that `client` speaks for, with EC2's usual rates.
    pub fn new(client: Client) -> Self {
        Self { client, rates: Rates::new(RATES.iter().copied()) }
    }

    /// The region it works in.
    pub fn region(&self) -> &str {
        self.client.region()
    }

    /// The client, for services other than EC2.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request to EC2 when it is its turn. An attempt after one that failed is a call too, and waits for its turn as well.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn call<O: QueryOperation>(&self, request: &O) -> Result<O::Answer, Error> {
        persistently(|| self.call_once(request)).await
    }

    /// Sends a request to EC2 when it is its turn, once: for dry runs, whose errors are the answer.
    ///
    /// # Errors
    /// What AWS says; [`ErrorKind::DryRun`] is the success of a dry run.
    pub async fn call_once<O: QueryOperation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.turn::<O>().await;
        self.client.ec2().call_once(request).await
    }

    /// Gathers all pages of an answer of EC2. Each page is a call, and waits for its turn.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn list<O: PagedOperation>(&self, request: &O) -> Result<Vec<O::Item>, Error> {
        let mut pages = Pages::<O>::default();
        while !pages.is_complete() {
            let answer = persistently(|| self.page_once(request, pages.token())).await?;
            pages.add(answer)?;
        }
        Ok(pages.into_items())
    }

    async fn page_once<O: PagedOperation>(
        &self,
        request: &O,
        token: Option<&str>,
    ) -> Result<O::Answer, Error> {
        self.turn::<O>().await;
        self.client.ec2().page_once(request, token).await
    }

    async fn turn<O: QueryOperation>(&self) {
        let urgency = urgency(O::NAME);
        self.rates.take(O::NAME, urgency).await;
        self.rates.take(ALL, urgency).await;
    }
}

/// Tries again while that may help.
async fn persistently<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> Result<T, Error> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match call().await {
            Err(error) if passes(error.kind) => tokio::time::sleep(pause).await,
            result => return result,
        }
        pause *= 2;
    }
    call().await
}

/// Whether trying again may help.
fn passes(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Throttled | ErrorKind::Transient)
}

fn urgency(action: &str) -> Urgency {
    match action {
        "TerminateInstances" => Urgency::Terminate,
        "CreateFleet" | "CreateLaunchTemplate" | "RebootInstances" => Urgency::Launch,
        _ => Urgency::Describe,
    }
}
