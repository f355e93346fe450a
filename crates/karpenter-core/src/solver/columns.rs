//! The catalog as columns: one per instance type (and per capacity override), with a bit per label value and a price per offering.

use std::sync::Arc;

use karpenter_quantity::ResourceList;
use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::label_sets::{KeyId, LabelSet, LabelSets, LabelTable};
use super::resources::{Amounts, Resources};
use crate::catalog::{InstanceType, Offering, allocatable};
use crate::requirements::RequirementSet;

/// A column index.
pub(crate) type ColumnId = u32;

/// All distinct instance types of all pools.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) types: Vec<Arc<InstanceType>>,
    /// The type behind each column. A type whose offerings differ in capacity has several columns.
    pub(crate) type_of: Vec<u32>,
    pub(crate) allocatable: Vec<Amounts>,
    /// Capacity in the units of limits.
    pub(crate) capacity: Vec<Amounts>,
    /// Position of the type's name in alphabetical order: breaks ties between equal prices.
    pub(crate) name_rank: Vec<u32>,
    /// The distinct ways to buy, shared between types.
    pub(crate) offerings: Vec<OfferingClass>,
    labels: Vec<KeyColumns>,
    /// Columns by the address of their type: pools share types by pointer.
    by_address: FxHashMap<usize, Vec<ColumnId>>,
}

/// Offerings alike in zone, capacity type and reservation.
#[derive(Clone, Debug)]
pub(crate) struct OfferingClass {
    pub(crate) requirements: Arc<RequirementSet>,
    pub(crate) sets: LabelSets,
    pub(crate) reservation: Option<Arc<str>>,
    /// Columns in stock.
    pub(crate) available: Bits,
    /// Price per column; infinite where it cannot be launched.
    pub(crate) price: Vec<f64>,
}

/// Which columns accept which value of one key.
#[derive(Clone, Debug, Default)]
struct KeyColumns {
    /// Empty when no type says anything about the key.
    by_value: Vec<Bits>,
    open: Bits,
    absent: Bits,
}

impl Columns {
    pub(crate) fn new(
        types: Vec<Arc<InstanceType>>,
        labels: &LabelTable,
        resources: &Resources,
        limits: &Resources,
    ) -> Self {
        let mut columns = Self {
            type_of: Vec::new(),
            allocatable: Vec::new(),
            capacity: Vec::new(),
            name_rank: Vec::new(),
            offerings: Vec::new(),
            labels: Vec::new(),
            by_address: FxHashMap::default(),
            types,
        };
        let mut groups = Vec::new();
        for index in 0..columns.types.len() {
            columns.add_type(index, resources, limits, &mut groups);
        }
        columns.rank_names();
        columns.add_offerings(&groups, labels);
        columns.labels = (0..labels.len()).map(|key| columns.key_columns(key as KeyId, labels)).collect();
        columns
    }

    pub(crate) fn len(&self) -> usize {
        self.type_of.len()
    }

