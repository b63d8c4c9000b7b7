//! What an answer is made of: gradients, the values they are, and the operators that make them.
//!
//! A gradient operator does not name the blobs that it writes: see [`crate::values`].

use std::ops::Range;

use smallvec::SmallVec;

use crate::blobs::BlobId;
use crate::memory;
use crate::message::{NetRef, OpRef};
use crate::session::{RED_ZONE, STACK};

/// A value that the backward pass makes or is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

/// What a gradient operator reads: a blob of the forward pass, or a value of the backward pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ref {
    /// A blob of the forward pass, in the version that it has at the end of it.
    Blob(BlobId),
    /// A value of the backward pass.
    Value(ValueId),
}

/// The gradient of a blob. No gradient is a value too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gradient {
    /// There is none: it counts as zero.
    #[default]
    None,
    /// One blob of the shape of the blob it belongs to.
    Dense(Ref),
    /// Row indices, and the rows.
    Sparse(Ref, Ref),
}

impl Gradient {
    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self == Gradient::None
    }

    /// The blobs it consists of.
    pub fn parts(self) -> impl Iterator<Item = Ref> {
        let (first, second) = match self {
            Gradient::None => (None, None),
            Gradient::Dense(gradient) => (Some(gradient), None),
            Gradient::Sparse(indices, values) => (Some(indices), Some(values)),
        };
        first.into_iter().chain(second)
    }

    /// The same gradient with its parts replaced.
    #[must_use]
    pub fn map(self, mut part: impl FnMut(Ref) -> Ref) -> Self {
        match self {
            Gradient::None => Gradient::None,
            Gradient::Dense(gradient) => Gradient::Dense(part(gradient)),
            Gradient::Sparse(indices, values) => Gradient::Sparse(part(indices), part(values)),
        }
    }
}

/// A blob and its gradient.
#[derive(Clone, Copy)]
pub struct BlobGradient {
    /// The blob.
    pub blob: BlobId,
    /// Its gradient.
    pub gradient: Gradient,
    /// Whether it is the gradient of the blob as it came into the net.
    pub came_in: bool,
}

/// The operators of one gradient net, in order.
#[derive(Default)]
pub struct GradientNet<'a> {
    /// The operators.
    pub ops: Vec<GradientOp<'a>>,
    /// Their inputs and outputs.
    pub refs: Vec<Ref>,
    /// Serialized `arg` fields of theirs.
    pub args: Vec<u8>,
    /// Numbers among the arguments of gradient Dos.
    pub numbers: Vec<u32>,
}

/// One gradient operator, in the 64 bytes of one line of the cache.
pub struct GradientOp<'a> {
    /// Its type.
    pub op_type: &'a [u8],
    /// Where its inputs start in [`GradientNet::refs`], where its outputs do, and where these end.
    places: [u32; 3],
    /// The index of the forward operator that it serves; [`NOBODY`] for those that start the pass.
    serves: u32,
    /// Everything else.
    pub body: Body<'a>,
}

/// In place of the index of a forward operator.
const NOBODY: u32 = u32::MAX;

const _: () = assert!(size_of::<GradientOp<'_>>() == 64);

impl GradientOp<'_> {
    /// The index of the forward operator that it serves; `None` for those that start the pass.
    pub fn forward(&self) -> Option<u32> {
        (self.serves != NOBODY).then_some(self.serves)
    }
}

/// The rest of a gradient operator's message.
pub enum Body<'a> {
    /// As a native maker plans it: the device, the engine and, mostly, the arguments of the forward
    /// operator.
    Maker {
        /// The forward operator, as far as there is more to it than its type and its blobs.
        forward: &'a [u8],
        /// Arguments of its own, in [`GradientNet::args`].
        own: Range<u32>,
        /// Whether the forward operator's arguments follow.
        copy_args: bool,
    },
    /// A helper: a fill, a copy, a sum.
    Plain {
        /// Whether the field `name` is there, empty.
        named: bool,
        /// Arguments, in [`GradientNet::args`].
        args: Range<u32>,
        /// The device option.
        device: Option<&'a [u8]>,
    },
    /// As a registered function gave it; only the names of blobs can change.
    Given {
        /// The message.
        op: &'a OpRef<'a>,
    },
    /// The gradient of a Do, If or While.
    Control(Box<Control<'a>>),
}

