//! What single makers answer, asked through the public functions.

mod asking;
mod refusals;
mod schemas;

use _core::error::Kind;
use _core::makers::words::{Answer, Form};
use _core::makers::{describe, every, has_gradient, lookup, Entry};
use asking::{answer_of, float, int, ints, text, Op};

#[test]
fn reads_writes_and_gradients_are_those_of_the_row() {
    let answer = answer_of(&Op::new("FC", 3, 1));
    assert_eq!(answer, "FCGradient(I(0), I(1), GO(0)) -> GI(1), GI(2), GI(0) | GI(0) GI(1) GI(2)");
    let answer = answer_of(&Op::new("Reshape", 1, 2));
    assert_eq!(answer, "Reshape(GO(0), O(1)) -> GI(0), '_GI(0)_dims' bare | GI(0)");
}

#[test]
fn gradients_are_handed_on() {
    assert_eq!(answer_of(&Op::new("Sum", 3, 1)), " | GO(0) GO(0) GO(0)");
    assert_eq!(answer_of(&Op::new("Gather", 2, 1)), " | (I(1), GO(0)) -");
    assert_eq!(answer_of(&Op::new("StopGradient", 1, 1)), " | -");
}

#[test]
fn sparse_gradients_are_pairs() {
    let answer = answer_of(&Op::new("SparseLengthsSum", 3, 1));
    let sum = "SparseLengthsIndicesInGradientSumGradient(GO(0), I(2), I(1)) -> GiValues(0)";
    assert_eq!(answer, format!("{sum} | (I(1), GiValues(0)) - -"));
    let answer = answer_of(&Op::new("CopyGPUToCPU", 1, 1).forms(&[Form::Sparse]));
    let copies =
        "CopyCPUToGPU(GoIndices(0)) -> GiIndices(0); CopyCPUToGPU(GoValues(0)) -> GiValues(0)";
    assert_eq!(answer, format!("{copies} | (GiIndices(0), GiValues(0))"));
}

#[test]
fn loops_go_over_all_inputs() {
    let answer = answer_of(&Op::new("Concat", 3, 2));
    assert_eq!(answer, "Split(GO(0), O(1)) -> GI(0), GI(1), GI(2) | GI(0) GI(1) GI(2)");
    let answer = answer_of(&Op::new("MergeMultiListFeatureTensors", 8, 4));
    let merged =
        "MergeMultiListFeatureTensorsGradient(I(0), I(2), I(4), I(6), GO(3)) -> GI(3), GI(7)";
    assert_eq!(answer, format!("{merged} | - - - GI(3) - - - GI(7)"));
    let answer = answer_of(&Op::new("QuantDecode", 3, 2));
    assert_eq!(answer, "QuantDecodeGradient(I(0), I(1), I(2), GO(0), GO(1)) -> GI(0) | GI(0) - -");
}

#[test]
fn tables_of_a_gather_by_key_get_keys_of_their_own() {
    let op = Op::new("GatherByKey", 3, 1);
    let dense = "Partition(I(0), GO(0)) -> '_GI(1)_keys', GI(1), '_GI(2)_keys', GI(2)";
    assert_eq!(answer_of(&op), format!("{dense} {{pack_first_input: 0}} | - GI(1) GI(2)"));
    let sparse = answer_of(&op.arg(int("pack_first_input", 1)).forms(&[Form::Sparse]));
    assert!(
        sparse.starts_with("Partition(I(0), GoIndices(0), GoValues(0)) -> '_GiIndices(1)_keys'")
    );
    assert!(sparse.contains("{pack_first_input: 1}"));
}

#[test]
fn pieces_without_a_gradient_are_zeros() {
    let op = Op::new("Split", 1, 3).forms(&[Form::None, Form::Dense, Form::None]);
    assert_eq!(
        answer_of(&op),
        "ConstantFill(O(0)) -> 'O(0)_grad' bare {value: 0.0}; \
         ConstantFill(O(2)) -> 'O(2)_grad' bare {value: 0.0}; \
         Concat('O(0)_grad', GO(1), 'O(2)_grad') -> GI(0), '_GI(0)_dims' | GI(0)"
    );
    assert_eq!(answer_of(&Op::new("Split", 1, 2).forms(&[Form::None; 2])), " | -");
}

