//! The report of a simulated day.

use std::fmt;
use std::time::Duration;

/// The state of the world at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The nodes that are paid for: from their request to their deletion.
    pub(super) nodes: u32,
    /// Game servers that are Ready.
    pub(super) ready: u32,
    /// Sessions with a game server.
    pub(super) playing: u32,
    /// Sessions whose game server is gone before their end.
    pub(super) lost: u32,
}

/// The state every half an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Since the start of the day.
    pub at: Duration,
    /// The nodes that are paid for.
    pub nodes: u32,
    /// Game servers that are Ready.
    pub ready: u32,
    /// Sessions with a game server.
    pub playing: u32,
}

/// The figures of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether nodes and fleets took each other into account.
    pub aware: bool,
    /// Sessions that got a game server.
    pub served: u32,
    /// Sessions that had to wait for one.
    pub waiting: u32,
    /// How long they waited together.
    pub waited: Duration,
    /// How long one of them waited at most.
    pub longest_wait: Duration,
    /// The time that nodes were paid for, over all of them.
    pub node_time: Duration,
    /// The most nodes at one time.
    pub most_nodes: u32,
    /// Idle game servers that moved to another node.
    pub moves: u32,
    /// Sessions whose game server was gone before their end.
    pub lost: u32,
    /// The state every half an hour.
    pub rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(aware: bool) -> Self {
        Self {
            aware,
            served: 0,
            waiting: 0,
            waited: Duration::ZERO,
            longest_wait: Duration::ZERO,
            node_time: Duration::ZERO,
            most_nodes: 0,
            moves: 0,
            lost: 0,
            rows: Vec::new(),
        }
    }

    pub(super) fn served(&mut self, after: Duration) {
        self.served += 1;
        self.waited += after;
        self.longest_wait = self.longest_wait.max(after);
    }

    /// Adds a sample, which stands for the time until the next one.
    pub(super) fn sample(&mut self, at: Duration, length: Duration, is_row: bool, state: &State) {
        let State { nodes, ready, playing, lost } = *state;
        self.node_time += length * nodes;
        self.most_nodes = self.most_nodes.max(nodes);
        self.lost = lost;
        if is_row {
            self.rows.push(Row { at, nodes, ready, playing });
        }
    }

    /// Returns the node-hours.
    pub fn node_hours(&self) -> f64 {
        self.node_time.as_secs_f64() / 3600.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fleets and nodes together: {}", if self.aware { "yes" } else { "no" })?;
        for Row { at, nodes, ready, playing } in &self.rows {
            let (hours, minutes) = (at.as_secs() / 3600, at.as_secs() / 60 % 60);
            writeln!(
                f,
                "{hours:02}:{minutes:02}  {nodes:3} nodes  {playing:3} playing  {ready:3} ready"
            )?;
        }
        let (waited, longest) = (self.waited.as_secs(), self.longest_wait.as_secs());
        writeln!(
            f,
            "{} sessions, {} waited: {waited} s together, {longest} s at most; {} lost",
            self.served, self.waiting, self.lost
        )?;
        let (hours, most) = (self.node_hours(), self.most_nodes);
        writeln!(f, "{hours:.1} node-hours, {most} nodes at most, {} moves", self.moves)
    }
}
