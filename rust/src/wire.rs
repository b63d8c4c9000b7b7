//! The protobuf wire format: varints, tags, length-delimited fields.
//!
//! Nothing here knows a schema. [`fields`] walks one message and hands out each field as a borrowed
//! view; [`Writer`] builds a message from its last byte to its first, so that every length is known
//! when it is written and nested messages cost no second pass.

use std::ops::Range;

use crate::error::{Error, Result};

/// Protobuf's own limit on nested groups; nothing in the schema uses groups at all.
const GROUP_LIMIT: u32 = 100;

/// How a field's value is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64([u8; 8]),
    /// Wire type 2: a string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// Wire types 3 and 4: an unknown group, tags included in the field's raw bytes.
    Group,
    /// Wire type 5.
    Fixed32([u8; 4]),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The field number, never 0.
    pub number: u32,
    /// The value.
    pub value: Value<'a>,
    /// The field whole, tag included, to be pasted elsewhere unread.
    pub raw: &'a [u8],
}

/// The fields of a message, in the order in which they stand.
///
/// The iterator ends after the first error.
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// See [`fields`].
#[derive(Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Nearly every field is a name or a small message: one byte of tag, one of length.
        if let [tag, length, tail @ ..] = self.rest {
            if let (0x0a..0x80, true) = (*tag, *tag & 7 == 2 && *length < 0x80) {
                if let Some((bytes, rest)) = tail.split_at_checked(usize::from(*length)) {
                    let raw = &self.rest[..bytes.len() + 2];
                    self.rest = rest;
                    let number = u32::from(*tag >> 3);
                    return Some(Ok(Field { number, value: Value::Bytes(bytes), raw }));
                }
            }
        }
        self.next_of_any_kind()
    }
}

impl<'a> Fields<'a> {
    #[inline(never)]
    fn next_of_any_kind(&mut self) -> Option<Result<Field<'a>>> {
        match *self.rest {
            [] => return None,
            // The same with two bytes of length.
            [tag @ 0x0a..0x80, low @ 0x80..=0xff, high @ 0..0x80, ref tail @ ..]
                if tag & 7 == 2 =>
            {
                let length = usize::from(low & 0x7f) | usize::from(high) << 7;
                if let Some((bytes, rest)) = tail.split_at_checked(length) {
                    let raw = &self.rest[..length + 3];
                    self.rest = rest;
                    let number = u32::from(tag >> 3);
                    return Some(Ok(Field { number, value: Value::Bytes(bytes), raw }));
                }
            }
            // A small number.
            [tag @ 0x08..0x80, value @ 0..0x80, ref tail @ ..] if tag.trailing_zeros() >= 3 => {
                let (raw, number) = (&self.rest[..2], u32::from(tag >> 3));
                self.rest = tail;
                return Some(Ok(Field { number, value: Value::Varint(u64::from(value)), raw }));
            }
            _ => {}
        }
        let field = read_field(&mut self.rest);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The last length-delimited field of that number, as far as the bytes are well-formed; and whether all
/// are. An argument may hold millions of numbers, so whatever else there is it passes over in a hurry.
pub fn last_payload(bytes: &[u8], number: u32) -> (Option<&[u8]>, Result<()>) {
    let mut rest = bytes;
    let mut last = None;
    loop {
        let short = match *rest {
            [] => return (last, Ok(())),
            [tag @ 0x08..0x80, ref tail @ ..] => match (tag & 7, tail) {
                (
                    0,
                    [0..0x80, tail @ ..] | [_, 0..0x80, tail @ ..] | [_, _, 0..0x80, tail @ ..],
                )
                | (5, [_, _, _, _, tail @ ..]) => Some(tail),
                (2, [length @ 0..0x80, tail @ ..]) if u32::from(tag >> 3) != number => {
                    tail.get(usize::from(*length)..)
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(tail) = short {
            rest = tail;
            continue;
        }
        match read_field(&mut rest) {
            Ok(Field { number: found, value: Value::Bytes(payload), .. }) if found == number => {
                last = Some(payload);
            }
            Ok(_) => {}
            Err(error) => return (last, Err(error)),
        }
    }
}

#[inline]
fn read_field<'a>(rest: &mut &'a [u8]) -> Result<Field<'a>> {
    let start = *rest;
    let (number, kind) = read_tag(rest)?;
    let value = match kind {
        0 => Value::Varint(read_varint(rest)?),
        1 => Value::Fixed64(read_array(rest)?),
        2 => Value::Bytes(read_bytes(rest)?),
        3 => {
            skip_group(rest, number)?;
            Value::Group
        }
        5 => Value::Fixed32(read_array(rest)?),
        4 => return Err(malformed("a group ends that never began")),
        _ => return Err(malformed("a field has a wire type that does not exist")),
    };
    Ok(Field { number, value, raw: &start[..start.len() - rest.len()] })
}

#[inline]
fn read_tag(rest: &mut &[u8]) -> Result<(u32, u32)> {
    let tag =
        u32::try_from(read_varint(rest)?).map_err(|_| malformed("a field number is too large"))?;
    if tag >> 3 == 0 {
        return Err(malformed("a field has the number 0"));
    }
    Ok((tag >> 3, tag & 7))
}

#[inline]
fn read_varint(rest: &mut &[u8]) -> Result<u64> {
    let bytes = *rest;
    if let [first, tail @ ..] = bytes {
        if *first < 0x80 {
            *rest = tail;
            return Ok(u64::from(*first));
        }
    }
    read_long_varint(rest)
}

fn read_long_varint(rest: &mut &[u8]) -> Result<u64> {
    let bytes = *rest;
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *rest = &bytes[at + 1..];
            return Ok(value);
        }
    }
    Err(malformed(if bytes.len() < 10 {
        "the bytes end in the middle of a number"
    } else {
        "a number has more than ten bytes"
    }))
}

