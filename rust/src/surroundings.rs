//! What the net around a net knows about it, and what control flow asks of its own.

use std::cell::OnceCell;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::few::Set;
use crate::makers::{self, Entry};
use crate::net::Net;
use crate::session::{Session, RED_ZONE, STACK};
use crate::ssa::{Ssa, VersionId};

/// What the net around a net knows about it.
#[derive(Default)]
pub struct Surroundings<'o> {
    /// Blobs that somebody reads behind the end of the net.
    pub read_outside: &'o [BlobId],
    /// Blobs that get no gradient: the walk stops there.
    pub no_gradient: Set<BlobId>,
    /// Blobs whose value, as it comes in, has no gradient to give to anything before it.
    pub indifferent: Set<BlobId>,
    /// Whether a blob comes in with a value that may need a gradient. Control flow in the net may ask,
    /// and hardly ever does: so nothing is looked up before.
    pub matters: Option<&'o dyn Fn(BlobId) -> bool>,
}

/// All of a walk that tells which values matter. The session is not among it: the walks over the nets
/// inside have that meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'v, 'a> {
    pub(crate) net: &'v Net<'a>,
    ssa: &'v Ssa,
    around: &'v Surroundings<'v>,
}

impl Sight<'_, '_> {
    /// Whether a version has no gradient to give to anything before it, so that it does not matter
    /// what gradient it has itself.
    fn is_indifferent(&self, version: VersionId) -> bool {
        let Some(writer) = self.ssa.versions[version.index()].writer() else {
            return self.around.indifferent.contains(&self.ssa.blob(version));
        };
        let writer = writer as usize;
        let op_type = self.net.ops()[writer].view.op_type;
        let is_zero = op_type == b"Sub"
            && matches!(self.ssa.at[self.net.input_places(writer)], [one, other] if one == other);
        is_zero || matches!(makers::lookup(op_type), Entry::Silent)
    }

    /// The outputs of operator `op` in which it found a value that may need a gradient.
    fn matter_before(&self, op: usize) -> Set<BlobId> {
        let outputs = self.net.output_places(op).filter(|place| {
            let before = self.ssa.versions[self.ssa.at[*place].index()].before();
            match before {
                Some(version) => !self.is_indifferent(version),
                None => self.around.matters.is_some_and(|ask| ask(self.net.blobs()[*place])),
            }
        });
        outputs.map(|place| self.net.blobs()[place]).collect()
    }

    /// The blobs of operator `op` that come into its nets with a value that may need a gradient.
    pub(crate) fn matter_inside(&self, op: usize) -> Set<BlobId> {
        // Each net asks the one around it, as deep as nets are nested.
        stacker::maybe_grow(RED_ZONE, STACK, || {
            let mut matter = self.matter_before(op);
            let inputs = self.net.input_places(op);
            let inputs = inputs.filter(|place| !self.is_indifferent(self.ssa.at[*place]));
            matter.extend(inputs.map(|place| self.net.blobs()[place]));
            matter
        })
    }
}

impl<'s, 'a> Walk<'_, 's, 'a> {
    /// Whether a blob is one that gets no gradient.
    #[inline]
    pub(crate) fn is_stopped(&self, blob: BlobId) -> bool {
        self.around.no_gradient.contains(&blob)
    }

    fn sight(&self) -> Sight<'_, 'a> {
        Sight { net: self.net, ssa: &self.ssa, around: self.around }
    }

    /// The session, for the walk over a net inside, and what that net may ask of this walk.
    pub(crate) fn apart(&mut self) -> (&mut Session<'s, 'a>, Sight<'_, 'a>) {
        let sight = Sight { net: self.net, ssa: &self.ssa, around: self.around };
        (&mut *self.session, sight)
    }

    /// Runs `work`, which walks over a net of operator `op` that runs in the workspace of this one, with
    /// the session and with what that net is to know. Hands back what is `indifferent`.
    pub(crate) fn inside<R>(
        &mut self,
        op: usize,
        indifferent: Set<BlobId>,
        work: impl FnOnce(&mut Session<'s, 'a>, &Surroundings<'_>) -> R,
    ) -> (R, Set<BlobId>) {
        let (session, sight) = self.apart();
        let matter = OnceCell::new();
        let matters = |blob| matter.get_or_init(|| sight.matter_inside(op)).contains(&blob);
        let around = Surroundings {
            read_outside: sight.net.outputs(op),
            no_gradient: Set::default(),
            indifferent,
            matters: Some(&matters),
        };
        (work(session, &around), around.indifferent)
    }

    /// Whether a version has no gradient to give to anything before it.
    pub(crate) fn is_indifferent(&self, version: VersionId) -> bool {
        self.sight().is_indifferent(version)
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
        self.sight().matter_before(op)
    }
}
