#![no_main]
//! Random nets with control flow, well-formed or nearly so.
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
#[path = "common.rs"]
mod common;
use common::{bytes, int, varint};
use ctrlgrad::session::Named;

const BLOBS: &[&str] = &[
    "x",
    "y",
    "z",
    "w",
    "x_grad",
    "y_grad",
    "_x_grad_autosplit_0",
    "c",
    "ws",
    "y_autogen_grad",
    "x_grad_indices",
    "x_grad_values",
    "y_y_grad_DEDUP",
    "t",
    "u",
    "x_grad_grad",
    "gradient_loop_cond_net/cond",
    "y/_DO_OPERATOR_INNER_GRAD_",
    "x/_DO_OPERATOR_INNER_GRAD_COPY_",
    "",
    "x_grad_indices_concat",
];
const SOME: &[&str] = &[
    "Relu",
    "FC",
    "Sum",
    "Mul",
    "Add",
    "Sub",
    "Scale",
    "Copy",
    "Gather",
    "SparseLengthsSum",
    "Concat",
    "Split",
    "StopGradient",
    "Sqr",
    "Sqrt",
    "Pow",
    "Max",
    "Min",
    "Mean",
    "WeightedSum",
    "Python",
    "RecurrentNetwork",
    "EnsureDense",
    "ZeroGradient",
    "ConstantFill",
    "CreateScope",
    "LT",
    "Alias",
    "GatherByKey",
    "Reshape",
    "Div",
    "BatchMatMul",
    "MatMul",
    "Cast",
    "Transpose",
];

