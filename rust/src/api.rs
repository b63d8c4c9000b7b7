//! What the crate does, from bytes to bytes.

use bumpalo::Bump;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backward::{self, check_orphans, Target};
use crate::blobs::{BlobId, BlobTable};
use crate::emit::{Emitter, LENT_FROM};
use crate::error::{shown_name, Error, Kind, Result};
use crate::few::Map;
use crate::gradient::{BlobGradient, Gradient, GradientNet, Ref};
use crate::memory::{self, with_session};
use crate::message::NetRef;
use crate::net::Net;
use crate::session::{Hook, Named, Scope, Session};
use crate::slice::{drop_idle_copies, keep_only};
use crate::ssa::{Places, Ssa};
use crate::surroundings::Surroundings;
use crate::verify::verify;
use crate::wire::{copy_short, Writer};

/// A forward net as it is handed over.
#[derive(Clone, Copy)]
pub enum Forward<'f> {
    /// A serialized `NetDef`.
    Net(&'f [u8]),
    /// Serialized `OperatorDef`s.
    Ops(&'f [&'f [u8]]),
}

impl<'f> Forward<'f> {
    /// Takes the net apart.
    pub fn read(self, session: &mut Session<'_, 'f>) -> Result<Net<'f>> {
        let net = self.into_net(session.spare.net(), &mut session.table)?;
        session.spare.set_size(self.size(), net.ops().len());
        Ok(net)
    }

    fn into_net(self, net: Net<'f>, table: &mut BlobTable<'f>) -> Result<Net<'f>> {
        match self {
            Forward::Net(bytes) => net.filled(NetRef { bytes }.ops(), table),
            Forward::Ops(ops) => net.filled(ops.iter().map(|op| Ok(*op)), table),
        }
    }

    /// About how many bytes a net of these operators has.
    pub(crate) fn size(self) -> usize {
        match self {
            Forward::Net(bytes) => bytes.len(),
            Forward::Ops(ops) => ops.iter().map(|op| op.len() + 4).sum(),
        }
    }
}

/// A blob to differentiate.
pub struct Y {
    /// Its name.
    pub name: Vec<u8>,
    /// Its gradient; `Named::None` for ones.
    pub gradient: Named,
    /// Whether the name of the ones stands in the name scope.
    pub in_scope: bool,
}

/// What to leave out of the answer.
#[derive(Default)]
pub struct Options {
    /// Refuse targets that stand nowhere in the net.
    pub known: bool,
    /// Blobs that get no gradient.
    pub no_grad: Vec<Vec<u8>>,
    /// Only what these blobs need.
    pub wrt: Option<Vec<Vec<u8>>>,
}

/// A backward pass.
pub struct Backward {
    /// The gradient operators: a serialized `NetDef` that holds nothing else. The forward net, where it
    /// is one message, lends large fields to it.
    pub ops: Writer,
    /// The gradients of blobs, in the order in which the walk met them.
    pub gradients: Gradients,
}

/// The names of a blob and of the first and, if its gradient is sparse, the second part of that.
pub type Names<'n> = (&'n [u8], &'n [u8], Option<&'n [u8]>);

/// Blobs and their gradients, by name. All names lie in one piece of memory.
#[derive(Default)]
pub struct Gradients {
    /// The names, and room for more.
    text: Vec<u8>,
    used: usize,
    /// How long the names of a blob and of the parts of its gradient are; [`NO_PART`] for the second
    /// part of a dense one.
    lengths: Vec<[u32; 3]>,
}

/// No name is as long as that.
const NO_PART: u32 = u32::MAX;

/// How much memory is made ready at a time.
const PAGE: usize = 1 << 12;

impl Gradients {
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.lengths.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        memory::room(&self.text) + memory::room(&self.lengths)
    }

    /// Appends a name, in the two pieces that it is in, and says how long it is.
    #[inline]
    fn push(&mut self, (first, second): (&[u8], &[u8])) -> u32 {
        let length = first.len() + second.len();
        if self.text.len() - self.used < length {
            // Page by page: what is reserved beyond is no memory in use.
            self.text.resize(self.used + length + PAGE, 0);
        }
        let (front, back) = self.text[self.used..][..length].split_at_mut(first.len());
        copy_short(front, first);
        copy_short(back, second);
        self.used += length;
        length as u32
    }

    /// Each blob with the first and, if its gradient is sparse, the second part of its gradient.
    pub fn iter(&self) -> impl Iterator<Item = Names<'_>> {
        let mut rest = &self.text[..];
        self.lengths.iter().map(move |&[blob, first, second]| {
            let mut next = |length: u32| {
                let (name, behind) = rest.split_at(length as usize);
                rest = behind;
                name
            };
            (next(blob), next(first), (second != NO_PART).then(|| next(second)))
        })
    }
}

