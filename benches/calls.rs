//! Nothing but calls, for whoever counts instructions: `cargo bench --bench calls -- NET.pb COUNT`

#[path = "support/net_file.rs"]
mod net_file;

use std::path::Path;

use _core::api::{backward, Forward, Options};
use _core::memory::{take_back_gradients, take_back_ops};
use _core::session::{NoHook, Scope};

use net_file::NetFile;

fn main() {
    let arguments: Vec<_> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [path, count] = &arguments[..] else { panic!("a net, and how many calls") };
    let count: u32 = count.parse().expect("a number of calls");
    let NetFile { name, bytes, ops, ys } = NetFile::read(Path::new(path));
    assert!(ops > 0, "{name} has operators");
    let (options, scope) = (Options::default(), Scope::default());
    for _ in 0..count {
        let answer = backward(Forward::Net(&bytes), &ys, &options, &scope, &mut NoHook);
        let answer = answer.expect("it has a backward pass");
        std::hint::black_box(answer.gradients.iter().count());
        take_back_ops(answer.ops);
        take_back_gradients(answer.gradients);
    }
}
