//! Multi-node consolidation: several nodes leave together, with nothing or cheaper nodes in their place.
//!
//! Two ideas compete, and the larger saving wins. *Prefixes* takes the first so many candidates away and packs all their pods anew,
//! which finds what only works together. *Growing* goes through the candidates one by one and lets each leave if that alone
//! saves more than it costs, first where its pods fit on nodes that stay, then where they fit on new nodes that others share. With few
//! candidates growing also starts from every prefix that works. Where not all candidates may go at once, growing also begins with the dearest.

use std::collections::BTreeMap;

use super::moves::{Draft, Failure, Field, TOLERANCE};
use super::plan::{DisruptionCommand, DisruptionMethod};
use crate::solver::{Trial, Way};

/// With at most so many candidates every prefix is tried, and growing starts from each of them.
const PREFIXES_ALL: usize = 40;

/// A way to start: this many of the first candidates of a line leave together, placed one way.
#[derive(Clone, Copy)]
struct Start<'l> {
    line: &'l Line,
    prefix: usize,
    way: Way,
}

/// Candidates in the order in which they are asked to leave.
struct Line {
    order: Vec<usize>,
    /// The first ones of every pool, as many as its budget allows.
    within: Vec<usize>,
}

impl Line {
    fn new(field: &Field<'_>, order: Vec<usize>) -> Self {
        let mut budgets = Budgets::new(field);
        let within = order.iter().copied().filter(|number| budgets.take(*number)).collect();
        Self { order, within }
    }

    /// Whether all of them may leave at once.
    fn is_whole(&self) -> bool {
        self.within.len() == self.order.len()
    }

    /// The same candidates, those that cost most first: where only some may leave, it matters which.
    fn dearest_first(&self, field: &Field<'_>) -> Self {
        let price = |number: &usize| field.candidate(*number).price;
        let mut order = self.order.clone();
        order.sort_by(|a, b| price(b).total_cmp(&price(a)));
        Self::new(field, order)
    }
}

