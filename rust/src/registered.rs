//! Takes in the gradient operators that a registered function gives for a forward operator.

use crate::backward::{Found, Walk};
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::few::Map;
use crate::gradient::{Body, Gradient, Ref, ValueId};
use crate::message::OpRef;
use crate::session::Named;
use crate::ssa::VersionId;

impl Walk<'_, '_, '_> {
    /// Asks a registered function; `None` if there is none after all.
    pub(crate) fn ask(&mut self, op: usize) -> Result<Option<Vec<Gradient>>> {
        let g_output = self.g_output(op);
        let named: Vec<Named> =
            g_output.iter().map(|found| self.session.named(found.gradient)).collect();
        let view = self.net.ops()[op].view;
        let path = std::mem::take(&mut self.session.path);
        let answer = self.session.hook.ask(view.bytes, &named, &path);
        self.session.path = path;
        let Some((ops, g_input)) = answer? else { return Ok(None) };
        let inputs = self.net.inputs(op).len();
        if g_input.iter().skip(inputs).any(|gradient| *gradient != Named::None) {
            return Err(Error::new(
                Kind::GradientCount,
                format!(
                    "its registered gradient function gives {} gradients for {inputs} inputs",
                    g_input.len()
                ),
            )
            .hint("give one entry for each input, None where there is no gradient"));
        }
        let mut given = Given::new(self, op, &g_output);
        for bytes in ops {
            given.add(&bytes)?;
        }
        given.check_devices(&g_input)?;
        g_input.iter().map(|gradient| given.gradient(gradient)).collect::<Result<_>>().map(Some)
    }
}

/// Takes in what a registered function gave: its names become values.
struct Given<'g, 'w, 's, 'a> {
    walk: &'g mut Walk<'w, 's, 'a>,
    op: usize,
    g_output: &'g [Found],
    /// What these operators have written so far, by name; the newest last.
    written: Vec<(BlobId, ValueId)>,
    /// By name: the operator that wrote it last.
    writers: Map<BlobId, usize>,
    newest: Map<BlobId, ValueId>,
}

impl<'g, 'w, 's, 'a> Given<'g, 'w, 's, 'a> {
    fn new(walk: &'g mut Walk<'w, 's, 'a>, op: usize, g_output: &'g [Found]) -> Self {
        let (written, writers, newest) = Default::default();
        Self { walk, op, g_output, written, writers, newest }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let bytes: &'a [u8] = self.walk.session.table.bump().alloc_slice_copy(bytes);
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let table = &mut self.walk.session.table;
        let view = OpRef::read(bytes, |name, is_output| {
            if is_output { &mut outputs } else { &mut inputs }.push(table.intern(name));
        })?;
        let reads = inputs.iter().map(|name| self.read(*name)).collect::<Result<Vec<_>>>()?;
        let mut writes = Vec::with_capacity(outputs.len());
        for name in outputs {
            let target = self.target(name);
            self.walk.protect(self.op, name, target);
            // Whoever reads a value and writes it again works on it in place.
            let value = match self.newest.get(&name) {
                Some(value) if reads.contains(&Ref::Value(*value)) => *value,
                _ => self.walk.session.values.add(name),
            };
            writes.push((name, value));
        }
        for (name, value) in &writes {
            self.newest.insert(*name, *value);
            self.writers.insert(*name, self.walk.out.ops.len());
            self.written.push((*name, *value));
        }
        let writes = writes.into_iter().map(|(_, value)| value);
        let body = Body::Given { op: self.walk.session.table.bump().alloc(view) };
        self.walk.out.push(view.op_type, reads, writes, Some(self.op as u32), body);
        Ok(())
    }

    /// A sparse gradient lives on one device.
    fn check_devices(&self, g_input: &[Named]) -> Result<()> {
        for named in g_input {
            let Named::Sparse(indices, values) = named else { continue };
            let device = |name: &[u8]| {
                let at = self.writers.get(&self.walk.session.table.get(name)?)?;
                match &self.walk.out.ops[*at].body {
                    Body::Given { op } => Some(op.device()),
                    _ => None,
                }
            };
            match (device(indices), device(values)) {
                (Some(one), Some(other)) if one != other => {
                    return Err(Error::new(
                        Kind::SparseDevices,
                        "its registered gradient function makes indices and values of a sparse \
                         gradient on different devices",
                    )
                    .hint("let one device make both")
                    .blob(values))
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The version whose usual gradient name this is.
    fn target(&mut self, name: BlobId) -> Option<VersionId> {
        let places = self.walk.net.input_places(self.op);
        let table = &mut self.walk.session.table;
        self.walk.net.inputs(self.op).iter().zip(places).find_map(|(input, place)| {
            (table.gradient(*input) == name).then(|| self.walk.ssa.at[place])
        })
    }

    /// What a name means to these operators: what they made themselves, a gradient of an output, an
    /// output, an input, in this order.
    fn read(&mut self, name: BlobId) -> Result<Ref> {
        if let Some(value) = self.newest.get(&name) {
            return Ok(Ref::Value(*value));
        }
        if let Some(part) = self.output_gradient(name)? {
            return Ok(part);
        }
        let walk = &*self.walk;
        for places in [walk.net.output_places(self.op), walk.net.input_places(self.op)] {
            if let Some(at) =
                walk.net.blobs()[places.clone()].iter().rposition(|blob| *blob == name)
            {
                return walk.forward(self.op, walk.ssa.at[places.start + at], false);
            }
        }
        // Asked alone, an operator may read what the net around it provides.
        if walk.lenient {
            return Ok(Ref::Blob(name));
        }
        Err(Error::new(
            Kind::OutOfScope,
            format!(
                "its gradient reads {:?}, which is neither an input, an output or a gradient of an \
                 output, nor made by an earlier gradient operator of it",
                walk.session.shown(name)
            ),
        )
        .hint("list the blob among the operator's inputs or outputs")
        .blob(walk.session.table.name(name)))
    }

    fn output_gradient(&self, name: BlobId) -> Result<Option<Ref>> {
        let mut found_part = None;
        for (k, found) in self.g_output.iter().enumerate() {
            for part in found.gradient.parts() {
                if self.walk.session.values.nominal_ref(part) == name {
                    // Which of several outputs is meant cannot be seen, so all of them must be right.
                    self.walk.usable(self.op, k, found)?;
                    found_part = Some(part);
                }
            }
        }
        Ok(found_part)
    }

    fn gradient(&mut self, named: &Named) -> Result<Gradient> {
        Ok(match named {
            Named::None => Gradient::None,
            Named::Dense(name) => Gradient::Dense(self.part(name)?),
            Named::Sparse(indices, values) => {
                Gradient::Sparse(self.part(indices)?, self.part(values)?)
            }
        })
    }

    fn part(&mut self, name: &[u8]) -> Result<Ref> {
        let name = self.walk.session.table.intern_copy(name);
        // Several values of one name are several summands: each input takes the next one.
        if let Some(at) = self.written.iter().position(|(written, _)| *written == name) {
            let several = self.written.iter().filter(|(written, _)| *written == name).count() > 1;
            let (_, value) = if several { self.written.remove(at) } else { self.written[at] };
            return Ok(Ref::Value(value));
        }
        if let Some(part) = self.output_gradient(name)? {
            return Ok(part);
        }
        let places = self.walk.net.input_places(self.op);
        let inputs = self.walk.net.blobs()[places.clone()].iter();
        if let Some(at) = inputs.clone().position(|blob| *blob == name) {
            return self.walk.forward(self.op, self.walk.ssa.at[places.start + at], false);
        }
        Ok(Ref::Value(self.walk.session.values.add(name)))
    }
}
