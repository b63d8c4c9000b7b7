//! Operators and output gradients that a maker does not take.

use _core::error::Kind;
use _core::makers::words::Form;

use super::asking::{float, int, ints, text, Op};

fn refused(op: &Op) -> String {
    let error = op.ask().expect_err("a refusal");
    assert_eq!(error.report().kind, Kind::Refused, "{error:?}");
    assert!(!error.report().hint.is_empty(), "{error:?}");
    error.report().what.clone()
}

#[test]
fn output_gradients_of_the_wrong_form() {
    let relu = Op::new("Relu", 1, 1);
    for (forms, what) in [
        (&[Form::None][..], "the gradient of output 0 is needed, and there is none"),
        (&[Form::Sparse], "the gradient of output 0 is sparse, and a dense one is needed"),
        (&[], "the gradient of output 0 is needed, and no output gradients were given"),
    ] {
        assert_eq!(refused(&relu.forms(forms)), what);
    }
    assert!(relu.forms(&[Form::Dense; 3]).ask().is_ok());
    let moments = Op::new("Moments", 1, 2).forms(&[Form::Dense]);
    let what = "the gradient of output 1 is needed, and only one output gradient was given";
    assert_eq!(refused(&moments), what);
}

#[test]
fn makers_that_choose_by_form_need_one() {
    for op_type in ["CopyGPUToCPU", "CopyCPUToGPU", "EnsureDense"] {
        let op = Op::new(op_type, 1, 1);
        assert!(refused(&op.forms(&[])).contains("no output gradients were given"));
        assert!(refused(&op.forms(&[Form::None])).contains("there is none"));
    }
    assert!(refused(&Op::new("GatherByKey", 2, 1).forms(&[])).contains("no output gradients"));
    assert!(refused(&Op::new("Split", 1, 2).forms(&[Form::None])).contains("output 1 is needed"));
}

#[test]
fn inputs_and_outputs_that_the_schema_lets_pass() {
    assert_eq!(
        refused(&Op::new("GroupNorm", 3, 1)),
        "the gradient needs output 1, and the operator has 1 output"
    );
    assert_eq!(
        refused(&Op::new("Slice", 2, 1)),
        "the gradient needs input 2, and the operator has 2 inputs"
    );
}

#[test]
fn arguments_without_the_right_field() {
    let conv = Op::new("Conv", 2, 1);
    let what = "the argument no_gradient_to_input is no integer";
    assert_eq!(refused(&conv.arg(float("no_gradient_to_input", 1.0))), what);
    let gather = Op::new("Gather", 2, 1);
    assert_eq!(refused(&gather.arg(int("axis", 1 << 31))), "the argument axis is 2147483648");
    assert!(Op::new("LayerNorm", 3, 3).arg(text("elementwise_affine", "1")).ask().is_ok());
    let pow = Op::new("Pow", 1, 1);
    assert_eq!(refused(&pow.arg(int("exponent", 2))), "the argument exponent is no float");
}

#[test]
fn arguments_that_differ_and_have_one_name() {
    let conv = Op::new("Conv", 2, 1).arg(int("twin", 1));
    assert!(conv.arg(int("twin", 1)).ask().is_ok());
    let what = "the argument twin is there twice, with two values";
    assert_eq!(refused(&conv.arg(int("twin", 2))), what);
    let mut many = conv;
    for k in 0..20 {
        many = many.arg(int(&format!("arg{k}"), k));
    }
    assert!(many.arg(int("twin", 1)).ask().is_ok());
    assert_eq!(refused(&many.arg(int("twin", 2))), what);
    assert!(Op::new("Relu", 1, 1).arg(int("twin", 1)).arg(int("twin", 2)).ask().is_ok());
}

#[test]
fn positions_that_no_operator_has() {
    let python = Op::new("Python", 2, 1);
    let what = "the argument grad_input_indices holds -1";
    assert_eq!(refused(&python.arg(ints("grad_input_indices", &[0, -1]))), what);
    let what = "the gradient needs input 7, and the operator has 2 inputs";
    assert_eq!(refused(&python.arg(ints("grad_input_indices", &[7]))), what);
    let network = Op::new("RecurrentNetwork", 2, 2);
    assert_eq!(refused(&network), "the argument outputs_with_grads lists no output");
}

#[test]
fn axes_that_are_no_permutation() {
    let transpose = Op::new("Transpose", 1, 1);
    for axes in [&[0, 2][..], &[-1, 0], &[i64::MAX]] {
        assert!(refused(&transpose.arg(ints("axes", axes))).starts_with("the argument axes has"));
    }
}

#[test]
fn casts_from_nowhere() {
    let cast = Op::new("Cast", 1, 1).arg(int("to", 1));
    assert_eq!(refused(&cast), "the argument from_type is missing");
    let what = "the argument from_type is nosuch, which is no data type";
    assert_eq!(refused(&cast.arg(text("from_type", "nosuch"))), what);
}

#[test]
fn powers() {
    let what = "the operator has neither an exponent nor a second input";
    assert_eq!(refused(&Op::new("Pow", 1, 1)), what);
    let in_place = Op::new("Pow", 2, 1).rename_output(0, "i1");
    assert_eq!(refused(&in_place), "a Pow of two inputs in place has no gradient");
    let zero = Op::new("Pow", 1, 1).rename_output(0, "i0").arg(float("exponent", 1e-13));
    assert_eq!(refused(&zero), "the exponent of a Pow in place is 0");
}

#[test]
fn forms_that_nobody_wrote() {
    for op in [
        Op::new("BatchMatMul", 2, 1).arg(int("broadcast", 1)),
        Op::new("SortedSegmentWeightedSum", 3, 1).arg(int("grad_on_weights", 1)),
        Op::new("Gather", 2, 1).arg(int("axis", 1)).arg(int("dense_gradient", 0)),
        Op::new("SpatialBN", 7, 1).arg(int("is_test", 1)),
        Op::new("SpatialBN", 7, 1).arg(int("is_test", 0)).arg(int("num_batches", 2)),
        Op::new("SpatialBN", 7, 1).arg(int("is_test", 0)),
        Op::new("Softsign", 1, 1).rename_output(0, "i0"),
    ] {
        refused(&op);
    }
}
