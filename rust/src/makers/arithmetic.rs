//! Arithmetic on elements.

use rustc_hash::FxHashMap;

use super::answer::{Answer, Question};
use super::arguments::find;
use super::row::{hands_on, list, loops, one, pick, rule, several, step, steps_when, Row};
use super::schema::MANY;
use super::words::GradientSlot;
use super::words::{
    Arg::Float,
    Guard::{Set, Spare},
    Part::*,
    Read::Flag,
    Slot::*,
};
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("Abs",              "AbsGradient",        &[I(0), GO(0)],                 &[GI(0)]),
    one("Acos",             "AcosGradient",       &[I(0), GO(0)],                 &[GI(0)]),
    one("Add",              "AddGradient",        &[GO(0), Shape(0), Shape(1)],   &[GI(0), GI(1)]).in_place_anywhere(),
    one("Asin",             "AsinGradient",       &[I(0), GO(0)],                 &[GI(0)]),
    one("Atan",             "AtanGradient",       &[I(0), GO(0)],                 &[GI(0)]),
    one("Cbrt",             "CbrtGradient",       &[GO(0), O(0)],                 &[GI(0)]).in_place(),
    one("Cos",              "CosGradient",        &[I(0), GO(0)],                 &[GI(0)]),
    one("Cosh",             "CoshGradient",       &[GO(0), I(0)],                 &[GI(0)]),
    one("Cube",             "CubeGradient",       &[GO(0), I(0)],                 &[GI(0)]),
    one("Div",              "DivGradient",        &[GO(0), Shape(0), I(1), O(0)], &[GI(0), GI(1)]).in_place(),
    one("Erf",              "ErfGradient",        &[I(0), GO(0)],                 &[GI(0)]),
    one("Exp",              "Mul",                &[O(0), GO(0)],                 &[GI(0)]).in_place(),
    one("Log",              "Div",                &[GO(0), I(0)],                 &[GI(0)]).in_place(),
    one("Log1p",            "Log1pGradient",      &[I(0), GO(0)],                 &[GI(0)]),
    one("Mul",              "MulGradient",        &[GO(0), I(0), I(1)],           &[GI(0), GI(1)]).in_place_anywhere(),
    one("Negative",         "Negative",           &[GO(0)],                       &[GI(0)]).in_place(),
    one("Reciprocal",       "ReciprocalGradient", &[O(0), GO(0)],                 &[GI(0)]).in_place(),
    one("Rsqrt",            "RsqrtGradient",      &[GO(0), O(0)],                 &[GI(0)]).in_place(),
    one("Scale",            "Scale",              &[GO(0)],                       &[GI(0)]).in_place(),
    one("Sin",              "SinGradient",        &[I(0), GO(0)],                 &[GI(0)]),
    one("Sinh",             "SinhGradient",       &[GO(0), I(0)],                 &[GI(0)]),
    one("SquareRootDivide", "SquareRootDivide",   &[GO(0), I(1)],                 &[GI(0)]).in_place(),
    one("Sub",              "SubGradient",        &[GO(0), Shape(0), Shape(1)],   &[GI(0), GI(1)]).in_place_anywhere(),
    one("Tan",              "TanGradient",        &[I(0), GO(0)],                 &[GI(0)]),

    // The reference always scales the output's gradient itself, which others may need or the caller may
    // own: twice the gradient for all of them. Cases op/maker/Sqr, wrong_sharing.
    pick("Sqr", "Mul", &[
        steps_when(&[Spare(0)], &[
            step("Scale", &[GO(0)],       &[GO(0)]).args(&[Float("scale", 2.0)]),
            step("Mul",   &[GO(0), I(0)], &[GI(0)]),
        ]),
        steps_when(&[], &[
            step("Scale", &[GO(0)],       &[GI(0)]).args(&[Float("scale", 2.0)]),
            step("Mul",   &[GI(0), I(0)], &[GI(0)]),
        ]),
    ]).in_place(),
    several("Sqrt", &[
        step("Scale", &[GO(0)],       &[GI(0)]).args(&[Float("scale", 0.5)]),
        step("Div",   &[GI(0), O(0)], &[GI(0)]),
    ]).in_place(),
    rule("Pow", pow).bare().distinct_args().inputs(1, 2).in_place_anywhere(),

    hands_on("Sum").inputs(1, MANY).in_place(),
    rule("Max", extremum).in_place().inputs(1, MANY).outputs(1, 1),
    list("Mean", "MeanGradient", &[Once(GO(0))],                               &[Each(1, &[GI(0)])]).in_place(),
    rule("Min", extremum).in_place().inputs(1, MANY).outputs(1, 1),
    pick("WeightedSum", "WeightedSumGradient", &[
        loops(&[Set("grad_on_w")], &[Once(GO(0)), Each(2, &[I(0), I(1)])],     &[Each(2, &[GI(0)]), Each(2, &[GI(1)])]),
        loops(&[],                 &[Once(GO(0)), Each(2, &[Shape(0), I(1)])], &[Each(2, &[GI(0)])]),
    ]).reading(&[Flag("grad_on_w", false)]).distinct_args().in_place(),
];

