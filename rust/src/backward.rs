//! The backward walk over one net. It names no operator: makers and control flow answer for those.

use std::cell::RefCell;

use smallvec::SmallVec;

use crate::blobs::{self, BlobId, BlobTable};
use crate::control::{self, Arguments};
use crate::differentiate::Recorded;
use crate::error::{shown_name, Error, Kind, Result};
use crate::few::{Map, Set};
use crate::gradient::{Gradient, GradientNet, Ref, ValueId};
use crate::makers::in_place::changes_shape;
use crate::makers::words::Form;
use crate::memory::WalkMemory;
use crate::net::Net;
use crate::producers::{Origin, Producer, Producers};
use crate::session::Session;
use crate::sharing::Shared;
use crate::ssa::{Ssa, VersionId};
use crate::surroundings::Surroundings;

/// A blob that the walk starts from.
#[derive(Clone, Copy)]
pub struct Target {
    /// The blob.
    pub blob: BlobId,
    /// Its gradient; `None` for ones.
    pub gradient: Option<Gradient>,
    /// Whether the name of the ones stands in the name scope.
    pub in_scope: bool,
}

/// The gradient that a blob has at a point of the walk, and the version that it is the gradient of.
#[derive(Clone, Copy)]
pub struct Found {
    /// The gradient.
    pub gradient: Gradient,
    /// The version; meaningless without a gradient.
    pub version: VersionId,
    /// Whether the blob has been met: it has its place in the order of the answer then.
    known: bool,
}

/// The answer of a walk.
pub struct Outcome<'a> {
    /// The gradient operators.
    pub net: GradientNet<'a>,
    /// The versions of the forward net.
    pub ssa: Ssa,
    /// By place: the gradient of each blob.
    found: Vec<Found>,
    /// The places of blobs with a gradient, in the order in which they were met.
    order: Vec<u32>,
    /// The producers of each version.
    pub producers: Producers,
    gets: Vec<Gradient>,
    written_by: Vec<u32>,
}

impl<'a> Outcome<'a> {
    /// The gradient net, and the memory of all else.
    pub(crate) fn into_parts(self) -> (GradientNet<'a>, WalkMemory) {
        let Self { net, ssa, found, order, producers, gets, written_by } = self;
        (net, WalkMemory { ssa, found, producers, order, gets, written_by })
    }

    /// The blobs that have a gradient in the end, in the order in which the walk met them.
    pub fn gradients(&self) -> impl Iterator<Item = (BlobId, Found)> + use<'_, 'a> {
        self.order.iter().filter_map(|place| {
            let found = self.found[*place as usize];
            (!found.gradient.is_none()).then(|| (self.ssa.blobs[*place as usize], found))
        })
    }

    /// The gradients of blobs as they came into the net, in that order.
    pub fn incoming(&self) -> impl Iterator<Item = (BlobId, Gradient)> + use<'_, 'a> {
        let came_in = self.gradients().filter(|(_, found)| self.came_in(*found));
        came_in.map(|(blob, found)| (blob, found.gradient))
    }

    /// Whether a gradient is that of a blob as it came into the net.
    pub fn came_in(&self, found: Found) -> bool {
        self.ssa.versions[found.version.index()].writer().is_none()
    }
}

/// What a maker of any kind answers for one operator. Its operators stand in the walk's net already.
pub type InputGradients = Vec<Gradient>;

/// A walk under way.
pub struct Walk<'w, 's, 'a> {
    pub(crate) session: &'w mut Session<'s, 'a>,
    pub(crate) net: &'w Net<'a>,
    pub(crate) ssa: Ssa,
    pub(crate) out: GradientNet<'a>,
    pub(crate) found: Vec<Found>,
    pub(crate) producers: Producers,
    order: Vec<u32>,
    pub(crate) around: &'w Surroundings<'w>,
    /// The first value of this walk; earlier ones are others' to overwrite.
    pub(crate) first_value: u32,
    /// A single operator without the net around it: nothing is known of versions then.
    pub(crate) lenient: bool,
    /// Of the operator at hand: a gradient, and what its gradient operator writes for it once more.
    pub(crate) again: Vec<(ValueId, ValueId)>,
    /// The gradients that the caller gives to that single operator.
    given: Vec<Gradient>,
    /// By name: who else needs the gradient that the blob of that name holds.
    pub(crate) shared: Shared,
    /// Versions of workspace blobs whose writer has a gradient that takes the workspace up again.
    pub(crate) taken_up: Set<VersionId>,
    /// By version of a workspace blob: how far down from it all others have been taken up.
    pub(crate) checked: Map<u32, VersionId>,
    /// The device options of forward operators that were asked for: wide operators are asked often.
    devices: RefCell<Map<u32, Option<&'a [u8]>>>,
    /// Scratch: what the inputs of an operator get.
    gets: Vec<Gradient>,
    /// Scratch: by place, the last operator that was found to write it.
    written_by: Vec<u32>,
}

