//! Operators that break their schema.

use _core::error::Kind;

use super::asking::{int, Op};

fn broken(op: &Op) -> String {
    let error = op.ask().expect_err("a broken schema");
    assert_eq!(error.report().kind, Kind::Schema, "{error:?}");
    format!("{}; {}", error.report().what, error.report().hint)
}

#[test]
fn numbers_of_inputs_and_outputs() {
    for (op, text) in [
        (Op::new("Relu", 2, 1), "the operator has 2 inputs; its schema wants 1"),
        (Op::new("Conv", 1, 1), "the operator has 1 input; its schema wants 2 to 3"),
        (Op::new("Sum", 0, 1), "the operator has 0 inputs; its schema wants 1 or more"),
        (Op::new("GroupNorm", 3, 2), "the operator has 2 outputs; its schema wants 1 or 3"),
        (
            Op::new("WeightedSum", 3, 1),
            "the operator has 3 inputs; its schema wants a multiple of 2",
        ),
        (
            Op::new("WeightedSum", 0, 1),
            "the operator has 0 inputs; its schema wants a multiple of 2",
        ),
    ] {
        assert_eq!(broken(&op), text);
    }
    assert!(Op::new("SoftmaxFp16", 3, 2).ask().is_ok());
}

#[test]
fn inputs_and_outputs_together() {
    assert!(Op::new("QuantDecode", 4, 3).ask().is_ok());
    assert_eq!(
        broken(&Op::new("QuantDecode", 3, 3)),
        "the operator has 3 inputs and 3 outputs; its schema wants 1 more input than outputs"
    );
    assert!(Op::new("Partition", 2, 4).ask().is_ok());
    broken(&Op::new("Partition", 2, 3));
    broken(&Op::new("Partition", 0, 3));
}

#[test]
fn required_arguments() {
    let dropout = Op::new("Dropout", 1, 2);
    assert!(broken(&dropout).starts_with("the argument is_test is missing"));
    assert!(dropout.arg(int("is_test", 0)).ask().is_ok());
}

#[test]
fn names_that_must_not_be_shared() {
    assert!(Op::new("Relu", 1, 1).rename_output(0, "i0").ask().is_ok());
    assert!(Op::new("Mul", 2, 1).rename_output(0, "i1").ask().is_ok());
    let softmax = Op::new("Softmax", 1, 1).rename_output(0, "i0");
    assert!(broken(&softmax).starts_with("output 0 has the name of input 0"));
    let sum = Op::new("Sum", 3, 1).rename_output(0, "i2");
    assert!(broken(&sum).starts_with("output 0 has the name of input 2"));
}

#[test]
fn names_that_must_be_shared() {
    let norm = Op::new("SpatialBN", 5, 5).arg(int("is_test", 0));
    let shared = norm.rename_output(1, "i3").rename_output(2, "i4");
    assert!(shared.ask().is_ok());
    assert!(broken(&norm).starts_with("output 1 has another name than input 3"));
    let queue = Op::new("EnqueueBlobs", 3, 2).rename_output(0, "i1");
    assert!(broken(&queue).starts_with("output 1 has another name than input 2"));
    assert!(queue.rename_output(1, "i2").ask().is_ok());
}

#[test]
fn a_hundred_thousand_inputs_take_no_longer_than_they_must() {
    let mut queue = Op::new("EnqueueBlobs", 100_001, 100_000);
    queue.outputs = queue.inputs[1..].to_vec();
    assert!(queue.ask().is_ok());
    let crossed = queue.rename_output(70_000, "i5");
    assert!(broken(&crossed).starts_with("output 70000 has the name of input 5"));
    queue.inputs.fill("x".to_string());
    queue.outputs.fill("x".to_string());
    assert!(broken(&queue).contains("has the name of input"));

    assert!(Op::new("Concat", 100_000, 2).ask().is_ok());
    assert!(Op::new("Split", 1, 100_000).ask().is_ok());
    let crossed = Op::new("Concat", 100_000, 2).rename_output(1, "i99999");
    assert!(broken(&crossed).starts_with("output 1 has the name of input 99999"));
}