    /// The columns of one instance type.
    pub(crate) fn of_type(&self, instance_type: &Arc<InstanceType>) -> &[ColumnId] {
        self.by_address.get(&address(instance_type)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn instance_type(&self, column: ColumnId) -> &Arc<InstanceType> {
        &self.types[self.type_of[column as usize] as usize]
    }

    /// Columns whose labels are compatible with one condition.
    pub(crate) fn accepting(&self, key: KeyId, set: &LabelSet) -> Option<Bits> {
        let columns = &self.labels[key as usize];
        if columns.by_value.is_empty() {
            return None;
        }
        let mut result = Bits::none(self.len());
        for value in set.bits.iter() {
            result.or_with(&columns.by_value[value]);
        }
        if set.open {
            result.or_with(&columns.open);
        }
        if set.absent {
            result.or_with(&columns.absent);
        }
        Some(result)
    }

    /// Offering classes compatible with all conditions.
    pub(crate) fn offerings_for(&self, sets: &LabelSets) -> Bits {
        let mut result = Bits::none(self.offerings.len());
        for (index, class) in self.offerings.iter().enumerate() {
            let compatible = class.sets.iter().all(|(key, offered)| {
                sets.iter().find(|(wanted, _)| wanted == key).is_none_or(|(_, wanted)| wanted.meets(offered))
            });
            if compatible {
                result.insert(index);
            }
        }
        result
    }

    /// Columns in stock through one of the offering classes.
    pub(crate) fn in_stock(&self, offerings: &Bits) -> Bits {
        let mut result = Bits::none(self.len());
        for class in offerings.iter() {
            result.or_with(&self.offerings[class].available);
        }
        result
    }

    /// The cheapest price of a column through one of the offering classes.
    pub(crate) fn price(&self, column: ColumnId, offerings: &Bits) -> f64 {
        offerings
            .iter()
            .map(|class| self.offerings[class].price[column as usize])
            .fold(f64::INFINITY, f64::min)
    }

    fn add_type(
        &mut self,
        index: usize,
        resources: &Resources,
        limits: &Resources,
        groups: &mut Vec<Vec<usize>>,
    ) {
        let instance_type = self.types[index].clone();
        let mut of_type = Vec::new();
        let mut first_group = groups.len();
        for (number, offering) in instance_type.offerings.iter().enumerate() {
            let same = |other: &Vec<usize>| same_overrides(&instance_type.offerings[other[0]], offering);
            if let Some(group) = groups[first_group..].iter_mut().find(|group| same(group)) {
                group.push(number);
            } else {
                groups.push(vec![number]);
            }
        }
        while first_group < groups.len() {
            let offering = &instance_type.offerings[groups[first_group][0]];
            let capacity = overlaid(&instance_type.capacity, offering.capacity_override.as_ref());
            let overhead = overlaid(&instance_type.overhead, offering.overhead_override.as_ref());
            of_type.push(self.type_of.len() as ColumnId);
            self.type_of.push(index as u32);
            self.allocatable.push(resources.supply(&allocatable(&capacity, &overhead)));
            self.capacity.push(limits.demand(&capacity));
            first_group += 1;
        }
        self.by_address.insert(address(&instance_type), of_type);
    }

    fn rank_names(&mut self) {
        let mut order: Vec<usize> = (0..self.types.len()).collect();
        order.sort_by(|a, b| self.types[*a].name.cmp(&self.types[*b].name));
        let mut rank = vec![0; self.types.len()];
        for (position, index) in order.into_iter().enumerate() {
            rank[index] = position as u32;
        }
        self.name_rank = self.type_of.iter().map(|index| rank[*index as usize]).collect();
    }

    fn add_offerings(&mut self, groups: &[Vec<usize>], labels: &LabelTable) {
        let types = self.types.clone();
        let mut by_content: FxHashMap<(&RequirementSet, Option<&Arc<str>>), usize> = FxHashMap::default();
        let mut by_place: FxHashMap<(*const RequirementSet, Option<&Arc<str>>), usize> = FxHashMap::default();
        let count = self.len();
        for (column, group) in groups.iter().enumerate() {
            let instance_type = &types[self.type_of[column] as usize];
            for offering in group.iter().map(|number| &instance_type.offerings[*number]) {
                let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
                let class_of_content = || {
                    let content = (&*offering.requirements, reservation);
                    *by_content.entry(content).or_insert_with(|| {
                        self.offerings.push(OfferingClass {
                            requirements: Arc::clone(&offering.requirements),
                            sets: labels.compile_all(&offering.requirements),
                            reservation: reservation.cloned(),
                            available: Bits::none(count),
                            price: vec![f64::INFINITY; count],
                        });
                        self.offerings.len() - 1
                    })
                };
                let place = (Arc::as_ptr(&offering.requirements), reservation);
                let class = *by_place.entry(place).or_insert_with(class_of_content);
                let class = &mut self.offerings[class];
                if offering.available {
                    class.available.insert(column);
                }
                if offering.is_launchable() {
                    let price = if offering.price.is_nan() { 0.0 } else { offering.price };
                    class.price[column] = class.price[column].min(price);
                }
            }
        }
    }

    fn key_columns(&self, key: KeyId, labels: &LabelTable) -> KeyColumns {
        let name = labels.name(key);
        if self.types.iter().all(|instance_type| instance_type.requirements.get(name).is_none()) {
            return KeyColumns::default();
        }
        let none = Bits::none(self.len());
        let mut result = KeyColumns {
            by_value: vec![none.clone(); labels.value_count(key).max(1)],
            open: none.clone(),
            absent: none,
        };
        let anything = labels.anything(key);
        let sets: Vec<Option<LabelSet>> = self
            .types
            .iter()
            .map(|instance_type| instance_type.requirements.get(name).map(|set| labels.compile(key, set)))
            .collect();
        for (column, index) in self.type_of.iter().enumerate() {
            let set = sets[*index as usize].as_ref().unwrap_or(&anything);
            set.bits.iter().for_each(|value| result.by_value[value].insert(column));
            if set.open {
                result.open.insert(column);
            }
            if set.absent {
                result.absent.insert(column);
            }
        }
        result
    }
}

/// The type's own amounts, replaced where an offering says otherwise.
fn overlaid(own: &ResourceList, other: Option<&ResourceList>) -> ResourceList {
    let mut result = own.clone();
    result.extend(other.into_iter().flatten());
    result
}

fn address(instance_type: &Arc<InstanceType>) -> usize {
    Arc::as_ptr(instance_type).addr()
}

fn same_overrides(a: &Offering, b: &Offering) -> bool {
    a.capacity_override == b.capacity_override && a.overhead_override == b.overhead_override
}