/// What the gradient of a Do, If or While has beside inputs and outputs.
pub struct Control<'a> {
    /// The forward operator, whose other fields go over.
    pub forward: OpRef<'a>,
    /// The arguments, in order.
    pub args: SmallVec<[ControlArg<'a>; 4]>,
    /// Blobs of this net that the operator changes although they are not among its outputs.
    pub changes: Vec<Ref>,
    /// Blobs of this net that it reads although they are not among its inputs.
    pub looks_at: Vec<Ref>,
}

impl Drop for Control<'_> {
    /// Nets are nested as deep as a user nests them: what lets go of them must not run out of stack.
    fn drop(&mut self) {
        stacker::maybe_grow(RED_ZONE, STACK, || self.args.clear());
    }
}

/// An argument of a gradient Do, If or While.
pub enum ControlArg<'a> {
    /// A net.
    Net(&'static str, Box<InnerNet<'a>>),
    /// Names of blobs, as `strings`: in [`GradientNet::refs`] of the net that the operator is in.
    Names(&'static str, Range<u32>),
    /// Numbers, as `ints`: in [`GradientNet::numbers`] of that net.
    Ints(&'static str, Range<u32>),
}

impl<'a> ControlArg<'a> {
    /// A net inside.
    pub fn net(name: &'static str, head: NetHead<'a>, net: GradientNet<'a>) -> Self {
        ControlArg::Net(name, Box::new(InnerNet { head, net }))
    }
}

/// A gradient net inside a gradient Do, If or While.
pub struct InnerNet<'a> {
    /// What it has beside its operators.
    pub head: NetHead<'a>,
    /// Its operators.
    pub net: GradientNet<'a>,
}

/// What a gradient net has beside its operators.
pub struct NetHead<'a> {
    /// The forward net, whose other fields go over.
    pub forward: Option<NetRef<'a>>,
    /// Put behind its name.
    pub suffix: &'static str,
    /// Whether a net without a name, or with an empty one, gets the suffix for a name.
    pub always_named: bool,
    /// The name of a net that has no forward net.
    pub name: Vec<u8>,
    /// The external inputs.
    pub external_inputs: Vec<Ref>,
}

impl<'a> NetHead<'a> {
    /// The head of the gradient of `forward`.
    pub fn of(forward: NetRef<'a>, suffix: &'static str) -> Self {
        Self {
            forward: Some(forward),
            suffix,
            always_named: false,
            name: Vec::new(),
            external_inputs: Vec::new(),
        }
    }
}

impl<'a> GradientNet<'a> {
    /// Makes room for the gradient of a net of so many operators, inputs and outputs.
    pub fn reserve(&mut self, ops: usize, blobs: usize) {
        self.ops.reserve(ops + ops / 4 + 1);
        self.refs.reserve(2 * blobs);
    }

    pub(crate) fn clear(&mut self) {
        self.ops.clear();
        self.refs.clear();
        self.args.clear();
        self.numbers.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        let numbers = memory::room(&self.numbers);
        memory::room(&self.ops) + memory::room(&self.refs) + memory::room(&self.args) + numbers
    }

    /// The memory of an empty net, for another one.
    pub(crate) fn renewed<'b>(self) -> GradientNet<'b> {
        let Self { ops, refs, args, numbers } = self;
        GradientNet { ops: memory::renewed(ops), refs, args, numbers }
    }

    /// Appends an operator.
    pub fn push(
        &mut self,
        op_type: &'a [u8],
        inputs: impl IntoIterator<Item = Ref>,
        outputs: impl IntoIterator<Item = ValueId>,
        forward: Option<u32>,
        body: Body<'a>,
    ) {
        self.push_refs(op_type, inputs, outputs.into_iter().map(Ref::Value), forward, body);
    }

