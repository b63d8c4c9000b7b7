//! The gradient of a Do: a Do that takes up the workspace of the forward one.

use std::cell::OnceCell;

use crate::backward::{backward, Target, Walk};
use crate::blobs::{self, BlobId};
use crate::error::Result;
use crate::few::{Map, Set};
use crate::gradient::{
    Body, Control, ControlArg, Gradient, GradientNet, NetHead, Ref, ValueId, Values,
};
use crate::surroundings::Surroundings;

use super::bindings::{broken, Bindings};
use super::listed::Listed;
use super::seeds::{seeds, set_apart, Seed};
use super::{unlisted, Arguments};

/// Behind the inner name of an output: its gradient, inside.
const INNER_GRADIENT: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_";
/// Behind the inner name of an input: its gradient, on the way out.
const INNER_COPY: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_COPY_";

pub(super) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
) -> Result<Vec<Gradient>> {
    let bindings = Bindings::read(walk, op, args)?;
    let mut seeds = seeds(walk, op, walk.net.outputs(op).len() - 1)?;
    let body = walk.session.spare.net().filled(bindings.net.ops(), &mut walk.session.table)?;

    let mut inner_seeds = Vec::with_capacity(seeds.len());
    let mut targets = Vec::with_capacity(seeds.len());
    for seed in &seeds {
        // Every output is bound: the bindings have been checked.
        let Some(blob) = bindings.inner(seed.output) else { continue };
        let name = walk.session.table.suffixed(blob, INNER_GRADIENT);
        let value = walk.session.values.add(name);
        inner_seeds.push(value);
        let gradient = Some(Gradient::Dense(Ref::Value(value)));
        targets.push(Target { blob, gradient, in_scope: false });
    }
    let indifferent = walk.indifferent_before(op);
    let inside = |outer: &BlobId| bindings.inner(*outer);
    let (session, sight) = walk.apart();
    let matter = OnceCell::new();
    let matters = |blob| {
        let outer = bindings.outer(blob);
        let matter = || matter.get_or_init(|| sight.matter_inside(op));
        outer.is_some_and(|outer| matter().contains(&outer))
    };
    let around = Surroundings {
        read_outside: sight.net.outputs(op).iter().filter_map(inside).collect(),
        indifferent: indifferent.iter().filter_map(inside).collect(),
        no_gradient: Set::default(),
        matters: Some(&matters),
    };
    let outcome = backward(session, &body, &targets, &around)?;
    // Where it does not matter, the gradient of a later version is handed on, as in the reference.
    let incoming: Map<BlobId, Gradient> = outcome
        .gradients()
        .filter(|(blob, found)| outcome.came_in(*found) || around.indifferent.contains(blob))
        .map(|(blob, found)| (blob, found.gradient))
        .collect();
    walk.session.spare.take_back_read(body);
    let mut inner = walk.session.spare.take_back(outcome);
    let own_ops = inner.ops.len();

    check_kept(walk, op, &bindings, &seeds, &incoming)?;
    let mut way_out = WayOut::default();
    let mut gradients = Vec::with_capacity(walk.net.inputs(op).len());
    for outer in &walk.net.inputs(op)[..walk.net.inputs(op).len() - 1] {
        let found = bindings.inner(*outer).and_then(|blob| Some((blob, *incoming.get(&blob)?)));
        gradients.push(match found {
            None => Gradient::None,
            Some((blob, gradient)) => {
                way_out.carry(walk, &bindings, &mut inner, (*outer, blob), gradient)
            }
        });
    }
    if inner.ops.is_empty() {
        return Ok(gradients);
    }

    walk.check_workspace(op, bindings.workspace)?;
    let reserved =
        way_out.outputs.iter().map(|value| walk.session.values.nominal(*value)).collect();
    set_apart(walk, op, &mut seeds, &reserved);
    let values = &walk.session.values;
    let way_in = WayIn::find(values, &inner, own_ops, &bindings, &inner_seeds, &seeds);
    let way_in = way_in.checked(walk, op)?;
    push(walk, op, &bindings, inner, &way_in, &way_out)?;
    Ok(gradients)
}

/// An output that the net inside leaves as it was hands its gradient on to what it was.
fn check_kept(
    walk: &Walk<'_, '_, '_>,
    op: usize,
    bindings: &Bindings<'_>,
    seeds: &[Seed],
    incoming: &Map<BlobId, Gradient>,
) -> Result<()> {
    let (matter, listed) = (OnceCell::new(), OnceCell::<Set<BlobId>>::new());
    let matters = |blob| matter.get_or_init(|| walk.matter_before(op)).contains(&blob);
    let is_listed = |blob| {
        let inputs = || walk.net.inputs(op).iter().copied().collect();
        listed.get_or_init(inputs).contains(&blob)
    };
    let is_kept = |outer| bindings.inner(outer).is_some_and(|blob| incoming.contains_key(&blob));
    let mut outputs = seeds.iter().map(|seed| seed.output);
    match outputs.find(|blob| is_kept(*blob) && !is_listed(*blob) && matters(*blob)) {
        Some(blob) if !walk.lenient => Err(unlisted(walk, "Do", blob)),
        _ => Ok(()),
    }
}

/// The gradients that leave: copies of inner blobs, bound to outer ones.
#[derive(Default)]
struct WayOut {
    copies: Vec<ValueId>,
    outputs: Vec<ValueId>,
}