struct G<'u, 'a> {
    u: &'u mut Unstructured<'a>,
    budget: u32,
}
impl G<'_, '_> {
    fn blob(&mut self) -> Result<Vec<u8>> {
        Ok(match self.u.int_in_range(0..=40u8)? {
            0 => self.u.choose(BLOBS)?.as_bytes().to_vec(),
            1 => vec![0xff, b'b'],
            k => BLOBS[[0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 0, 1, 2][k as usize % 13]]
                .as_bytes()
                .to_vec(),
        })
    }
    fn op_type(&mut self) -> Result<Vec<u8>> {
        Ok(match self.u.int_in_range(0..=15u8)? {
            0 => {
                let all: Vec<_> = ctrlgrad::makers::every().map(|(n, _)| n).collect();
                self.u.choose(&all)?.as_bytes().to_vec()
            }
            _ => self.u.choose(SOME)?.as_bytes().to_vec(),
        })
    }
    fn noise(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match self.u.int_in_range(0..=60u8)? {
            0 => int(out, 1, 3),
            1 => int(out, 2, 3),
            2 => int(out, 8, 1),
            3 => bytes(out, 1, b"again"),
            4 => bytes(out, 99, b"new"),
            5 => {
                varint(out, 99 << 3 | 3);
                varint(out, 99 << 3 | 4);
            }
            6 => bytes(out, 9, b"no"),
            7 => int(out, 5, 1),
            8 => {
                varint(out, 6 << 3 | 5);
                out.extend([0; 4]);
            }
            9 => bytes(out, 6, &[8, 1]),
            10 => bytes(out, 6, &[0x32, 1, b'a']),
            11 => bytes(out, 6, &[0x38]),
            12 => bytes(out, 8, b""),
            13 => bytes(out, 7, b"E"),
            14 => bytes(out, 10, b"d"),
            _ => {}
        }
        Ok(())
    }
    fn arg_ints(&mut self, op: &mut Vec<u8>, name: &str, ints: &[u64]) -> Result<()> {
        let mut a = Vec::new();
        bytes(&mut a, 1, name.as_bytes());
        if self.u.ratio(1, 4)? {
            let mut p = Vec::new();
            for i in ints {
                varint(&mut p, *i);
            }
            bytes(&mut a, 6, &p);
        } else {
            for i in ints {
                int(&mut a, 6, *i);
            }
        }
        self.noise(&mut a)?;
        bytes(op, 5, &a);
        Ok(())
    }
    fn arg_net(&mut self, op: &mut Vec<u8>, name: &str, net: &[u8]) -> Result<()> {
        if self.u.ratio(1, 40)? {
            return Ok(());
        }
        let mut a = Vec::new();
        if self.u.ratio(9, 10)? {
            bytes(&mut a, 1, name.as_bytes());
            bytes(&mut a, 8, net);
        } else {
            bytes(&mut a, 8, net);
            bytes(&mut a, 1, name.as_bytes());
        }
        self.noise(&mut a)?;
        if self.u.ratio(1, 40)? {
            bytes(&mut a, 8, net);
        }
        if self.u.ratio(1, 60)? {
            a.push(0xff);
        }
        bytes(op, 5, &a);
        if self.u.ratio(1, 60)? {
            bytes(op, 5, &a);
        }
        Ok(())
    }
    fn list(&mut self, most: usize) -> Result<Vec<Vec<u8>>> {
        let n = self.u.int_in_range(0..=most)?;
        (0..n).map(|_| self.blob()).collect()
    }
    fn set(&mut self, most: usize) -> Result<Vec<Vec<u8>>> {
        let mut l = self.list(most)?;
        let mut s = std::collections::HashSet::new();
        if !self.u.ratio(1, 40)? {
            l.retain(|b| s.insert(b.clone()));
        }
        Ok(l)
    }
    fn put(
        &mut self,
        op: &mut Vec<u8>,
        ins: &[Vec<u8>],
        outs: &[Vec<u8>],
        ty: &[u8],
    ) -> Result<()> {
        for i in ins {
            bytes(op, 1, i);
        }
        for o in outs {
            bytes(op, 2, o);
        }
        if self.u.ratio(1, 10)? {
            bytes(op, 3, b"name");
        }
        bytes(op, 4, ty);
        self.noise(op)
    }
    fn op(&mut self, depth: u32) -> Result<Vec<u8>> {
        let mut op = Vec::new();
        let kind = if depth == 0 || self.budget == 0 { 9 } else { self.u.int_in_range(0..=7u8)? };
        self.budget = self.budget.saturating_sub(1);
        match kind {
            0 | 1 => self.do_op(&mut op, depth, None)?,
            2 | 3 => {
                let mut ins = self.list(6)?;
                ins.insert(0, b"c".to_vec());
                let outs = self.list(4)?;
                self.put(&mut op, &ins, &outs, b"If")?;
                let net = self.branch(depth - 1, &ins, &outs)?;
                self.arg_net(&mut op, "then_net", &net)?;
                if self.u.ratio(1, 2)? {
                    let net = self.branch(depth - 1, &ins, &outs)?;
                    self.arg_net(&mut op, "else_net", &net)?;
                }
            }
            4 => {
                let mut ins = self.set(5)?;
                ins.retain(|i| i != b"ws");
                ins.push(b"ws".to_vec());
                let mut outs = self.set(3)?;
                outs.retain(|i| i != b"ws");
                outs.push(b"ws".to_vec());
                let mut body = Vec::new();
                self.do_op(&mut body, depth, Some((ins.clone(), outs.clone())))?;
                let mut net = Vec::new();
                bytes(&mut net, 2, &body);
                if self.u.ratio(1, 30)? {
                    bytes(&mut net, 2, &body);
                }
                ins.insert(0, b"c".to_vec());
                self.put(&mut op, &ins, &outs, b"While")?;
                self.arg_net(&mut op, "loop_net", &net)?;
                if self.u.ratio(1, 3)? {
                    let net = self.net(0, 1)?;
                    self.arg_net(&mut op, "cond_net", &net)?;
                }
            }
            _ => {
                let ty = self.op_type()?;
                let (ins, outs) = (self.list(5)?, self.list(3)?);
                self.put(&mut op, &ins, &outs, &ty)?;
                for name in [
                    "axis",
                    "grad_on_w",
                    "dense_gradient",
                    "exponent",
                    "outputs_with_grads",
                    "param",
                    "initial_recurrent_state_ids",
                    "grad_output_indices",
                    "grad_input_indices",
                    "axes",
                    "trans_a",
                    "to",
                    "from_type",
                ] {
                    if self.u.ratio(1, 12)? {
                        let n = self.u.int_in_range(0..=3usize)?;
                        let l: Vec<u64> =
                            (0..n).map(|_| self.u.int_in_range(0..=4u64)).collect::<Result<_>>()?;
                        let mut a = Vec::new();
                        bytes(&mut a, 1, name.as_bytes());
                        match self.u.int_in_range(0..=2u8)? {
                            0 => {
                                for v in l {
                                    int(&mut a, 6, v)
                                }
                            }
                            1 => int(&mut a, 3, l.first().copied().unwrap_or(u64::MAX)),
                            _ => {
                                varint(&mut a, 2 << 3 | 5);
                                a.extend(1.5f32.to_le_bytes());
                            }
                        }
                        bytes(&mut op, 5, &a);
                    }
                }
            }
        }
        Ok(op)
    }
    fn branch(&mut self, depth: u32, ins: &[Vec<u8>], outs: &[Vec<u8>]) -> Result<Vec<u8>> {
        if self.u.ratio(1, 2)? {
            let mut i: Vec<_> = ins.iter().skip(1).cloned().collect();
            i.sort();
            i.dedup();
            i.retain(|b| b != b"ws");
            i.push(b"ws".to_vec());
            let mut o = outs.to_vec();
            o.sort();
            o.dedup();
            o.retain(|b| b != b"ws");
            o.push(b"ws".to_vec());
            let mut body = Vec::new();
            self.do_op(&mut body, depth + 1, Some((i, o)))?;
            let mut net = Vec::new();
            bytes(&mut net, 1, b"b");
            bytes(&mut net, 2, &body);
            Ok(net)
        } else {
            self.net(depth, 4)
        }
    }
    fn do_op(
        &mut self,
        op: &mut Vec<u8>,
        depth: u32,
        given: Option<(Vec<Vec<u8>>, Vec<Vec<u8>>)>,
    ) -> Result<()> {
        let (ins, outs) = match given {
            Some(g) => g,
            None => {
                let mut i = self.set(4)?;
                i.retain(|b| b != b"ws");
                i.push(b"ws".to_vec());
                let mut o = self.set(3)?;
                o.retain(|b| b != b"ws");
                o.push(b"ws".to_vec());
                (i, o)
            }
        };
        self.put(op, &ins, &outs, b"Do")?;
        let net = self.net(depth.saturating_sub(1), 5)?;
        self.arg_net(op, "net", &net)?;
        let names: Vec<_> =
            ins[..ins.len() - 1].iter().chain(&outs[..outs.len() - 1]).cloned().collect();
        let mut index = Vec::new();
        let mut inner = Vec::new();
        let mut met = std::collections::HashSet::new();
        for (k, name) in names.iter().enumerate() {
            if met.insert(name.clone()) {
                index.push(k as u64);
                inner.push(if self.u.ratio(1, 12)? { self.blob()? } else { name.clone() });
            }
        }
        if self.u.ratio(1, 60)? {
            index.push(77);
        }
        let mut a = Vec::new();
        bytes(&mut a, 1, b"inner_blobs");
        for i in &inner {
            bytes(&mut a, 7, i);
        }
        bytes(op, 5, &a);
        self.arg_ints(op, "outer_blobs_idx", &index)?;
        if self.u.ratio(1, 2)? {
            let mut a = Vec::new();
            bytes(&mut a, 1, b"copy_external_blobs");
            int(&mut a, 3, 1);
            bytes(op, 5, &a);
        }
        if self.u.ratio(1, 20)? {
            let mut a = Vec::new();
            bytes(&mut a, 1, b"reuse_workspace");
            int(&mut a, 3, 1);
            bytes(op, 5, &a);
        }
        Ok(())
    }
    fn net(&mut self, depth: u32, most: usize) -> Result<Vec<u8>> {
        let mut net = Vec::new();
        if self.u.ratio(1, 2)? {
            bytes(&mut net, 1, b"net");
        }
        for _ in 0..self.u.int_in_range(1..=most)? {
            let op = self.op(depth)?;
            bytes(&mut net, 2, &op);
            if self.u.ratio(1, 80)? {
                int(&mut net, 2, 5);
            }
        }
        Ok(net)
    }
}

