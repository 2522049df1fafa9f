//! Runs of new nodes with equal contents.

use super::{Offer, Profile};
use crate::nodes::Snapshot;
use crate::nodes::snapshot::ClassId;

/// New nodes with equal contents.
#[derive(Clone, Debug)]
pub(in crate::nodes) struct Run {
    /// The index of their offer.
    pub(in crate::nodes) offer: usize,
    pub(in crate::nodes) nodes: u32,
    /// How many pods of each class each of them has.
    pub(in crate::nodes) pods: Vec<(ClassId, u32)>,
    free: Vec<i64>,
    slots: i64,
    /// The counts by host of each node, for plain and spread counters.
    counts: Vec<(usize, u32)>,
    spread_counts: Vec<(usize, u32)>,
    pub(super) ports: Vec<u32>,
    pub(super) volumes: Vec<u32>,
}

impl Run {
    /// Returns an empty new node of an offer, with its daemons.
    pub(super) fn fresh(snapshot: &Snapshot<'_>, offer: &Offer<'_>, at: usize) -> Self {
        let model = offer.node_template.model;
        let mut run = Self {
            offer: at,
            nodes: 0,
            pods: Vec::new(),
            free: snapshot.free(model).to_vec(),
            slots: snapshot.slots(model),
            counts: Vec::new(),
            spread_counts: Vec::new(),
            ports: snapshot.ports_on(model).to_vec(),
            volumes: Vec::new(),
        };
        for class in &offer.node_template.daemons {
            let terms = &snapshot.classes[*class].terms;
            for counter in &terms.counts_for {
                if snapshot.topologies.is_hostname(snapshot.counters.plain[*counter].topology) {
                    add(&mut run.counts, *counter, 1);
                }
            }
            for counter in &terms.spreads_for {
                if snapshot.is_host_region(snapshot.counters.spread[*counter].region) {
                    add(&mut run.spread_counts, *counter, 1);
                }
            }
        }
        run
    }

    /// Returns a part of its nodes.
    pub(in crate::nodes) fn some(&self, nodes: u32) -> Self {
        self.opened(nodes)
    }

    pub(super) fn opened(&self, nodes: u32) -> Self {
        Self { nodes, ..self.clone() }
    }

    /// Returns how many pods with this request fit on each node.
    pub(super) fn takes(&self, request: &[i64]) -> u32 {
        let mut most = self.slots.max(0);
        for (asked, free) in request.iter().zip(&self.free) {
            if *asked > 0 {
                most = most.min(free.max(&0) / asked);
            }
        }
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Returns the free resources of each node.
    pub(super) fn free(&self) -> &[i64] {
        &self.free
    }

    /// Returns the count of each node.
    pub(super) fn count(&self, counter: usize) -> u32 {
        self.counts.iter().find(|(c, _)| *c == counter).map_or(0, |(_, count)| *count)
    }

    pub(super) fn spread_count(&self, counter: usize) -> u32 {
        self.spread_counts.iter().find(|(c, _)| *c == counter).map_or(0, |(_, count)| *count)
    }

    pub(super) fn put(&mut self, class: ClassId, count: u32, profile: &Profile) {
        self.slots -= i64::from(count);
        for (free, asked) in self.free.iter_mut().zip(&profile.request) {
            *free -= asked * i64::from(count);
        }
        profile.local.counts_for.iter().for_each(|c| add(&mut self.counts, *c, count));
        profile.local.spreads_for.iter().for_each(|c| add(&mut self.spread_counts, *c, count));
        self.ports.extend(&profile.ports);
        // Pods that share a volume attach it once.
        let new = profile.volumes.iter().filter(|v| !self.volumes.contains(v));
        let new: Vec<u32> = new.copied().collect();
        self.volumes.extend(new);
        match self.pods.iter_mut().find(|(c, _)| *c == class) {
            Some((_, pods)) => *pods += count,
            None => self.pods.push((class, count)),
        }
    }
}

fn add(counts: &mut Vec<(usize, u32)>, counter: usize, by: u32) {
    match counts.iter_mut().find(|(c, _)| *c == counter) {
        Some((_, count)) => *count += by,
        None => counts.push((counter, by)),
    }
}

/// Pods of one class for a run: `each` per node, `total` in all.
pub(super) struct Fill<'p> {
    pub(super) class: ClassId,
    pub(super) each: u32,
    pub(super) total: u32,
    pub(super) profile: &'p Profile,
}

/// All runs in the order in which their nodes were opened, in blocks that store the maximum free resources of their runs.
#[derive(Default)]
pub(super) struct Runs {
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    runs: Vec<Run>,
    cpu: i64,
    memory: i64,
    slots: i64,
}