fn pow(q: &Question, a: &mut Answer) -> Result<()> {
    match find(q, "exponent") {
        Some(exponent) => match exponent.f() {
            Some(exponent) => pow_of_number(exponent, q, a),
            None => Err(Error::new(Kind::Refused, "the argument exponent is no float")
                .hint("give exponent in the field f")),
        },
        None if q.inputs.len() < 2 => Err(Error::new(
            Kind::Refused,
            "the operator has neither an exponent nor a second input",
        )
        .hint("give it the argument exponent or a second input")),
        None if q.in_place(0, 0) || q.in_place(1, 0) => {
            Err(Error::new(Kind::Refused, "a Pow of two inputs in place has no gradient")
                .hint("give its output a name of its own"))
        }
        None => pow_of_blob(q, a),
    }
}

/// e x^(e-1), or e y^((e-1)/e) where y has taken the place of x. The latter is the reference's answer
/// and right unless x is negative, which a whole e other than 1 and -1 allows: y has lost the sign.
fn pow_of_number(exponent: f32, q: &Question, a: &mut Answer) -> Result<()> {
    let base = if q.in_place(0, 0) {
        if exponent.abs() <= 1e-12 {
            return Err(Error::new(Kind::Refused, "the exponent of a Pow in place is 0")
                .hint("give the output a name of its own"));
        }
        a.float("exponent", (exponent - 1.0) / exponent);
        O(0)
    } else {
        a.float("exponent", exponent - 1.0);
        I(0)
    };
    a.push(q, "Pow", false, [base], [GI(0)])?;
    a.push(q, "Mul", false, [GI(0), GO(0)], [GI(0)])?;
    a.float("scale", exponent);
    a.push(q, "Scale", false, [GI(0)], [GI(0)])
}

/// b x^(b-1) for the base, y log x for the exponent, which is summed up where it was broadcast.
fn pow_of_blob(q: &Question, a: &mut Answer) -> Result<()> {
    let broadcast = find(q, "broadcast");
    let unsummed = a.local("", GI(1), "_autogen_pre_red");
    let arguments = |a: &mut Answer, with_broadcast: bool| {
        let Some(broadcast) = &broadcast else { return };
        if with_broadcast {
            a.copied(broadcast);
        }
        match find(q, "axis") {
            Some(axis) => a.copied(&axis),
            None => a.int("axis", -1),
        }
        for (name, default) in [("axis_str", ""), ("order", "NCHW")] {
            match find(q, name) {
                Some(argument) => a.copied(&argument),
                None => a.string(name, default),
            }
        }
    };
    a.float("value", 1.0);
    a.push(q, "ConstantFill", false, [I(1)], [GI(1)])?;
    a.push(q, "Sub", false, [I(1), GI(1)], [GI(1)])?;
    arguments(a, true);
    a.push(q, "Pow", false, [I(0), GI(1)], [GI(0)])?;
    a.push(q, "Mul", false, [GI(0), GO(0)], [GI(0)])?;
    arguments(a, true);
    a.push(q, "Mul", false, [GI(0), I(1)], [GI(0)])?;
    a.push(q, "Log", false, [I(0)], [unsummed])?;
    a.push(q, "Mul", false, [unsummed, O(0)], [unsummed])?;
    if broadcast.is_none() {
        return a.push(q, "Mul", false, [unsummed, GO(0)], [GI(1)]);
    }
    a.push(q, "Mul", false, [unsummed, GO(0)], [unsummed])?;
    arguments(a, false);
    a.push(q, "SumReduceLike", false, [unsummed, I(1)], [GI(1)])
}

/// Where inputs are equal the gradient operator gives each of them the whole gradient. A blob that
/// stands among the inputs twice always equals itself, so it is named once.
fn extremum(q: &Question, a: &mut Answer) -> Result<()> {
    let mut first: FxHashMap<BlobId, u32> = FxHashMap::default();
    for k in q.input_positions() {
        first.entry(q.inputs[k as usize]).or_insert(k);
    }
    let gradient = if q.op.op_type == b"Max" { "MaxGradient" } else { "MinGradient" };
    let distinct = q.input_positions().filter(|k| first[&q.inputs[*k as usize]] == *k);
    // Of one blob alone the output is a copy, so it may be in place.
    let alone = distinct.clone().count() == 1;
    let read = |k| if alone { Shape(k) } else { I(k) };
    let reads = [O(0), GO(0)].into_iter().chain(distinct.clone().map(read));
    a.push(q, gradient, true, reads, distinct.map(GI))?;
    for k in q.input_positions() {
        a.g_input[k as usize] = GradientSlot::Dense(GI(first[&q.inputs[k as usize]]));
    }
    Ok(())
}