pub(crate) fn plan(field: &Field<'_>) -> Option<DisruptionCommand> {
    let order: Vec<usize> =
        field.consolidatable().into_iter().filter(|number| field.budget(*number) > 0).collect();
    if order.len() < 2 {
        return None;
    }
    let gentlest = Line::new(field, order);
    let dearest = (!gentlest.is_whole()).then(|| gentlest.dearest_first(field));
    let lines = std::iter::once(&gentlest).chain(&dearest);
    let mut starts: Vec<Start<'_>> =
        lines.map(|line| Start { line, prefix: 0, way: Way::Existing }).collect();
    starts.extend(prefixes(gentlest.within.len()).into_iter().flat_map(|prefix| {
        let ways = std::iter::once(Way::Existing).chain(field.stage.ways());
        let line = &gentlest;
        ways.map(move |way| Start { line, prefix, way })
    }));
    let tried = field.for_each(&starts, |trial, start| {
        let before = trial.point();
        let outcome = grown(field, trial, *start);
        trial.return_to(&before);
        outcome.map(|(savings, _)| savings)
    });
    let mut best: Option<(f64, Start<'_>)> = None;
    for (start, savings) in starts.iter().zip(tried) {
        if let Ok(savings) = savings
            && best.is_none_or(|(most, _)| savings > most + TOLERANCE)
        {
            best = Some((savings, *start));
        }
    }
    let mut trial = field.settled.trial();
    let (savings, nodes) = grown(field, &mut trial, best?.1).ok()?;
    let draft = Draft { nodes, savings, placed: trial.written() };
    Some(field.command(DisruptionMethod::MultiNodeConsolidation, draft))
}

fn prefixes(count: usize) -> Vec<usize> {
    if count <= PREFIXES_ALL {
        return (2..=count).collect();
    }
    let mut lengths: Vec<usize> = std::iter::successors(Some(2_usize), |length| Some(length * 2))
        .take_while(|length| *length < count)
        .collect();
    lengths.push(count);
    lengths
}

/// What is left of every pool's budget, and of the command's size.
struct Budgets<'a, 'f> {
    field: &'a Field<'f>,
    left: BTreeMap<&'a str, u32>,
    nodes: usize,
}

impl<'a, 'f> Budgets<'a, 'f> {
    fn new(field: &'a Field<'f>) -> Self {
        let left =
            field.allowances.iter().map(|(pool, allowance)| (&**pool, allowance.remaining())).collect();
        Self { field, left, nodes: field.options.nodes_per_command }
    }

    fn allows(&self, number: usize) -> bool {
        self.nodes > 0
            && self.left.get(&*self.field.candidate(number).pool.name).is_some_and(|left| *left > 0)
    }

    fn take(&mut self, number: usize) -> bool {
        if !self.allows(number) {
            return false;
        }
        self.nodes -= 1;
        if let Some(left) = self.left.get_mut(&*self.field.candidate(number).pool.name) {
            *left -= 1;
        }
        true
    }
}

/// Starts with a prefix and lets more nodes leave one by one; returns the saving and the nodes.
fn grown(
    field: &Field<'_>,
    trial: &mut Trial<'_, '_>,
    start: Start<'_>,
) -> Result<(f64, Vec<usize>), Failure> {
    let order = &start.line.order;
    let mut gone: Vec<usize> = start.line.within[..start.prefix].to_vec();
    gone.iter().for_each(|number| field.remove(trial, *number));
    if !trial.place(start.way) {
        return Err(Failure::NoPlace);
    }
    // A packed world is finished: nothing can be added to it. With many candidates the work would not be worth it either.
    if matches!(start.way, Way::Packed(_)) || (start.prefix > 0 && order.len() > PREFIXES_ALL) {
        return finished(field, trial, gone, start.way);
    }
    let mut budgets = Budgets::new(field);
    gone.iter().for_each(|number| {
        budgets.take(*number);
    });
    grow(field, trial, order, (&mut gone, &mut budgets), Way::Existing);
    let (count, simple) = (gone.len(), trial.point());
    grow(field, trial, order, (&mut gone, &mut budgets), Way::LeastIncrease);
    let most: f64 = field.source(&gone[..count]);
    match finished(field, trial, gone.clone(), Way::LeastIncrease) {
        Ok((savings, nodes)) if count < 2 || start.prefix > 0 || savings > most + TOLERANCE => {
            Ok((savings, nodes))
        }
        // New nodes are not worth it: deletions alone save as much.
        _ => {
            trial.return_to(&simple);
            gone.truncate(count);
            finished(field, trial, gone, start.way)
        }
    }
}

/// Lets more nodes leave one by one.
fn grow(
    field: &Field<'_>,
    trial: &mut Trial<'_, '_>,
    order: &[usize],
    (gone, budgets): (&mut Vec<usize>, &mut Budgets<'_, '_>),
    way: Way,
) {
    let mut is_gone = vec![false; field.found.all.len()];
    gone.iter().for_each(|number| is_gone[*number] = true);
    for number in order.iter().filter(|number| !is_gone[**number]) {
        if budgets.allows(*number) && leaves(field, trial, gone, *number, way) {
            budgets.take(*number);
            gone.push(*number);
        }
    }
}

/// Prices a finished move of at least two nodes.
fn finished(
    field: &Field<'_>,
    trial: &mut Trial<'_, '_>,
    gone: Vec<usize>,
    way: Way,
) -> Result<(f64, Vec<usize>), Failure> {
    if gone.len() < 2 {
        return Err(Failure::NoPlace);
    }
    if trial.new_nodes() > 1 && way != Way::FewestPods {
        trial.join_new_nodes();
    }
    Ok((field.priced(trial, &gone)?, gone))
}

/// Lets one more node leave if that saves more than the new nodes become dearer.
fn leaves(field: &Field<'_>, trial: &mut Trial<'_, '_>, gone: &[usize], number: usize, way: Way) -> bool {
    let candidate = field.candidate(number);
    // Without that option spot nodes are not replaced by spot nodes, unless on-demand nodes are replaced along with them.
    let only_spot = || candidate.is_spot() && gone.iter().all(|other| field.candidate(*other).is_spot());
    if way != Way::Existing && !field.options.spot_to_spot && only_spot() {
        return false;
    }
    let before = trial.point();
    let price = trial.price();
    field.remove(trial, number);
    let fits = trial.place(way) && trial.price() - price < candidate.price - TOLERANCE;
    if !fits || field.worth_it(&[number], candidate.price - (trial.price() - price)).is_err() {
        trial.return_to(&before);
        return false;
    }
    true
}
