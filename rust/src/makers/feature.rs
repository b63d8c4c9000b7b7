//! Feature tensors: of each group of inputs one is merged, the others say where it belongs.

use super::row::{list, Row};
use super::words::{Part::*, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    list("MergeMultiListFeatureTensors",    "MergeMultiListFeatureTensorsGradient",    &[Each(4, &[I(0), I(2)]), Once(GO(3))], &[Each(4, &[GI(3)])]),
    list("MergeMultiMapFeatureTensors",     "MergeMultiMapFeatureTensorsGradient",     &[Each(5, &[I(0), I(2)]), Once(GO(4))], &[Each(5, &[GI(4)])]),
    list("MergeMultiScalarFeatureTensors",  "MergeMultiScalarFeatureTensorsGradient",  &[Each(3, &[I(0)]),       Once(GO(2))], &[Each(3, &[GI(2)])]),
    list("MergeSingleListFeatureTensors",   "MergeSingleListFeatureTensorsGradient",   &[Each(3, &[I(0), I(2)]), Once(GO(3))], &[Each(3, &[GI(1)])]),
    list("MergeSingleMapFeatureTensors",    "MergeSingleMapFeatureTensorsGradient",    &[Each(4, &[I(0), I(3)]), Once(GO(4))], &[Each(4, &[GI(2)])]),
    list("MergeSingleScalarFeatureTensors", "MergeSingleScalarFeatureTensorsGradient", &[Each(2, &[I(1)]),       Once(GO(2))], &[Each(2, &[GI(0)])]),
];
