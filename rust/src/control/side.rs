//! One side of an If on its way into the gradient operator: its branch, if it has one, and what closes
//! it, so that the same gradients are there afterwards as on the other side.

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::few::Set;
use crate::gradient::{Body, ControlArg, GradientNet, NetHead, Ref, ValueId};
use crate::helpers::{int_argument, ints_argument};
use crate::message::NetRef;
use crate::session::Session;

use super::branch::{Branch, Outputs};
use super::ELSE_SUFFIX;

/// `TensorProto.INT32`.
const INT32: i64 = 2;

/// A side of an If.
pub(super) struct Side<'a> {
    /// Its net, differentiated; `None` where the If has none on this side.
    pub branch: Option<Branch<'a>>,
    /// Copies, made before anything of the tail is written.
    copies: Vec<(Ref, ValueId)>,
    /// What it hands on under its name. Where the value is renamed after all, it is copied.
    kept: Vec<(Ref, ValueId)>,
    /// The other operators behind the branch.
    tail: GradientNet<'a>,
}

impl<'a> Side<'a> {
    pub fn new(session: &mut Session<'_, 'a>, branch: Option<Branch<'a>>) -> Self {
        let tail = session.spare.gradient_net();
        Self { branch, copies: Vec::new(), kept: Vec::new(), tail }
    }

    /// Whether its net makes something.
    pub fn makes(&self, part: Ref) -> bool {
        self.branch.as_ref().is_some_and(|branch| branch.makes(part))
    }

    pub fn copy(&mut self, part: Ref, value: ValueId) {
        self.copies.push((part, value));
    }

    pub fn keep(&mut self, part: Ref, value: ValueId) {
        self.kept.push((part, value));
    }

    /// Zeros of the shape of `like`.
    pub fn fill(&mut self, like: Ref, value: ValueId) {
        self.tail.fill(like, 0.0, value, false, None, None);
    }

    /// A sparse gradient of `blob` made dense.
    pub fn make_dense(
        &mut self,
        (indices, values): (Ref, Ref),
        blob: BlobId,
        value: ValueId,
        device: Option<&'a [u8]>,
    ) {
        let inputs = [indices, values, Ref::Blob(blob)];
        let body = Body::Plain { named: false, args: 0..0, device };
        self.tail.push(b"SparseToDense", inputs, [value], None, body);
    }

    /// No row of `blob`: indices of the type and rank of `like`, and as many rows. `nothing` is written
    /// on the way.
    pub fn empty(
        &mut self,
        (blob, like): (BlobId, BlobId),
        nothing: ValueId,
        (indices, values): (ValueId, ValueId),
        device: Option<&'a [u8]>,
    ) {
        let tail = &mut self.tail;
        let mut args = ints_argument("shape", &[0]);
        args.extend(int_argument("dtype", INT32));
        let args = tail.arg(&args);
        tail.push(b"ConstantFill", [], [nothing], None, Body::Plain { named: false, args, device });
        let mut gather = |from: BlobId, at: ValueId, to: ValueId| {
            let body = Body::Plain { named: false, args: 0..0, device };
            tail.push(b"Gather", [Ref::Blob(from), Ref::Value(at)], [to], None, body);
        };
        gather(like, nothing, indices);
        gather(blob, indices, values);
    }

    /// Puts the copies in front of the tail.
    pub fn close(&mut self, walk: &mut Walk<'_, '_, 'a>, outputs: &mut Outputs) {
        if self.copies.is_empty() && self.kept.is_empty() {
            return;
        }
        let mut closed = walk.session.spare.gradient_net();
        side_by_side(walk, outputs, std::mem::take(&mut self.copies), &mut closed);
        for (from, to) in self.kept.drain(..) {
            closed.copy(from, to, false, None, None);
        }
        closed.append(&mut self.tail);
        std::mem::swap(&mut self.tail, &mut closed);
        walk.session.spare.take_back_empty(closed);
    }

    /// The argument `name` of the gradient If, unless the side has nothing to do. Without a net of its
    /// own it is called after the net of the other side.
    pub fn into_arg(
        self,
        session: &mut Session<'_, 'a>,
        name: &'static str,
        other: Option<NetRef<'a>>,
    ) -> Option<ControlArg<'a>> {
        let Self { branch, mut tail, .. } = self;
        match (branch, other) {
            (None, Some(forward)) if !tail.ops.is_empty() => {
                Some(ControlArg::net(name, NetHead::of(forward, ELSE_SUFFIX), tail))
            }
            (branch, _) => {
                let arg = branch.map(|mut branch| {
                    branch.net.append(&mut tail);
                    ControlArg::net(name, NetHead::of(branch.forward, "_grad"), branch.net)
                });
                session.spare.take_back_empty(tail);
                arg
            }
        }
    }
}

/// Copies that are all to read what was there before any of them.
fn side_by_side<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    outputs: &mut Outputs,
    copies: Vec<(Ref, ValueId)>,
    net: &mut GradientNet<'a>,
) {
    let written: Set<BlobId> =
        copies.iter().map(|(_, to)| walk.session.values.nominal(*to)).collect();
    let mut late = Vec::with_capacity(copies.len());
    for (mut from, to) in copies {
        let name = walk.session.values.nominal_ref(from);
        if written.contains(&name) {
            let target = walk.session.values.nominal(to);
            let suffix = [b"_", walk.session.table.name(name), b"_DEDUP"].concat();
            let aside = walk.session.table.suffixed(target, &suffix);
            let aside = outputs.named(walk, aside);
            net.copy(from, aside, false, None, None);
            from = Ref::Value(aside);
        }
        late.push((from, to));
    }
    for (from, to) in late {
        net.copy(from, to, false, None, None);
    }
}
