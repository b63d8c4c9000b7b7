//! A backward pass with what the walk knew at its end: for those who look at the reference's `IR`.

use rustc_hash::FxHashMap;

use crate::api::{self, targets, Forward, Gradients, Y};
use crate::backward;
use crate::error::Result;
use crate::gradient::{BlobGradient, ValueId};
use crate::memory::with_session;
use crate::producers::Origin;
use crate::session::{Hook, Named, Scope, Session};
use crate::ssa::VersionId;
use crate::surroundings::Surroundings;
use crate::verify::verify;

/// What a walk knew.
pub struct Trace {
    /// The gradient operators.
    pub ops: Vec<Vec<u8>>,
    /// The gradients of blobs.
    pub gradients: Gradients,
    /// By blob: the version that its gradient is the gradient of.
    pub frontier: Vec<(Vec<u8>, u32)>,
    /// By blob and version: who produced a gradient.
    pub producers: Vec<(Vec<u8>, u32, Vec<Entry>)>,
}

/// One producer.
pub struct Entry {
    /// The gradient.
    pub gradient: Named,
    /// The gradient operator that makes it, or its indices, and at which output.
    pub made: Option<(usize, usize)>,
    /// The gradient operator that makes the values of a sparse one, and at which output.
    pub made_values: Option<(usize, usize)>,
    /// The forward operator that it comes from.
    pub forward: Option<u32>,
}

/// The backward pass of operators, with its trace.
pub fn trace(ops: &[&[u8]], ys: &[Y], scope: &Scope, hook: &mut dyn Hook) -> Result<Trace> {
    with_session(Forward::Ops(ops), scope, hook, |session, ops| traced(session, ops, ys))
}

fn traced<'a>(session: &mut Session<'_, 'a>, ops: Forward<'a>, ys: &[Y]) -> Result<Trace> {
    let net = ops.read(session)?;
    let targets = targets(session, ys)?;
    let around = Surroundings::default();
    let outcome = backward::backward(session, &net, &targets, &around)?;
    verify(session, &outcome.net, &|op| net.ops()[op as usize].view.op_type, &[])?;

    let mut makers: FxHashMap<ValueId, (usize, usize)> = FxHashMap::default();
    for (at, op) in outcome.net.ops.iter().enumerate() {
        for (output, value) in outcome.net.outputs(op).enumerate() {
            makers.entry(value).or_insert((at, output));
        }
    }
    let mut producers = Vec::new();
    for version in (0..outcome.ssa.versions.len() as u32).map(VersionId) {
        let entries: Vec<Entry> = outcome
            .producers
            .of(version)
            .filter(|producer| producer.origin != Origin::Caller)
            .map(|producer| {
                let made =
                    |value: Option<ValueId>| value.and_then(|value| makers.get(&value).copied());
                Entry {
                    gradient: session.first_named(producer.gradient),
                    made: made(producer.made),
                    made_values: made(producer.made_values),
                    forward: match producer.origin {
                        Origin::Forward(op) => Some(op),
                        Origin::Made(at) => outcome.net.ops[at as usize].forward(),
                        Origin::Caller => None,
                    },
                }
            })
            .collect();
        if !entries.is_empty() {
            let blob = session.table.name(outcome.ssa.blob(version)).to_vec();
            producers.push((blob, outcome.ssa.number(version), entries));
        }
    }
    let (mut frontier, mut gradients) = (Vec::new(), Vec::new());
    for (blob, found) in outcome.gradients() {
        let name = session.table.name(blob).to_vec();
        frontier.push((name, outcome.ssa.number(found.version)));
        gradients.push(BlobGradient { blob, gradient: found.gradient, came_in: false });
    }
    let ops = api::each_op(session, &outcome.net);
    let gradients = api::names(session, &gradients);
    Ok(Trace { ops, gradients, frontier, producers })
}
