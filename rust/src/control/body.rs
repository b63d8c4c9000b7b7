//! The body of a While: what it must be, and its gradient, which is that of one turn.

use smallvec::smallvec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::Set;
use crate::gradient::{Body, Control, ControlArg, GradientNet, NetHead, Ref, ValueId};
use crate::makers::{self, Entry};
use crate::message::NetRef;
use crate::net::Net;
use crate::session::Session;
use crate::surroundings::Surroundings;

use super::branch::Branch;
use super::seeds::{apart, Seed};
use super::{control_error, net_argument, Arguments};

/// The body of a While.
pub(super) struct LoopBody<'a> {
    /// The loop net.
    forward: NetRef<'a>,
    /// The same, taken apart: a single Do.
    net: Net<'a>,
    /// The arguments of the Do.
    args: Arguments<'a>,
    /// Its workspace.
    pub workspace: BlobId,
    /// Whether there can be several turns.
    pub turns_again: bool,
}

/// What a turn of the gradient loop starts from.
#[derive(Clone, Copy)]
pub(super) struct Start {
    /// The blob that it is the gradient of.
    pub blob: BlobId,
    /// Its gradient behind the loop. A blob that goes from turn to turn may have none: zero.
    pub behind: Option<Ref>,
    /// The value that the turns start from. What it is finally called shows when the loop has been
    /// differentiated.
    pub value: ValueId,
}

impl<'a> LoopBody<'a> {
    /// Reads and checks the body of a While.
    pub fn read(walk: &mut Walk<'_, '_, 'a>, op: usize, args: &Arguments<'a>) -> Result<Self> {
        let forward = net_argument(walk, args, "loop_net")?
            .ok_or_else(|| control_error("this While has no argument loop_net", "give it one"))?;
        let net = Net::read(forward, &mut walk.session.table)?;
        let (workspace, body_args) = check_body(&net)?;
        let turns_again = turns_again(walk, op, args, &net)?;
        Ok(Self { forward, net, args: body_args, workspace, turns_again })
    }

    /// The gradient of one turn, and what it starts from. `args` are those of the While.
    pub fn differentiate(
        &self,
        walk: &mut Walk<'_, '_, 'a>,
        op: usize,
        args: &Arguments<'a>,
        seeds: &[Seed],
    ) -> Result<(Vec<Start>, Branch<'a>)> {
        let Self { forward, net, args: body_args, workspace, turns_again } = self;
        let (starts, mut branch) =
            differentiate_body(walk, op, *forward, net, seeds, *turns_again)?;
        if !branch.writes().any(|part| part == Ref::Blob(*workspace)) {
            push_taking_up(walk, net, body_args, *workspace, &mut branch)?;
        }
        if *turns_again {
            check_turns(walk, args, net, body_args, &branch)?;
        }
        Ok((starts, branch))
    }
}

/// Differentiates the body. A blob that the body changes and that gets a gradient in a turn hands it
/// on to the turn before, so it is started from as well, with zero: the body is differentiated again
/// until there is no such blob.
fn differentiate_body<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    forward: NetRef<'a>,
    body: &Net<'a>,
    seeds: &[Seed],
    turns_again: bool,
) -> Result<(Vec<Start>, Branch<'a>)> {
    let mut starts: Vec<Start> = Vec::with_capacity(seeds.len());
    for seed in seeds {
        let (blob, behind) = (seed.output, Some(seed.gradient));
        starts.push(Start { blob, behind, value: apart(walk, seed) });
    }
    // What the body writes comes in from the turn before.
    let mut indifferent = walk.indifferent_before(op);
    for written in body.outputs(0) {
        indifferent.remove(written);
    }
    let again = |session: &mut Session<'_, 'a>, around: &Surroundings<'_>| {
        until_all_start(session, around, forward, body, starts, turns_again)
    };
    walk.inside(op, indifferent, again).0
}

/// Differentiates the body with more and more starts, until every blob that goes from turn to turn is
/// among them.
fn until_all_start<'a>(
    session: &mut Session<'_, 'a>,
    around: &Surroundings<'_>,
    forward: NetRef<'a>,
    body: &Net<'a>,
    mut starts: Vec<Start>,
    turns_again: bool,
) -> Result<(Vec<Start>, Branch<'a>)> {
    let (loops, again) = (session.loops, session.again);
    loop {
        let inside = starts
            .iter()
            .map(|start| Seed { output: start.blob, gradient: Ref::Value(start.value) });
        let branch = Branch::differentiate(session, forward, inside, around)?;
        let started: Set<BlobId> = starts.iter().map(|start| start.blob).collect();
        let written: Set<BlobId> = body.outputs(0).iter().copied().collect();
        let incoming = branch.incoming.iter().map(|(blob, _)| *blob);
        let carried: Vec<BlobId> = incoming
            .filter(|blob| turns_again && written.contains(blob) && !started.contains(blob))
            .collect();
        if carried.is_empty() {
            session.again = again;
            return Ok((starts, branch));
        }
        // Loops inside of loops would each do their work again: the product is kept in bounds.
        session.again *= 2;
        if session.again > MOST_AGAIN {
            return Err(too_entangled(session, carried[0]));
        }
        session.loops = loops;
        for blob in carried {
            let gradient = session.table.gradient(blob);
            let suffix = [b"_", session.table.name(gradient), b"_DEDUP"].concat();
            let name = session.table.suffixed(blob, &suffix);
            starts.push(Start { blob, behind: None, value: session.values.add(name) });
        }
    }
}