#[test]
fn a_square_leaves_the_gradient_of_its_output_alone() {
    let answer = answer_of(&Op::new("Sqr", 1, 1));
    assert_eq!(answer, "Scale(GO(0)) -> GI(0) {scale: 2.0}; Mul(GI(0), I(0)) -> GI(0) | GI(0)");
}

#[test]
fn axes_of_a_product_keep_their_values() {
    let op = Op::new("MatMul", 2, 1).arg(int("axis_a", 3)).arg(int("axis_b", -1));
    let first = "MatMul(GO(0), I(1), I(0)) -> GI(0) bare {trans_b: 1, axis_b: -1}";
    let second = "MatMul(I(0), GO(0), I(1)) -> GI(1) bare {trans_a: 1, axis_a: 3}";
    assert_eq!(answer_of(&op), format!("{first}; {second} | GI(0) GI(1)"));
}

#[test]
fn padding_is_not_said_twice_in_two_ways() {
    let op = Op::new("DotProductWithPadding", 2, 1).arg(int("replicate", 2));
    assert!(answer_of(&op).contains("{pad_value: 0.0, replicate: 2}"));
}

#[test]
fn a_transposition_is_undone_by_its_inverse() {
    let op = Op::new("Transpose", 1, 1).arg(int("big", 7)).arg(ints("axes", &[2, 0, 1]));
    let answer = answer_of(&op.arg(text("order", "NCHW")));
    assert_eq!(
        answer,
        "Transpose(GO(0)) -> GI(0) bare {big: 7, axes: [1, 2, 0], order: NCHW} | GI(0)"
    );
    assert_eq!(answer_of(&Op::new("Transpose", 1, 1)), "Transpose(GO(0)) -> GI(0) bare | GI(0)");
}

#[test]
fn a_cast_goes_back_to_where_it_came_from() {
    let op = Op::new("Cast", 1, 1).arg(text("to", "int64")).arg(int("from_type", 13));
    assert_eq!(answer_of(&op), "Cast(GO(0)) -> GI(0) bare {to: 13, from_type: 10} | GI(0)");
}

#[test]
fn a_power_in_place_reads_what_has_taken_the_place_of_its_base() {
    let op = Op::new("Pow", 1, 1).arg(float("exponent", 2.0));
    assert!(
        answer_of(&op).starts_with("Pow(I(0)) -> GI(0) bare {exponent: 1.0}; Mul(GI(0), GO(0))")
    );
    let in_place = answer_of(&op.rename_output(0, "i0"));
    assert!(in_place.starts_with("Pow(O(0)) -> GI(0) bare {exponent: 0.5}; Mul(GI(0), GO(0))"));
}

#[test]
fn an_exponent_that_was_broadcast_is_summed_up() {
    let op = Op::new("Pow", 2, 1).arg(int("broadcast", 1)).arg(int("axis", 2));
    let answer = answer_of(&op);
    assert!(answer.contains(
        "Pow(I(0), GI(1)) -> GI(0) bare {broadcast: 1, axis: 2, axis_str: , order: NCHW}"
    ));
    assert!(answer.ends_with(
        "SumReduceLike('GI(1)_autogen_pre_red', I(1)) -> GI(1) bare {axis: 2, axis_str: , order: NCHW} \
         | GI(0) GI(1)"
    ));
}

#[test]
fn functions_of_the_user_get_what_they_list() {
    let op = Op::new("Python", 3, 2);
    let all = "PythonGradient(I(0), I(1), I(2), O(0), O(1), GO(0), GO(1)) -> GI(0), GI(1), GI(2)";
    assert_eq!(answer_of(&op), format!("{all} | GI(0) GI(1) GI(2)"));
    let op = op.arg(ints("grad_output_indices", &[1])).arg(ints("grad_input_indices", &[2, 0]));
    let some = "PythonGradient(I(0), I(1), I(2), O(0), O(1), GO(1)) -> GI(2), GI(0)";
    assert_eq!(answer_of(&op), format!("{some} | GI(0) - GI(2)"));
}