/// A run's block and its position there.
#[derive(Clone, Copy)]
pub(super) struct RunPosition {
    block: usize,
    at: usize,
}

const BLOCK: usize = 32;

impl Runs {
    pub(super) fn get(&self, place: RunPosition) -> &Run {
        &self.blocks[place.block].runs[place.at]
    }

    pub(super) fn start(&self, request: &[i64]) -> Option<RunPosition> {
        self.seek(RunPosition { block: 0, at: 0 }, request)
    }

    /// Returns the next run that may have room.
    pub(super) fn next(&self, place: RunPosition, request: &[i64]) -> Option<RunPosition> {
        self.seek(RunPosition { at: place.at + 1, ..place }, request)
    }

    fn seek(&self, from: RunPosition, request: &[i64]) -> Option<RunPosition> {
        let RunPosition { mut block, mut at } = from;
        loop {
            let this = self.blocks.get(block)?;
            if at < this.runs.len() && this.may_take(request) {
                return Some(RunPosition { block, at });
            }
            block += 1;
            at = 0;
        }
    }

    /// Fills the first nodes of a run; returns the position of the last run that was filled.
    pub(super) fn fill(&mut self, place: RunPosition, fill: &Fill<'_>) -> RunPosition {
        let block = &mut self.blocks[place.block];
        let run = &block.runs[place.at];
        let (full, rest) = (fill.total / fill.each, fill.total % fill.each);
        let untouched = run.nodes - full - u32::from(rest > 0);
        let mut pieces = Vec::with_capacity(3);
        for (nodes, pods) in [(full, fill.each), (u32::from(rest > 0), rest)] {
            if nodes > 0 {
                let mut piece = run.opened(nodes);
                piece.put(fill.class, pods, fill.profile);
                pieces.push(piece);
            }
        }
        let filled = pieces.len();
        if untouched > 0 {
            pieces.push(run.opened(untouched));
        }
        block.runs.splice(place.at..=place.at, pieces);
        block.measure();
        let last = RunPosition { at: place.at + filled - 1, ..place };
        self.split(last)
    }

    /// Keeps blocks small; returns the new position of the run at `place`.
    fn split(&mut self, place: RunPosition) -> RunPosition {
        let block = &mut self.blocks[place.block];
        if block.runs.len() <= BLOCK {
            return place;
        }
        let half = block.runs.len() / 2;
        let mut upper = Block { runs: block.runs.split_off(half), ..Block::default() };
        upper.measure();
        block.measure();
        self.blocks.insert(place.block + 1, upper);
        if place.at < half {
            place
        } else {
            RunPosition { block: place.block + 1, at: place.at - half }
        }
    }

    /// Adds newly opened nodes, filled; `evens` distributes the pods so that no two nodes differ by more than one.
    pub(super) fn push(&mut self, fresh: Run, fill: &Fill<'_>, evens: bool) {
        let nodes = fresh.nodes;
        let (full, rest) = (fill.total / fill.each, fill.total % fill.each);
        let even = (fill.total % nodes, fill.total / nodes);
        let parts = if evens {
            [(even.0, even.1 + 1), (nodes - even.0, even.1)]
        } else {
            [(full, fill.each), (u32::from(rest > 0), rest)]
        };
        for (nodes, pods) in parts {
            if nodes > 0 {
                let mut run = fresh.opened(nodes);
                run.put(fill.class, pods, fill.profile);
                self.push_one(run);
            }
        }
    }

    /// Appends a run.
    fn push_one(&mut self, run: Run) {
        if self.blocks.last().is_none_or(|block| block.runs.len() >= BLOCK) {
            self.blocks.push(Block::default());
        }
        let block = self.blocks.last_mut().expect("a block was added above");
        block.runs.push(run);
        block.measure();
    }

    /// Returns all runs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.blocks.iter().flat_map(|block| &block.runs)
    }

    pub(super) fn into_all(self) -> Vec<Run> {
        self.blocks.into_iter().flat_map(|block| block.runs).collect()
    }
}

impl Block {
    fn measure(&mut self) {
        let most = |of: fn(&Run) -> i64| self.runs.iter().map(of).max().unwrap_or(0);
        (self.cpu, self.memory, self.slots) =
            (most(|run| run.free[0]), most(|run| run.free[1]), most(|run| run.slots));
    }

    fn may_take(&self, request: &[i64]) -> bool {
        self.slots > 0
            && (request[0] <= 0 || request[0] <= self.cpu)
            && (request[1] <= 0 || request[1] <= self.memory)
    }
}