/// The backward pass of a net.
pub fn backward(
    forward: Forward<'_>,
    ys: &[Y],
    options: &Options,
    scope: &Scope,
    hook: &mut dyn Hook,
) -> Result<Backward> {
    with_session(forward, scope, hook, |session, forward| pass(session, forward, ys, options))
}

fn pass<'a>(
    session: &mut Session<'_, 'a>,
    forward: Forward<'a>,
    ys: &[Y],
    options: &Options,
) -> Result<Backward> {
    let net = forward.read(session)?;
    check_names(&net, session, ys, options)?;
    let targets = targets(session, ys)?;
    let no_gradient = options.no_grad.iter().map(|name| session.table.intern_copy(name)).collect();
    let around = Surroundings { no_gradient, ..Surroundings::default() };
    let mut outcome = backward::backward(session, &net, &targets, &around)?;
    let mut gradients = std::mem::take(&mut session.spare.gradients);
    gradients.extend(outcome.gradients().map(|(blob, found)| {
        let came_in = outcome.came_in(found);
        BlobGradient { blob, gradient: found.gradient, came_in }
    }));
    if !options.no_grad.is_empty() {
        let wanted = gradients.iter().flat_map(|found| found.gradient.parts());
        keep_only(&mut outcome.net, wanted, session.values.len());
    }
    if let Some(wrt) = &options.wrt {
        let wrt: FxHashSet<BlobId> =
            wrt.iter().filter_map(|name| session.table.get(name)).collect();
        gradients.retain(|found| wrt.contains(&found.blob));
        let wanted = gradients.iter().flat_map(|found| found.gradient.parts());
        keep_only(&mut outcome.net, wanted, session.values.len());
    }
    // What the walk has used can serve from here on.
    let mut gradient_net = session.spare.take_back(outcome);
    let op_type = |op: u32| net.ops()[op as usize].view.op_type;
    verify(session, &gradient_net, &op_type, &gradients)?;
    let expected = expected_bytes(&net, forward);
    session.spare.take_back_read(net);
    drop_idle_copies(session, &mut gradient_net);
    let ops = emit(session, &gradient_net, forward, expected);
    session.spare.take_back_written(gradient_net);
    let named = names(session, &gradients);
    gradients.clear();
    session.spare.gradients = gradients;
    Ok(Backward { ops, gradients: named })
}

pub(crate) fn names(session: &mut Session<'_, '_>, gradients: &[BlobGradient]) -> Gradients {
    let mut named = std::mem::take(&mut session.spare.named);
    named.lengths.reserve(gradients.len());
    for BlobGradient { blob, gradient, .. } in gradients {
        let blob = named.push(session.table.pieces(*blob));
        let mut part = |part: Ref| {
            let name = session.values.name_of(part, &mut session.table);
            named.push(session.table.pieces(name))
        };
        let (first, second) = match *gradient {
            Gradient::None => (0, NO_PART),
            Gradient::Dense(gradient) => (part(gradient), NO_PART),
            Gradient::Sparse(indices, values) => (part(indices), part(values)),
        };
        named.lengths.push([blob, first, second]);
    }
    named
}

/// The targets that a caller names. A blob that is named twice counts once, with the last gradient.
pub(crate) fn targets(session: &mut Session<'_, '_>, ys: &[Y]) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::with_capacity(ys.len());
    let mut met = Map::with_room(ys.len());
    for y in ys {
        let blob = session.table.intern_copy(&y.name);
        if matches!(&y.gradient, Named::Dense(name) if name.is_empty()) {
            return Err(Error::new(
                Kind::Refused,
                format!("the gradient given for {:?} has an empty name", session.shown(blob)),
            )
            .hint("give the name of a blob, or None for ones")
            .blob(&y.name));
        }
        let gradient = match &y.gradient {
            Named::None => None,
            named => Some(session.given(named)),
        };
        let target = Target { blob, gradient, in_scope: y.in_scope };
        let next = targets.len();
        match *met.or_insert_with(blob, || next) {
            at if at == next => targets.push(target),
            at => targets[at] = target,
        }
    }
    Ok(targets)
}

/// How much there may be to write: gradient operators have some three times the blobs of their forward
/// operator, and its arguments, unless these are lent.
fn expected_bytes(net: &Net<'_>, forward: Forward<'_>) -> usize {
    let sizes = net.ops().iter().map(|op| op.view.bytes.len());
    64 + match forward {
        Forward::Net(_) => sizes.map(|size| 3 * (size.min(LENT_FROM) + 4)).sum::<usize>(),
        Forward::Ops(_) => sizes.map(|size| size + 2 * (size.min(LENT_FROM) + 4)).sum(),
    }
}

