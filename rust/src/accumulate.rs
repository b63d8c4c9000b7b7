//! Adds up the gradients of a version that several operators produced.

use smallvec::SmallVec;

use crate::backward::Walk;
use crate::blobs::BlobId;
use crate::error::{Error, Kind, Result};
use crate::gradient::{Body, Gradient, Ref, ValueId};
use crate::helpers::int_argument;
use crate::message::{device, Device};
use crate::producers::{Origin, Producer};
use crate::ssa::VersionId;
use crate::wire::Writer;

/// Marks the sums that the backward pass makes.
const SUM_TAG: &[u8] = b"is_auto_gen_sum_ops:1";
/// A device option that says that and nothing else, as most do.
const TAGGED: &[u8] = b"\x32\x15is_auto_gen_sum_ops:1";
/// Asks for sums that carry nothing but their own mark and the device.
const ONLY_SUM_TAG: &[u8] = b"only_keep_is_auto_gen_sum_ops_tag:1";

impl<'a> Walk<'_, '_, 'a> {
    /// Called when all gradient operators of `op` are there: whatever blob is read by `op` first, and
    /// by others later, has all its gradients now.
    pub(crate) fn accumulate(&mut self, op: usize) -> Result<()> {
        for place in self.net.input_places(op) {
            let version = self.ssa.at[place];
            let read = self.ssa.versions[version.index()];
            if read.first_reader() == Some(op as u32) && self.producers.waiting(version) > 1 {
                self.add_up(op, version)?;
            }
        }
        Ok(())
    }

    fn add_up(&mut self, op: usize, version: VersionId) -> Result<()> {
        let producers: SmallVec<[Producer; 16]> = self.producers.of(version).copied().collect();
        let blob = self.ssa.blob(version);
        let sparse =
            producers.iter().filter(|p| matches!(p.gradient, Gradient::Sparse(..))).count();
        if sparse != 0 && sparse != producers.len() {
            return Err(Error::new(
                Kind::Mixed,
                format!(
                    "{:?} gets both dense and sparse gradients, which cannot be added",
                    self.session.shown(blob)
                ),
            )
            .hint("put an EnsureDense of the blob before the operator that looks rows of it up")
            .blob(self.session.table.name(blob)));
        }
        let device = self.sum_device(blob, &producers)?;
        let sum = if sparse == 0 {
            self.add_dense(op, version, &producers, device)?
        } else {
            self.add_sparse(op, version, &producers, device)?
        };
        let place = self.ssa.versions[version.index()].place as usize;
        self.found[place].gradient = sum;
        self.found[place].version = version;
        self.producers.settle(version);
        Ok(())
    }

    fn add_dense(
        &mut self,
        op: usize,
        version: VersionId,
        producers: &[Producer],
        device: &'a [u8],
    ) -> Result<Gradient> {
        let blob = self.ssa.blob(version);
        let mut first = producers.iter().find_map(|producer| producer.made);
        let name = match first {
            Some(value) => self.session.values.nominal(value),
            None => self.session.table.gradient(blob),
        };
        // What came into a branch under the name of the sum keeps it until it has been added.
        let came_in = producers.iter().any(|producer| self.came_in_as(producer, name));
        if came_in {
            first = None;
        }
        let sum = first.unwrap_or_else(|| self.session.values.add(name));
        self.protect(op, name, Some(version));
        let mut count = 0;
        let mut summands: SmallVec<[Ref; 16]> = SmallVec::new();
        for producer in producers {
            let Gradient::Dense(part) = producer.gradient else { continue };
            match producer.made {
                Some(value) if Some(value) == first => {}
                Some(value) => {
                    self.session.values.split(value, Some(sum), count);
                    count += 1;
                }
                None if self.came_in_as(producer, name) => {}
                None => self.check_conflict(name, part, blob)?,
            }
            summands.push(part);
        }
        // In place, Sum works on its first input only.
        let in_place = summands.iter().position(|part| match part {
            Ref::Value(value) if came_in => {
                self.session.values.nominal(*value) == name
                    && !self.session.values.is_summand(*value)
            }
            part => *part == Ref::Value(sum),
        });
        if let Some(at) = in_place {
            summands.swap(0, at);
        }
        let body = Body::Plain { named: true, args: 0..0, device: Some(device) };
        self.out.push(b"Sum", summands, [sum], Some(op as u32), body);
        Ok(Gradient::Dense(Ref::Value(sum)))
    }

    /// Whether a gradient came into the net from around it, in the blob called `name`.
    fn came_in_as(&self, producer: &Producer, name: BlobId) -> bool {
        producer.origin == Origin::Caller
            && !self.session.path.is_empty()
            && producer.gradient.parts().all(|part| self.session.values.nominal_ref(part) == name)
    }