/// Walks a net backwards from `targets`.
pub fn backward<'a>(
    session: &mut Session<'_, 'a>,
    net: &Net<'a>,
    targets: &[Target],
    around: &Surroundings<'_>,
) -> Result<Outcome<'a>> {
    session.check_depth()?;
    check_orphans(&session.table, net, around.read_outside)?;
    let mut walk = Walk::start(session, net, targets, around);
    for op in (0..net.ops().len()).rev() {
        walk.step(op).map_err(|error| error.at(op, net.ops()[op].view.op_type))?;
    }
    let Walk { ssa, out: net, found, producers, order, gets, written_by, .. } = walk;
    Ok(Outcome { net, ssa, found, order, producers, gets, written_by })
}

/// A `StopGradient` whose output nobody reads stops nothing: its author meant it to be in place.
pub(crate) fn check_orphans(
    table: &BlobTable<'_>,
    net: &Net<'_>,
    read_outside: &[BlobId],
) -> Result<()> {
    let stops = |op: &usize| net.ops()[*op].view.op_type == b"StopGradient";
    if !(0..net.ops().len()).any(|op| stops(&op)) {
        return Ok(());
    }
    let read: Set<&BlobId> =
        (0..net.ops().len()).flat_map(|op| net.inputs(op)).chain(read_outside).collect();
    for op in (0..net.ops().len()).filter(stops) {
        if let Some(output) = net.outputs(op).first().filter(|blob| !read.contains(blob)) {
            return Err(Error::new(
                Kind::Orphan,
                format!(
                    "nobody reads {:?}, the output of this StopGradient",
                    shown_name(table.name(*output))
                ),
            )
            .hint("give it the same name as its input, or read its output instead of its input")
            .blob(table.name(*output))
            .at(op, b"StopGradient"));
        }
    }
    Ok(())
}

impl<'w, 's, 'a> Walk<'w, 's, 'a> {
    fn start(
        session: &'w mut Session<'s, 'a>,
        net: &'w Net<'a>,
        targets: &[Target],
        around: &'w Surroundings<'w>,
    ) -> Self {
        let mut places: SmallVec<[u32; 8]> = SmallVec::with_capacity(targets.len());
        let blobs = targets.iter().map(|target| target.blob);
        let table_len = session.table.len();
        let WalkMemory { ssa, mut found, mut producers, mut order, gets, mut written_by } =
            session.spare.walk();
        let mut out = session.spare.gradient_net();
        let ssa = ssa.play(net, &mut session.places, table_len, blobs, |place| places.push(place));
        session.values.reserve(net.blobs().len());
        let nothing = Found { gradient: Gradient::None, version: VersionId(0), known: false };
        found.resize(ssa.blobs.len(), nothing);
        producers.start(ssa.versions.len());
        order.reserve(ssa.blobs.len());
        written_by.resize(ssa.blobs.len(), u32::MAX);
        out.reserve(net.ops().len(), net.blobs().len());
        let mut walk = Self {
            found,
            producers,
            written_by,
            devices: RefCell::default(),
            gets,
            order,
            out,
            shared: Shared::with_room(targets.len()),
            taken_up: Set::default(),
            checked: Map::default(),
            first_value: session.values.len(),
            lenient: false,
            given: Vec::new(),
            again: Vec::new(),
            session,
            net,
            ssa,
            around,
        };
        for (target, place) in targets.iter().zip(places) {
            walk.start_from(target, place);
        }
        walk
    }

