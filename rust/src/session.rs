//! What all walks of one answer share.

use crate::blobs::{BlobId, BlobTable};
use crate::error::{Error, Kind, Result};
use crate::gradient::{Gradient, Ref};
use crate::makers::words::Answer;
use crate::memory::Spare;
use crate::message::Device;
use crate::seen::Seen;
use crate::ssa::Places;
use crate::values::Values;

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

/// Serialized gradient operators, and the gradients of the forward operator's inputs.
pub type Asked = (Vec<Vec<u8>>, Vec<Named>);

/// Gradient functions that somebody registered outside of this crate.
pub trait Hook {
    /// Whether there is one for this operator type, for where the table has none or its maker refuses.
    fn knows(&self, op_type: &[u8]) -> bool;

    /// Whether there is one that goes before the table. `op` is a serialized operator of the type.
    fn goes_first(&mut self, op_type: &[u8], op: &[u8]) -> Result<bool>;

    /// Asks it for the gradient of a serialized operator; `None` if there is none after all.
    /// `path` leads to the operator, from the outermost net inwards.
    fn ask(&mut self, op: &[u8], g_output: &[Named], path: &[u32]) -> Result<Option<Asked>>;
}

/// A hook that knows nothing.
pub struct NoHook;

impl Hook for NoHook {
    fn knows(&self, _: &[u8]) -> bool {
        false
    }

    fn goes_first(&mut self, _: &[u8], _: &[u8]) -> Result<bool> {
        Ok(false)
    }

    fn ask(&mut self, _: &[u8], _: &[Named], _: &[u32]) -> Result<Option<Asked>> {
        Ok(None)
    }
}

/// The scopes of Caffe2 that are open while a gradient is asked for.
#[derive(Default)]
pub struct Scope {
    /// What stands before new names: empty, or with a slash at its end.
    pub name: Vec<u8>,
    /// The serialized device option of operators that have no forward operator.
    pub device: Option<Vec<u8>>,
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
    /// Scratch space for names of gradients that go into control flow or come out of it.
    pub outputs: Places,
    /// Scratch space for lists of what is read.
    pub seen: Seen,
    /// Scratch space for native makers.
    pub answer: Answer,
    /// Memory for walks.
    pub spare: Spare<'a>,
    /// Where the walk is: operator indices, outermost net first.
    pub path: Vec<u32>,
    /// How many loops have had a gradient: their condition nets are numbered.
    pub loops: u32,
    /// How often what is being differentiated has been before, at the most.
    pub again: u32,
    /// Whether there are copies of which only final names tell whether they are needed.
    pub idle_copies: bool,
    /// The name scope.
    pub name_scope: &'a [u8],
    /// The device scope.
    pub device_scope: Option<&'a [u8]>,
}

impl<'s, 'a> Session<'s, 'a> {
    /// A session in memory that has been used before; see [`crate::memory::with_session`].
    pub(crate) fn new(
        table: BlobTable<'a>,
        (values, places, answer): (Values, Places, Answer),
        spare: Spare<'a>,
        scope: &Scope,
        hook: &'s mut dyn Hook,
    ) -> Self {
        let bump = table.bump();
        Self {
            name_scope: bump.alloc_slice_copy(&scope.name),
            device_scope: scope.device.as_ref().map(|device| &*bump.alloc_slice_copy(device)),
            table,
            values,
            hook,
            places,
            outputs: Places::default(),
            seen: Seen::default(),
            answer,
            spare,
            path: Vec::new(),
            loops: 0,
            again: 1,
            idle_copies: false,
        }
    }

    /// The device scope, for an operator that runs on the CPU alone.
    pub fn cpu_scope(&self) -> Result<Option<&'a [u8]>> {
        let Some(device) = self.device_scope else { return Ok(None) };
        Ok((Device::read(device)?.kind == 0).then_some(device))
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