#[test]
fn recurrent_networks_say_which_inputs_they_train() {
    let op = Op::new("RecurrentNetwork", 4, 2)
        .arg(ints("outputs_with_grads", &[1]))
        .arg(ints("initial_recurrent_state_ids", &[3]))
        .arg(ints("param", &[1, 2]));
    let answer = answer_of(&op);
    assert!(
        answer.starts_with("RecurrentNetworkGradient(GO(1), I(0), I(1), I(2), I(3), O(0), O(1))")
    );
    assert!(answer.ends_with("-> GI(0), GI(1), GI(2), GI(3) | GI(0) GI(1) GI(2) GI(3)"));
}

#[test]
fn inputs_that_are_read_by_shape_alone_are_marked() {
    for (op_type, answer) in [
        ("Add", "AddGradient(GO(0), Shape(0), Shape(1)) -> GI(0), GI(1) | GI(0) GI(1)"),
        ("Div", "DivGradient(GO(0), Shape(0), I(1), O(0)) -> GI(0), GI(1) | GI(0) GI(1)"),
        ("WeightedSum", "WeightedSumGradient(GO(0), Shape(0), I(1)) -> GI(0) | GI(0) -"),
    ] {
        assert_eq!(answer_of(&Op::new(op_type, 2, 1)), answer);
    }
}

#[test]
fn arguments_choose_the_form() {
    let op = Op::new("Conv", 2, 1).arg(int("no_gradient_to_input", 1));
    assert_eq!(answer_of(&op), "ConvGradient(I(0), I(1), GO(0)) -> GI(1) {no_bias: 1} | - GI(1)");
    let op = Op::new("SequenceMask", 2, 1).arg(int("axis", 1));
    assert_eq!(
        answer_of(&op),
        "SequenceMask(GO(0), I(1)) -> GI(0) bare {axis: 1, grad: 1} | GI(0) -"
    );
}

#[test]
fn an_answer_can_be_used_again() {
    let mut answer = Answer::default();
    let split = Op::new("Split", 1, 3).forms(&[Form::None, Form::Dense, Form::None]);
    let first = split.ask_into(&mut answer).expect("a maker");
    Op::new("Transpose", 2, 1).ask_into(&mut answer).expect_err("too many inputs");
    assert_eq!(split.ask_into(&mut answer).expect("a maker"), first);
}

#[test]
fn every_type_is_of_one_class() {
    for (op_type, word) in [
        ("Relu", "maker"),
        ("While", "maker"),
        ("ConstantFill", "none"),
        ("Where", "forbidden"),
        ("Floor", "unimplemented"),
        ("relu", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(has_gradient(op_type.as_bytes()), word, "{op_type}");
    }
    assert_eq!(every().count(), 584);
    assert!(every().all(|(name, _)| !matches!(lookup(name.as_bytes()), Entry::Unknown)));
}

#[test]
fn rows_can_be_shown() {
    assert_eq!(
        describe(b"ReduceFrontWeightedSum"),
        "ReduceFrontWeightedSum (inputs: 2, outputs: 1)\n  Shape(I(0)) -> '_' O(0) '_dims'; \
         ReduceFrontWeightedSumGradient(I(1), GO(0), '_' O(0) '_dims') -> GI(0)\n"
    );
    assert!(
        describe(b"Conv").starts_with("Conv (inputs: 2 to 3, outputs: 1)\n  inputs = 3, not no_g")
    );
    assert_eq!(describe(b"Size"), "Size (inputs: 1, outputs: 1)\n  silently no gradient\n");
    assert_eq!(describe(b"\xff"), "\u{fffd}\n  nothing is known\n");
}

#[test]
fn types_without_a_maker_say_why() {
    for (op_type, kind) in [
        ("Where", Kind::Forbidden),
        ("Floor", Kind::Unimplemented),
        ("NoSuchOperator", Kind::NoMaker),
        ("Do", Kind::Internal),
    ] {
        let error = Op::new(op_type, 1, 1).ask().expect_err(op_type);
        assert_eq!(error.report().kind, kind);
    }
}
