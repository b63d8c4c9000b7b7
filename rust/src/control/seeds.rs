//! The gradients that go into a Do, If or While.

use std::borrow::Cow;

use smallvec::SmallVec;

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

/// The gradients that go into one operator. There is one mostly.
pub type Seeds = SmallVec<[Seed; 4]>;

/// The gradients of the first `count` outputs of an operator, as far as there are any.
///
/// A repeated output counts once, with the first gradient that is given for it.
pub fn seeds(walk: &Walk<'_, '_, '_>, op: usize, count: usize) -> Result<Seeds> {
    let g_output = walk.g_output(op);
    let mut seeds = Seeds::with_capacity(g_output.len().min(count));
    for (k, output) in walk.net.outputs(op).iter().take(count).enumerate() {
        let Some(found) = g_output.get(k) else { break };
        match walk.usable(op, k, found)? {
            Gradient::None => {}
            Gradient::Dense(gradient) => {
                // In a net, both have one gradient; alone, either may have one.
                let is_met = is_repeated(walk, op, k)
                    && (!walk.lenient || seeds.iter().any(|seed| seed.output == *output));
                if !is_met {
                    seeds.push(Seed { output: *output, gradient });
                }
            }
            Gradient::Sparse(..) => {
                return Err(Error::new(
                    Kind::Inexpressible,
                    format!(
                        "the gradient of its output {:?} is sparse, and a sparse gradient cannot \
                         enter a {}",
                        walk.session.shown(*output),
                        type_of(walk, op)
                    ),
                )
                .hint("put an EnsureDense behind the operator")
                .blob(walk.session.table.name(*output)))
            }
        }
    }
    if seeds.is_empty() {
        return Err(control_error(
            format!("none of the outputs of this {} has a gradient", type_of(walk, op)),
            "give the gradient of at least one output other than the workspace",
        ));
    }
    Ok(seeds)
}

/// Whether output `k` is one of those before it once more.
fn is_repeated(walk: &Walk<'_, '_, '_>, op: usize, k: usize) -> bool {
    let version = walk.ssa.at[walk.net.output_places(op)][k];
    let before = walk.ssa.versions[version.index()].before();
    before.is_some_and(|before| walk.ssa.versions[before.index()].writer() == Some(op as u32))
}

fn type_of<'a>(walk: &Walk<'_, '_, 'a>, op: usize) -> Cow<'a, str> {
    String::from_utf8_lossy(walk.net.ops()[op].view.op_type)
}

/// Tells seeds of one name apart by copies: a blob binding is one to one, and a loop writes into its
/// seeds. Seeds that `reserved` names are copied as well.
pub fn set_apart(
    walk: &mut Walk<'_, '_, '_>,
    op: usize,
    seeds: &mut [Seed],
    reserved: &Set<BlobId>,
) {
    let mut taken = std::mem::take(&mut walk.session.outputs);
    taken.begin(walk.session.table.len());
    for seed in seeds {
        let name = walk.session.values.nominal_ref(seed.gradient);
        if reserved.contains(&name) || taken.get(name).is_some() {
            let copy = apart(walk, seed);
            walk.out.copy(seed.gradient, copy, false, None, Some(op as u32));
            seed.gradient = Ref::Value(copy);
        }
        taken.set(name, 0);
    }
    walk.session.outputs = taken;
}

/// The value that a copy of a seed is.
pub fn apart(walk: &mut Walk<'_, '_, '_>, seed: &Seed) -> ValueId {
    let gradient = walk.session.values.nominal_ref(seed.gradient);
    let suffix = [b"_", walk.session.table.name(gradient), b"_DEDUP"].concat();
    let name = walk.session.table.suffixed(seed.output, &suffix);
    walk.session.values.add(name)
}