fn emit<'a>(
    session: &mut Session<'_, 'a>,
    net: &GradientNet<'a>,
    forward: Forward<'a>,
    expected: usize,
) -> Writer {
    let mut writer = std::mem::take(&mut session.spare.writer);
    writer.reserve(expected);
    let mut emitter = Emitter::new(writer, &mut session.values, &mut session.table);
    if let Forward::Net(bytes) = forward {
        emitter = emitter.lending(bytes);
    }
    emitter.net_ops(net);
    emitter.writer
}

pub(crate) fn each_op<'a>(session: &mut Session<'_, 'a>, net: &GradientNet<'a>) -> Vec<Vec<u8>> {
    let mut emitter = Emitter::new(Writer::default(), &mut session.values, &mut session.table);
    let ops = net.ops.iter().map(|op| {
        emitter.writer.clear();
        emitter.op(net, op);
        emitter.writer.written().to_vec()
    });
    ops.collect()
}

/// The gradient operators of a single operator, and the gradients of its inputs.
///
/// `control` says which operator type the caller expects; the operator must be of that type then, and
/// have a gradient, or none, given for each output.
pub fn operator_gradient(
    op: &[u8],
    g_output: &[Named],
    control: Option<&str>,
    scope: &Scope,
    hook: &mut dyn Hook,
) -> Result<(Vec<Vec<u8>>, Vec<Named>)> {
    let forward = Forward::Ops(&[op]);
    with_session(forward, scope, hook, |session, forward| {
        one_operator(session, forward, g_output, control)
    })
}

fn one_operator<'a>(
    session: &mut Session<'_, 'a>,
    forward: Forward<'a>,
    g_output: &[Named],
    control: Option<&str>,
) -> Result<(Vec<Vec<u8>>, Vec<Named>)> {
    let net = forward.read(session)?;
    if let Some(expected) = control {
        check_control(&net, g_output, expected)
            .map_err(|error| error.at(0, net.ops()[0].view.op_type))?;
    }
    let given: Vec<Gradient> = g_output.iter().map(|named| session.given(named)).collect();
    let (mut answer, gradients) = backward::single(session, &net, given, control.is_some())?;
    // What a single operator of the table reads is given by the caller, names and all.
    if control.is_some() {
        verify(session, &answer, &|_| net.ops()[0].view.op_type, &[])?;
    }
    drop_idle_copies(session, &mut answer);
    let ops = each_op(session, &answer);
    // A Do whose net has no gradient has no gradients to list either.
    let none = ops.is_empty() && control == Some("Do");
    let gradients = gradients.into_iter().filter(|_| !none);
    Ok((ops, gradients.map(|gradient| session.named(gradient)).collect()))
}

fn check_control(net: &Net<'_>, g_output: &[Named], expected: &str) -> Result<()> {
    let op = net.ops()[0].view;
    if op.op_type != expected.as_bytes() {
        return Err(Error::new(
            Kind::Control,
            format!("a {expected} was expected, this operator is a {:?}", shown_name(op.op_type)),
        )
        .hint(format!("call gen_{}_gradient with a {expected}", expected.to_lowercase())));
    }
    let outputs = net.outputs(0).len();
    if outputs != g_output.len() {
        return Err(Error::new(
            Kind::Control,
            format!(
                "it has {outputs} outputs, and {} gradients are given for them",
                g_output.len()
            ),
        )
        .hint("give one entry for each output, None where there is no gradient"));
    }
    Ok(())
}

/// By operator: the versions of its inputs, and of its outputs, as `IR.Play` numbers them.
pub fn versions(ops: &[&[u8]]) -> Result<Vec<(Vec<u32>, Vec<u32>)>> {
    let bump = Bump::new();
    let mut table = BlobTable::new(&bump, 4 * ops.len());
    let net = Forward::Ops(ops).into_net(Net::default(), &mut table)?;
    check_orphans(&table, &net, &[])?;
    let ssa =
        Ssa::default().play(&net, &mut Places::default(), table.len(), std::iter::empty(), |_| ());
    let numbers = |places: std::ops::Range<usize>| {
        ssa.at[places].iter().map(|version| ssa.number(*version)).collect()
    };
    let ops = 0..net.ops().len();
    Ok(ops.map(|op| (numbers(net.input_places(op)), numbers(net.output_places(op)))).collect())
}

/// A version that a name stands for: the name and the number.
pub type Versioned = (Vec<u8>, i64);

/// By operator, the versions that it reads and those that it writes.
pub type NetVersions = Vec<(Vec<Versioned>, Vec<Versioned>)>;