/// How often, at the most, the body of a loop inside of loops is differentiated again.
const MOST_AGAIN: u32 = 1 << 10;

fn too_entangled(session: &Session<'_, '_>, blob: BlobId) -> Error {
    Error::new(
        Kind::Inexpressible,
        format!(
            "{:?} goes from turn to turn in loops inside of loops, and gets its gradient by way of too \
             many other blobs that do",
            session.shown(blob)
        ),
    )
    .hint("make the blobs that go from turn to turn targets, with gradients of zeros")
    .blob(session.table.name(blob))
}

/// The body must be a single Do that makes a new workspace for each turn.
fn check_body<'a>(net: &Net<'a>) -> Result<(BlobId, Arguments<'a>)> {
    let [body] = net.ops() else {
        return Err(control_error(
            format!("the loop_net of this While has {} operators", net.ops().len()),
            "its gradient needs a single Do as the body of the loop",
        ));
    };
    if body.view.op_type != b"Do" {
        return Err(control_error(
            "the loop_net of this While is no Do",
            "its gradient needs a single Do as the body of the loop",
        ));
    }
    let args = Arguments::read(&body.view)?;
    let reuses = args.all("reuse_workspace").next();
    if reuses.is_some_and(|argument| argument.i().is_some_and(|flag| flag != 0)) {
        return Err(control_error(
            "the body of this While reuses its workspace",
            "leave out reuse_workspace: the gradient needs the workspace of each turn",
        ));
    }
    let workspace = net.outputs(0).last().copied().ok_or_else(|| {
        control_error("the body of this While has no output", "its last one is the workspace")
    })?;
    Ok((workspace, args))
}

/// The gradient loop ends when it has taken up the workspaces of all turns. Where the body has no
/// gradient of its own, a Do that does nothing else takes them up.
fn push_taking_up<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    body: &Net<'a>,
    args: &Arguments<'a>,
    workspace: BlobId,
    branch: &mut Branch<'a>,
) -> Result<()> {
    let forward = body.ops()[0].view;
    let Some(net) = net_argument(walk, args, "net")? else { return Ok(()) };
    let mut head = NetHead::of(net, "_grad");
    head.always_named = true;
    let control = Control {
        forward,
        args: smallvec![
            ControlArg::net("net", head, GradientNet::default()),
            ControlArg::Names("inner_blobs", 0..0),
            ControlArg::Ints("outer_blobs_idx", 0..0),
            ControlArg::Names("saved_fwd_blobs", 0..0),
        ],
        changes: Vec::new(),
        looks_at: Vec::new(),
    };
    let (workspace, body) = (Ref::Blob(workspace), Body::Control(Box::new(control)));
    branch.net.push_refs(b"Do", [workspace], [workspace], Some(0), body);
    Ok(())
}

/// Whether there can be several turns: where nothing changes the condition there is none, or no end.
fn turns_again<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    op: usize,
    args: &Arguments<'a>,
    body: &Net<'a>,
) -> Result<bool> {
    let condition = walk.net.inputs(op)[0];
    Ok(net_argument(walk, args, "cond_net")?.is_some() || body.outputs(0).contains(&condition))
}

/// Refuses loops whose turns the gradient cannot tell apart.
fn check_turns<'a>(
    walk: &mut Walk<'_, '_, 'a>,
    args: &Arguments<'a>,
    body: &Net<'a>,
    body_args: &Arguments<'a>,
    branch: &Branch<'a>,
) -> Result<()> {
    if let Some(net) = net_argument(walk, args, "cond_net")? {
        let net = Net::read(net, &mut walk.session.table)?;
        check_condition_net(walk, &net, branch)?;
    }
    if body_args.is_set("copy_external_blobs") {
        return Ok(());
    }
    let Some((workspace, written)) = body.outputs(0).split_last() else { return Ok(()) };
    let written: Set<BlobId> = written.iter().copied().collect();
    let changing = branch.reads(&mut walk.session.seen).iter().find_map(|part| match *part {
        Ref::Blob(blob) if blob != *workspace && written.contains(&blob) => Some(blob),
        _ => None,
    });
    match changing {
        None => Ok(()),
        Some(blob) => Err(Error::new(
            Kind::Inexpressible,
            format!(
                "the gradient of each turn needs {:?} as that turn left it, and only the last turn's \
                 is kept",
                walk.session.shown(blob)
            ),
        )
        .hint("set copy_external_blobs on the Do that is the body of the loop")
        .blob(walk.session.table.name(blob))),
    }
}

/// The condition net runs between the turns, and has no gradient.
fn check_condition_net(walk: &Walk<'_, '_, '_>, net: &Net<'_>, branch: &Branch<'_>) -> Result<()> {
    let touched: Set<BlobId> = branch.final_gradients.iter().map(|(blob, _)| *blob).collect();
    let loud = (0..net.ops().len())
        .filter(|at| !matches!(makers::lookup(net.ops()[*at].view.op_type), Entry::Silent));
    match loud.flat_map(|at| net.outputs(at)).find(|blob| touched.contains(blob)) {
        None => Ok(()),
        Some(written) => Err(Error::new(
            Kind::Inexpressible,
            format!(
                "the condition net writes {:?}, which the gradient goes through",
                walk.session.shown(*written)
            ),
        )
        .hint("move that operator into the body of the loop")
        .blob(walk.session.table.name(*written))),
    }
}
