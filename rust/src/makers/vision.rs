//! Regions and resizing of images.

use super::row::{case, one, pick, Case, Row};
use super::schema::Count::OneOf;
use super::words::{Guard::*, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("BatchPermutation", "BatchPermutationGradient", &[I(1), GO(0)],             &[GI(0)]),
    one("IntegralImage",    "IntegralImageGradient",    &[I(0), GO(0)],             &[GI(0)]),
    one("PSRoIPool",        "PSRoIPoolGradient",        &[I(0), I(1), O(1), GO(0)], &[GI(0)]),
    one("ResizeNearest3D",  "ResizeNearest3DGradient",  &[GO(0), I(0)],             &[GI(0)]),
    one("RoIAlign",         "RoIAlignGradient",         &[I(0), I(1), GO(0)],       &[GI(0)]),
    one("RoIAlignRotated",  "RoIAlignRotatedGradient",  &[I(0), I(1), GO(0)],       &[GI(0)]),
    one("RoIPool",          "RoIPoolGradient",          &[I(0), I(1), O(1), GO(0)], &[GI(0)]).output_count(OneOf(&[1, 2])),
    one("RoIPoolF",         "RoIPoolFGradient",         &[I(0), I(1), O(1), GO(0)], &[GI(0)]),
    one("SampleAs",         "SampleAsGradient",         &[I(0), I(1), GO(0)],       &[GI(0)]),
    one("SpatialNarrowAs",  "SpatialNarrowAsGradient",  &[I(0), I(1), GO(0)],       &[GI(0)]),
    one("UpsampleNearest",  "UpsampleNearestGradient",  &[I(0), GO(0)],             &[GI(0)]),

    pick("ResizeNearest",    "ResizeNearestGradient",    RESIZE).inputs(1, 2),
    pick("UpsampleBilinear", "UpsampleBilinearGradient", RESIZE).inputs(1, 2),
];

#[rustfmt::skip]
const RESIZE: &[Case] = &[
    case(&[Inputs(2)], &[GO(0), I(0), I(1)], &[GI(0)]),
    case(&[],          &[GO(0), I(0)],       &[GI(0)]),
];
