//! What the parts of a piece of work cost, one behind the other.

use std::time::{Duration, Instant};

use crate::counting::allocated;

/// Time and memory of one stage.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// The time.
    pub time: Duration,
    /// How often memory was asked for.
    pub allocations: u64,
    /// How much.
    pub bytes: u64,
}

impl Cost {
    /// What is left of it without others; of time nothing, where noise would make it negative.
    pub fn without(self, others: impl IntoIterator<Item = Self>) -> Self {
        others.into_iter().fold(self, |left, other| Self {
            time: left.time.saturating_sub(other.time),
            allocations: left.allocations.saturating_sub(other.allocations),
            bytes: left.bytes.saturating_sub(other.bytes),
        })
    }
}

/// A stop-watch for stages.
pub struct Laps {
    stages: Vec<(&'static str, Cost)>,
    start: (Instant, (u64, u64)),
}

impl Laps {
    /// Starts the first stage.
    pub fn start() -> Self {
        let stages = Vec::with_capacity(16);
        Self { stages, start: (Instant::now(), allocated()) }
    }

    /// Ends a stage, and starts the next one.
    pub fn lap(&mut self, stage: &'static str) {
        let time = self.start.0.elapsed();
        let ((count, bytes), (count_before, bytes_before)) = (allocated(), self.start.1);
        let cost = Cost { time, allocations: count - count_before, bytes: bytes - bytes_before };
        self.stages.push((stage, cost));
        self.skip();
    }

    /// Leaves out what was done since the last stage.
    pub fn skip(&mut self) {
        self.start = (Instant::now(), allocated());
    }
}

/// The least that each stage cost in several rounds: whatever disturbs only adds.
pub fn least(rounds: u32, mut round: impl FnMut(&mut Laps)) -> Vec<(&'static str, Cost)> {
    let mut least: Vec<(&'static str, Cost)> = Vec::new();
    for _ in 0..rounds {
        let mut laps = Laps::start();
        round(&mut laps);
        if least.is_empty() {
            least = laps.stages;
            continue;
        }
        for ((_, least), (_, cost)) in least.iter_mut().zip(laps.stages) {
            least.time = least.time.min(cost.time);
            least.allocations = least.allocations.min(cost.allocations);
            least.bytes = least.bytes.min(cost.bytes);
        }
    }
    least
}
