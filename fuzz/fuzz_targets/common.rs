// Shared by the targets: asks, and checks what comes back.
use ctrlgrad::api::{self, Forward, Options, Y};
use ctrlgrad::session::{Named, NoHook, Scope};
use ctrlgrad::wire::{fields, Value};

pub type Answer = Result<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>, Option<Vec<u8>>)>), String>;

pub fn walk_net(bytes: &[u8], depth: u32) {
    for field in fields(bytes) {
        let field = field.expect("the answer is protobuf");
        if let (2, Value::Bytes(op)) = (field.number, field.value) {
            walk_op(op, depth);
        }
    }
}

/// Arguments of plain operators are pasted unread; those of control flow are made here.
pub fn walk_op(op: &[u8], depth: u32) {
    let all: Vec<_> = fields(op).map(|field| field.expect("operators are protobuf")).collect();
    let is_control = all.iter().any(|field| {
        field.number == 4
            && matches!(field.value, Value::Bytes(name) if matches!(name, b"Do" | b"If" | b"While"))
    });
    for field in all.iter().filter(|_| is_control && depth < 64) {
        let (5, Value::Bytes(arg)) = (field.number, field.value) else { continue };
        for inner in fields(arg) {
            let inner = inner.expect("arguments of control flow are protobuf");
            if let (8, Value::Bytes(net)) = (inner.number, inner.value) {
                walk_net(net, depth + 1);
            }
        }
    }
}

#[allow(dead_code)]
pub fn ask(
    net: &[u8],
    ys: &[(Vec<u8>, Named)],
    no_grad: Vec<Vec<u8>>,
    wrt: Option<Vec<Vec<u8>>>,
) -> Answer {
    let ys: Vec<Y> = ys
        .iter()
        .map(|(name, gradient)| Y { name: name.clone(), gradient: gradient.clone(), in_scope: false })
        .collect();
    let options = Options { known: false, no_grad, wrt };
    match api::backward(Forward::Net(net), &ys, &options, &Scope::default(), &mut NoHook) {
        Ok(answer) => {
            let mut ops = vec![0; answer.ops.position()];
            answer.ops.put_together(net, &mut ops);
            walk_net(&ops, 0);
            let gradients = answer
                .gradients
                .iter()
                .map(|(b, f, s)| (b.to_vec(), f.to_vec(), s.map(<[u8]>::to_vec)))
                .collect();
            Ok((ops, gradients))
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 20_000, "long error: {text}");
            assert!(error.report().kind != ctrlgrad::error::Kind::Internal, "internal: {text}");
            Err(text)
        }
    }
}

#[allow(dead_code)]
pub fn names_of(net: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for field in fields(net).filter_map(Result::ok) {
        if let (2, Value::Bytes(op)) = (field.number, field.value) {
            for field in fields(op).filter_map(Result::ok) {
                if let (1 | 2, Value::Bytes(name)) = (field.number, field.value) {
                    names.push(name.to_vec());
                }
            }
        }
    }
    names
}

#[allow(dead_code)]
pub fn varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 128 {
        out.push(v as u8 | 128);
        v >>= 7;
    }
    out.push(v as u8);
}

#[allow(dead_code)]
pub fn bytes(out: &mut Vec<u8>, n: u32, b: &[u8]) {
    varint(out, u64::from(n << 3 | 2));
    varint(out, b.len() as u64);
    out.extend_from_slice(b);
}

#[allow(dead_code)]
pub fn int(out: &mut Vec<u8>, n: u32, v: u64) {
    varint(out, u64::from(n << 3));
    varint(out, v);
}
