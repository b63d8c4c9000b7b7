//! Nets of `bench_nets.py`, as `write_nets.py` has written them.

use std::path::Path;

use _core::api::Y;
use _core::session::Named;

/// A net to differentiate.
pub struct NetFile {
    /// Its family and size, as `chain-1000`.
    pub name: String,
    /// The serialized `NetDef`.
    pub bytes: Vec<u8>,
    /// How many operators it has, those of nested nets included.
    pub ops: u32,
    /// What to differentiate.
    pub ys: Vec<Y>,
}

impl NetFile {
    /// Reads the net at a path, and its targets beside it.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("the net can be read");
        let text = std::fs::read_to_string(path.with_extension("ys")).expect("its targets, too");
        let mut lines = text.lines();
        let ops = lines.next().and_then(|line| line.parse().ok()).expect("a number of operators");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, bytes, ops, ys: lines.map(target).collect() }
    }
}

fn target(line: &str) -> Y {
    let (name, gradient) = match line.split_once('\t') {
        Some((name, gradient)) => (name, Named::Dense(gradient.into())),
        None => (line, Named::None),
    };
    Y { name: name.into(), gradient, in_scope: false }
}
