//! Picking elements and rows by index or mask, and the way back from sparse to dense.

use super::answer::{Answer, Question};
use super::arguments::{find, int32};
use super::row::{case, hand_on, nothing, one, pick, refuse, rule, Row};
use super::schema::MANY;
use super::words::GradientSlot::Sparse;
use super::words::{Arg, Form, Guard::*, Read, Slot::*};
use crate::error::Result;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("BatchDenseToSparse", "BatchSparseToDense",   &[I(0), I(1), GO(0), I(2)], &[GI(2)]),
    one("BatchGather",        "BatchGatherGradient",  &[I(0), I(1), GO(0)],       &[GI(0)]),
    one("BatchSparseToDense", "BatchDenseToSparse",   &[I(0), I(1), GO(0)],       &[GI(2)]).inputs(3, 4),
    one("BooleanMask",        "BooleanMaskGradient",  &[I(1), GO(0)],             &[GI(0)]).outputs(1, 2),
    one("FlexibleTopK",       "FlexibleTopKGradient", &[I(0), I(1), GO(0), O(1)], &[GI(0)]),
    one("LengthsTopK",        "LengthsTopKGradient",  &[I(1), O(1), GO(0)],       &[GI(0)]),
    one("SparseToDense",      "Gather",               &[GO(0), I(0)],             &[GI(1)]).inputs(2, 3),
    one("TopK",               "TopKGradient",         &[GO(0), O(1), I(0)],       &[GI(0)]).inputs(1, 2).outputs(2, 3),

    pick("EnsureDense", "SparseToDense", &[
        refuse(&[NoGradient(0)], "the gradient of output 0 is needed, and there is none", "use the output on the way to a y"),
        hand_on(&[DenseGradient(0)]),
        case(&[], &[GoIndices(0), GoValues(0), Shape(0)], &[GI(0)]),
    ]).in_place(),
    pick("FunHash", "FunHashGradient", &[
        case(&[Inputs(4)], &[GO(0), I(0), I(1), I(2), I(3)],       &[GI(3)]),
        case(&[],          &[GO(0), I(0), I(1), I(2), I(3), I(4)], &[GI(3), GI(4)]),
    ]).unchecked(),
    pick("Gather", "BatchGatherGradient", &[
        case(&[Unset("axis"), Set("dense_gradient")], &[I(1), GO(0), I(0)], &[GI(0)]).op_type("SparseToDense"),
        nothing(&[Unset("axis")]).gives(0, Sparse(I(1), GO(0))),
        refuse(&[Given("dense_gradient"), Unset("dense_gradient")],
               "a Gather along an axis other than 0 has no sparse gradient", "set dense_gradient to 1 or leave it out"),
        case(&[], &[I(0), I(1), GO(0)], &[GI(0)]).args(&[Arg::IntOf("axis", "axis", 0)]),
    ]).reading(&[Read::Flag("dense_gradient", false), Read::Int("axis", 0)]).distinct_args(),
    rule("GatherByKey", gather_by_key).distinct_args().inputs(2, MANY),
    pick("SequenceMask", "SequenceMask", &[
        case(&[Inputs(1)], &[GO(0)],       &[GI(0)]).args(&[Arg::All, Arg::Int("grad", 1)]),
        case(&[],          &[GO(0), I(1)], &[GI(0)]).args(&[Arg::All, Arg::Int("grad", 1)]),
    ]).bare().inputs(1, 2),
    pick("SparseFunHash", "SparseFunHashGradient", &[
        case(&[Inputs(4)], &[GO(0), I(0), I(1), I(2), I(3)],       &[GiValues(3), GiIndices(3)]),
        case(&[],          &[GO(0), I(0), I(1), I(2), I(3), I(4)], &[GiValues(3), GiIndices(3), GI(4)]),
    ]).unchecked(),
    pick("SparseToDenseMask", "SparseToDenseMaskGradient", &[
        case(&[Inputs(4)], &[I(0), GO(0), I(3)], &[GI(1)]),
        case(&[],          &[I(0), GO(0)],       &[GI(1)]),
    ]).inputs(3, 4).outputs(1, 2),
];

fn gather_by_key(q: &Question, a: &mut Answer) -> Result<()> {
    let packed = find(q, "pack_first_input").map_or(Ok(0), |argument| int32(&argument))?;
    a.int("pack_first_input", i64::from(packed));
    let dense = q.form(0)? == Form::Dense;
    let tables = 1..q.inputs.len() as u32;
    for k in tables.clone() {
        a.local("_", if dense { GI(k) } else { GiIndices(k) }, "_keys");
    }
    if dense {
        let writes = tables.flat_map(|k| [Local(k - 1), GI(k)]);
        a.push(q, "Partition", true, [I(0), GO(0)], writes)
    } else {
        let writes = tables.flat_map(|k| [Local(k - 1), GiIndices(k), GiValues(k)]);
        a.push(q, "Partition", true, [I(0), GoIndices(0), GoValues(0)], writes)
    }
}
