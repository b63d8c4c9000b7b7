//! What each stage of a call costs: `cargo bench --bench stages -- [--json] NET.pb ...`
//!
//! The nets come from `write_nets.py`. Times are the least of several rounds, in nanoseconds per
//! forward operator; allocations and allocated bytes are per operator, too. The last figure of a net
//! is the time of a whole call over that of scanning and interning the net (`support/base.rs`).
#![allow(clippy::print_stdout)]
// No count comes near 2^52.
#![allow(clippy::cast_precision_loss)]

#[path = "support/base.rs"]
mod base;
#[path = "support/counting.rs"]
mod counting;
#[path = "support/laps.rs"]
mod laps;
#[path = "support/net_file.rs"]
mod net_file;
#[path = "support/stages.rs"]
mod stages;

use std::path::Path;

use _core::api::{backward, Forward, Options};
use _core::memory::{take_back_gradients, take_back_ops};
use _core::session::{NoHook, Scope};

use counting::Counting;
use laps::{least, Cost};
use net_file::NetFile;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let (flags, paths): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let nets = paths.iter().map(|path| measure(&NetFile::read(Path::new(path))));
    if flags.iter().any(|flag| flag == "--json") {
        println!("[{}]", nets.map(|net| net.json()).collect::<Vec<_>>().join(",\n"));
    } else {
        nets.for_each(|net| net.print());
    }
}

/// The costs of one net.
struct Measured {
    name: String,
    ops: u32,
    stages: Vec<(&'static str, Cost)>,
    over_base: f64,
}

fn measure(file: &NetFile) -> Measured {
    // About a million operators in all; short calls are disturbed more easily.
    let rounds = (1_000_000 / file.ops.max(1)).clamp(11, 300);
    let ends = least(rounds, |laps| {
        let found = base::scan_and_intern(&file.bytes);
        laps.lap("base");
        assert!(found > 0, "the net has names");
        let answer = whole(file);
        laps.lap("whole call");
        take_back_ops(answer.ops);
        take_back_gradients(answer.gradients);
        laps.skip();
    });
    let inside = least(rounds, |laps| stages::run(file, laps).expect("it has a backward pass"));
    let cost = |stage| inside.iter().find(|(name, _)| *name == stage).expect("a stage").1;
    let [(_, base), (_, whole)] = ends[..] else { unreachable!("two laps") };
    let mut stages = vec![
        ("scan", cost("scan")),
        ("intern", cost("read").without([cost("scan")])),
        ("versions", cost("versions")),
        ("walk", cost("walk").without([cost("versions")])),
        ("verify", cost("verify")),
        ("emit", cost("emit")),
        ("names", cost("names")),
    ];
    stages.push(("rest", whole.without(stages.iter().map(|(_, cost)| *cost))));
    stages.push(("whole call", whole));
    stages.push(("scan + intern alone", base));
    let over_base = whole.time.as_secs_f64() / base.time.as_secs_f64();
    Measured { name: file.name.clone(), ops: file.ops, stages, over_base }
}

fn whole(file: &NetFile) -> _core::api::Backward {
    let (options, scope) = (Options::default(), Scope::default());
    backward(Forward::Net(&file.bytes), &file.ys, &options, &scope, &mut NoHook)
        .expect("it has a backward pass")
}

impl Measured {
    /// By stage: nanoseconds, allocations and bytes, per operator.
    fn rows(&self) -> impl Iterator<Item = (&'static str, [f64; 3])> + '_ {
        let ops = f64::from(self.ops);
        self.stages.iter().map(move |(stage, cost)| {
            let amounts =
                [cost.time.as_secs_f64() * 1e9, cost.allocations as f64, cost.bytes as f64];
            (*stage, amounts.map(|amount| amount / ops))
        })
    }

    fn print(&self) {
        println!("{}: {} operators", self.name, self.ops);
        println!("  {:<20} {:>9} {:>13} {:>9}", "", "ns/op", "allocations", "bytes");
        for (stage, [time, allocations, bytes]) in self.rows() {
            println!("  {stage:<20} {time:>9.1} {allocations:>13.4} {bytes:>9.1}");
        }
        println!("  whole call / scan + intern alone: {:.2}\n", self.over_base);
    }

    fn json(&self) -> String {
        let rows = self.rows().map(|(stage, [time, allocations, bytes])| {
            format!(
                "\"{stage}\": {{\"ns\": {time:.2}, \"allocations\": {allocations:.5}, \
                 \"bytes\": {bytes:.2}}}"
            )
        });
        let rows: Vec<_> = rows.collect();
        format!(
            "{{\"name\": \"{}\", \"ops\": {}, \"over_base\": {:.4}, \"stages\": {{{}}}}}",
            self.name,
            self.ops,
            self.over_base,
            rows.join(", ")
        )
    }
}
