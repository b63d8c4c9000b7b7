//! Leaves out gradient operators that nothing wanted depends on, or that do nothing.

use crate::control::ELSE_SUFFIX;
use crate::gradient::{Body, ControlArg, GradientNet, GradientOp, Ref};
use crate::session::{Session, RED_ZONE, STACK};

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
            let looks_at = match &op.body {
                Body::Control(control) => &control.looks_at[..],
                _ => &[],
            };
            net.inputs(op).iter().chain(looks_at).for_each(|part| need(*part, &mut needed));
        }
    }
    let mut kept = kept.into_iter();
    net.ops.retain(|_| kept.next().unwrap_or_default());
}

/// Drops copies of a blob to itself, and a side of an If that has nothing else and no forward net.
///
/// Only final names tell which copies those are.
pub fn drop_idle_copies<'a>(session: &mut Session<'_, 'a>, net: &mut GradientNet<'a>) {
    if !session.idle_copies {
        return;
    }
    let mut ops = std::mem::take(&mut net.ops);
    ops.retain(|op| !is_idle(session, net, op));
    net.ops = ops;
    for op in &mut net.ops {
        let Body::Control(control) = &mut op.body else { continue };
        control.args.retain_mut(|argument| {
            let ControlArg::Net(_, inner) = argument else { return true };
            stacker::maybe_grow(RED_ZONE, STACK, || drop_idle_copies(session, &mut inner.net));
            inner.head.suffix != ELSE_SUFFIX || !inner.net.ops.is_empty()
        });
    }
}

fn is_idle<'a>(session: &mut Session<'_, 'a>, net: &GradientNet<'a>, op: &GradientOp<'a>) -> bool {
    if op.op_type != b"Copy" || !matches!(op.body, Body::Plain { .. }) {
        return false;
    }
    let [from, to] = [net.inputs(op)[0], net.writes(op)[0]]
        .map(|part| session.values.name_of(part, &mut session.table));
    from == to
}
