//! The gradient of a Do: a Do that takes up the workspace of the forward one.

use std::cell::OnceCell;

use smallvec::{smallvec, SmallVec};

use crate::backward::{backward, Target, Walk};
use crate::blobs::{self, BlobId};
use crate::error::Result;
use crate::few::{Map, Set, FEW};
use crate::gradient::{Body, Control, ControlArg, Gradient, GradientNet, NetHead, Ref, ValueId};
use crate::surroundings::Surroundings;

use super::bindings::{broken, Bindings};
use super::seeds::{seeds, set_apart, Seed};
use super::{not_listed, unlisted, Arguments};

/// The gradients of outputs, as the net inside knows them.
type InnerSeeds = SmallVec<[ValueId; FEW]>;

/// Behind the inner name of an output: its gradient, inside.
const INNER_GRADIENT: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_";
/// Behind the inner name of an input: its gradient, on the way out, and the parts of a sparse one.
const INNER_COPY: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_COPY_";
const INNER_INDICES: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_COPY_/indices";
const INNER_VALUES: &[u8] = b"/_DO_OPERATOR_INNER_GRAD_COPY_/values";

pub(super) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
    gets: &mut Vec<Gradient>,
) -> Result<()> {
    let bindings = Bindings::read(walk, op, args)?;
    let mut seeds = seeds(walk, op, walk.net.outputs(op).len() - 1)?;
    let body = walk.session.spare.net().filled(bindings.net.ops(), &mut walk.session.table)?;

    let mut inner_seeds: InnerSeeds = SmallVec::with_capacity(seeds.len());
    let mut targets: SmallVec<[Target; 4]> = SmallVec::with_capacity(seeds.len());
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
    let read_outside: SmallVec<[BlobId; FEW]> =
        walk.net.outputs(op).iter().filter_map(inside).collect();
    let (session, sight) = walk.apart();
    let matter = OnceCell::new();
    let matters = |blob| {
        let outer = bindings.outer(blob);
        let matter = || matter.get_or_init(|| sight.matter_inside(op));
        outer.is_some_and(|outer| matter().contains(&outer))
    };
    let around = Surroundings {
        read_outside: &read_outside,
        indifferent: indifferent.iter().filter_map(inside).collect(),
        no_gradient: Set::default(),
        matters: Some(&matters),
    };
    let outcome = backward(session, &body, &targets, &around)?;
    let mut incoming: SmallVec<[Gradient; FEW]> = smallvec![Gradient::None; bindings.len()];
    for (blob, found) in outcome.gradients() {
        // Where it does not matter, the gradient of a later version is handed on, as in the reference.
        if outcome.came_in(found) || around.indifferent.contains(&blob) {
            if let Some(number) = bindings.number_of(blob) {
                incoming[number as usize] = found.gradient;
            }
        }
    }
    walk.session.spare.take_back_read(body);
    let mut inner = walk.session.spare.take_back(outcome);
    let own_ops = inner.ops.len();

    check_kept(walk, op, &bindings, &seeds, &incoming)?;
    let mut way_out = WayOut::default();
    for k in 0..walk.net.inputs(op).len() - 1 {
        let number = bindings.input(k);
        let gradient = incoming[number as usize];
        gets.push(way_out.carry(walk, &bindings, &mut inner, number, gradient));
    }
    if inner.ops.is_empty() {
        return Ok(());
    }

    walk.check_workspace(op, bindings.workspace)?;
    let reserved =
        way_out.outputs.iter().map(|value| walk.session.values.nominal(*value)).collect();
    set_apart(walk, op, &mut seeds, &reserved);
    let way_in = WayIn::find(walk, op, &inner, own_ops, &bindings, (&inner_seeds, &seeds))?;
    push(walk, op, &bindings, inner, way_in, way_out)
}

/// An output that the net inside leaves as it was hands its gradient on to what it was.
fn check_kept(
    walk: &Walk<'_, '_, '_>,
    op: usize,
    bindings: &Bindings<'_>,
    seeds: &[Seed],
    incoming: &[Gradient],
) -> Result<()> {
    let matter = OnceCell::new();
    let matters = |blob| matter.get_or_init(|| walk.matter_before(op)).contains(&blob);
    let is_lost = |outer: &BlobId| {
        let number = bindings.number_of_outer(*outer);
        let lost = |number| !bindings.is_input(number) && !incoming[number as usize].is_none();
        number.is_some_and(lost) && matters(*outer)
    };
    match seeds.iter().map(|seed| seed.output).find(is_lost) {
        Some(blob) if !walk.lenient => Err(unlisted(walk, "Do", blob)),
        _ => Ok(()),
    }
}

