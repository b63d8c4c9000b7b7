//! Convolutions, locally connected layers and pooling.

use super::row::{case, one, pick, Case, Row};
use super::words::{Arg::Int, Guard::*, Read, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("AveragePool",      "AveragePoolGradient",      &[I(0), O(0), GO(0)], &[GI(0)]),
    one("AveragePool1D",    "AveragePool1DGradient",    &[I(0), O(0), GO(0)], &[GI(0)]),
    one("AveragePool2D",    "AveragePool2DGradient",    &[I(0), O(0), GO(0)], &[GI(0)]),
    one("AveragePool3D",    "AveragePool3DGradient",    &[I(0), O(0), GO(0)], &[GI(0)]),
    one("Col2Im",           "Im2Col",                   &[GO(0)],             &[GI(0)]).inputs(2, 2),
    one("Im2Col",           "Col2Im",                   &[GO(0), I(0)],       &[GI(0)]),
    one("LpPool",           "LpPoolGradient",           &[I(0), O(0), GO(0)], &[GI(0)]),
    one("MaxPool",          "MaxPoolGradient",          &[I(0), O(0), GO(0)], &[GI(0)]),
    one("MaxPool1D",        "MaxPool1DGradient",        &[I(0), O(0), GO(0)], &[GI(0)]),
    one("MaxPool2D",        "MaxPool2DGradient",        &[I(0), O(0), GO(0)], &[GI(0)]),
    one("MaxPool3D",        "MaxPool3DGradient",        &[I(0), O(0), GO(0)], &[GI(0)]),
    one("MaxPoolWithIndex", "MaxPoolWithIndexGradient", &[I(0), GO(0), O(1)], &[GI(0)]),
    one("PadImage",         "PadImageGradient",         &[GO(0)],             &[GI(0)]),

    convolution("Conv",          "ConvGradient"),
    convolution("Conv1D",        "Conv1DGradient"),
    convolution("Conv2D",        "Conv2DGradient"),
    convolution("Conv3D",        "Conv3DGradient"),
    convolution("ConvTranspose", "ConvTransposeGradient"),
    convolution("LC",            "LCGradient"),
    convolution("LC1D",          "LC1DGradient"),
    convolution("LC2D",          "LC2DGradient"),
    convolution("LC3D",          "LC3DGradient"),
    pick("DeformConv", "DeformConvGradient", &[
        case(&[Inputs(4), Unset("no_gradient_to_input")], &[I(0), I(1), I(2), GO(0)], &[GI(1), GI(2), GI(3), GI(0)]),
        case(&[Inputs(4)],                                &[I(0), I(1), I(2), GO(0)], &[GI(1), GI(2), GI(3)]),
        case(&[Unset("no_gradient_to_input")],            &[I(0), I(1), I(2), GO(0)], &[GI(1), GI(2), GI(0)]).args(NO_BIAS),
        case(&[],                                         &[I(0), I(1), I(2), GO(0)], &[GI(1), GI(2)]).args(NO_BIAS),
    ]).reading(NO_GRADIENT_TO_INPUT).distinct_args().inputs(3, 4),
];

const fn convolution(name: &'static str, gradient: &'static str) -> Row {
    pick(name, gradient, CONVOLUTION).reading(NO_GRADIENT_TO_INPUT).distinct_args().inputs(2, 3)
}

#[rustfmt::skip]
const CONVOLUTION: &[Case] = &[
    case(&[Inputs(3), Unset("no_gradient_to_input")], &[I(0), I(1), GO(0)], &[GI(1), GI(2), GI(0)]),
    case(&[Inputs(3)],                                &[I(0), I(1), GO(0)], &[GI(1), GI(2)]),
    case(&[Unset("no_gradient_to_input")],            &[I(0), I(1), GO(0)], &[GI(1), GI(0)]).args(NO_BIAS),
    case(&[],                                         &[I(0), I(1), GO(0)], &[GI(1)]).args(NO_BIAS),
];

const NO_GRADIENT_TO_INPUT: &[Read] = &[Read::Flag("no_gradient_to_input", false)];
const NO_BIAS: &[super::words::Arg] = &[Int("no_bias", 1)];