    fn start_from(&mut self, target: &Target, place: u32) {
        let version = self.ssa.current[place as usize];
        let usual = self.session.table.gradient(target.blob);
        let gradient = target.gradient.unwrap_or_else(|| {
            let device = self.session.device_scope;
            let scope = if target.in_scope { self.session.name_scope } else { b"" };
            let name = self.session.table.affixed(scope, target.blob, blobs::ONES);
            let ones = self.session.values.add(name);
            self.out.fill(Ref::Blob(target.blob), 1.0, ones, true, device, None);
            Gradient::Dense(Ref::Value(ones))
        });
        let made = target.gradient.is_none();
        // A gradient that the caller gives under its usual name is where the net's own gradient goes:
        // recurrent nets name gradients that nobody provides, and rely on it.
        let is_usual = !made
            && self.session.path.is_empty()
            && gradient.parts().all(|part| self.session.values.nominal_ref(part) == usual);
        if !is_usual && (made || !self.is_indifferent(version)) {
            let value = gradient.parts().find_map(|part| match part {
                Ref::Value(value) if made => Some(value),
                _ => None,
            });
            let origin =
                if made { Origin::Made(self.out.ops.len() as u32 - 1) } else { Origin::Caller };
            self.producers
                .add(version, Producer { gradient, made: value, made_values: None, origin });
        }
        self.share(gradient, version);
        self.set(place, gradient, version);
    }

    fn set(&mut self, place: u32, gradient: Gradient, version: VersionId) {
        let found = &mut self.found[place as usize];
        if !found.known {
            self.order.push(place);
        }
        // Without a gradient the version stays: it tells which version had the last one.
        let version = if gradient.is_none() { found.version } else { version };
        *found = Found { gradient, version, known: true };
    }

    /// One forward operator: its gradient operators, then the sums that it completes.
    fn step(&mut self, op: usize) -> Result<()> {
        let places = self.net.output_places(op);
        let wanted = self.ssa.at[places].iter().any(|version| {
            let place = self.ssa.versions[version.index()].place;
            !self.found[place as usize].gradient.is_none()
        });
        if wanted || self.net.ops()[op].view.op_type == b"ZeroGradient" {
            self.session.path.push(op as u32);
            let values = self.session.values.len();
            let first = self.out.ops.len();
            let mut gets = std::mem::take(&mut self.gets);
            gets.clear();
            if self.differentiate(op, &mut gets)? == Recorded::No {
                self.record(op, first, values, &gets);
            }
            self.hand_out(op, &gets);
            self.gets = gets;
            self.release(op);
            self.session.path.pop();
        }
        self.accumulate(op)
    }

    /// The gradients of the outputs of an operator, as they stand.
    pub(crate) fn g_output(&self, op: usize) -> SmallVec<[Found; 8]> {
        let mut g_output = SmallVec::new();
        self.g_output_into(op, &mut g_output);
        g_output
    }

    /// The same, put into an empty list.
    pub(crate) fn g_output_into(&self, op: usize, g_output: &mut SmallVec<[Found; 8]>) {
        if self.lenient {
            let version = VersionId(0);
            let given = self.given.iter();
            g_output.extend(given.map(|&gradient| Found { gradient, version, known: true }));
            return;
        }
        for version in &self.ssa.at[self.net.output_places(op)] {
            g_output.push(self.found[self.ssa.versions[version.index()].place as usize]);
        }
    }

    /// The gradient of output `k`; an error where it is the gradient of another version of it.
    pub(crate) fn usable(&self, op: usize, k: usize, found: &Found) -> Result<Gradient> {
        if self.lenient {
            return Ok(found.gradient);
        }
        let version = self.ssa.at[self.net.output_places(op)][k];
        let same_writer = self.ssa.versions[found.version.index()].writer() == Some(op as u32);
        if found.gradient.is_none() || found.version == version || same_writer {
            return Ok(found.gradient);
        }
        let blob = self.ssa.blob(version);
        let (needed, present) = (self.ssa.number(version), self.ssa.number(found.version));
        Err(Error::new(
            Kind::Version,
            format!(
                "the gradient at hand belongs to version {present} of {:?}, this operator wrote \
                 version {needed}, which something overwrote",
                self.session.shown(blob)
            ),
        )
        .hint("let the operators write blobs of different names")
        .blob(self.session.table.name(blob))
        .versions(needed, present))
    }