/// The gradients that leave: copies of inner blobs, bound to outer ones.
#[derive(Default)]
struct WayOut {
    copies: SmallVec<[ValueId; FEW]>,
    outputs: SmallVec<[ValueId; FEW]>,
}

impl WayOut {
    fn carry<'a>(
        &mut self,
        walk: &mut Walk<'_, '_, 'a>,
        bindings: &Bindings<'a>,
        inner: &mut GradientNet<'a>,
        number: u32,
        gradient: Gradient,
    ) -> Gradient {
        let Some(blob) = bindings.inner_at(number) else { return Gradient::None };
        let outer = bindings.outer_at(number);
        let session = &mut *walk.session;
        let mut carry = |part: Ref, inner_suffix: &[u8], outer_suffix: &[u8]| {
            let name = session.table.suffixed(blob, inner_suffix);
            let copy = session.values.add(name);
            inner.copy(part, copy, false, None, None);
            let name = session.table.suffixed(outer, outer_suffix);
            let output = session.values.add(name);
            let like = session.values.like(part).and_then(|blob| bindings.outer(blob));
            session.values.set_like(output, like);
            self.copies.push(copy);
            self.outputs.push(output);
            Ref::Value(output)
        };
        match gradient {
            Gradient::None => Gradient::None,
            Gradient::Dense(part) => Gradient::Dense(carry(part, INNER_COPY, blobs::GRADIENT)),
            Gradient::Sparse(indices, values) => Gradient::Sparse(
                carry(indices, INNER_INDICES, blobs::INDICES),
                carry(values, INNER_VALUES, blobs::VALUES),
            ),
        }
    }
}

/// What the inner net reads: from outside, under which inner name, or from the saved workspace.
#[derive(Default)]
struct WayIn {
    /// Outer blobs, in the order of first use.
    inputs: SmallVec<[Ref; FEW]>,
    /// Inner blob, and the index of its outer one among the inputs.
    bound: SmallVec<[(Ref, u32); FEW]>,
    saved: SmallVec<[Ref; FEW]>,
    /// Outer blobs that the inner net writes although they are bound for reading.
    changes: Vec<Ref>,
    /// By number of a binding: the place of its outer blob among the inputs, or [`NONE`].
    places: SmallVec<[u32; FEW]>,
    /// The places of gradients.
    gradients: Map<Ref, u32>,
}

/// Of a binding that is not needed.
const NONE: u32 = u32::MAX;

impl WayIn {
    fn find(
        walk: &Walk<'_, '_, '_>,
        op: usize,
        inner: &GradientNet<'_>,
        own_ops: usize,
        bindings: &Bindings<'_>,
        (inner_seeds, seeds): (&[ValueId], &[Seed]),
    ) -> Result<Self> {
        let values = &walk.session.values;
        // The values of seeds were made one after the other.
        let first_seed = inner_seeds.first().map_or(0, |seed| seed.0);
        let seed_of = |value: ValueId| {
            let at = value.0.checked_sub(first_seed).map(|at| at as usize);
            at.filter(|at| *at < inner_seeds.len())
        };
        let mut way = Self { places: smallvec![NONE; bindings.len()], ..Self::default() };
        let mut seed_met: SmallVec<[bool; FEW]> = smallvec![false; inner_seeds.len()];
        let mut number_met: SmallVec<[bool; FEW]> = smallvec![false; bindings.len()];
        let mut unbound_met: Set<BlobId> = Set::default();
        for (at, gradient_op) in inner.ops.iter().enumerate() {
            for part in inner.inputs(gradient_op) {
                let part = values.canonical(*part);
                let input = match part {
                    Ref::Blob(blob) => match bindings.number_of(blob) {
                        Some(number) => {
                            if std::mem::replace(&mut number_met[number as usize], true) {
                                continue;
                            }
                            way.blob(walk, op, bindings, number)?
                        }
                        None => {
                            if at < own_ops && unbound_met.insert(blob) {
                                way.saved.push(part);
                            }
                            continue;
                        }
                    },
                    // Most of what is read is made inside, and comes in by no way.
                    Ref::Value(value) => match seed_of(value) {
                        Some(seed) if !std::mem::replace(&mut seed_met[seed], true) => {
                            way.gradient(walk, op, bindings, seeds[seed].gradient)?
                        }
                        _ => continue,
                    },
                };
                way.bound.push((part, input));
            }
            if let Body::Control(control) = &gradient_op.body {
                let changed = control.changes.iter();
                way.changes.extend(changed.filter_map(|part| match values.canonical(*part) {
                    Ref::Blob(blob) => bindings.outer(blob).map(Ref::Blob),
                    Ref::Value(value) => seed_of(value).map(|seed| seeds[seed].gradient),
                }));
            }
        }
        Ok(way)
    }

