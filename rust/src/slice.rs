//! Leaves out the gradient operators that nothing wanted depends on.

use crate::gradient::{GradientNet, Ref};

/// Keeps the operators from which `wanted` is computed, in their order.
///
/// Values are followed, not names. An operator that works on a value in place belongs to the value.
pub fn keep_only(net: &mut GradientNet<'_>, wanted: impl Iterator<Item = Ref>, values: u32) {
    let mut needed = vec![false; values as usize];
    let need = |part: Ref, needed: &mut Vec<bool>| {
        if let Ref::Value(value) = part {
            needed[value.0 as usize] = true;
        }
    };
    wanted.for_each(|part| need(part, &mut needed));
    let mut kept = vec![false; net.ops.len()];
    for (at, op) in net.ops.iter().enumerate().rev() {
        if net.outputs(op).any(|value| needed[value.0 as usize]) {
            kept[at] = true;
            net.inputs(op).iter().for_each(|part| need(*part, &mut needed));
        }
    }
    let mut kept = kept.into_iter();
    net.ops.retain(|_| kept.next().unwrap_or_default());
}
