//! What the net around a net knows about it, and what control flow asks of its own.

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::control;
use crate::few::Set;
use crate::makers::{self, Entry};
use crate::net::Net;
use crate::ssa::VersionId;

/// What the net around a net knows about it.
#[derive(Default)]
pub struct Surroundings {
    /// Blobs that somebody reads behind the end of the net.
    pub read_outside: Vec<BlobId>,
    /// Blobs that get no gradient: the walk stops there.
    pub no_gradient: Set<BlobId>,
    /// Blobs whose value, as it comes in, has no gradient to give to anything before it.
    pub indifferent: Set<BlobId>,
    /// Blobs that come in with a value that may need a gradient.
    pub matter: Set<BlobId>,
}

impl Walk<'_, '_, '_> {
    /// Whether a blob is one that gets no gradient.
    #[inline]
    pub(crate) fn is_stopped(&self, blob: BlobId) -> bool {
        self.around.no_gradient.contains(&blob)
    }

    /// Whether a version has no gradient to give to anything before it, so that it does not matter
    /// what gradient it has itself.
    pub(crate) fn is_indifferent(&self, version: VersionId) -> bool {
        let Some(writer) = self.ssa.versions[version.index()].writer() else {
            return self.around.indifferent.contains(&self.ssa.blob(version));
        };
        let writer = writer as usize;
        let op_type = self.net.ops()[writer].view.op_type;
        let is_zero = op_type == b"Sub"
            && matches!(self.ssa.at[self.net.input_places(writer)], [one, other] if one == other);
        is_zero || matches!(makers::lookup(op_type), Entry::Silent)
    }

    /// The blobs of operator `op` that are indifferent before it.
    pub(crate) fn indifferent_before(&self, op: usize) -> Set<BlobId> {
        let mut indifferent = Set::default();
        if self.lenient {
            return indifferent;
        }
        for place in self.net.output_places(op) {
            let before = self.ssa.versions[self.ssa.at[place].index()].before();
            if before.is_some_and(|version| self.is_indifferent(version)) {
                indifferent.insert(self.net.blobs()[place]);
            }
        }
        for place in self.net.input_places(op) {
            if self.is_indifferent(self.ssa.at[place]) {
                indifferent.insert(self.net.blobs()[place]);
            }
        }
        indifferent
    }

    /// The outputs of operator `op` in which it found a value that may need a gradient.
    pub(crate) fn matter_before(&self, op: usize) -> Set<BlobId> {
        let outputs = self.net.output_places(op).filter(|place| {
            let before = self.ssa.versions[self.ssa.at[*place].index()].before();
            match before {
                Some(version) => !self.is_indifferent(version),
                None => self.around.matter.contains(&self.net.blobs()[*place]),
            }
        });
        outputs.map(|place| self.net.blobs()[place]).collect()
    }

    /// The blobs that come into a net of operator `op` with a value that may need a gradient: those
    /// that control flow in that net asks for. `outer` says what a blob inside is here.
    pub(crate) fn matter_inside(
        &self,
        op: usize,
        net: &Net<'_>,
        outer: impl Fn(BlobId) -> Option<BlobId>,
    ) -> Set<BlobId> {
        let inner = 0..net.ops().len();
        let inner = inner.filter(|at| control::is_control(net.ops()[*at].view.op_type));
        let asked = inner.flat_map(|at| net.outputs(at)).filter_map(|blob| outer(*blob));
        let asked: Set<BlobId> = asked.collect();
        if asked.is_empty() {
            return Set::default();
        }
        let mut matter = self.matter_before(op);
        let inputs = self.net.input_places(op).filter(|place| {
            asked.contains(&self.net.blobs()[*place]) && !self.is_indifferent(self.ssa.at[*place])
        });
        matter.extend(inputs.map(|place| self.net.blobs()[place]));
        matter
    }

    /// The blobs of operator `op` that have been there before it, as far as the net tells.
    pub(crate) fn known_before(&self, op: usize) -> Set<BlobId> {
        let outputs = self.net.output_places(op);
        let written = outputs.filter(|place| self.ssa.number(self.ssa.at[*place]) > 0);
        let written = written.map(|place| self.net.blobs()[place]);
        self.net.inputs(op).iter().copied().chain(written).collect()
    }
}
