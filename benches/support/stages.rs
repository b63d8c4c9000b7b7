//! One call, stage by stage. The only bench that knows what `api::backward` does inside.

use _core::backward::{backward, Surroundings, Target};
use _core::blobs::BlobId;
use _core::emit::Emitter;
use _core::error::Result;
use _core::gradient::Gradient;
use _core::message::{NetRef, OpRef};
use _core::net::Net;
use _core::session::{Named, NoHook, Scope, Session};
use _core::slice::drop_idle_copies;
use _core::ssa::{Places, Ssa};
use _core::verify::verify;
use _core::wire::Writer;
use bumpalo::Bump;

use crate::laps::Laps;
use crate::net_file::NetFile;

/// Runs a call, a lap for each stage. `read` holds `scan` once more, and `walk` holds `versions`.
pub fn run(file: &NetFile, laps: &mut Laps) -> Result<()> {
    let view = NetRef { bytes: &file.bytes };
    for op in view.ops() {
        std::hint::black_box(OpRef::read(op?, |_, _| ())?);
    }
    laps.lap("scan");

    let bump = Bump::new();
    let (scope, mut hook) = (Scope::default(), NoHook);
    let mut session = Session::new(&bump, file.bytes.len() / 16, &scope, &mut hook);
    let net = Net::read(view, &mut session.table)?;
    laps.lap("read");

    let names = session.table.len();
    let ssa = Ssa::play(&net, &mut Places::default(), names, std::iter::empty(), |_| ());
    laps.lap("versions");
    drop(ssa);

    let targets: Vec<Target> = file
        .ys
        .iter()
        .map(|y| {
            let blob = session.table.intern_copy(&y.name);
            let gradient = (y.gradient != Named::None).then(|| session.given(&y.gradient));
            Target { blob, gradient, in_scope: y.in_scope }
        })
        .collect();
    laps.skip();
    let mut outcome = backward(&mut session, &net, &targets, &Surroundings::default())?;
    let gradients: Vec<(BlobId, Gradient)> =
        outcome.gradients().map(|(blob, found)| (blob, found.gradient)).collect();
    let lasting: Vec<(BlobId, Gradient)> = outcome.incoming().collect();
    laps.lap("walk");

    let op_type = |op: u32| net.ops()[op as usize].view.op_type;
    verify(&mut session, &outcome.net, &op_type, &lasting)?;
    drop_idle_copies(&mut session, &mut outcome.net);
    laps.lap("verify");

    let writer = Writer::with_capacity(3 * file.bytes.len() + 64);
    let mut emitter = Emitter::new(writer, &mut session.values, &mut session.table);
    emitter.net_ops(&outcome.net);
    std::hint::black_box(emitter.writer.written().len());
    laps.lap("emit");

    let mut text = Vec::new();
    for (blob, gradient) in &gradients {
        text.extend_from_slice(session.table.name(*blob));
        for part in gradient.parts() {
            let name = session.values.name_of(part, &mut session.table);
            text.extend_from_slice(session.table.name(name));
        }
    }
    std::hint::black_box(text.len());
    laps.lap("names");
    Ok(())
}
