//! The blob bindings of a Do: which inner blob is which outer one.

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::{Map, Set};
use crate::message::{ArgRef, NetRef};

use super::{net_argument, Arguments};

/// What a Do binds, checked.
pub struct Bindings<'a> {
    /// The net.
    pub net: NetRef<'a>,
    /// The blob that holds the workspaces.
    pub workspace: BlobId,
    outer: Map<BlobId, BlobId>,
    inner: Map<BlobId, BlobId>,
}

impl<'a> Bindings<'a> {
    /// Reads and checks the bindings of a Do.
    pub(super) fn read(
        walk: &mut Walk<'_, '_, 'a>,
        op: usize,
        args: &Arguments<'a>,
    ) -> Result<Self> {
        let net =
            net_argument(walk, args, "net")?.ok_or_else(|| broken("it has no argument net"))?;
        let inner_blobs = only(args, "inner_blobs")?;
        let outer_index = only(args, "outer_blobs_idx")?;
        let inner_blobs: Vec<&'a [u8]> = inner_blobs.strings().collect();
        let outer_index = outer_index.ints()?;
        if inner_blobs.is_empty() || outer_index.is_empty() {
            return Err(broken("inner_blobs or outer_blobs_idx is empty"));
        }
        if inner_blobs.len() != outer_index.len() {
            return Err(broken(format!(
                "inner_blobs has {} entries and outer_blobs_idx {}",
                inner_blobs.len(),
                outer_index.len()
            )));
        }
        let (inputs, outputs) = (walk.net.inputs(op), walk.net.outputs(op));
        let (Some((read_last, inputs)), Some((written_last, outputs))) =
            (inputs.split_last(), outputs.split_last())
        else {
            return Err(broken("it has no input or no output, so no workspace"));
        };
        if read_last != written_last {
            return Err(broken("its last input is not its last output, the workspace"));
        }
        for (blobs, what) in [(inputs, "inputs"), (outputs, "outputs")] {
            let mut met = Set::with_room(blobs.len());
            if let Some(twice) = blobs.iter().find(|blob| !met.insert(**blob)) {
                let twice = walk.session.shown(*twice);
                return Err(broken(format!("{twice:?} stands twice among its {what}")));
            }
        }
        let names: Vec<BlobId> = inputs.iter().chain(outputs).copied().collect();
        let mut bindings = Self {
            net,
            workspace: *read_last,
            outer: Map::with_room(names.len()),
            inner: Map::with_room(names.len()),
        };
        for (inner, index) in inner_blobs.into_iter().zip(outer_index) {
            let inner = walk.session.table.intern(inner);
            let outer = usize::try_from(index).ok().and_then(|index| names.get(index).copied());
            let outer = outer.ok_or_else(|| {
                broken(format!("outer_blobs_idx has {index}, and there are {} blobs", names.len()))
            })?;
            if bindings.outer.insert(inner, outer).is_some() {
                let inner = walk.session.shown(inner);
                return Err(broken(format!("inner blob {inner:?} is bound twice")));
            }
            if bindings.inner.insert(outer, inner).is_some() {
                let outer = walk.session.shown(outer);
                return Err(broken(format!("outer blob {outer:?} is bound twice")));
            }
        }
        if let Some(unbound) = names.iter().find(|name| !bindings.inner.contains_key(name)) {
            let unbound = walk.session.shown(*unbound);
            return Err(broken(format!("outer blob {unbound:?} is bound to no inner blob")));
        }
        Ok(bindings)
    }

    /// The outer blob that an inner one is, if it is bound.
    pub fn outer(&self, inner: BlobId) -> Option<BlobId> {
        self.outer.get(&inner).copied()
    }

    /// The inner blob that an outer one is.
    pub fn inner(&self, outer: BlobId) -> Option<BlobId> {
        self.inner.get(&outer).copied()
    }
}

fn only<'a>(args: &Arguments<'a>, name: &str) -> Result<ArgRef<'a>> {
    let mut found = args.all(name);
    match (found.next(), found.next()) {
        (Some(argument), None) => Ok(argument),
        (None, _) => Err(broken(format!("it has no argument {name}"))),
        _ => Err(broken(format!("it has the argument {name} twice"))),
    }
}

/// The refusal of a Do whose bindings are not in order.
pub fn broken(what: impl Into<String>) -> Error {
    Error::new(Kind::Bindings, what)
        .hint("a Do binds each of its blobs but the workspace to exactly one inner blob")
}
