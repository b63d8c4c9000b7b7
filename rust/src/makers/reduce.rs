//! Reductions over axes, and moments.

use super::row::{case, one, pick, several, step, Case, Row};
use super::words::{Guard::*, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("BatchMoments", "BatchMomentsGradient", &[GO(0), GO(1), I(0)],       &[GI(0)]),
    one("ColwiseMax",   "ColwiseMaxGradient",   &[I(0), O(0), GO(0)],        &[GI(0)]),
    one("LpNorm",       "LpNormGradient",       &[I(0), GO(0)],              &[GI(0)]),
    one("Moments",      "MomentsGradient",      &[GO(0), GO(1), I(0), O(0)], &[GI(0)]),
    one("ReduceL1",     "ReduceL1Gradient",     &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("ReduceL2",     "ReduceL2Gradient",     &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("ReduceMax",    "ReduceMaxGradient",    &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("ReduceMean",   "ReduceMeanGradient",   &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("ReduceMin",    "ReduceMinGradient",    &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("ReduceSum",    "ReduceSumGradient",    &[GO(0), I(0), O(0)],        &[GI(0)]),
    one("RowwiseMax",   "RowwiseMaxGradient",   &[I(0), O(0), GO(0)],        &[GI(0)]),
    one("SumElements",  "SumElementsGradient",  &[I(0), GO(0)],              &[GI(0)]),

    pick("ReduceBackMax",   "ReduceBackMaxGradient",   MAXIMUM).inputs(1, 2),
    pick("ReduceBackMean",  "ReduceBackMeanGradient",  SUM).inputs(1, 2),
    pick("ReduceBackSum",   "ReduceBackSumGradient",   SUM).inputs(1, 2),
    pick("ReduceFrontMax",  "ReduceFrontMaxGradient",  MAXIMUM).inputs(1, 2),
    pick("ReduceFrontMean", "ReduceFrontMeanGradient", SUM).inputs(1, 2),
    pick("ReduceFrontSum",  "ReduceFrontSumGradient",  SUM).inputs(1, 2),
    several("ReduceFrontWeightedSum", &[
        step("Shape",                          &[I(0)],                  &[Local(0)]),
        step("ReduceFrontWeightedSumGradient", &[I(1), GO(0), Local(0)], &[GI(0)]),
    ]).local("_", O(0), "_dims").distinct_args(),
];

#[rustfmt::skip]
const SUM: &[Case] = &[
    case(&[Inputs(2)], &[GO(0), I(0), I(1)], &[GI(0)]),
    case(&[],          &[GO(0), I(0)],       &[GI(0)]),
];

#[rustfmt::skip]
const MAXIMUM: &[Case] = &[
    case(&[Inputs(2)], &[GO(0), I(0), O(0), I(1)], &[GI(0)]),
    case(&[],          &[GO(0), I(0), O(0)],       &[GI(0)]),
];
