//! Tensor trains.

use super::row::{one, Row};
use super::words::{Arg, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("TTContraction",      "TTContractionGradient",      &[GO(0), I(0), I(1)], &[GI(0), GI(1)]).args(&[Arg::All]).unchecked(),
    one("TTPad",              "TTPadGradient",              &[GO(0), O(1)],       &[GI(0)]).args(&[Arg::All]).unchecked(),
    one("TTSparseLengthsSum", "TTSparseLengthsSumGradient", &[I(0), I(1), I(2), I(4), O(1), O(2), O(3), GO(0)], &[GI(0), GI(1), GI(2)]),
];