    fn add_sparse(
        &mut self,
        op: usize,
        version: VersionId,
        producers: &[Producer],
        device: &'a [u8],
    ) -> Result<Gradient> {
        let blob = self.ssa.blob(version);
        let base = self.sparse_base(blob, producers);
        let axis = int_argument("axis", 0);
        let mut joined = [ValueId(0); 2];
        for (half, result) in joined.iter_mut().enumerate() {
            let mut count = 0;
            let mut parts: SmallVec<[Ref; 16]> = SmallVec::new();
            for producer in producers {
                let Gradient::Sparse(indices, values) = producer.gradient else { continue };
                let part = [indices, values][half];
                match [producer.made, producer.made_values][half] {
                    Some(value) => {
                        self.session.values.split(value, None, count);
                        count += 1;
                    }
                    None => self.check_conflict(base, part, blob)?,
                }
                parts.push(part);
            }
            let name = self
                .session
                .table
                .suffixed(base, [b"_indices_concat", b"_values_concat" as &[u8]][half]);
            let split = self.session.table.suffixed(name, b"_split");
            *result = self.session.values.add(name);
            let split = self.session.values.add(split);
            let args = self.out.arg(&axis);
            let body = Body::Plain { named: true, args, device: Some(device) };
            self.out.push(b"Concat", parts, [*result, split], Some(op as u32), body);
        }
        let [indices, values] = joined;
        Ok(Gradient::Sparse(Ref::Value(indices), Ref::Value(values)))
    }

    /// What the names of the joined indices and values begin with.
    fn sparse_base(&mut self, blob: BlobId, producers: &[Producer]) -> BlobId {
        for producer in producers {
            for (made, ending) in
                [(producer.made, b"_indices" as &[u8]), (producer.made_values, b"_values")]
            {
                if let Some(value) = made {
                    let id = self.session.values.nominal(value);
                    let name = self.session.table.name(id);
                    return match name.strip_suffix(ending) {
                        Some(base) => self.session.table.intern(base),
                        None => id,
                    };
                }
            }
        }
        self.session.table.gradient(blob)
    }

    fn check_conflict(&self, name: BlobId, part: Ref, blob: BlobId) -> Result<()> {
        if self.session.values.original(part) != name {
            return Ok(());
        }
        Err(Error::new(
            Kind::Conflict,
            format!(
                "a gradient that is handed on for {:?} is called {:?}, which is what the sum of its \
                 gradients must be called",
                self.session.shown(blob),
                self.session.shown(name)
            ),
        )
        .hint("give the gradient, or the blob that the operator overwrites, another name")
        .blob(self.session.table.name(blob)))
    }

    fn origin_device(&self, origin: Origin) -> Option<&'a [u8]> {
        match origin {
            Origin::Forward(op) => self.device(op as usize),
            Origin::Made(at) => match &self.out.ops[at as usize].body {
                Body::Plain { device, .. } => *device,
                Body::Given { op } => op.device().map(|device| self.session.table.keep(device)),
                Body::Maker { .. } | Body::Control(_) => None,
            },
            Origin::Caller => None,
        }
    }

    /// The device option of the operators that add these gradients.
    fn sum_device(&self, blob: BlobId, producers: &[Producer]) -> Result<&'a [u8]> {
        let mut first: Option<(&'a [u8], Device<'a>)> = None;
        let mut only_tag = false;
        for producer in producers.iter().filter(|producer| producer.origin != Origin::Caller) {
            let bytes = self.origin_device(producer.origin).unwrap_or_default();
            if first.as_ref().is_some_and(|(before, _)| std::ptr::eq(*before, bytes)) {
                continue;
            }
            let device = Device::read(bytes)?;
            only_tag |= device.extra_info.contains(&ONLY_SUM_TAG);
            match &first {
                None => first = Some((bytes, device)),
                Some((_, other)) if same_place(&device, other) => {}
                Some(_) => {
                    return Err(Error::new(
                        Kind::Devices,
                        format!(
                        "gradients of {:?} are made on different devices, so no operator can add \
                             them",
                        self.session.shown(blob)
                    ),
                    )
                    .hint("copy the blob to the other device by an operator of the net")
                    .blob(self.session.table.name(blob)))
                }
            }
        }
        let (bytes, device) = first.unwrap_or_default();
        Ok(self.tagged(bytes, &device, only_tag))
    }

    /// The device option of a sum of what the gradient operators of `op` make.
    pub(crate) fn sum_device_of(&self, op: usize) -> &'a [u8] {
        self.tagged(self.device(op).unwrap_or_default(), &Device::default(), false)
    }

    fn tagged(&self, bytes: &[u8], device: &Device<'_>, only_tag: bool) -> &'a [u8] {
        if bytes.is_empty() && !only_tag {
            return TAGGED;
        }
        let mut writer = Writer::default();
        writer.bytes_field(device::EXTRA_INFO, SUM_TAG);
        let scope = self.session.device_scope.filter(|scope| {
            Device::read(scope)
                .is_ok_and(|scope| (scope.kind, scope.id) == (device.kind, device.id))
        });
        if !only_tag {
            writer.bytes(bytes);
        } else if let Some(scope) = scope {
            writer.bytes(scope);
        } else if device.kind != 0 {
            writer.varint_field(device::DEVICE_ID, device.id as u64);
            writer.varint_field(device::DEVICE_TYPE, device.kind as u64);
        }
        self.session.table.bump().alloc_slice_copy(writer.written())
    }
}

/// Whether two device options mean the same place for adding. Two kinds of accelerator with one
/// number count as the same, as in the reference.
fn same_place(one: &Device<'_>, other: &Device<'_>) -> bool {
    if one.kind == 0 || other.kind == 0 {
        one.kind == other.kind
    } else {
        one.id == other.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_option_that_is_a_tag_alone_is_one() {
        let device = Device::read(TAGGED).expect("a device option");
        assert_eq!(device, Device { extra_info: vec![SUM_TAG], ..Device::default() });
        let mut writer = Writer::default();
        writer.bytes_field(device::EXTRA_INFO, SUM_TAG);
        assert_eq!(writer.written(), TAGGED);
    }
}