    /// The place of a bound blob among the inputs, as seen from the net around the Do.
    fn blob(
        &mut self,
        walk: &Walk<'_, '_, '_>,
        op: usize,
        bindings: &Bindings<'_>,
        number: u32,
    ) -> Result<u32> {
        let place = &mut self.places[number as usize];
        if *place == NONE {
            *place = self.inputs.len() as u32;
            let version = bindings.version(walk, op, number);
            self.inputs.push(walk.forward(op, version, false)?);
        }
        Ok(*place)
    }

    /// The place of the gradient of an output among the inputs.
    fn gradient(
        &mut self,
        walk: &Walk<'_, '_, '_>,
        op: usize,
        bindings: &Bindings<'_>,
        gradient: Ref,
    ) -> Result<u32> {
        let number = match gradient {
            Ref::Blob(blob) => bindings.number_of_outer(blob),
            Ref::Value(_) => None,
        };
        if let Some(number) = number {
            return self.blob(walk, op, bindings, number);
        }
        let next = self.inputs.len() as u32;
        let place = *self.gradients.or_insert_with(gradient, || next);
        if place == next {
            match gradient {
                Ref::Blob(blob) if !walk.lenient => return Err(not_listed(walk, blob)),
                _ => self.inputs.push(gradient),
            }
        }
        Ok(place)
    }
}

fn push<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    bindings: &Bindings<'a>,
    inner: GradientNet<'a>,
    way_in: WayIn,
    way_out: WayOut,
) -> Result<()> {
    check_names(walk, bindings, &way_in, &way_out)?;
    let WayIn { mut inputs, bound, saved, changes, .. } = way_in;
    let WayOut { copies, outputs } = way_out;
    let first_output = inputs.len() as u32;
    let out = &mut walk.out;
    let copies_bound = copies.iter().map(|copy| Ref::Value(*copy));
    let inner_blobs = out.names(copies_bound.chain(bound.iter().map(|(blob, _)| *blob)));
    let places = (first_output..).take(copies.len());
    let outer_index = out.ints(places.chain(bound.iter().map(|(_, place)| *place)));
    let saved = out.names(saved);
    let mut head = NetHead::of(bindings.net, "_grad");
    // The forward workspace holds the forward net under its name; a gradient net of the same name
    // would be taken for it, and the forward net would run again.
    head.always_named = true;
    let control = Control {
        forward: walk.net.ops()[op].view,
        args: smallvec![
            ControlArg::net("net", head, inner),
            ControlArg::Names("inner_blobs", inner_blobs),
            ControlArg::Ints("outer_blobs_idx", outer_index),
            ControlArg::Names("saved_fwd_blobs", saved),
        ],
        changes,
        looks_at: Vec::new(),
    };
    let workspace = Ref::Blob(bindings.workspace);
    inputs.push(workspace);
    let outputs: SmallVec<[Ref; FEW]> =
        outputs.into_iter().map(Ref::Value).chain([workspace]).collect();
    walk.push_control(op, b"Do", &inputs, &outputs, control);
    Ok(())
}

/// A gradient Do cannot bind one outer name twice, as a blob of the forward pass and as a gradient.
fn check_names(
    walk: &Walk<'_, '_, '_>,
    bindings: &Bindings<'_>,
    way_in: &WayIn,
    way_out: &WayOut,
) -> Result<()> {
    let values = &walk.session.values;
    let is_read = |name| {
        let number = bindings.number_of_outer(name);
        number.is_some_and(|number| way_in.places[number as usize] != NONE)
    };
    let gradients = way_in.gradients.keys().copied();
    let outputs = way_out.outputs.iter().map(|value| Ref::Value(*value));
    let mut met = Set::with_room(way_in.gradients.len() + way_out.outputs.len());
    let mut names = gradients.chain(outputs).map(|part| values.nominal_ref(part));
    match names.find(|name| is_read(*name) || !met.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(broken(format!(
            "its gradient would have to bind {:?} twice, as a blob of the forward pass and as a \
             gradient",
            walk.session.shown(name)
        ))),
    }
}