#[derive(Debug)]
struct Case {
    net: Vec<u8>,
    ys: Vec<(Vec<u8>, u8, Vec<u8>)>,
    no_grad: Vec<Vec<u8>>,
    wrt: Option<Vec<Vec<u8>>>,
}
impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut g = G { u, budget: 40 };
        let mut ys = Vec::new();
        for _ in 0..g.u.int_in_range(1..=3)? {
            ys.push((g.blob()?, g.u.int_in_range(0..=4)?, g.blob()?));
        }
        let no_grad = if g.u.ratio(1, 10)? { g.list(2)? } else { Vec::new() };
        let wrt = if g.u.ratio(1, 10)? { Some(g.list(2)?) } else { None };
        let depth = g.u.int_in_range(0..=4)?;
        let mut net = g.net(depth, 6)?;
        if g.u.ratio(1, 6)? && !net.is_empty() {
            let at = g.u.choose_index(net.len())?;
            let b = g.u.int_in_range(0..=255u8)?;
            net[at] = b;
        }
        Ok(Case { net, ys, no_grad, wrt })
    }
}

/// The bytes decide, and where they end, numbers that follow from them.
fn case(data: &[u8]) -> Case {
    let mut state = data.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |s, b| {
        (s ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    });
    let mut long = data.to_vec();
    while long.len() < data.len() + 6000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        long.extend(state.to_le_bytes());
    }
    Case::arbitrary(&mut Unstructured::new(&long)).expect("there are bytes enough")
}

fuzz_target!(|data: &[u8]| {
    let case = case(data);
    let ys: Vec<_> = case
        .ys
        .iter()
        .map(|(name, how, other)| {
            (
                name.clone(),
                match how {
                    0 | 1 => Named::None,
                    2 => Named::Dense([&name[..], b"_grad"].concat()),
                    3 => Named::Dense(other.clone()),
                    _ => Named::Sparse([&name[..], b"_i"].concat(), [&name[..], b"_v"].concat()),
                },
            )
        })
        .collect();
    let one = common::ask(&case.net, &ys, case.no_grad.clone(), case.wrt.clone());
    let two = common::ask(&case.net, &ys, case.no_grad.clone(), case.wrt.clone());
    assert_eq!(one, two);
});