#[inline]
fn read_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = read_varint(rest)?;
    match usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) {
        Some((bytes, tail)) => {
            *rest = tail;
            Ok(bytes)
        }
        None => Err(malformed("a field is longer than the bytes that are left")),
    }
}

fn read_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (array, tail) =
        rest.split_first_chunk::<N>().ok_or_else(|| malformed("the bytes end in a number"))?;
    *rest = tail;
    Ok(*array)
}

/// Reads to the end of an unknown group without recursion.
fn skip_group(rest: &mut &[u8], number: u32) -> Result<()> {
    let mut open = vec![number];
    while let Some(&innermost) = open.last() {
        let (number, kind) = read_tag(rest)?;
        match kind {
            0 => drop(read_varint(rest)?),
            1 => drop(read_array::<8>(rest)?),
            2 => drop(read_bytes(rest)?),
            3 if open.len() as u32 == GROUP_LIMIT => {
                return Err(malformed("groups are nested too deep"))
            }
            3 => open.push(number),
            4 if number == innermost => drop(open.pop()),
            4 => return Err(malformed("a group ends under another number than it began")),
            5 => drop(read_array::<4>(rest)?),
            _ => return Err(malformed("a field has a wire type that does not exist")),
        }
    }
    Ok(())
}

/// The varints of a packed field.
pub fn packed_varints(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64>> + '_ {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let number = read_varint(&mut bytes);
        if number.is_err() {
            bytes = &[];
        }
        Some(number)
    })
}

#[cold]
fn malformed(what: &'static str) -> Error {
    Error::malformed(what)
}

/// Builds a message from its last byte to its first.
///
/// Callers write the fields of a message in the opposite order; [`Writer::position`] before and
/// [`Writer::close`] after them turn what was written in between into a length-delimited field.
#[derive(Default)]
pub struct Writer {
    /// Filled from its end; what lies before `start` is free.
    buffer: Vec<u8>,
    start: usize,
    /// What is not written but taken from elsewhere in the end, and how many bytes of the buffer stand
    /// behind it.
    lent: Vec<(Range<usize>, usize)>,
    lent_bytes: usize,
}

impl Writer {
    /// Makes sure that so many bytes can be written before the writer has to grow.
    pub fn reserve(&mut self, bytes: usize) {
        if self.start < bytes {
            self.grow(bytes);
        }
    }

    /// How many bytes of memory the writer has.
    pub fn bytes_kept(&self) -> usize {
        self.buffer.len()
    }

    /// How many bytes have been written, or lent.
    pub fn position(&self) -> usize {
        self.buffer.len() - self.start + self.lent_bytes
    }