    /// A blob that operator `op` read or wrote as `version`, to be read by its gradient.
    pub(crate) fn forward(&self, op: usize, version: VersionId, shape_only: bool) -> Result<Ref> {
        let newest = self.ssa.newest(version);
        let own = self.ssa.versions[newest.index()].writer() == Some(op as u32);
        let wrote = self.ssa.versions[version.index()].writer() == Some(op as u32);
        let blob = self.ssa.blob(version);
        if self.lenient || newest == version || (own && (wrote || shape_only)) {
            return Ok(Ref::Blob(blob));
        }
        let (needed, present) = (self.ssa.number(version), self.ssa.number(newest));
        Err(Error::new(
            Kind::Version,
            format!(
                "its gradient needs {:?} at version {needed}, but {} has overwritten it (version \
                 {present})",
                self.session.shown(blob),
                if own { "the operator itself" } else { "a later operator" },
            ),
        )
        .hint("write to a blob of another name instead of overwriting this one")
        .blob(self.session.table.name(blob))
        .versions(needed, present))
    }

    /// A blob that operator `op` read as `version`, to be read for its shape alone.
    ///
    /// What has worked on it in place since has left its shape as it was.
    pub(crate) fn shape(&self, op: usize, version: VersionId) -> Result<Ref> {
        let mut newest = self.ssa.newest(version);
        while !self.lenient && newest != version {
            let at = self.ssa.versions[newest.index()];
            match (at.writer(), at.before()) {
                (Some(writer), Some(before))
                    if writer as usize == op || self.is_in_place(writer as usize, before) =>
                {
                    newest = before;
                }
                _ => return self.forward(op, version, false),
            }
        }
        Ok(Ref::Blob(self.ssa.blob(version)))
    }

    /// Whether an operator writes over a version that it reads, and leaves its shape.
    fn is_in_place(&self, op: usize, version: VersionId) -> bool {
        self.ssa.at[self.net.input_places(op)].contains(&version)
            && !changes_shape(self.net.ops()[op].view.op_type)
    }

    /// Gives the inputs of an operator their gradients.
    fn hand_out(&mut self, op: usize, g_input: &[Gradient]) {
        let inputs = self.net.input_places(op);
        for version in &self.ssa.at[self.net.output_places(op)] {
            let place = self.ssa.versions[version.index()].place;
            self.written_by[place as usize] = op as u32;
        }
        for (k, gradient) in g_input.iter().enumerate().take(inputs.len()) {
            let version = self.ssa.at[inputs.start + k];
            let place = self.ssa.versions[version.index()].place;
            let is_stopped = self.is_stopped(self.net.blobs()[inputs.start + k]);
            let gradient = if is_stopped { Gradient::None } else { *gradient };
            // An operator without gradient leaves what its input has from elsewhere; but what it has
            // overwritten itself has no gradient of its own left.
            let overwritten = self.written_by[place as usize] == op as u32;
            if !gradient.is_none() || !self.found[place as usize].known || overwritten {
                self.set(place, gradient, version);
            }
        }
    }

    /// Whether the next gradient of a version is a second summand, which never keeps its name.
    pub(crate) fn is_split(&self, version: VersionId) -> bool {
        self.producers.waiting(version) > 0 && self.producers.any_made(version)
    }

    /// The serialized device option of a forward operator.
    pub(crate) fn device(&self, op: usize) -> Option<&'a [u8]> {
        let view = &self.net.ops()[op].view;
        if !view.has_more {
            return None;
        }
        let read = || view.device().map(|device| self.session.table.keep(device));
        *self.devices.borrow_mut().or_insert_with(op as u32, read)
    }
}

/// Asks for the gradient of the only operator of a net, without the net around it. `natively` asks
/// for the gradient of a Do, If or While whatever function is registered for it.
pub fn single<'a>(
    session: &mut Session<'_, 'a>,
    net: &Net<'a>,
    g_output: Vec<Gradient>,
    natively: bool,
) -> Result<(GradientNet<'a>, Vec<Gradient>)> {
    let nothing = Surroundings::default();
    let mut walk = Walk::start(session, net, &[], &nothing);
    walk.lenient = true;
    walk.given = g_output;
    walk.session.path.push(0);
    let mut gets = Vec::new();
    let answer = if natively {
        Arguments::read(&net.ops()[0].view)
            .and_then(|args| control::differentiate(&mut walk, 0, &args, &mut gets))
    } else {
        walk.differentiate(0, &mut gets).map(|_| ())
    };
    walk.session.path.pop();
    let op_type = net.ops()[0].view.op_type;
    answer.map_err(|error| error.at(0, op_type))?;
    Ok((walk.out, gets))
}

/// The form of a gradient.
pub fn form(gradient: Gradient) -> Form {
    match gradient {
        Gradient::None => Form::None,
        Gradient::Dense(_) => Form::Dense,
        Gradient::Sparse(..) => Form::Sparse,
    }
}
