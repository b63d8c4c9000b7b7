//! One call, stage by stage. The only bench that knows what `api::backward` does inside.

use _core::api::Forward;
use _core::backward::{backward, Target};
use _core::emit::Emitter;
use _core::error::Result;
use _core::gradient::BlobGradient;
use _core::memory::with_session;
use _core::message::{NetRef, OpRef};
use _core::session::{Named, NoHook, Scope, Session};
use _core::slice::drop_idle_copies;
use _core::ssa::{Places, Ssa};
use _core::surroundings::Surroundings;
use _core::verify::verify;
use _core::wire::Writer;

use crate::laps::Laps;
use crate::net_file::NetFile;

/// Runs a call, a lap for each stage. `read` holds `scan` once more, and `walk` holds `versions`.
pub fn run(file: &NetFile, laps: &mut Laps) -> Result<()> {
    for op in (NetRef { bytes: &file.bytes }).ops() {
        std::hint::black_box(OpRef::read(op?, |_, _| ())?);
    }
    laps.lap("scan");
    let forward = Forward::Net(&file.bytes);
    with_session(forward, &Scope::default(), &mut NoHook, |session, forward| {
        stages(session, forward, file, laps)
    })
}

fn stages<'a>(
    session: &mut Session<'_, 'a>,
    forward: Forward<'a>,
    file: &NetFile,
    laps: &mut Laps,
) -> Result<()> {
    laps.skip();
    let net = forward.read(session)?;
    laps.lap("read");

    let (names, mut places) = (session.table.len(), Places::default());
    let nowhere = std::iter::empty();
    laps.skip();
    let ssa = Ssa::default().play(&net, &mut places, names, nowhere, |_| ());
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
    let outcome = backward(session, &net, &targets, &Surroundings::default())?;
    let gradients: Vec<BlobGradient> = outcome
        .gradients()
        .map(|(blob, found)| {
            let came_in = outcome.came_in(found);
            BlobGradient { blob, gradient: found.gradient, came_in }
        })
        .collect();
    let mut gradient_net = session.spare.take_back(outcome);
    laps.lap("walk");

    let op_type = |op: u32| net.ops()[op as usize].view.op_type;
    verify(session, &gradient_net, &op_type, &gradients)?;
    session.spare.take_back_read(net);
    drop_idle_copies(session, &mut gradient_net);
    laps.lap("verify");

    let mut writer = Writer::default();
    writer.reserve(3 * file.bytes.len() + 64);
    let mut emitter = Emitter::new(writer, &mut session.values, &mut session.table);
    emitter.net_ops(&gradient_net);
    std::hint::black_box(emitter.writer.written().len());
    session.spare.take_back_written(gradient_net);
    laps.lap("emit");

    let mut text = Vec::new();
    for BlobGradient { blob, gradient, .. } in &gradients {
        let mut push = |(front, back): (&[u8], &[u8])| {
            text.extend_from_slice(front);
            text.extend_from_slice(back);
        };
        push(session.table.pieces(*blob));
        for part in gradient.parts() {
            let name = session.values.name_of(part, &mut session.table);
            push(session.table.pieces(name));
        }
    }
    std::hint::black_box(text.len());
    laps.lap("names");
    Ok(())
}
