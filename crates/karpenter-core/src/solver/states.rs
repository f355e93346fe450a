//! What an open node may still become: interned combinations of conditions, and how each changes when one more is added.
//!
//! A node under construction is in one [`State`]: a pool template plus the conditions of the pods on it. Few distinct states occur,
//! so adding a pod is one look-up in the table of transitions; only the first time is anything intersected.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::columns::{ColumnId, Columns};
use super::label_sets::{KeyId, LabelSet, LabelSets};
use super::resources::{Amounts, within};

pub(crate) type StateId = u32;
pub(crate) type ConditionsId = u32;
pub(crate) type TemplateId = u16;

/// One combination of pool and conditions.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) template: TemplateId,
    pub(crate) sets: LabelSets,
    /// Instance types that satisfy the conditions and are in stock.
    pub(crate) columns: Bits,
    pub(crate) offerings: Bits,
    /// Columns by price under these offerings.
    pub(crate) order: Arc<PriceOrder>,
}

impl State {
    pub(crate) fn set(&self, key: KeyId) -> Option<&LabelSet> {
        self.sets.iter().find(|(present, _)| *present == key).map(|(_, set)| set)
    }
}

/// Columns are searched this many at a time.
const STRETCH: usize = 16;

/// Columns from the cheapest to the dearest.
#[derive(Clone, Debug)]
pub(crate) struct PriceOrder {
    pub(crate) columns: Vec<(f64, ColumnId)>,
    /// The most that any column of a stretch has of each resource, so that small machines are passed over together.
    most: Vec<Amounts>,
    /// The same of a stretch and all after it.
    most_from: Vec<Amounts>,
}

impl PriceOrder {
    fn new(by_price: Vec<(f64, ColumnId)>, allocatable: &[Amounts]) -> Self {
        let larger = |one: &Amounts, other: &Amounts| -> Amounts {
            one.iter().zip(other).map(|(one, other)| *one.max(other)).collect()
        };
        let most: Vec<Amounts> = by_price
            .chunks(STRETCH)
            .filter_map(|stretch| {
                let amounts = stretch.iter().map(|(_, column)| allocatable[*column as usize].clone());
                amounts.reduce(|one, other| larger(&one, &other))
            })
            .collect();
        let mut most_from = most.clone();
        for number in (1..most.len()).rev() {
            most_from[number - 1] = larger(&most_from[number - 1], &most_from[number]);
        }
        Self { columns: by_price, most, most_from }
    }

    /// The columns from a position on, without stretches that are surely too small; each stretch with the position it begins at.
    pub(crate) fn large_enough<'s>(
        &'s self,
        needed: &'s [i64],
        from: u32,
    ) -> impl Iterator<Item = (u32, &'s [(f64, ColumnId)])> + 's {
        let from = from as usize;
        let any_left = move |number: &usize| within(needed, &self.most_from[*number]);
        let large = move |number: &usize| within(needed, &self.most[*number]);
        (from / STRETCH..self.most.len()).take_while(any_left).filter(large).map(move |number| {
            let begin = from.max(number * STRETCH);
            let end = self.columns.len().min((number + 1) * STRETCH);
            (begin as u32, &self.columns[begin..end])
        })
    }
}

/// Which keys only a pool can define, per template.
#[derive(Clone, Debug)]
pub(crate) struct Definitions {
    /// Keys any node may carry because a provider sets them.
    pub(crate) well_known: Bits,
    /// Keys the template's labels and requirements define.
    pub(crate) by_template: Vec<Bits>,
}

/// The interned states and transitions of one solve.
#[derive(Clone, Debug)]
pub(crate) struct States {
    all: Vec<State>,
    by_content: FxHashMap<(TemplateId, LabelSets), StateId>,
    conditions: Vec<LabelSets>,
    by_sets: FxHashMap<LabelSets, ConditionsId>,
    transitions: FxHashMap<(StateId, ConditionsId), Option<StateId>>,
    orders: FxHashMap<Bits, Arc<PriceOrder>>,
    definitions: Arc<Definitions>,
    /// Conditions that change nothing.
    pub(crate) no_conditions: ConditionsId,
}

impl States {
    pub(crate) fn new(definitions: Definitions) -> Self {
        let mut states = Self {
            all: Vec::new(),
            by_content: FxHashMap::default(),
            conditions: Vec::new(),
            by_sets: FxHashMap::default(),
            transitions: FxHashMap::default(),
            orders: FxHashMap::default(),
            definitions: Arc::new(definitions),
            no_conditions: 0,
        };
        states.no_conditions = states.intern_conditions(LabelSets::new());
        states
    }

    pub(crate) fn get(&self, state: StateId) -> &State {
        &self.all[state as usize]
    }

