//! Keeps the market up to date: types, stock and prices, each at its own pace.
//!
//! What cannot be asked for is left as it was; a missing right costs what it is for and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use jiff::Timestamp;
use karpenter_alibabacloud_client::ecs::{
    DescribeAvailableResource, DescribeInstanceTypes, DescribePrice, DescribeSpotPriceHistory, SpotPrice,
    SystemDisk,
};
use karpenter_alibabacloud_client::{Client, Error, ErrorKind, Operation};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};

use crate::catalogue::Unsuited;
use crate::market::{self, Market};
use crate::node_class::Classes;
use crate::rights::Rights;

/// How many prices are asked for at the same time; rates hold them back further.
const AT_ONCE: usize = 4;
const PAGE: u32 = 100;

/// A part of the market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Instance types.
    Types,
    /// Stock of both markets.
    Stock,
    /// Prices on demand.
    Prices,
    /// Spot prices.
    SpotPrices,
}

impl Part {
    /// What is asked for as long as the process lives. Types are a question of classes, which are not ready without them.
    const PERIODIC: [Self; 3] = [Self::Stock, Self::Prices, Self::SpotPrices];

    fn name(self) -> &'static str {
        match self {
            Self::Types => "types",
            Self::Stock => "stock",
            Self::Prices => "prices",
            Self::SpotPrices => "spot-prices",
        }
    }

    /// How often it is asked for.
    fn period(self) -> Duration {
        match self {
            Self::Types => Duration::from_hours(6),
            Self::Stock => Duration::from_mins(5),
            Self::Prices => Duration::from_hours(12),
            Self::SpotPrices => Duration::from_mins(30),
        }
    }
}

/// Asks the cloud what it sells.
#[derive(Clone)]
pub struct Refresh {
    client: Client,
    market: Market,
    classes: Classes,
    rights: Rights,
}

impl Refresh {
    /// Brings `market` up to date for what `classes` may use.
    pub fn new(client: Client, market: Market, classes: Classes, rights: Rights) -> Self {
        Self { client, market, classes, rights }
    }

    fn now(&self) -> Timestamp {
        self.client.environment().now()
    }

    /// Whom it asks.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What is sold.
    pub fn market(&self) -> &Market {
        &self.market
    }

    /// Which rights turned out to be missing.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Learns what launches cannot do without: the instance types, and their stock where nobody knows it yet.
    ///
    /// # Errors
    /// Why the types cannot be had.
    pub async fn open(&self) -> Result<(), Error> {
        self.types().await?;
        if self.market.sales().on_demand_stock.is_none() {
            self.part(Part::Stock).await;
        }
        Ok(())
    }

    /// The types that machines of some networks cannot be made of.
    pub fn unsuited(&self) -> Unsuited {
        Unsuited::of(&self.market.sales().types)
    }

    /// Brings one part up to date; `false` if it has to be asked for again soon.
    pub async fn part(&self, part: Part) -> bool {
        let done = match part {
            Part::Types => self.types().await,
            Part::Stock => self.stock().await,
            Part::Prices => self.prices().await,
            Part::SpotPrices => self.spot_prices().await,
        };
        match done {
            Ok(complete) => complete,
            Err(error) => {
                let refused = self.rights.note(&error, self.now());
                if !refused {
                    tracing::warn!("{} of Alibaba Cloud stay as they were: {error}", part.name());
                }
                refused
            }
        }
    }

    async fn types(&self) -> Result<bool, Error> {
        let request = DescribeInstanceTypes { max_results: Some(PAGE), ..Default::default() };
        let mut found = self.client.list(&request).await?;
        self.rights.clear(DescribeInstanceTypes::RAM_ACTION);
        found.sort_by(|one, other| one.instance_type_id.cmp(&other.instance_type_id));
        found.dedup_by(|one, other| one.instance_type_id == other.instance_type_id);
        if found.len() != self.market.sales().types.len()
            || found.iter().zip(self.market.sales().types.iter()).any(|(new, old)| *new != **old)
        {
            let types = found.into_iter().map(Arc::new).collect();
            self.market.update(|sales| sales.types = types);
        }
        Ok(true)
    }

    async fn stock(&self) -> Result<bool, Error> {
        let ask = |strategy: &str| DescribeAvailableResource {
            destination_resource: "InstanceType".to_owned(),
            instance_charge_type: Some("PostPaid".to_owned()),
            spot_strategy: Some(strategy.to_owned()),
            ..Default::default()
        };
        let on_demand = self.client.call(&ask("NoSpot")).await?;
        let spot = self.client.call(&ask("SpotAsPriceGo")).await?;
        self.rights.clear(DescribeAvailableResource::RAM_ACTION);
        let before = self.market.sales();
        let on_demand = market::stock(&on_demand, before.on_demand_stock.as_ref());
        let spot = market::stock(&spot, before.spot_stock.as_ref());
        let now = self.now();
        self.market.refusals().forget_old(now);
        if before.on_demand_stock.as_ref() != Some(&on_demand) || before.spot_stock.as_ref() != Some(&spot) {
            self.market.update(|sales| {
                sales.on_demand_stock = Some(on_demand);
                sales.spot_stock = Some(spot);
            });
        }
        Ok(true)
    }

    /// The types that are sold in a zone of a class, on the spot market or on demand.
    fn sold(&self, spot: bool) -> Vec<Arc<str>> {
        let sales = self.market.sales();
        let zones: BTreeSet<Arc<str>> =
            self.classes.all().iter().flat_map(|class| class.resolved.zones()).collect();
        let names = sales.types.iter().map(|described| Arc::<str>::from(described.instance_type_id.as_str()));
        names.filter(|name| zones.iter().any(|zone| sales.is_sold(name, zone, spot))).collect()
    }

