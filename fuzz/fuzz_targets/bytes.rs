#![no_main]
//! Arbitrary bytes as a net; the targets are names that stand in it.
use libfuzzer_sys::fuzz_target;
#[path = "common.rs"]
mod common;
use ctrlgrad::session::Named;

fuzz_target!(|data: (u8, u8, &[u8])| {
    let (pick, how, net) = data;
    let names = common::names_of(net);
    let mut ys = Vec::new();
    for k in 0..=(pick as usize >> 6) {
        let Some(name) =
            names.get((pick as usize).wrapping_mul(7).wrapping_add(k * 13) % names.len().max(1))
        else {
            break;
        };
        let gradient = match (how as usize + k) % 4 {
            0 | 1 => Named::None,
            2 => Named::Dense([&name[..], b"_grad"].concat()),
            _ => Named::Sparse(b"i".to_vec(), b"v".to_vec()),
        };
        ys.push((name.clone(), gradient));
    }
    if ys.is_empty() {
        ys.push((b"y".to_vec(), Named::None));
    }
    let no_grad =
        if how & 16 != 0 { names.first().cloned().into_iter().collect() } else { Vec::new() };
    let wrt = (how & 32 != 0).then(|| names.iter().take(3).cloned().collect());
    let one = common::ask(net, &ys, no_grad.clone(), wrt.clone());
    let two = common::ask(net, &ys, no_grad, wrt);
    assert_eq!(one, two);
});
