//! Segments, by lengths or by ids: sums, means, padding, packing.

use super::row::{case, one, pick, refuse, step, steps_when, Case, Row};
use super::words::GradientSlot::Sparse;
use super::words::{Guard::*, Read, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("LengthsMax",                   "LengthsMaxWithMainInputAndForwardOutputGradient", &[O(0), GO(0), I(1), I(0)], &[GI(0)]),
    one("LengthsMean",                  "LengthsIndicesInGradientMeanGradient",            &[GO(0), I(1), I(0)],       &[GI(0)]),
    one("LengthsSum",                   "LengthsIndicesInGradientSumGradient",             &[GO(0), I(1), I(0)],       &[GI(0)]),
    one("LengthsTile",                  "LengthsSum",                                      &[GO(0), I(1)],             &[GI(0)]),
    one("PackSegments",                 "UnpackSegments",                                  &[I(0), GO(0)],             &[GI(1)]).outputs(1, 2),
    one("SortedSegmentMean",            "SortedSegmentMeanGradient",                       &[GO(0), I(1)],             &[GI(0)]),
    one("SortedSegmentRangeLogMeanExp", "SortedSegmentRangeLogMeanExpGradient",            &[I(0), O(0), GO(0), I(1)], &[GI(0)]),
    one("SortedSegmentRangeLogSumExp",  "SortedSegmentRangeLogSumExpGradient",             &[I(0), O(0), GO(0), I(1)], &[GI(0)]),
    one("SortedSegmentRangeMax",        "SortedSegmentRangeMaxGradient",                   &[I(0), O(0), GO(0), I(1)], &[GI(0)]),
    one("SortedSegmentRangeMean",       "SortedSegmentRangeMeanGradient",                  &[I(0), O(0), GO(0), I(1)], &[GI(0)]),
    one("SortedSegmentRangeSum",        "SortedSegmentRangeSumGradient",                   &[I(0), O(0), GO(0), I(1)], &[GI(0)]),
    one("SortedSegmentSum",             "SortedSegmentSumGradient",                        &[GO(0), I(1)],             &[GI(0)]),
    one("UnpackSegments",               "PackSegments",                                    &[I(0), GO(0)],             &[GI(1)]),
    one("UnsortedSegmentMean",          "UnsortedSegmentMeanGradient",                     &[GO(0), I(1)],             &[GI(0)]),
    one("UnsortedSegmentSum",           "UnsortedSegmentSumGradient",                      &[GO(0), I(1)],             &[GI(0)]),

    one("SparseLengthsMean",         "SparseLengthsIndicesInGradientMeanGradient", &[GO(0), I(2), I(1)], &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),
    one("SparseLengthsSum",          "SparseLengthsIndicesInGradientSumGradient",  &[GO(0), I(2), I(1)], &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),
    one("SparseSortedSegmentMean",   "SortedSegmentMeanGradient",                  &[GO(0), I(2)],       &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),
    one("SparseSortedSegmentSum",    "SortedSegmentSumGradient",                   &[GO(0), I(2)],       &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),
    one("SparseUnsortedSegmentMean", "UnsortedSegmentMeanGradient",                &[GO(0), I(2)],       &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),
    one("SparseUnsortedSegmentSum",  "UnsortedSegmentSumGradient",                 &[GO(0), I(2)],       &[GiValues(0)])
        .gives(0, Sparse(I(1), GiValues(0))),

    pick("LengthsWeightedSum", "LengthsWeightedSumGradient", &[
        case(&[Set("grad_on_weights")], &[I(1), GO(0), I(2), I(0)], &[GI(0), GI(1)])
            .op_type("LengthsWeightedSumWithMainInputGradient"),
        case(&[],                       &[I(1), GO(0), I(2)],       &[GI(0)]),
    ]).reading(GRAD_ON_WEIGHTS),
    pick("SparseLengthsWeightedSum", "SparseLengthsIndicesInGradientWeightedSumGradient", &[
        case(&[Set("grad_on_weights")], &[I(1), GO(0), I(3), I(0), I(2)], &[GiValues(0), GI(1)])
            .op_type("SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient").gives(0, Sparse(I(2), GiValues(0))),
        case(&[],                       &[I(1), GO(0), I(3), I(2)],       &[GiValues(0)]).gives(0, Sparse(I(2), GiValues(0))),
    ]).reading(GRAD_ON_WEIGHTS),
    pick("SortedSegmentWeightedSum",         "SortedSegmentWeightedSumGradient",   WEIGHTED).reading(GRAD_ON_WEIGHTS),
    pick("SparseSortedSegmentWeightedSum",   "SortedSegmentWeightedSumGradient",   SPARSE_WEIGHTED).reading(GRAD_ON_WEIGHTS),
    pick("SparseUnsortedSegmentWeightedSum", "UnsortedSegmentWeightedSumGradient", SPARSE_WEIGHTED).reading(GRAD_ON_WEIGHTS),
    pick("UnsortedSegmentWeightedSum",       "UnsortedSegmentWeightedSumGradient", WEIGHTED).reading(GRAD_ON_WEIGHTS),

    pick("AddPadding", "RemovePadding", &[
        steps_when(&[Inputs(4)], &[
            step("RemovePadding", &[GO(0), O(1)], &[GI(0)]),
            step("GatherPadding", &[GO(0), O(1)], &[GI(2), GI(3)]),
        ]),
        steps_when(&[InputsFrom(3)], &[
            step("RemovePadding", &[GO(0), O(1)], &[GI(0)]),
            step("GatherPadding", &[GO(0), O(1)], &[GI(2)]),
        ]),
        case(&[InputsFrom(2)], &[GO(0), O(1)], &[GI(0)]),
        case(&[],              &[GO(0)],       &[GI(0)]),
    ]).inputs(1, 4).outputs(1, 2),
    pick("RemovePadding", "AddPadding", &[
        case(&[InputsFrom(2)], &[GO(0), O(1)], &[GI(0)]),
        case(&[],              &[GO(0)],       &[GI(0)]),
    ]).inputs(1, 2).outputs(1, 2),
];

const GRAD_ON_WEIGHTS: &[Read] = &[Read::Flag("grad_on_weights", false)];

const NO_GRADIENT_OF_WEIGHTS: Case = refuse(
    &[Set("grad_on_weights")],
    "this operator type has no gradient of the weights",
    "leave grad_on_weights out, or use the operator that takes lengths",
);

#[rustfmt::skip]
const WEIGHTED: &[Case] = &[
    NO_GRADIENT_OF_WEIGHTS,
    case(&[], &[I(1), GO(0), I(2)], &[GI(0)]),
];

#[rustfmt::skip]
const SPARSE_WEIGHTED: &[Case] = &[
    NO_GRADIENT_OF_WEIGHTS,
    case(&[], &[I(1), GO(0), I(3)], &[GiValues(0)]).gives(0, Sparse(I(2), GiValues(0))),
];