    /// Puts a range of some other text in front of what has been written, without a look at it:
    /// [`Writer::put_together`] copies it to where it is to be at last.
    pub fn lend(&mut self, range: Range<usize>) {
        self.lent_bytes += range.len();
        self.lent.push((range, self.buffer.len() - self.start));
    }

    /// Whether nothing has been lent.
    pub fn is_whole(&self) -> bool {
        self.lent.is_empty()
    }

    /// Writes all to `to`, which has room for [`Writer::position`] bytes. `lender` is the text that
    /// ranges of have been lent.
    pub fn put_together(&self, lender: &[u8], mut to: &mut [u8]) {
        let mut put = |bytes: &[u8]| {
            let (front, rest) = std::mem::take(&mut to).split_at_mut(bytes.len());
            front.copy_from_slice(bytes);
            to = rest;
        };
        let mut own = &self.buffer[self.start..];
        for (range, behind) in self.lent.iter().rev() {
            let (before, rest) = own.split_at(own.len() - behind);
            put(before);
            put(&lender[range.clone()]);
            own = rest;
        }
        put(own);
    }

    /// Puts `bytes` in front of what has been written.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        copy_short(self.room(bytes.len()), bytes);
    }

    /// Room for so many bytes in front, to be filled.
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.start < length {
            self.grow(length);
        }
        self.start -= length;
        &mut self.buffer[self.start..][..length]
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        let written = self.buffer.len() - self.start;
        let capacity = (self.buffer.len() * 2).max(written + wanted).max(256);
        let mut larger = vec![0; capacity];
        larger[capacity - written..].copy_from_slice(&self.buffer[self.start..]);
        self.start = capacity - written;
        self.buffer = larger;
    }

    /// Puts a varint in front.
    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        if value < 0x80 {
            self.room(1)[0] = value as u8;
            return;
        }
        let mut bytes = [0; 10];
        let mut length = 0;
        while value >= 0x80 {
            bytes[length] = value as u8 | 0x80;
            value >>= 7;
            length += 1;
        }
        bytes[length] = value as u8;
        self.bytes(&bytes[..=length]);
    }

    /// Puts a varint field in front.
    pub fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.varint(u64::from(number << 3));
    }

    /// Puts a 32-bit field in front.
    pub fn fixed32_field(&mut self, number: u32, value: [u8; 4]) {
        self.bytes(&value);
        self.varint(u64::from(number << 3 | 5));
    }

    /// Puts a length-delimited field in front.
    #[inline]
    pub fn bytes_field(&mut self, number: u32, value: &[u8]) {
        self.bytes(value);
        self.length_and_tag(number, value.len());
    }

    /// Puts a length-delimited field in front whose value is in two pieces.
    #[inline]
    pub fn pieces_field(&mut self, number: u32, (first, second): (&[u8], &[u8])) {
        let length = first.len() + second.len();
        let room = self.room(length);
        let (front, back) = room.split_at_mut(first.len());
        copy_short(front, first);
        copy_short(back, second);
        self.length_and_tag(number, length);
    }

    /// Makes one field of all that has been written since `position`.
    pub fn close(&mut self, number: u32, position: usize) {
        self.length_and_tag(number, self.position() - position);
    }

    #[inline]
    fn length_and_tag(&mut self, number: u32, length: usize) {
        if length < 0x80 && number < 16 {
            self.room(2).copy_from_slice(&[(number << 3 | 2) as u8, length as u8]);
            return;
        }
        self.varint(length as u64);
        self.varint(u64::from(number << 3 | 2));
    }

    /// Forgets what has been written and keeps the memory.
    pub fn clear(&mut self) {
        self.start = self.buffer.len();
        self.lent.clear();
        self.lent_bytes = 0;
    }

    /// What has been written, where nothing has been lent.
    pub fn written(&self) -> &[u8] {
        debug_assert!(self.is_whole(), "what is lent has to be put in between");
        &self.buffer[self.start..]
    }
}