    /// Appends an operator whose outputs may be workspaces of the forward pass.
    pub fn push_refs(
        &mut self,
        op_type: &'a [u8],
        inputs: impl IntoIterator<Item = Ref>,
        outputs: impl IntoIterator<Item = Ref>,
        forward: Option<u32>,
        body: Body<'a>,
    ) {
        let start = self.refs.len();
        self.refs.extend(inputs);
        let middle = self.refs.len();
        self.refs.extend(outputs);
        let end = self.refs.len();
        self.push_ranges(op_type, start..middle, middle..end, forward, body);
    }

    /// Appends an operator whose inputs and outputs have been put down already.
    pub fn push_ranges(
        &mut self,
        op_type: &'a [u8],
        inputs: Range<usize>,
        outputs: Range<usize>,
        forward: Option<u32>,
        body: Body<'a>,
    ) {
        debug_assert!(inputs.end == outputs.start, "outputs come behind inputs");
        let places = [inputs.start, outputs.start, outputs.end].map(|place| place as u32);
        let serves = forward.unwrap_or(NOBODY);
        self.ops.extend(std::iter::once_with(|| GradientOp { op_type, places, serves, body }));
    }

    /// Appends the operators of another net, which has none then.
    pub fn append(&mut self, other: &mut GradientNet<'a>) {
        if other.ops.is_empty() {
            return;
        }
        let starts = [self.refs.len(), self.args.len(), self.numbers.len()];
        let [refs, args, numbers] = starts.map(|start| start as u32);
        let moved = |range: &mut Range<u32>, by: u32| {
            range.start += by;
            range.end += by;
        };
        self.refs.append(&mut other.refs);
        self.args.append(&mut other.args);
        self.numbers.append(&mut other.numbers);
        self.ops.extend(other.ops.drain(..).map(|mut op| {
            op.places = op.places.map(|place| place + refs);
            match &mut op.body {
                Body::Maker { own: range, .. } | Body::Plain { args: range, .. } => {
                    moved(range, args);
                }
                Body::Control(control) => {
                    for argument in &mut control.args {
                        match argument {
                            ControlArg::Names(_, range) => moved(range, refs),
                            ControlArg::Ints(_, range) => moved(range, numbers),
                            ControlArg::Net(..) => {}
                        }
                    }
                }
                Body::Given { .. } => {}
            }
            op
        }));
    }

    /// The inputs of an operator.
    pub fn inputs(&self, op: &GradientOp<'_>) -> &[Ref] {
        &self.refs[op.places[0] as usize..op.places[1] as usize]
    }

    /// What an operator writes: values, and the workspaces of Dos.
    pub fn writes(&self, op: &GradientOp<'_>) -> &[Ref] {
        &self.refs[op.places[1] as usize..op.places[2] as usize]
    }

    /// The values that an operator writes.
    pub fn outputs(&self, op: &GradientOp<'_>) -> impl DoubleEndedIterator<Item = ValueId> + '_ {
        self.writes(op).iter().filter_map(|output| match output {
            Ref::Value(value) => Some(*value),
            Ref::Blob(_) => None,
        })
    }

    /// Appends names for an argument of a gradient Do and says where they stand.
    pub fn names(&mut self, names: impl IntoIterator<Item = Ref>) -> Range<u32> {
        let start = self.refs.len() as u32;
        self.refs.extend(names);
        start..self.refs.len() as u32
    }

    /// Appends numbers for an argument of a gradient Do and says where they stand.
    pub fn ints(&mut self, numbers: impl IntoIterator<Item = u32>) -> Range<u32> {
        let start = self.numbers.len() as u32;
        self.numbers.extend(numbers);
        start..self.numbers.len() as u32
    }

    /// Appends an argument and says where it stands.
    pub fn arg(&mut self, arg: &[u8]) -> Range<u32> {
        let start = self.args.len() as u32;
        self.args.extend_from_slice(arg);
        start..self.args.len() as u32
    }
}
