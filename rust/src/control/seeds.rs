//! The gradients that go into a Do, If or While.

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::Set;
use crate::gradient::{Gradient, Ref, ValueId};

use super::control_error;

/// A gradient that goes in: the output it belongs to, and where it is.
#[derive(Clone, Copy)]
pub struct Seed {
    /// The output.
    pub output: BlobId,
    /// Its gradient.
    pub gradient: Ref,
}

/// The gradients of the first `count` outputs of an operator, as far as there are any.
///
/// A repeated output counts once, with the first gradient that is given for it.
pub fn seeds(walk: &Walk<'_, '_, '_>, op: usize, count: usize) -> Result<Vec<Seed>> {
    let g_output = walk.g_output(op);
    let op_type = String::from_utf8_lossy(walk.net.ops()[op].view.op_type).into_owned();
    let mut met = Set::with_room(g_output.len());
    let mut seeds = Vec::new();
    for (k, output) in walk.net.outputs(op).iter().take(count).enumerate() {
        let Some(found) = g_output.get(k) else { break };
        match walk.usable(op, k, found)? {
            Gradient::None => {}
            Gradient::Dense(gradient) => {
                if met.insert(*output) {
                    seeds.push(Seed { output: *output, gradient });
                }
            }
            Gradient::Sparse(..) => {
                return Err(Error::new(
                    Kind::Inexpressible,
                    format!(
                        "the gradient of its output {:?} is sparse, and a sparse gradient cannot \
                         enter a {op_type}",
                        walk.session.shown(*output)
                    ),
                )
                .hint("put an EnsureDense behind the operator")
                .blob(walk.session.table.name(*output)))
            }
        }
    }
    if seeds.is_empty() {
        return Err(control_error(
            format!("none of the outputs of this {op_type} has a gradient"),
            "give the gradient of at least one output other than the workspace",
        ));
    }
    Ok(seeds)
}

/// Tells seeds of one name apart by copies: a blob binding is one to one, and a loop writes into its
/// seeds. Seeds that `reserved` names are copied as well.
pub fn set_apart(
    walk: &mut Walk<'_, '_, '_>,
    op: usize,
    seeds: &mut [Seed],
    reserved: &Set<BlobId>,
) {
    let mut taken: Set<BlobId> = Set::with_room(seeds.len());
    for seed in seeds {
        let name = walk.session.values.nominal_ref(seed.gradient);
        if reserved.contains(&name) || !taken.insert(name) {
            let copy = apart(walk, seed);
            walk.out.copy(seed.gradient, copy, false, None, Some(op as u32));
            seed.gradient = Ref::Value(copy);
        }
    }
}

/// The value that a copy of a seed is.
pub fn apart(walk: &mut Walk<'_, '_, '_>, seed: &Seed) -> ValueId {
    let gradient = walk.session.values.nominal_ref(seed.gradient);
    let suffix = [b"_", walk.session.table.name(gradient), b"_DEDUP"].concat();
    let name = walk.session.table.suffixed(seed.output, &suffix);
    walk.session.values.add(name)
}