impl WayOut {
    fn carry<'a>(
        &mut self,
        walk: &mut Walk<'_, '_, 'a>,
        bindings: &Bindings<'a>,
        inner: &mut GradientNet<'a>,
        (outer, blob): (BlobId, BlobId),
        gradient: Gradient,
    ) -> Gradient {
        let (session, copies, outputs) = (&mut *walk.session, &mut self.copies, &mut self.outputs);
        let mut carry = |part: Ref, inner_suffix: &[u8], outer_suffix: &[u8]| {
            let suffix = [INNER_COPY, inner_suffix].concat();
            let name = session.table.suffixed(blob, &suffix);
            let copy = session.values.add(name);
            inner.copy(part, copy, false, None, None);
            let name = session.table.suffixed(outer, outer_suffix);
            let output = session.values.add(name);
            let like = match session.values.like(part) {
                Some(blob) => bindings.outer(blob),
                None => None,
            };
            session.values.set_like(output, like);
            copies.push(copy);
            outputs.push(output);
            Ref::Value(output)
        };
        match gradient {
            Gradient::None => Gradient::None,
            Gradient::Dense(part) => Gradient::Dense(carry(part, b"", blobs::GRADIENT)),
            Gradient::Sparse(indices, values) => Gradient::Sparse(
                carry(indices, b"/indices", blobs::INDICES),
                carry(values, b"/values", blobs::VALUES),
            ),
        }
    }
}

/// What the inner net reads: from outside, under which inner name, or from the saved workspace.
#[derive(Default)]
struct WayIn {
    /// Outer blobs, in the order of first use.
    inputs: Vec<Ref>,
    /// Inner blob, and the index of its outer one among the inputs.
    bound: Vec<(Ref, u32)>,
    saved: Vec<Ref>,
    /// Outer blobs that the inner net writes although they are bound for reading.
    changes: Vec<Ref>,
}

impl WayIn {
    fn find(
        values: &Values,
        inner: &GradientNet<'_>,
        own_ops: usize,
        bindings: &Bindings<'_>,
        inner_seeds: &[ValueId],
        seeds: &[Seed],
    ) -> Self {
        let seeds: Map<Ref, Ref> = inner_seeds
            .iter()
            .zip(seeds)
            .map(|(inner, seed)| (Ref::Value(*inner), seed.gradient))
            .collect();
        let mut way = Self::default();
        let mut met = Set::default();
        let mut index: Map<Ref, u32> = Map::default();
        for (at, op) in inner.ops.iter().enumerate() {
            for part in inner.inputs(op) {
                let part = &values.canonical(*part);
                let outer = match part {
                    Ref::Blob(blob) => bindings.outer(*blob).map(Ref::Blob),
                    // Most of what is read is made inside, and comes in by no way.
                    Ref::Value(_) => match seeds.get(part) {
                        None => continue,
                        seed => seed.copied(),
                    },
                };
                if !met.insert(*part) {
                    continue;
                }
                match (outer, part) {
                    (Some(outer), _) => {
                        let next = way.inputs.len() as u32;
                        let at = *index.or_insert_with(outer, || next);
                        if at == next {
                            way.inputs.push(outer);
                        }
                        way.bound.push((*part, at));
                    }
                    (None, Ref::Blob(_)) if at < own_ops => way.saved.push(*part),
                    _ => {}
                }
            }
            if let Body::Control(control) = &op.body {
                let changed = control.changes.iter();
                way.changes.extend(changed.filter_map(|part| match values.canonical(*part) {
                    Ref::Blob(blob) => bindings.outer(blob).map(Ref::Blob),
                    part @ Ref::Value(_) => seeds.get(&part).copied(),
                }));
            }
        }
        way
    }

    /// Checks the outer blobs that are read, seen from the net around the Do.
    fn checked(mut self, walk: &mut Walk<'_, '_, '_>, op: usize) -> Result<Self> {
        let listed = Listed::new(walk, op);
        for part in &mut self.inputs {
            *part = super::outer_read(walk, op, &listed, *part)?;
        }
        listed.done(walk);
        Ok(self)
    }
}

fn push<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    bindings: &Bindings<'a>,
    inner: GradientNet<'a>,
    way_in: &WayIn,
    way_out: &WayOut,
) -> Result<()> {
    let values = &walk.session.values;
    let mut outer_names = Set::with_room(way_in.inputs.len() + way_out.outputs.len());
    let outputs = way_out.outputs.iter().map(|value| Ref::Value(*value));
    for part in way_in.inputs.iter().copied().chain(outputs) {
        let name = values.nominal_ref(part);
        if !outer_names.insert(name) {
            return Err(broken(format!(
                "its gradient would have to bind {:?} twice, as a blob of the forward pass and as a \
                 gradient",
                walk.session.shown(name)
            )));
        }
    }
    let first_output = way_in.inputs.len() as u32;
    let copies = way_out.copies.iter().zip(first_output..);
    let copies = copies.map(|(copy, index)| (Ref::Value(*copy), index));
    let (inner_blobs, outer_index) = copies.chain(way_in.bound.iter().copied()).unzip();
    let mut head = NetHead::of(bindings.net, "_grad");
    // The forward workspace holds the forward net under its name; a gradient net of the same name
    // would be taken for it, and the forward net would run again.
    head.always_named = true;
    let control = Control {
        forward: walk.net.ops()[op].view,
        args: vec![
            ControlArg::Net("net", head, inner),
            ControlArg::Names("inner_blobs", inner_blobs),
            ControlArg::Ints("outer_blobs_idx", outer_index),
            ControlArg::Names("saved_fwd_blobs", way_in.saved.clone()),
        ],
        changes: way_in.changes.clone(),
        looks_at: Vec::new(),
    };
    let workspace = Ref::Blob(bindings.workspace);
    let inputs = way_in.inputs.iter().copied().chain([workspace]).collect();
    let outputs =
        way_out.outputs.iter().map(|value| Ref::Value(*value)).chain([workspace]).collect();
    walk.push_control(op, b"Do", inputs, outputs, control);
    Ok(())
}
