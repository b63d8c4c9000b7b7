//! Activations, and dropout.

use super::row::{case, one, pick, refuse, Row};
use super::words::{Arg, Guard::*, Read::Flag, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("Clip",                "ClipGradient",                &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("ELU",                 "ELUGradient",                 &[I(0), O(0), GO(0)],       &[GI(0)]).args(&[Arg::All]).unchecked(),
    one("Elu",                 "EluGradient",                 &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Gelu",                "GeluGradient",                &[GO(0), I(0)],             &[GI(0)]),
    one("GroupSpatialSoftmax", "GroupSpatialSoftmaxGradient", &[O(0), GO(0)],             &[GI(0)]),
    one("HardSigmoid",         "HardSigmoidGradient",         &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("LeakyRelu",           "LeakyReluGradient",           &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Logit",               "LogitGradient",               &[I(0), GO(0)],             &[GI(0)]).in_place(),
    one("Mish",                "MishGradient",                &[I(0), O(0), GO(0)],       &[GI(0)]),
    one("PRelu",               "PReluGradient",               &[O(0), GO(0), I(0), I(1)], &[GI(0), GI(1)]).in_place(),
    one("Relu",                "ReluGradient",                &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("ReluFp16",            "ReluFp16Gradient",            &[O(0), GO(0)],             &[GI(0)]).unchecked(),
    one("ReluN",               "ReluNGradient",               &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Selu",                "SeluGradient",                &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Sigmoid",             "SigmoidGradient",             &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Softmax",             "SoftmaxGradient",             &[O(0), GO(0)],             &[GI(0)]),
    one("SoftmaxFp16",         "SoftmaxFp16Gradient",         &[O(0), GO(0)],             &[GI(0)]).unchecked(),
    one("Softplus",            "SoftplusGradient",            &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("Swish",               "SwishGradient",               &[I(0), O(0), GO(0)],       &[GI(0)]),
    one("Tanh",                "TanhGradient",                &[O(0), GO(0)],             &[GI(0)]).in_place(),
    one("ThresholdedRelu",     "ThresholdedReluGradient",     &[O(0), GO(0)],             &[GI(0)]).in_place(),

    pick("Dropout", "DropoutGrad", &[
        case(&[Set("is_test")], &[GO(0)],       &[GI(0)]),
        case(&[],               &[GO(0), O(1)], &[GI(0)]),
    ]).reading(&[Flag("is_test", false)]).distinct_args().outputs(1, 2).required("is_test").in_place(),

    pick("Softsign", "SoftsignGradient", &[
        refuse(&[InPlace(0, 0)], "a Softsign in place has no gradient", "give its output a name of its own"),
        case(&[], &[I(0), GO(0)], &[GI(0)]),
    ]).in_place(),
];