/// Copies bytes of which there are mostly few: two words that may overlap, instead of a call.
#[inline]
pub(crate) fn copy_short(to: &mut [u8], from: &[u8]) {
    macro_rules! in_words {
        ($size:literal) => {
            if let (Some(first), Some(last)) =
                (from.first_chunk::<$size>(), from.last_chunk::<$size>())
            {
                if let Some(to) = to.first_chunk_mut::<$size>() {
                    *to = *first;
                }
                if let Some(to) = to.last_chunk_mut::<$size>() {
                    *to = *last;
                }
            }
        };
    }
    match from.len() {
        0 => {}
        1..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => in_words!(4),
        8..=16 => in_words!(8),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(message: &[u8]) -> Vec<u32> {
        fields(message).map(|field| field.expect("well-formed").number).collect()
    }

    #[test]
    fn a_look_for_one_field_sees_what_a_look_at_all_sees() {
        let mut state = 7_u32;
        for length in (0..24).cycle().take(200_000) {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Mostly small, so that tags and lengths make sense.
                    (state >> if state & 0x300 == 0 { 24 } else { 28 }) as u8
                })
                .collect();
            let found: Vec<_> = fields(&bytes).collect();
            let (last, checked) = last_payload(&bytes, 1);
            assert_eq!(checked.is_ok(), found.iter().all(Result::is_ok), "{bytes:?}");
            let mut named = found.iter().flatten().filter_map(|field| match field.value {
                Value::Bytes(payload) if field.number == 1 => Some(payload),
                _ => None,
            });
            assert_eq!(last, named.next_back(), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_lent_comes_to_its_place() {
        let lender = b"0123456789";
        let (mut lent, mut written) = (Writer::default(), Writer::default());
        for (own, range) in
            [(&b"last"[..], 2..5), (b"", 0..10), (b"in the middle", 9..9), (b"", 4..5)]
        {
            lent.bytes(own);
            written.bytes(own);
            let at = lent.position();
            lent.lend(range.clone());
            written.bytes(&lender[range]);
            lent.close(1, at);
            written.close(1, at);
        }
        let mut together = vec![0; lent.position()];
        lent.put_together(lender, &mut together);
        assert_eq!(together, written.written());
        lent.clear();
        assert!(lent.is_whole() && lent.position() == 0);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut writer = Writer::default();
        writer.bytes_field(2, b"tail");
        let inner = writer.position();
        writer.varint_field(3, u64::MAX);
        writer.fixed32_field(4, 1.5_f32.to_le_bytes());
        writer.close(1, inner);
        let read: Vec<_> =
            fields(writer.written()).map(|field| field.expect("well-formed")).collect();
        assert_eq!(read[1].value, Value::Bytes(b"tail"));
        let Value::Bytes(inner) = read[0].value else { panic!("a message") };
        assert_eq!(numbers(inner), [4, 3]);
        assert_eq!([read[0].raw, read[1].raw].concat(), writer.written());
    }

    #[test]
    fn every_truncation_is_an_error_or_a_whole_number_of_fields() {
        let mut writer = Writer::default();
        writer.bytes_field(2, &[7; 200]);
        writer.varint_field(1, 1 << 40);
        let whole = writer.written();
        let first = whole.len() - 203;
        for length in 0..=whole.len() {
            let read: Result<Vec<_>> = fields(&whole[..length]).collect();
            assert_eq!(read.is_ok(), length == 0 || length == first || length == whole.len());
        }
    }

    #[test]
    fn copies_of_every_length_are_copies() {
        for length in 0..40 {
            let from: Vec<u8> = (1..=length).collect();
            let mut to = vec![0; from.len()];
            copy_short(&mut to, &from);
            assert_eq!(to, from);
        }
    }

    #[test]
    fn groups_are_skipped_whole() {
        let message = [0x0b, 0x13, 0x08, 0x01, 0x14, 0x0c, 0x18, 0x05];
        assert_eq!(numbers(&message), [1, 3]);
        let first = fields(&message).next().expect("a field").expect("well-formed");
        assert_eq!(first.raw.len(), 6);
    }

    #[test]
    fn what_protobuf_refuses_is_refused() {
        let deep = vec![0x0b; 200];
        let long = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        for message in
            [&[0x00, 0x00][..], &[0x0c], &[0x0b, 0x14], &[0x0e], &[0x0f], &deep, &long, &[0x0b]]
        {
            assert!(fields(message).any(|field| field.is_err()), "{message:x?}");
        }
    }
}
