//! Shapes and the order of elements: splitting, joining, transposing, tiling.

use super::answer::{Answer, Question};
use super::arguments::{find, push_varint, varint_of};
use super::row::{case, loops, nothing, one, pick, rule, Case, Row};
use super::schema::MANY;
use super::words::{Form, Guard::*, Part::*, Slot::*};
use crate::error::{Error, Kind, Result};
use crate::message::arg;
use crate::wire::fields;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("BatchToSpace",   "SpaceToBatch",           &[GO(0)],       &[GI(0)]),
    one("ChannelShuffle", "ChannelShuffleGradient", &[GO(0)],       &[GI(0)]),
    one("Expand",         "ExpandGradient",         &[GO(0), I(0)], &[GI(0)]).inputs(2, 2),
    one("ExpandDims",     "Squeeze",                &[GO(0)],       &[GI(0)]).in_place(),
    one("Flatten",        "ResizeLike",             &[GO(0), I(0)], &[GI(0)]),
    one("FlattenToVec",   "ResizeLike",             &[GO(0), I(0)], &[GI(0)]),
    one("NCHW2NHWC",      "NHWC2NCHW",              &[GO(0)],       &[GI(0)]),
    one("NHWC2NCHW",      "NCHW2NHWC",              &[GO(0)],       &[GI(0)]),
    one("PrependDim",     "MergeDim",               &[GO(0)],       &[GI(0)]).bare().in_place(),
    one("Reshape",        "Reshape",                &[GO(0), O(1)], &[GI(0), Local(0)])
        .local("_", GI(0), "_dims").bare().inputs(1, 2).in_place(),
    one("SpaceToBatch",   "BatchToSpace",           &[GO(0)],       &[GI(0)]),
    one("Squeeze",        "ExpandDims",             &[GO(0)],       &[GI(0)]).in_place(),

    pick("Slice", "SliceGradient", &[
        case(&[InputsFrom(2)], &[I(0), I(1), I(2), GO(0)], &[GI(0)]),
        case(&[],              &[I(0), GO(0)],             &[GI(0)]),
    ]).inputs(1, 3),
    pick("Tile", "TileGradient", &[
        case(&[InputsFrom(3)], &[GO(0), I(1), I(2)], &[GI(0)]),
        case(&[InputsFrom(2)], &[GO(0), I(1)],       &[GI(0)]),
        case(&[],              &[GO(0)],             &[GI(0)]),
    ]).inputs(1, 3),
    rule("Transpose", transpose).bare().distinct_args(),

    pick("Concat",      "Split", CONCAT),
    pick("DepthConcat", "Split", CONCAT),
    rule("DepthSplit",     split).inputs(1, 2).outputs(1, MANY),
    rule("Split",          split).inputs(1, 2).outputs(1, MANY),
    rule("SplitByLengths", split).inputs(2, 2).outputs(1, MANY),
];

#[rustfmt::skip]
const CONCAT: &[Case] = &[
    nothing(&[NoGradient(0)]),
    loops(&[], &[Once(GO(0)), Once(O(1))], &[Each(1, &[GI(0)])]),
];

/// The gradients of all pieces joined. The reference leaves out the pieces that have none, and gets
/// too short a result (case `wrong_rest/split_partly_used`); here they are zeros.
fn split(q: &Question, a: &mut Answer) -> Result<()> {
    let mut any = false;
    for k in q.output_positions() {
        any = any || q.form(k)? != Form::None;
    }
    if !any {
        return Ok(());
    }
    for k in q.output_positions() {
        if q.form(k)? == Form::None {
            let zero = a.local("", O(k), "_grad");
            a.float("value", 0.0);
            a.push(q, "ConstantFill", false, [O(k)], [zero])?;
        }
    }
    let mut zeros = 0;
    let pieces = q.output_positions().map(|k| {
        if q.g_output[k as usize] == Form::None {
            zeros += 1;
            Local(zeros - 1)
        } else {
            GO(k)
        }
    });
    let shape = a.local("_", GI(0), "_dims");
    a.push(q, "Concat", true, pieces, [GI(0), shape])
}

/// The inverse permutation. Of two arguments `axes`, which must be alike, only the first is changed,
/// and where the axes are no permutation the places that nothing is written to stay as they are.
fn transpose(q: &Question, a: &mut Answer) -> Result<()> {
    let axes = find(q, "axes");
    for argument in q.op.args() {
        match axes {
            Some(axes) if std::ptr::eq(axes.bytes, argument.bytes) => {
                let inverse = inverse(&axes.ints()?)?;
                let kept = fields(axes.bytes).filter_map(Result::ok);
                let kept = kept.filter(|field| field.number != arg::INTS);
                let mut serialized: Vec<u8> = kept.flat_map(|field| field.raw).copied().collect();
                for place in inverse {
                    serialized.push((arg::INTS << 3) as u8);
                    push_varint(&mut serialized, varint_of(place));
                }
                a.serialized(&serialized);
            }
            _ => a.copied(&argument),
        }
    }
    a.push(q, "Transpose", false, [GO(0)], [GI(0)])
}

fn inverse(axes: &[i64]) -> Result<Vec<i64>> {
    let mut inverse = axes.to_vec();
    for (place, &axis) in (0..).zip(axes) {
        let there = usize::try_from(axis).ok().and_then(|axis| inverse.get_mut(axis));
        *there.ok_or_else(|| {
            let what =
                format!("the argument axes has {} entries and one of them is {axis}", axes.len());
            Error::new(Kind::Refused, what).hint("let axes list each axis once, counted from 0")
        })? = place;
    }
    Ok(inverse)
}