/// What `core.get_ssa` gives: by operator, the versions it reads and writes; and the newest versions.
///
/// Unlike in [`versions`], every write counts one up, from 0 or from the version that `versions` says.
pub fn get_ssa(net: &[u8], versions: &[Versioned]) -> Result<(NetVersions, Vec<Versioned>)> {
    let bump = Bump::new();
    let mut table = BlobTable::new(&bump, net.len() / 16);
    let view = NetRef { bytes: net };
    let mut order = Vec::new();
    let mut current: FxHashMap<BlobId, i64> = FxHashMap::default();
    let set = |current: &mut FxHashMap<BlobId, i64>, order: &mut Vec<BlobId>, blob, version| {
        if current.insert(blob, version).is_none() {
            order.push(blob);
        }
    };
    for (name, version) in versions {
        let blob = table.intern_copy(name);
        set(&mut current, &mut order, blob, *version);
    }
    let mut has_external = false;
    for name in view.external_inputs() {
        has_external = true;
        let blob = table.intern(name?);
        if !current.contains_key(&blob) {
            set(&mut current, &mut order, blob, 0);
        }
    }
    let net = Net::read(view, &mut table)?;
    let mut ssa = Vec::with_capacity(net.ops().len());
    for op in 0..net.ops().len() {
        let mut inputs = Vec::with_capacity(net.inputs(op).len());
        for blob in net.inputs(op) {
            if !has_external && !current.contains_key(blob) {
                set(&mut current, &mut order, *blob, 0);
            }
            let version = current.get(blob).copied().unwrap_or(0);
            inputs.push((table.name(*blob).to_vec(), version));
        }
        for blob in net.outputs(op) {
            let version = current.get(blob).copied().unwrap_or(0) + 1;
            set(&mut current, &mut order, *blob, version);
        }
        let outputs =
            net.outputs(op).iter().map(|blob| (table.name(*blob).to_vec(), current[blob]));
        ssa.push((inputs, outputs.collect()));
    }
    let versions = order.into_iter().map(|blob| (table.name(blob).to_vec(), current[&blob]));
    Ok((ssa, versions.collect()))
}

/// Refuses names that stand nowhere in the net, and targets that are to have no gradient.
fn check_names(
    net: &Net<'_>,
    session: &Session<'_, '_>,
    ys: &[Y],
    options: &Options,
) -> Result<()> {
    let mut in_net = None;
    let mut known = |name: &[u8]| {
        let in_net = in_net.get_or_insert_with(|| {
            let mut met = vec![false; session.table.len()];
            net.blobs().iter().for_each(|blob| met[blob.index()] = true);
            met
        });
        session.table.get(name).is_some_and(|blob| in_net[blob.index()])
    };
    let targets = ys.iter().filter(|_| options.known).map(|y| (&y.name, "a target"));
    let no_grad = options.no_grad.iter().map(|name| (name, "in no_grad"));
    let wrt = options.wrt.iter().flatten().map(|name| (name, "in wrt"));
    for (name, place) in targets.chain(no_grad).chain(wrt) {
        if !known(name) {
            let names: Vec<_> = session.table.names().collect();
            return Err(unknown(name, place, &names));
        }
    }
    let no_grad: FxHashSet<&[u8]> = options.no_grad.iter().map(Vec::as_slice).collect();
    for y in ys {
        if no_grad.contains(&y.name[..]) {
            return Err(Error::new(
                Kind::Argument,
                format!("{:?} is a target, and in no_grad", shown_name(&y.name)),
            )
            .hint("leave it out of one of the two")
            .blob(&y.name));
        }
    }
    Ok(())
}

fn unknown(name: &[u8], place: &str, names: &[&[u8]]) -> Error {
    let near = near(name, names);
    let hint = if near.is_empty() {
        "name a blob that an operator of the outermost net reads or writes".to_owned()
    } else {
        format!("the net has {}", near.join(", "))
    };
    let what = format!("{:?}, {place}, is no blob of the net", shown_name(name));
    Error::new(Kind::UnknownBlob, what).hint(hint).blob(name)
}

/// Up to three names that are much like `name`.
fn near(name: &[u8], names: &[&[u8]]) -> Vec<String> {
    const MOST: usize = 64;
    let tail = |name: &[u8]| name[name.len().saturating_sub(MOST)..].to_vec();
    let wanted = tail(name);
    let mut scored: Vec<(usize, &[u8])> = names
        .iter()
        .filter(|other| other.len().abs_diff(name.len()) <= 3 || other.ends_with(name))
        .map(|other| {
            let ends = other.ends_with(name) && !name.is_empty();
            (if ends { 1 } else { distance(&wanted, &tail(other)) }, *other)
        })
        .filter(|(score, _)| *score <= 1 + wanted.len() / 4)
        .collect();
    scored.sort_unstable();
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| format!("{:?}", shown_name(name))).collect()
}

/// How many letters differ, are missing or too many.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
