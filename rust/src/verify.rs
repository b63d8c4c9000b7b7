//! Runs through a finished answer and makes sure that every operator reads what it was meant to.
//!
//! Names are given to values late and by many hands. So the answer is played once more by its final
//! names: each blob that an operator reads must hold the value that the walk meant, and each blob of
//! the forward pass must still be the forward pass's. What fails here is refused, never handed out.

use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::{Map, Set};
use crate::gradient::{
    BlobGradient, Body, ControlArg, GradientNet, GradientOp, NetHead, Ref, ValueId,
};
use crate::message::OpRef;
use crate::session::{Session, RED_ZONE, STACK};

/// Checks a net and the nets inside it. `op_type` knows the forward operators that it serves;
/// those of `gradients` that came in must be there when all operators have run.
pub fn verify<'a>(
    session: &mut Session<'_, 'a>,
    net: &GradientNet<'a>,
    op_type: &dyn Fn(u32) -> &'a [u8],
    gradients: &[BlobGradient],
) -> Result<()> {
    let mut play = Play::new(session, net.refs.len());
    for op in &net.ops {
        play.op(net, op).map_err(|error| match op.forward() {
            Some(forward) => error.at(forward as usize, op_type(forward)),
            None => error,
        })?;
    }
    for lasting in gradients.iter().filter(|gradient| gradient.came_in) {
        for part in lasting.gradient.parts() {
            play.reads(part).map_err(|error| error.blob(play.session.table.name(lasting.blob)))?;
        }
    }
    if let Holds::Most(mut held) = play.holds {
        held.clear();
        session.spare.held.push(held);
    }
    Ok(())
}

/// The type of an operator of the forward net that a gradient net belongs to.
#[cold]
fn type_in<'a>(head: &NetHead<'a>, at: u32) -> &'a [u8] {
    let op = head.forward.and_then(|net| net.ops().nth(at as usize)?.ok());
    let op = op.and_then(|bytes| OpRef::read(bytes, |_, _| ()).ok());
    op.map_or(b"", |op| op.op_type)
}

struct Play<'p, 's, 'a> {
    session: &'p mut Session<'s, 'a>,
    holds: Holds,
}

/// What the backward pass has written to a blob.
#[derive(Clone, Copy)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// This value.
    Value(ValueId),
    /// Something that a nested net has put there.
    Other,
}

/// What each blob holds, by name.
enum Holds {
    /// For a net that has to do with most names that there are.
    Most(Vec<Held>),
    /// For a small net among many.
    Few(Map<BlobId, Held>),
}

impl Holds {
    fn new(session: &mut Session<'_, '_>, blobs: usize) -> Self {
        let names = session.table.len();
        if names > 4 * blobs {
            return Holds::Few(Map::default());
        }
        let mut held = session.spare.held.pop().unwrap_or_default();
        held.resize(names, Held::Nothing);
        Holds::Most(held)
    }

    fn get(&self, name: BlobId) -> Held {
        let held = match self {
            Holds::Most(all) => all.get(name.index()),
            Holds::Few(few) => few.get(&name),
        };
        held.copied().unwrap_or(Held::Nothing)
    }

    fn insert(&mut self, name: BlobId, held: Held) {
        match self {
            Holds::Most(all) => {
                if all.len() <= name.index() {
                    all.resize(name.index() + 1, Held::Nothing);
                }
                all[name.index()] = held;
            }
            Holds::Few(few) => drop(few.insert(name, held)),
        }
    }
}

impl<'p, 's, 'a> Play<'p, 's, 'a> {
    fn new(session: &'p mut Session<'s, 'a>, blobs: usize) -> Self {
        let holds = Holds::new(session, blobs);
        Self { session, holds }
    }

    /// Puts down what an operator writes.
    fn writes(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>) {
        if let Body::Control(control) = &op.body {
            for part in &control.changes {
                let name = self.session.values.name_of(*part, &mut self.session.table);
                self.holds.insert(name, Held::Other);
            }
        }
        for value in net.outputs(op) {
            let name = self.session.values.name(value, &mut self.session.table);
            self.holds.insert(name, Held::Value(value));
        }
    }

    fn op(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>) -> Result<()> {
        for part in net.inputs(op) {
            self.reads(*part)?;
        }
        if let Body::Control(control) = &op.body {
            for part in &control.looks_at {
                self.reads(*part)?;
            }
            for argument in &control.args {
                if let ControlArg::Net(_, inner) = argument {
                    stacker::maybe_grow(RED_ZONE, STACK, || {
                        verify(self.session, &inner.net, &|at| type_in(&inner.head, at), &[])
                    })?;
                }
            }
        }
        if matches!(op.body, Body::Maker { .. }) {
            self.check_apart(net, op)?;
        }
        self.writes(net, op);
        Ok(())
    }

    /// What a maker plans writes over no blob of the forward pass that it reads.
    fn check_apart(&mut self, net: &GradientNet<'a>, op: &GradientOp<'a>) -> Result<()> {
        const FEW: usize = 64;
        let inputs = net.inputs(op);
        let mut hashed: Option<Set<Ref>> = None;
        for value in net.outputs(op) {
            let name = self.session.values.name(value, &mut self.session.table);
            let is_read = if inputs.len() * net.writes(op).len() <= FEW {
                inputs.contains(&Ref::Blob(name))
            } else {
                hashed
                    .get_or_insert_with(|| inputs.iter().copied().collect())
                    .contains(&Ref::Blob(name))
            };
            if is_read {
                return Err(self.overwritten(name, Ref::Blob(name)));
            }
        }
        Ok(())
    }

    fn reads(&mut self, part: Ref) -> Result<BlobId> {
        let name = self.session.values.name_of(part, &mut self.session.table);
        let is_meant = match (self.holds.get(name), part) {
            (Held::Nothing, _) => true,
            (Held::Value(held), Ref::Value(value)) => self.session.values.is_same(value, held),
            _ => false,
        };
        if is_meant {
            return Ok(name);
        }
        Err(self.overwritten(name, part))
    }

    #[cold]
    fn overwritten(&self, name: BlobId, part: Ref) -> Error {
        let what = match part {
            Ref::Blob(_) => "a blob of the forward pass",
            Ref::Value(_) => "a gradient",
        };
        Error::new(
            Kind::Overwritten,
            format!(
                "its gradient reads {:?}, {what} that another gradient of the same name has \
                 overwritten by then",
                self.session.shown(name)
            ),
        )
        .hint("give the blob, or the gradient that you name, another name")
        .blob(self.session.table.name(name))
    }
}
