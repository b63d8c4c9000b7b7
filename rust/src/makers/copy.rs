//! Copies, casts and changes of precision, and operators whose gradient somebody else brings along.

use super::answer::{Answer, Question};
use super::arguments::{find, int32, positions};
use super::row::{case, hands_on, list, one, pick, rule, step, steps_when, Row};
use super::schema::Pairs::These;
use super::schema::{Together::MoreInputs, MANY};
use super::words::{Arg::Float, Guard::*, Part::*, Slot::*};
use crate::error::{shown_name, Error, Kind, Result};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("Copy",           "CopyOnDeviceLike", &[GO(0), I(0)], &[GI(0)]),
    one("FloatToHalf",    "HalfToFloat",      &[GO(0)],       &[GI(0)]),
    one("HalfToFloat",    "FloatToHalf",      &[GO(0)],       &[GI(0)]),
    one("NanCheck",       "NanCheck",         &[GO(0)],       &[GI(0)]).inputs(1, MANY).in_place(),
    one("NegateGradient", "Negative",         &[GO(0)],       &[GI(0)]).in_place(),
    one("ZeroGradient",   "ConstantFill",     &[I(0)],        &[GI(0)]).args(&[Float("value", 0.0)]),
    hands_on("Alias"),
    rule("Cast", cast).bare().distinct_args(),

    pick("CopyCPUToGPU", "CopyGPUToCPU", &[
        case(&[DenseGradient(0)], &[GO(0)], &[GI(0)]),
        steps_when(&[], &[
            step("CopyGPUToCPU", &[GoIndices(0)], &[GiIndices(0)]),
            step("CopyGPUToCPU", &[GoValues(0)],  &[GiValues(0)]),
        ]),
    ]),
    pick("CopyGPUToCPU", "CopyCPUToGPU", &[
        case(&[DenseGradient(0)], &[GO(0)], &[GI(0)]),
        steps_when(&[], &[
            step("CopyCPUToGPU", &[GoIndices(0)], &[GiIndices(0)]),
            step("CopyCPUToGPU", &[GoValues(0)],  &[GiValues(0)]),
        ]),
    ]),
    pick("CopyRowsToTensor", "CopyRowsToTensorGradient", &[
        case(&[DenseGradient(0)], &[GO(0)], &[GI(0)]),
        steps_when(&[], &[
            step("CopyRowsToTensorGradient", &[GoIndices(0)], &[GiIndices(0)]),
            step("CopyRowsToTensorGradient", &[GoValues(0)],  &[GiValues(0)]),
        ]),
    ]).inputs(3, 3).must_share(These(&[(0, 0)])),

    list("QuantDecode", "QuantDecodeGradient", &[Each(1, &[I(0)]), EachOutput(GO(0))], &[Once(GI(0))])
        .together(MoreInputs(1)).outputs(1, MANY),
    list("Torch", "TorchGradient", &[Each(1, &[I(0)]), EachOutput(O(0)), EachOutput(GO(0))], &[Each(1, &[GI(0)])])
        .unchecked(),
    rule("Python",       |q, a| python("PythonGradient", q, a))
        .distinct_args().inputs(0, MANY).outputs(0, MANY).in_place_anywhere(),
    rule("PythonDLPack", |q, a| python("PythonDLPackGradient", q, a))
        .distinct_args().inputs(0, MANY).outputs(0, MANY).in_place_anywhere(),
];

/// Where the lists of positions are empty, all outputs and all inputs are meant.
fn python(gradient: &'static str, q: &Question, a: &mut Answer) -> Result<()> {
    let mut outputs = positions(q, "grad_output_indices")?;
    let mut inputs = positions(q, "grad_input_indices")?;
    if outputs.is_empty() {
        outputs.extend(q.output_positions());
    }
    if inputs.is_empty() {
        inputs.extend(q.input_positions());
    }
    let blobs = q.input_positions().map(I).chain(q.output_positions().map(O));
    let reads = blobs.chain(outputs.into_iter().map(GO));
    a.push(q, gradient, true, reads, inputs.into_iter().map(GI))
}

/// A cast back: `to` and `from_type` change places.
fn cast(q: &Question, a: &mut Answer) -> Result<()> {
    let from = data_type(q, "from_type")?.ok_or_else(|| {
        Error::new(Kind::Refused, "the argument from_type is missing")
            .hint("give the operator the argument from_type: its gradient is cast back to that")
    })?;
    let to = data_type(q, "to")?.unwrap_or(FLOAT);
    a.int("to", from);
    a.int("from_type", to);
    a.push(q, "Cast", false, [GO(0)], [GI(0)])
}

const FLOAT: i64 = 1;

/// The number of a data type that is given as its name or as a number, whether it exists or not.
fn data_type(q: &Question, name: &str) -> Result<Option<i64>> {
    let Some(argument) = find(q, name) else { return Ok(None) };
    let Some(text) = argument.s() else {
        return int32(&argument).map(|number| Some(number.into()));
    };
    let known = DATA_TYPES.iter().find(|(known, _)| text.eq_ignore_ascii_case(known.as_bytes()));
    known.map(|(_, number)| Some(*number)).ok_or_else(|| {
        let what = format!("the argument {name} is {}, which is no data type", shown_name(text));
        Error::new(Kind::Refused, what).hint(format!("give {name} a name of TensorProto.DataType"))
    })
}

/// `TensorProto.DataType`.
#[rustfmt::skip]
const DATA_TYPES: [(&str, i64); 15] = [
    ("UNDEFINED", 0), ("FLOAT", 1), ("INT32", 2), ("BYTE", 3), ("STRING", 4), ("BOOL", 5), ("UINT8", 6), ("INT8", 7),
    ("UINT16", 8), ("INT16", 9), ("INT64", 10), ("FLOAT16", 12), ("DOUBLE", 13), ("ZERO_COLLISION_HASH", 14),
    ("REBATCHING_BUFFER", 15),
];
