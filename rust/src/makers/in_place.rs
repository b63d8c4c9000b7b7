//! Which gradient operators may write over what they read.
//!
//! The gradient that an operator reads can have the name of the one that it writes: a blob was
//! overwritten in the forward pass, or the caller chose that name. Most gradient operators do not run
//! then, and a few would read what they have overwritten. The table holds what was measured on the
//! kernels of the reference, CPU, for all types that makers give; what is not in it is copied first.

/// By type: pairs of a read and a write that may have one name.
#[rustfmt::skip]
const ALWAYS: &[(&str, &[(u32, u32)])] = &[
    ("CbrtGradient",             &[(0, 0)]),
    ("ClipGradient",             &[(1, 0)]),
    ("ConstantFill",             &[(0, 0)]),
    ("CopyRowsToTensorGradient", &[(0, 0)]),
    ("Div",                      &[(0, 0)]),
    ("DropoutGrad",              &[(0, 0)]),
    ("EluGradient",              &[(1, 0)]),
    ("ExpandDims",               &[(0, 0)]),
    ("HardSigmoidGradient",      &[(1, 0)]),
    ("LeakyReluGradient",        &[(1, 0)]),
    ("Log",                      &[(0, 0)]),
    ("MeanGradient",             &[(0, 0)]),
    ("MergeDim",                 &[(0, 0)]),
    ("Mul",                      &[(0, 0), (1, 0)]),
    ("NanCheck",                 &[(0, 0)]),
    ("Negative",                 &[(0, 0)]),
    ("Pow",                      &[(0, 0)]),
    ("ReciprocalGradient",       &[(1, 0)]),
    ("ReluGradient",             &[(1, 0)]),
    ("ReluNGradient",            &[(1, 0)]),
    ("Reshape",                  &[(0, 0)]),
    ("RsqrtGradient",            &[(0, 0)]),
    ("Scale",                    &[(0, 0)]),
    ("SeluGradient",             &[(1, 0)]),
    ("SigmoidGradient",          &[(1, 0)]),
    ("SoftplusGradient",         &[(1, 0)]),
    ("SoftsignGradient",         &[(1, 0)]),
    ("SpatialBNGradient",        &[(5, 1), (6, 2)]),
    ("SquareRootDivide",         &[(0, 0)]),
    ("Squeeze",                  &[(0, 0)]),
    ("SwishGradient",            &[(2, 0)]),
    ("TanhGradient",             &[(1, 0)]),
    ("ThresholdedReluGradient",  &[(1, 0)]),
];

/// The same for types that must not where the written gradient is smaller than the one that is read:
/// where a broadcast is summed up again.
#[rustfmt::skip]
const OF_ONE_SHAPE: &[(&str, &[(u32, u32)])] = &[
    ("AddGradient", &[(0, 0), (0, 1)]),
    ("DivGradient", &[(0, 0)]),
    ("SubGradient", &[(0, 0), (0, 1)]),
];

/// The same for types that must not where they write anything else.
const ALONE: &[(&str, &[(u32, u32)])] = &[("AffineChannelGradient", &[(0, 0)])];

/// Forward operators that give a blob another shape in place, or copy another shape over it.
const CHANGE_SHAPE: &[&str] = &[
    "BatchMatMul",
    "Concat",
    "ExpandDims",
    "Flatten",
    "FlattenToVec",
    "Gather",
    "MergeDim",
    "PrependDim",
    "Reshape",
    "ResizeLike",
    "Slice",
    "Squeeze",
    "Tile",
    "Transpose",
];

/// Whether an operator that works on a blob in place may leave it in another shape.
pub fn changes_shape(op_type: &[u8]) -> bool {
    CHANGE_SHAPE.iter().any(|name| name.as_bytes() == op_type)
}

/// Whether a gradient operator may write output `write` over the gradient that it reads as input
/// `read`. `one_shape` says that the two are known to have one shape, `alone` that there is no other
/// output.
pub fn may_overwrite(op_type: &[u8], read: u32, write: u32, one_shape: bool, alone: bool) -> bool {
    let holds = |table: &[(&str, &[(u32, u32)])]| {
        let at = table.binary_search_by(|(name, _)| name.as_bytes().cmp(op_type));
        at.is_ok_and(|at| table[at].1.contains(&(read, write)))
    };
    holds(ALWAYS) || (one_shape && holds(OF_ONE_SHAPE)) || (alone && holds(ALONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        for table in [ALWAYS, OF_ONE_SHAPE, ALONE] {
            assert!(table.is_sorted_by(|one, other| one.0 < other.0));
        }
    }

    #[test]
    fn broadcasting_gradients_may_only_where_the_shape_is_known() {
        assert!(may_overwrite(b"ReluGradient", 1, 0, false, false));
        assert!(!may_overwrite(b"ReluGradient", 0, 0, true, false));
        assert!(may_overwrite(b"AddGradient", 0, 1, true, false));
        assert!(!may_overwrite(b"AddGradient", 0, 1, false, false));
        assert!(!may_overwrite(b"SinhGradient", 0, 0, true, false));
    }
}