    pub(crate) fn conditions(&self, id: ConditionsId) -> &LabelSets {
        &self.conditions[id as usize]
    }

    pub(crate) fn intern_conditions(&mut self, sets: LabelSets) -> ConditionsId {
        if let Some(id) = self.by_sets.get(&sets) {
            return *id;
        }
        let id = self.conditions.len() as ConditionsId;
        self.by_sets.insert(sets.clone(), id);
        self.conditions.push(sets);
        id
    }

    /// The state of an empty node of a template.
    pub(crate) fn base(
        &mut self,
        template: TemplateId,
        sets: LabelSets,
        types: &Bits,
        columns: &Columns,
    ) -> StateId {
        self.intern(template, sets, types, columns)
    }

    /// The state after one more set of conditions, or nothing when no instance type is left.
    pub(crate) fn narrow(
        &mut self,
        state: StateId,
        conditions: ConditionsId,
        columns: &Columns,
    ) -> Option<StateId> {
        if conditions == self.no_conditions {
            return Some(state);
        }
        if let Some(known) = self.transitions.get(&(state, conditions)) {
            return *known;
        }
        let next = self.compute(state, conditions, columns);
        self.transitions.insert((state, conditions), next);
        next
    }

    /// Whether nodes of a template can carry the label at all.
    pub(crate) fn definable(&self, template: TemplateId, key: KeyId) -> bool {
        self.definitions.well_known.contains(key as usize)
            || self.definitions.by_template[template as usize].contains(key as usize)
    }

    fn compute(&mut self, state: StateId, conditions: ConditionsId, columns: &Columns) -> Option<StateId> {
        let from = &self.all[state as usize];
        let more = &self.conditions[conditions as usize];
        if more.iter().any(|(key, set)| !set.absent && !self.definable(from.template, *key)) {
            return None;
        }
        let sets = meet(&from.sets, more)?;
        if sets == from.sets {
            return Some(state);
        }
        let (template, types) = (from.template, from.columns.clone());
        let next = self.intern(template, sets, &types, columns);
        (!self.all[next as usize].columns.is_empty()).then_some(next)
    }

    fn intern(&mut self, template: TemplateId, sets: LabelSets, types: &Bits, columns: &Columns) -> StateId {
        let content = (template, sets);
        if let Some(id) = self.by_content.get(&content) {
            return *id;
        }
        let sets = content.1.clone();
        let mut left = matching(&sets, types, columns);
        let offerings = columns.offerings_for(&sets);
        left.and_with(&columns.in_stock(&offerings));
        let order = self.order(&offerings, columns);
        let id = self.all.len() as StateId;
        self.all.push(State { template, sets, columns: left, offerings, order });
        self.by_content.insert(content, id);
        id
    }

    fn order(&mut self, offerings: &Bits, columns: &Columns) -> Arc<PriceOrder> {
        if let Some(order) = self.orders.get(offerings) {
            return order.clone();
        }
        let mut by_price: Vec<(f64, ColumnId)> = (0..columns.len() as ColumnId)
            .map(|column| (columns.price(column, offerings), column))
            .filter(|(price, _)| price.is_finite())
            .collect();
        by_price.sort_by(|(a, first), (b, second)| {
            let rank = |column: &ColumnId| columns.name_rank[*column as usize];
            a.total_cmp(b).then_with(|| rank(first).cmp(&rank(second)))
        });
        let order = Arc::new(PriceOrder::new(by_price, &columns.allocatable));
        self.orders.insert(offerings.clone(), order.clone());
        order
    }
}

/// Columns among `types` whose labels satisfy the conditions.
pub(crate) fn matching(sets: &LabelSets, types: &Bits, columns: &Columns) -> Bits {
    let mut left = types.clone();
    for (key, set) in sets {
        if let Some(accepting) = columns.accepting(*key, set) {
            left.and_with(&accepting);
        }
    }
    left
}

/// Both sets of conditions, or nothing when they contradict each other.
pub(crate) fn meet(a: &LabelSets, b: &LabelSets) -> Option<LabelSets> {
    let mut result = LabelSets::with_capacity(a.len() + b.len());
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some((key, set)), Some((other, more))) if key == other => {
                result.push((*key, set.meet(more)?));
                left.next();
                right.next();
            }
            (Some((key, set)), Some((other, _))) if key < other => {
                result.push((*key, set.clone()));
                left.next();
            }
            (Some((key, set)), None) => {
                result.push((*key, set.clone()));
                left.next();
            }
            (_, Some((key, set))) => {
                result.push((*key, set.clone()));
                right.next();
            }
            (None, None) => return Some(result),
        }
    }
}
