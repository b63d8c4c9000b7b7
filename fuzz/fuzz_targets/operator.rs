#![no_main]
//! One operator with whatever output gradients.
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
#[path = "common.rs"]
#[allow(dead_code)]
mod common;
use common::{bytes, varint};
use ctrlgrad::session::{Named, NoHook, Scope};

const ARGS: &[&str] = &[
    "axis",
    "axes",
    "grad_on_w",
    "dense_gradient",
    "exponent",
    "outputs_with_grads",
    "param",
    "initial_recurrent_state_ids",
    "grad_output_indices",
    "grad_input_indices",
    "trans_a",
    "trans_b",
    "broadcast",
    "to",
    "from_type",
    "is_test",
    "order",
    "pads",
    "k",
    "net",
    "then_net",
    "else_net",
    "loop_net",
    "cond_net",
    "inner_blobs",
    "outer_blobs_idx",
    "dims",
    "lengths",
    "sequence_lengths",
    "pack_first_input",
    "axis_a",
    "axis_b",
    "ratio",
];

#[derive(Debug)]
struct Case {
    op: Vec<u8>,
    g: Vec<Named2>,
    control: u8,
}
#[derive(Debug, Clone)]
enum Named2 {
    None,
    Dense(Vec<u8>),
    Sparse(Vec<u8>, Vec<u8>),
}
impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let all: Vec<_> = ctrlgrad::makers::every().map(|(n, _)| n).collect();
        let names = ["x", "y", "z", "x_grad", "y_grad", "ws", "c", "", "x_grad_indices"];
        let mut op = Vec::new();
        for _ in 0..u.int_in_range(0..=9)? {
            bytes(&mut op, 1, u.choose(&names)?.as_bytes());
        }
        for _ in 0..u.int_in_range(0..=5)? {
            bytes(&mut op, 2, u.choose(&names)?.as_bytes());
        }
        bytes(&mut op, 4, u.choose(&all)?.as_bytes());
        for _ in 0..u.int_in_range(0..=3)? {
            let mut a = Vec::new();
            bytes(&mut a, 1, u.choose(ARGS)?.as_bytes());
            for _ in 0..u.int_in_range(0..=3)? {
                match u.int_in_range(0..=5)? {
                    0 => {
                        varint(&mut a, 3 << 3);
                        varint(&mut a, u.arbitrary::<u8>()? as u64);
                    }
                    1 => {
                        varint(&mut a, 6 << 3);
                        let v: i64 =
                            if u.ratio(1, 8)? { u.arbitrary()? } else { u.int_in_range(0..=9)? };
                        varint(&mut a, v as u64);
                    }
                    2 => {
                        varint(&mut a, 2 << 3 | 5);
                        a.extend(u.arbitrary::<f32>()?.to_le_bytes());
                    }
                    3 => {
                        let v: Vec<u8> = u.arbitrary()?;
                        bytes(&mut a, 4, &v);
                    }
                    4 => bytes(&mut a, 7, u.choose(&names)?.as_bytes()),
                    _ => {
                        let v: Vec<u8> = u.arbitrary()?;
                        bytes(&mut a, 8, &v);
                    }
                }
            }
            bytes(&mut op, 5, &a);
        }
        if u.ratio(1, 4)? {
            let extra: Vec<u8> = u.arbitrary()?;
            op.extend(extra);
        }
        let mut g = Vec::new();
        for _ in 0..u.int_in_range(0..=6)? {
            g.push(match u.int_in_range(0..=3)? {
                0 => Named2::None,
                3 => Named2::Sparse(
                    u.choose(&names)?.as_bytes().to_vec(),
                    u.choose(&names)?.as_bytes().to_vec(),
                ),
                _ => Named2::Dense(u.choose(&names)?.as_bytes().to_vec()),
            });
        }
        Ok(Case { op, g, control: u.int_in_range(0..=6)? })
    }
}

fn run(case: &Case) -> std::result::Result<(Vec<Vec<u8>>, Vec<Named>), String> {
    let g: Vec<Named> = case
        .g
        .iter()
        .map(|g| match g.clone() {
            Named2::None => Named::None,
            Named2::Dense(a) => Named::Dense(a),
            Named2::Sparse(a, b) => Named::Sparse(a, b),
        })
        .collect();
    let control =
        [None, None, None, None, Some("Do"), Some("If"), Some("While")][case.control as usize];
    let answer =
        ctrlgrad::api::operator_gradient(&case.op, &g, control, &Scope::default(), &mut NoHook).map_err(|error| {
            let text = error.to_string();
            assert!(text.len() < 20_000, "long: {text}");
            assert!(error.report().kind != ctrlgrad::error::Kind::Internal, "internal: {text}");
            text
        })?;
    answer.0.iter().for_each(|op| common::walk_op(op, 0));
    Ok(answer)
}

fuzz_target!(|case: Case| assert_eq!(run(&case), run(&case)));
