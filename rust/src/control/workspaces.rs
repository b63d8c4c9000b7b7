//! The workspaces that forward operators have left, and that their gradients take up again.

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{shown_name, Error, Kind, Result};
use crate::few::Set;
use crate::gradient::{Body, Control, Ref};

impl<'a> Walk<'_, '_, 'a> {
    /// Checks that a gradient Do will find the workspace that its forward Do has left.
    ///
    /// A workspace blob is a stack: all that was put on it later must have been taken up before.
    pub(crate) fn check_workspace(&mut self, op: usize, workspace: BlobId) -> Result<()> {
        if self.lenient {
            return Ok(());
        }
        let Some(place) =
            self.net.output_places(op).find(|place| self.net.blobs()[*place] == workspace)
        else {
            return Ok(());
        };
        let own = self.ssa.at[place];
        let place = self.ssa.versions[own.index()].place;
        let mut at = self.checked.get(&place).copied().unwrap_or_else(|| self.ssa.newest(own));
        while at != own {
            let version = self.ssa.versions[at.index()];
            match version.before() {
                Some(before) if self.taken_up.contains(&at) => at = before,
                _ => {
                    return Err(Error::new(
                        Kind::Version,
                        format!(
                            "another operator puts a workspace on {:?} behind this one, and has no \
                             gradient that would take it off again",
                            self.session.shown(workspace)
                        ),
                    )
                    .hint("give each Do a workspace blob of its own")
                    .blob(self.session.table.name(workspace)))
                }
            }
        }
        self.checked.insert(place, own);
        Ok(())
    }

    /// Checks that a While found no workspace of another operator on its stack: the gradient loop takes
    /// up all that there are.
    pub(crate) fn check_empty_before(&self, op: usize, workspace: BlobId) -> Result<()> {
        let found = self.net.output_places(op).find(|place| self.net.blobs()[*place] == workspace);
        let before = found.and_then(|place| self.ssa.versions[self.ssa.at[place].index()].before());
        let writer = before.and_then(|before| self.ssa.versions[before.index()].writer());
        match writer.map(|writer| self.net.ops()[writer as usize].view.op_type) {
            None | Some(b"CreateScope") => Ok(()),
            _ if self.lenient => Ok(()),
            Some(op_type) => Err(Error::new(
                Kind::Version,
                format!(
                    "a {} puts workspaces on {:?} before this loop, and the gradient loop would take \
                     them up too",
                    shown_name(op_type),
                    self.session.shown(workspace)
                ),
            )
            .hint("give each loop a workspace blob of its own")
            .blob(self.session.table.name(workspace))),
        }
    }

    /// Appends a gradient Do, If or While.
    pub(crate) fn push_control(
        &mut self,
        op: usize,
        op_type: &'static [u8],
        inputs: &[Ref],
        outputs: &[Ref],
        control: Control<'a>,
    ) {
        self.protect_outputs(op, outputs, &control.changes);
        let workspaces: Set<BlobId> = outputs
            .iter()
            .filter_map(|part| match part {
                Ref::Blob(blob) => Some(*blob),
                Ref::Value(_) => None,
            })
            .collect();
        for place in self.net.output_places(op) {
            if workspaces.contains(&self.net.blobs()[place]) {
                self.taken_up.insert(self.ssa.at[place]);
            }
        }
        let body = Body::Control(Box::new(control));
        let (inputs, outputs) = (inputs.iter().copied(), outputs.iter().copied());
        self.out.push_refs(op_type, inputs, outputs, Some(op as u32), body);
    }
}
