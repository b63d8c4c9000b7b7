//! The gradients of Do, If and While.
//!
//! Each differentiates the nets it holds by a walk of their own and puts the result into one
//! gradient operator of the same type. If and While run their nets in the workspace around them; a
//! Do has a workspace of its own, whose blobs are bound to outer ones.

mod bindings;
mod body;
mod branch;
mod do_op;
mod if_op;
mod listed;
mod seeds;
mod side;
mod while_op;
mod workspaces;

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::gradient::{Gradient, Ref};
use crate::message::{ArgRef, NetRef, OpRef};
use listed::Listed;

/// Put behind the name of a branch to name the other one, where an If has none and its gradient does.
pub const ELSE_SUFFIX: &str = "_grad_auto_else_zero_blobs_";

/// Whether operators of this type hold nets that are differentiated here.
pub fn is_control(op_type: &[u8]) -> bool {
    matches!(op_type, b"Do" | b"If" | b"While")
}

/// The arguments of a Do, If or While with their names. They hold whole nets, so each is gone through
/// once.
pub(crate) struct Arguments<'a>(SmallVec<[(&'a [u8], ArgRef<'a>); 6]>);

impl<'a> Arguments<'a> {
    /// Reads them. Fails where one is no argument.
    pub(crate) fn read(op: &OpRef<'a>) -> Result<Self> {
        let named = op.args().map(|argument| Ok((argument.checked_name()?, argument)));
        named.collect::<Result<_>>().map(Self)
    }

    /// Those of a name, in order.
    fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = ArgRef<'a>> + 's {
        let found = self.0.iter().filter(|(other, _)| *other == name.as_bytes());
        found.map(|(_, argument)| *argument)
    }

    /// Whether one of a name is a number other than zero.
    fn is_set(&self, name: &str) -> bool {
        self.all(name).any(|argument| argument.i().is_some_and(|flag| flag != 0))
    }
}

/// Appends the gradient operators of a Do, If or While and puts down what its inputs get, in an empty
/// list.
pub(crate) fn differentiate<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
    gets: &mut Vec<Gradient>,
) -> Result<()> {
    stacker::maybe_grow(crate::session::RED_ZONE, crate::session::STACK, || {
        match walk.net.ops()[op].view.op_type {
            b"Do" => do_op::differentiate(walk, op, args, gets),
            b"If" => if_op::differentiate(walk, op, args, gets),
            b"While" => while_op::differentiate(walk, op, args, gets),
            _ => Err(Error::new(Kind::Internal, "this operator is no control flow")),
        }
    })
}

/// A net among an operator's arguments.
fn net_argument<'a>(
    walk: &Walk<'_, '_, 'a>,
    args: &Arguments<'a>,
    name: &str,
) -> Result<Option<NetRef<'a>>> {
    let Some(argument) = args.all(name).next() else { return Ok(None) };
    // The reference reads a net that is not set as an empty one.
    let bytes = argument.net().unwrap_or_default();
    Ok(Some(NetRef { bytes: walk.session.table.keep_net(bytes)? }))
}

/// The refusal of an operator that is not what control flow must be.
fn control_error(what: impl Into<String>, hint: &str) -> Error {
    Error::new(Kind::Control, what).hint(hint)
}

/// A blob that is read inside an If or While, seen from the net around it.
fn outer_read(walk: &Walk<'_, '_, '_>, op: usize, listed: &Listed, part: Ref) -> Result<Ref> {
    let Ref::Blob(blob) = part else { return Ok(part) };
    if walk.lenient {
        return Ok(part);
    }
    if let Some(version) = listed.left(blob) {
        return walk.forward(op, version, false);
    }
    Err(not_listed(walk, blob))
}

/// The refusal of a gradient that needs a blob which the operator does not list.
fn not_listed(walk: &Walk<'_, '_, '_>, blob: BlobId) -> Error {
    Error::new(
        Kind::OutOfScope,
        format!(
            "its gradient needs {:?}, which is neither an input nor an output of it",
            walk.session.shown(blob)
        ),
    )
    .hint("list the blob among its inputs or outputs, or put the branch into a Do")
    .blob(walk.session.table.name(blob))
}

/// The refusal of a gradient that would have to go on to a blob which the operator does not list.
fn unlisted(walk: &Walk<'_, '_, '_>, op_type: &str, blob: BlobId) -> Error {
    Error::new(
        Kind::OutOfScope,
        format!(
            "the value that {:?} had before this {op_type} needs a gradient, but the {op_type} does \
             not list it among its inputs",
            walk.session.shown(blob)
        ),
    )
    .hint(format!("list the blob among the inputs of the {op_type}"))
    .blob(walk.session.table.name(blob))
}
