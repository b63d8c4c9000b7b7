//! Linear layers and products of matrices.

use super::row::{case, one, pick, refuse, several, step, steps_when, Row};
use super::words::{Arg::*, Guard::*, Read::Raw, Slot::*};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("ElementwiseLinear", "ElementwiseLinearGradient", &[GO(0), I(0), I(1)], &[GI(0), GI(1), GI(2)]),
    one("FC",                "FCGradient",                &[I(0), I(1), GO(0)], &[GI(1), GI(2), GI(0)]),
    one("FCTransposed",      "FCTransposedGradient",      &[I(0), I(1), GO(0)], &[GI(1), GI(2), GI(0)]),
    several("RowMul", &[
        step("RowMul",        &[GO(0), I(1)], &[GI(0)]),
        step("Mul",           &[GO(0), I(0)], &[Local(0)]),
        step("ReduceTailSum", &[Local(0)],    &[GI(1)]),
    ]).local("", GI(1), "before_aggregate"),

    pick("FC_Decomp", "FCGradient_Decomp", &[
        case(&[Inputs(4)], &[I(0), I(1), I(2), GO(0)], &[GI(1), GI(2), GI(3), GI(0)]),
        refuse(&[], "an FC_Decomp has another number of inputs", "give it 4 inputs"),
    ]).unchecked(),
    // The gradient operator prunes the weights: it overwrites four inputs of the forward operator.
    pick("FC_Prune", "FCGradient_Prune", &[
        case(&[Inputs(8)], &[I(0), I(1), I(2), GO(0), I(4), I(5), I(6), I(7)],
                           &[GI(1), GI(3), I(1), I(2), I(4), I(5), GI(0)]),
        refuse(&[], "an FC_Prune has another number of inputs", "give it 8 inputs"),
    ]).unchecked(),

    pick("BatchMatMul", "BatchMatMul", &[
        refuse(&[Set("broadcast")], "a BatchMatMul with broadcast has no gradient", "leave broadcast out"),
        steps_when(&[Set("trans_a"), Set("trans_b")], &[
            step("BatchMatMul", &[I(1), GO(0)], &[GI(0)]).args(&[Int("trans_a", 1), Int("trans_b", 1)]),
            step("BatchMatMul", &[GO(0), I(0)], &[GI(1)]).args(&[Int("trans_a", 1), Int("trans_b", 1)]),
        ]),
        steps_when(&[Set("trans_a")], &[
            step("BatchMatMul", &[I(1), GO(0)], &[GI(0)]).args(&[Int("trans_b", 1)]),
            step("BatchMatMul", &[I(0), GO(0)], &[GI(1)]),
        ]),
        steps_when(&[Set("trans_b")], &[
            step("BatchMatMul", &[GO(0), I(1)], &[GI(0)]),
            step("BatchMatMul", &[GO(0), I(0)], &[GI(1)]).args(&[Int("trans_a", 1)]),
        ]),
        steps_when(&[], &[
            step("BatchMatMul", &[GO(0), I(1)], &[GI(0)]).args(&[Int("trans_b", 1)]),
            step("BatchMatMul", &[I(0), GO(0)], &[GI(1)]).args(&[Int("trans_a", 1)]),
        ]),
    ]).reading(&[Raw("broadcast"), Raw("trans_a"), Raw("trans_b")]).distinct_args().bare(),

    // The reference takes axis_a and axis_b for yes or no, so that 2 becomes 1. Cases op/wrong/MatMul.
    pick("MatMul", "MatMul", &[
        steps_when(&[Set("trans_a"), Set("trans_b")], &[
            step("MatMul", &[I(1), GO(0), I(0)], &[GI(0)])
                .args(&[Int("trans_a", 1), Int("trans_b", 1), IntOf("axis_a", "axis_b", 1)]),
            step("MatMul", &[GO(0), I(0), I(1)], &[GI(1)])
                .args(&[Int("trans_a", 1), Int("trans_b", 1), IntOf("axis_b", "axis_a", 1)]),
        ]),
        steps_when(&[Set("trans_a")], &[
            step("MatMul", &[I(1), GO(0), I(0)], &[GI(0)]).args(&[Int("trans_b", 1), IntOf("axis_a", "axis_b", 1)]),
            step("MatMul", &[I(0), GO(0), I(1)], &[GI(1)]).args(&[IntOf("axis_a", "axis_a", 1)]),
        ]),
        steps_when(&[Set("trans_b")], &[
            step("MatMul", &[GO(0), I(1), I(0)], &[GI(0)]).args(&[IntOf("axis_b", "axis_b", 1)]),
            step("MatMul", &[GO(0), I(0), I(1)], &[GI(1)]).args(&[Int("trans_a", 1), IntOf("axis_b", "axis_a", 1)]),
        ]),
        steps_when(&[], &[
            step("MatMul", &[GO(0), I(1), I(0)], &[GI(0)]).args(&[Int("trans_b", 1), IntOf("axis_b", "axis_b", 1)]),
            step("MatMul", &[I(0), GO(0), I(1)], &[GI(1)]).args(&[Int("trans_a", 1), IntOf("axis_a", "axis_a", 1)]),
        ]),
    ]).reading(&[Raw("trans_a"), Raw("trans_b")]).distinct_args().bare().inputs(2, 3),
];