    async fn prices(&self) -> Result<bool, Error> {
        let names = self.sold(false);
        let complete = !names.is_empty();
        let asked = stream::iter(names).map(|name| self.price(name)).buffered(AT_ONCE);
        let prices = gather(asked).await?;
        self.take_prices(prices);
        Ok(complete)
    }

    async fn price(&self, name: Arc<str>) -> Result<Option<(Arc<str>, f64, Option<String>)>, Error> {
        let request = DescribePrice {
            resource_type: "instance".to_owned(),
            instance_type: Some(name.to_string()),
            price_unit: Some("Hour".to_owned()),
            period: Some(1),
            // The instance's own part is read from the bill; some disk must be on it.
            system_disk: SystemDisk {
                category: Some("cloud_essd".to_owned()),
                size: Some(40),
                ..Default::default()
            },
            ..Default::default()
        };
        let price = self.client.call(&request).await?.price_info.price;
        Ok(price.of_instance().filter(|amount| *amount > 0.0).map(|amount| (name, amount, price.currency)))
    }

    fn take_prices(&self, prices: Vec<(Arc<str>, f64, Option<String>)>) {
        if prices.is_empty() {
            return;
        }
        self.rights.clear(DescribePrice::RAM_ACTION);
        self.market.update(|sales| {
            for (name, amount, currency) in prices {
                sales.on_demand_prices.insert(name, amount);
                sales.currency = currency.or(sales.currency.take());
            }
        });
    }

    async fn spot_prices(&self) -> Result<bool, Error> {
        let names = self.sold(true);
        let complete = !names.is_empty();
        let ask = |name: Arc<str>| async move {
            let request = DescribeSpotPriceHistory {
                network_type: "vpc".to_owned(),
                instance_type: name.to_string(),
                os_type: Some("linux".to_owned()),
                ..Default::default()
            };
            let history = self.client.list(&request).await?;
            Ok(Some((name, latest(&history))))
        };
        let prices = gather(stream::iter(names).map(ask).buffered(AT_ONCE)).await?;
        if !prices.is_empty() {
            self.rights.clear(DescribeSpotPriceHistory::RAM_ACTION);
            self.market.update(|sales| {
                for (name, zones) in prices {
                    sales.spot_prices.entry(name).or_default().extend(zones);
                }
            });
        }
        Ok(complete)
    }
}

/// What was answered. A type whose price nobody tells keeps the one it had; where nothing at all is told, and at the first refusal of the
/// policy, nobody goes on asking.
async fn gather<T>(answers: impl Stream<Item = Result<Option<T>, Error>>) -> Result<Vec<T>, Error> {
    let mut answers = std::pin::pin!(answers);
    let (mut found, mut failed) = (Vec::new(), None);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(value) => found.extend(value),
            Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Credentials) => {
                return Err(error);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

/// The latest price of each zone.
fn latest(history: &[SpotPrice]) -> BTreeMap<Arc<str>, f64> {
    let mut newest: BTreeMap<&str, &SpotPrice> = BTreeMap::new();
    for price in history {
        let known = newest.entry(&price.zone_id).or_insert(price);
        if price.timestamp >= known.timestamp {
            *known = price;
        }
    }
    newest.into_iter().map(|(zone, price)| (zone.into(), price.spot_price)).collect()
}

/// A part to be brought up to date. It only asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRequest(Part);

impl Request for RefreshRequest {
    fn action(&self) -> Option<String> {
        None
    }
}

/// Has each part brought up to date at its pace.
#[derive(Default)]
pub struct MarketRefresh {
    heard: BTreeMap<Part, bool>,
}

/// How soon a part is asked for again that could not be had.
const AGAIN: Duration = Duration::from_secs(15);

impl MarketRefresh {
    /// Who answers its requests.
    pub fn handler(
        refresh: Refresh,
    ) -> impl Fn(RefreshRequest) -> BoxFuture<'static, (Part, bool)> + Send + 'static {
        move |RefreshRequest(part)| {
            let refresh = refresh.clone();
            async move { (part, refresh.part(part).await) }.boxed()
        }
    }
}

impl Controller for MarketRefresh {
    type Request = RefreshRequest;
    type Reply = (Part, bool);

    fn name(&self) -> &'static str {
        "alibabacloud.market"
    }

    fn watches(&self, _: &mut Watches) {}

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        Part::PERIODIC.into_iter().for_each(|part| wakes.wake(Key::cluster(part.name())));
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, key: &Key, _: &View<'_>) -> Outcome<RefreshRequest> {
        let name = key.to_string();
        let Some(part) = Part::PERIODIC.into_iter().find(|part| part.name() == name) else {
            return Outcome::done();
        };
        // The reply brings the key back at once; the period counts from there.
        match self.heard.remove(&part) {
            Some(complete) => Outcome::after(if complete { part.period() } else { AGAIN }),
            None => Outcome::done().then(Effect::Request(RefreshRequest(part))),
        }
    }

    fn hear(&mut self, _: &Key, (part, complete): (Part, bool), _: &View<'_>) {
        self.heard.insert(part, complete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_price_of_a_zone_counts() {
        let price = |zone: &str, at: &str, price: f64| SpotPrice {
            zone_id: zone.into(),
            spot_price: price,
            timestamp: at.parse().ok(),
            ..Default::default()
        };
        let history = [
            price("z-a", "2026-11-17T05:00:00Z", 0.3),
            price("z-a", "2026-11-17T06:00:00Z", 0.2),
            price("z-a", "2026-11-17T04:00:00Z", 0.9),
            price("z-b", "2026-11-17T06:00:00Z", 0.4),
        ];
        assert_eq!(latest(&history), BTreeMap::from([("z-a".into(), 0.2), ("z-b".into(), 0.4)]));
    }
}
