//! Distances and products of vectors.

use super::row::{one, Row};
use super::words::{Arg::*, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("CosineSimilarity",      "CosineSimilarityGradient",      &[I(0), I(1), GO(0)], &[GI(0), GI(1)]),
    one("DotProduct",            "DotProductGradient",            &[I(0), I(1), GO(0)], &[GI(0), GI(1)]),
    // Both arguments are copied behind once more, and the gradient operator refuses two that differ. So
    // replicate keeps its value, where the reference makes every value but 0 a 1.
    one("DotProductWithPadding", "DotProductWithPaddingGradient", &[I(0), I(1), GO(0)], &[GI(0), GI(1)])
        .args(&[FloatOf("pad_value", "pad_value", 0.0), IntOf("replicate", "replicate", 0)]).distinct_args(),
    one("L1Distance",            "L1DistanceGradient",            &[I(0), I(1), GO(0)], &[GI(0), GI(1)]),
    one("SquaredL2Distance",     "SquaredL2DistanceGradient",     &[I(0), I(1), GO(0)], &[GI(0), GI(1)]),
];
