//! Losses.

use super::row::{case, one, pick, Case, Row};
use super::schema::Count::OneOf;
use super::words::{Guard::*, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("AveragedLoss",                  "AveragedLossGradient",                  &[I(0), GO(0)],                   &[GI(0)]),
    one("BernoulliJSD",                  "BernoulliJSDGradient",                  &[GO(0), I(0), I(1)],             &[GI(0)]),
    one("CTC",                           "Copy",                                  &[O(0)],                          &[GI(0)]).unchecked(),
    one("CosineEmbeddingCriterion",      "CosineEmbeddingCriterionGradient",      &[I(0), I(1), GO(0)],             &[GI(0)]),
    one("CrossEntropy",                  "CrossEntropyGradient",                  &[I(0), I(1), GO(0)],             &[GI(0)]),
    one("LabelCrossEntropy",             "LabelCrossEntropyGradient",             &[I(0), I(1), GO(0)],             &[GI(0)]),
    one("LambdaRankNdcg",                "LambdaRankNdcgGradient",                &[I(0), I(2), O(1), GO(0)],       &[GI(0)]),
    one("MakeTwoClass",                  "MakeTwoClassGradient",                  &[GO(0)],                         &[GI(0)]),
    one("MarginRankingCriterion",        "MarginRankingCriterionGradient",        &[I(0), I(1), I(2), GO(0)],       &[GI(0), GI(1)]),
    one("SelectSmoothL1Loss",            "SelectSmoothL1LossGradient",            &[I(0), I(1), I(2), I(3), GO(0)], &[GI(0)]),
    one("SessionMarginLoss",             "SessionMarginLossGradient",             &[I(0), I(2), O(1), GO(0)],       &[GI(0)]).unchecked(),
    one("SigmoidCrossEntropyLoss",       "SigmoidCrossEntropyLossGradient",       &[I(0), I(1), GO(0)],             &[GI(0)]),
    one("SigmoidCrossEntropyWithLogits", "SigmoidCrossEntropyWithLogitsGradient", &[GO(0), I(0), I(1)],             &[GI(0)]),
    one("SigmoidFocalLoss",              "SigmoidFocalLossGradient",              &[I(0), I(1), I(2), GO(0)],       &[GI(0)]),
    one("SmoothL1Loss",                  "SmoothL1LossGradient",                  &[I(0), I(1), I(2), I(3), GO(0)], &[GI(0)]),
    one("SoftmaxFocalLoss",              "SoftmaxFocalLossGradient",              &[I(0), I(1), I(2), O(1), GO(0)], &[GI(0)]),
    one("HSoftmax", "HSoftmaxGradient",
        &[I(0), I(1), I(2), I(3), O(1), GO(0)], &[GI(0), GI(1), GI(2), GO(1)]),
    one("WeightedSigmoidCrossEntropyWithLogits", "WeightedSigmoidCrossEntropyWithLogitsGradient",
        &[GO(0), I(0), I(1), I(2)], &[GI(0)]),

    pick("PairWiseLoss", "PairWiseLossGradient", &[
        case(&[Inputs(3)], &[I(0), I(1), GO(0), I(2)], &[GI(0)]),
        case(&[],          &[I(0), I(1), GO(0)],       &[GI(0)]),
    ]).inputs(2, 3),
    pick("SoftmaxWithLoss",        "SoftmaxWithLossGradient",        SOFTMAX_WITH_LOSS).inputs(2, 3).output_count(OneOf(&[2, 3])),
    pick("SpatialSoftmaxWithLoss", "SpatialSoftmaxWithLossGradient", SOFTMAX_WITH_LOSS).inputs(2, 3),
];

/// Of the two outputs only the loss hands a gradient on; one of the softmax itself is not looked at.
#[rustfmt::skip]
const SOFTMAX_WITH_LOSS: &[Case] = &[
    case(&[Inputs(3)], &[I(0), I(1), I(2), O(0), GO(1)], &[GI(0)]),
    case(&[],          &[I(0), I(1), O(0), GO(1)],       &[GI(0)]),
];
