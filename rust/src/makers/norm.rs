//! Normalization.

use super::row::{case, one, pick, refuse, Row};
use super::schema::Count::OneOf;
use super::schema::Pairs::These;
use super::words::{Guard::*, Read, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("GroupNorm", "GroupNormGradient", &[GO(0), I(0), I(1), I(2), O(1), O(2)], &[GI(0), GI(1), GI(2)])
        .output_count(OneOf(&[1, 3])),
    one("LRN",       "LRNGradient",       &[I(0), O(0), GO(0)],                   &[GI(0)]).outputs(1, 2),
    one("Normalize", "NormalizeGradient", &[I(0), GO(0)],                         &[GI(0)]),
    one("RMSNorm",   "RMSNormGradient",   &[GO(0), I(0), I(1), O(1)],             &[GI(0), GI(1), GI(2)]),

    pick("AffineChannel", "AffineChannelGradient", &[
        case(&[Set("is_learnable")], &[GO(0), I(0), I(1)], &[GI(0), GI(1), GI(2)]),
        case(&[],                    &[GO(0), I(1)],       &[GI(0)]),
    ]).reading(&[Read::Flag("is_learnable", false)]).distinct_args().in_place(),
    pick("InstanceNorm", "InstanceNormGradient", &[
        case(&[OutputsFrom(3)], &[I(0), I(1), I(2), GO(0), O(1), O(2)], &[GI(0), GI(1), GI(2)]),
        case(&[OutputsFrom(2)], &[I(0), I(1), I(2), GO(0), O(1)],       &[GI(0), GI(1), GI(2)]),
        case(&[],               &[I(0), I(1), I(2), GO(0)],             &[GI(0), GI(1), GI(2)]),
    ]).outputs(1, 3).in_place(),
    pick("LayerNorm", "LayerNormGradient", &[
        case(&[Set("elementwise_affine")], &[GO(0), O(0), O(1), O(2), I(0), I(1)], &[GI(0), GI(1), GI(2)]),
        case(&[],                          &[GO(0), O(0), O(1), O(2), I(0)],       &[GI(0)]),
    ]).reading(&[Read::Raw("elementwise_affine")]).distinct_args().input_count(OneOf(&[1, 3])),

    // With several batches the gradient operator reads two of its own outputs before it writes them.
    pick("SpatialBN", "SpatialBNGradient", &[
        case(&[Set("is_test"), Inputs(5), Outputs(1)], &[I(0), I(1), GO(0), I(3), I(4)], &[GI(0), GI(1), GI(2)]),
        refuse(&[Set("is_test")], "a SpatialBN in test mode has another number of inputs or outputs",
               "give it 5 inputs and 1 output, or set is_test to 0"),
        case(&[Above("num_batches", 1), Inputs(7), Outputs(5)],
             &[I(0), I(1), GO(0), O(3), O(4), GI(1), GI(2)], &[GI(0), GI(1), GI(2)]),
        refuse(&[Above("num_batches", 1)], "a SpatialBN of several batches has another number of inputs or outputs",
               "give it 7 inputs and 5 outputs, or leave num_batches out"),
        case(&[Inputs(5), Outputs(5)], &[I(0), I(1), GO(0), O(3), O(4)], &[GI(0), GI(1), GI(2)]),
        refuse(&[], "a SpatialBN in training has another number of inputs or outputs", "give it 5 inputs and 5 outputs"),
    ]).reading(&[Read::Int("is_test", 0), Read::Int("num_batches", 1)]).distinct_args()
        .input_count(OneOf(&[5, 7])).output_count(OneOf(&[1, 5])).required("is_test")
        .may_share(These(&[(0, 0), (5, 3), (6, 4)])).must_share(These(&[(3, 1), (4, 2)])),
];
