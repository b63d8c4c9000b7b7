//! What all walks of one answer share.

use bumpalo::Bump;

use crate::blobs::{BlobId, BlobTable};
use crate::error::{Error, Kind, Result};
use crate::gradient::{Gradient, Ref, Values};
use crate::makers::words::Answer;
use crate::ssa::Places;

/// How many nets may lie inside each other, the outermost included. Protobuf's own readers take 34;
/// whoever holds deeper nets has built them in memory, or hands over bytes that no one else reads.
pub const DEPTH_LIMIT: u32 = 4096;

/// A nested walk gets a new piece of stack when less than this is left.
pub const RED_ZONE: usize = 128 * 1024;
/// The size of such a piece.
pub const STACK: usize = 2 * 1024 * 1024;

/// A gradient as a caller gives it or gets it: names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// None.
    None,
    /// The name of one blob.
    Dense(Vec<u8>),
    /// The names of row indices and rows.
    Sparse(Vec<u8>, Vec<u8>),
}

/// Gradient functions that somebody registered outside of this crate.
pub trait Hook {
    /// Whether there is one for this operator type.
    fn knows(&self, op_type: &[u8]) -> bool;

    /// Asks it for the gradient operators of a serialized operator, and the gradients of its inputs.
    /// `path` leads to the operator, from the outermost net inwards.
    fn ask(
        &mut self,
        op: &[u8],
        g_output: &[Named],
        path: &[u32],
    ) -> Result<(Vec<Vec<u8>>, Vec<Named>)>;
}

/// A hook that knows nothing.
pub struct NoHook;

impl Hook for NoHook {
    fn knows(&self, _: &[u8]) -> bool {
        false
    }

    fn ask(&mut self, _: &[u8], _: &[Named], _: &[u32]) -> Result<(Vec<Vec<u8>>, Vec<Named>)> {
        Err(Error::new(Kind::Internal, "a function was asked that is not there"))
    }
}

/// What all walks of one answer share.
pub struct Session<'s, 'a> {
    /// All names.
    pub table: BlobTable<'a>,
    /// All values.
    pub values: Values,
    /// The registered functions.
    pub hook: &'s mut dyn Hook,
    /// Scratch space for playing nets.
    pub places: Places,
    /// Scratch space for native makers.
    pub answer: Answer,
    /// Where the walk is: operator indices, outermost net first.
    pub path: Vec<u32>,
    /// How many loops have had a gradient: their condition nets are numbered.
    pub loops: u32,
    /// How often what is being differentiated has been before, at the most.
    pub again: u32,
    /// Whether there are copies of which only final names tell whether they are needed.
    pub idle_copies: bool,
}

impl<'s, 'a> Session<'s, 'a> {
    /// A session that keeps what it has to make in `bump`.
    pub fn new(bump: &'a Bump, capacity: usize, hook: &'s mut dyn Hook) -> Self {
        Self {
            table: BlobTable::new(bump, capacity),
            values: Values::default(),
            hook,
            places: Places::default(),
            answer: Answer::default(),
            path: Vec::new(),
            loops: 0,
            again: 1,
            idle_copies: false,
        }
    }

    /// Refuses nets that are nested too deep.
    pub fn check_depth(&self) -> Result<()> {
        if self.path.len() as u32 >= DEPTH_LIMIT {
            return Err(Error::new(
                Kind::TooDeep,
                format!("more than {DEPTH_LIMIT} nets lie inside each other"),
            )
            .hint("take the inner nets apart; nothing that runs Caffe2 nets goes as deep"));
        }
        Ok(())
    }

    /// A gradient under its names as they are now.
    pub fn named(&mut self, gradient: Gradient) -> Named {
        let mut name = |part: Ref| {
            let id = match part {
                Ref::Blob(blob) => blob,
                Ref::Value(value) => self.values.provisional(value, &mut self.table),
            };
            self.table.name(id).to_vec()
        };
        match gradient {
            Gradient::None => Named::None,
            Gradient::Dense(part) => Named::Dense(name(part)),
            Gradient::Sparse(indices, values) => Named::Sparse(name(indices), name(values)),
        }
    }

    /// A gradient under the names that it was made under.
    pub fn first_named(&self, gradient: Gradient) -> Named {
        let name = |part| self.table.name(self.values.nominal_ref(part)).to_vec();
        match gradient {
            Gradient::None => Named::None,
            Gradient::Dense(part) => Named::Dense(name(part)),
            Gradient::Sparse(indices, values) => Named::Sparse(name(indices), name(values)),
        }
    }

    /// A gradient that the caller names.
    pub fn given(&mut self, named: &Named) -> Gradient {
        let mut part = |name: &[u8]| {
            let name = self.table.intern_copy(name);
            Ref::Value(self.values.add(name))
        };
        match named {
            Named::None => Gradient::None,
            Named::Dense(name) => Gradient::Dense(part(name)),
            Named::Sparse(indices, values) => Gradient::Sparse(part(indices), part(values)),
        }
    }

    /// The name of a blob, for a text.
    pub fn shown(&self, blob: BlobId) -> String {
        crate::error::shown_name(self.table.name(blob))
    }
}
