//! Memory that a thread keeps from one answer to the next.
//!
//! Half of the time for a net of ten thousand operators would go to the system for fresh memory, and
//! a small net inside another one would ask for twenty vectors. So what a walk has used serves the
//! next one, and what an answer has used the next answer of the thread, unless the net is [`LARGE`] and
//! the one before was not. A thread that goes on with much smaller nets gives it back.

use std::cell::Cell;

use bumpalo::Bump;

use crate::api::{Forward, Gradients};
use crate::backward::{Found, Outcome};
use crate::blobs::{BlobTable, TableMemory};
use crate::gradient::{BlobGradient, Body, ControlArg, Gradient, GradientNet};
use crate::makers::words::Answer;
use crate::net::Net;
use crate::producers::Producers;
use crate::session::{Hook, Scope, Session};
use crate::ssa::{Places, Ssa};
use crate::values::Values;
use crate::verify::Held;
use crate::wire::Writer;

/// A net of more bytes, or of more operators, is answered in memory of its own, each piece of which is
/// given back as soon as it has served: there it is the most that is in use at a time that counts.
/// Where such nets follow each other it is time again.
const LARGE: (usize, usize) = (3 << 20, 50_000);
/// A net of more bytes is so even if the one before was of like size: what it uses is more than a thread
/// keeps.
const HUGE: usize = 12 << 20;
/// How many bytes a thread keeps, at the most.
const MOST: usize = 160 << 20;
/// How many bytes of an answer the memory that it was written to may have to be kept: room that was not
/// needed is no memory in use.
const MOST_WRITTEN: usize = 24 << 20;
/// What a net inside a large one has used is kept for the next one even so, up to so many bytes.
const INSIDE: usize = 1 << 18;
/// How much smaller a net must be than the one before to have the memory given back.
const SMALLER: usize = 16;
/// Nets of so few bytes are of like size.
const SMALL: usize = 1 << 16;

/// What the walks over nets have used, empty.
#[derive(Default)]
pub struct Spare<'a> {
    /// The bytes of the net that was answered before.
    usual: usize,
    /// Whether nothing is kept but for small nets.
    is_large: bool,
    walks: Vec<WalkMemory>,
    nets: Vec<Net<'a>>,
    gradient_nets: Vec<GradientNet<'a>>,
    /// How many gradient nets of an answer have come from here: as many come back, not those that
    /// control flow has made besides.
    lent: usize,
    /// What blobs hold while an answer is played through.
    pub(crate) held: Vec<Vec<Held>>,
    /// Lists of blobs and their gradients.
    pub(crate) gradients: Vec<BlobGradient>,
    /// Of an answer that the caller has read.
    pub(crate) writer: Writer,
    pub(crate) named: Gradients,
}

/// The vectors of one walk.
#[derive(Default)]
pub struct WalkMemory {
    pub(crate) ssa: Ssa,
    pub(crate) found: Vec<Found>,
    pub(crate) producers: Producers,
    pub(crate) order: Vec<u32>,
    pub(crate) gets: Vec<Gradient>,
    pub(crate) written_by: Vec<u32>,
}

impl<'a> Spare<'a> {
    /// The vectors for a walk.
    pub fn walk(&mut self) -> WalkMemory {
        self.walks.pop().unwrap_or_default()
    }

    /// A net without operators.
    pub fn net(&mut self) -> Net<'a> {
        self.nets.pop().unwrap_or_default()
    }

    /// A gradient net without operators.
    pub fn gradient_net(&mut self) -> GradientNet<'a> {
        self.lent += 1;
        self.gradient_nets.pop().unwrap_or_default()
    }

    /// Takes back what a walk has used, but for the gradient net.
    pub fn take_back(&mut self, outcome: Outcome<'a>) -> GradientNet<'a> {
        let (gradient_net, mut memory) = outcome.into_parts();
        if self.keeps(memory.bytes()) {
            memory.clear();
            self.walks.push(memory);
        }
        gradient_net
    }

    /// Takes back a net that nobody looks at any more.
    pub fn take_back_read(&mut self, mut net: Net<'a>) {
        if self.keeps(net.bytes()) {
            net.clear();
            self.nets.push(net);
        }
    }

    /// Takes back a gradient net without operators.
    pub fn take_back_empty(&mut self, net: GradientNet<'a>) {
        if self.lent > 0 && self.keeps(net.bytes()) {
            self.lent -= 1;
            self.gradient_nets.push(net);
        }
    }

    /// Takes back a gradient net that has been written out, and those inside it.
    pub fn take_back_written(&mut self, net: GradientNet<'a>) {
        let mut waiting = vec![net];
        while let Some(mut net) = waiting.pop() {
            for op in net.ops.drain(..) {
                let Body::Control(mut control) = op.body else { continue };
                waiting.extend(control.args.drain(..).filter_map(|argument| match argument {
                    ControlArg::Net(_, inner) => Some(inner.net),
                    _ => None,
                }));
            }
            net.clear();
            self.take_back_empty(net);
        }
    }

    /// Says how large the outermost net is.
    pub(crate) fn set_size(&mut self, bytes: usize, ops: usize) {
        let is_usual = bytes <= HUGE && bytes / 2 <= self.usual;
        self.is_large = !is_usual && (bytes > LARGE.0 || ops > LARGE.1);
    }

    fn keeps(&self, bytes: usize) -> bool {
        !self.is_large || bytes <= INSIDE
    }

    fn bytes(&self) -> usize {
        let walks = self.walks.iter().map(WalkMemory::bytes).sum::<usize>();
        let nets = self.nets.iter().map(Net::bytes).sum::<usize>();
        let gradient_nets = room(&self.gradient_nets)
            + self.gradient_nets.iter().map(GradientNet::bytes).sum::<usize>();
        let held = self.held.iter().map(room).sum::<usize>();
        let gradients = room(&self.gradients);
        let answer = self.writer.bytes_kept() + self.named.bytes();
        walks + nets + gradient_nets + held + gradients + answer
    }

    /// The same memory for an answer that other bytes live for.
    fn renewed<'b>(self) -> Spare<'b> {
        let Self {
            usual,
            is_large,
            walks,
            nets,
            gradient_nets,
            held,
            gradients,
            writer,
            named,
            ..
        } = self;
        let nets = nets.into_iter().map(Net::renewed).collect();
        let gradient_nets = gradient_nets.into_iter().map(GradientNet::renewed).collect();
        Spare {
            usual,
            is_large,
            walks,
            nets,
            gradient_nets,
            lent: 0,
            held,
            gradients,
            writer,
            named,
        }
    }
}

impl WalkMemory {
    fn clear(&mut self) {
        self.ssa.clear();
        self.found.clear();
        self.producers.clear();
        self.order.clear();
        self.gets.clear();
        self.written_by.clear();
    }

    fn bytes(&self) -> usize {
        self.ssa.bytes()
            + self.producers.bytes()
            + room(&self.found)
            + room(&self.order)
            + room(&self.gets)
            + room(&self.written_by)
    }
}

/// The memory of an answer, empty.
#[derive(Default)]
struct Memory {
    bump: Bump,
    table: TableMemory<'static>,
    values: Values,
    places: Places,
    answer: Answer,
    spare: Spare<'static>,
    /// The bytes of the net that it served last.
    served: usize,
}

thread_local! {
    static KEPT: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// Runs `work` with a session in the memory that the thread keeps.
pub fn with_session<R>(
    forward: Forward<'_>,
    scope: &Scope,
    hook: &mut dyn Hook,
    work: impl for<'a> FnOnce(&mut Session<'_, 'a>, Forward<'a>) -> R,
) -> R {
    let size = forward.size();
    // A hook may ask for answers of its own meanwhile: those find nothing here, and take fresh memory.
    let mut memory = KEPT.take().unwrap_or_default();
    if memory.served > SMALL && size < memory.served / SMALLER {
        *memory = Memory::default();
    }
    memory.spare.usual = memory.served;
    let Memory { bump, table, values, places, answer, spare, .. } = *memory;
    let (result, kept) = {
        let table = BlobTable::in_memory(&bump, table.renewed(), size / 12);
        let mut session =
            Session::new(table, (values, places, answer), spare.renewed(), scope, hook);
        let result = work(&mut session, forward);
        let Session { table, values, places, answer, spare, .. } = session;
        (result, (table.into_memory().renewed(), values, places, answer, spare.renewed()))
    };
    let (table, mut values, places, answer, spare) = kept;
    values.clear();
    let mut memory = Memory { bump, table, values, places, answer, spare, served: size };
    memory.bump.reset();
    if memory.spare.is_large || memory.bytes() > MOST {
        let spare = Spare { is_large: true, ..Spare::default() };
        memory = Memory { served: size, spare, ..Memory::default() };
    }
    KEPT.set(Some(Box::new(memory)));
    result
}

/// Takes back the operators of an answer, which the caller has read.
pub fn take_back_ops(mut ops: Writer) {
    if ops.position() <= MOST_WRITTEN {
        ops.clear();
        take_back(|spare| spare.writer = ops);
    }
}

/// Takes back the gradients of an answer, which the caller has read.
pub fn take_back_gradients(mut gradients: Gradients) {
    gradients.clear();
    take_back(|spare| spare.named = gradients);
}

fn take_back(put: impl FnOnce(&mut Spare<'static>)) {
    let Some(mut memory) = KEPT.take() else { return };
    if !memory.spare.is_large {
        put(&mut memory.spare);
    }
    if memory.bytes() <= MOST {
        KEPT.set(Some(memory));
    }
}

/// The memory of an empty vector for things of another lifetime: the same, as the layout is the same.
pub(crate) fn renewed<T, U>(mut empty: Vec<T>) -> Vec<U> {
    empty.clear();
    empty.into_iter().filter_map(|_| None).collect()
}

/// How many bytes a vector has room for.
pub(crate) fn room<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

impl Memory {
    fn bytes(&self) -> usize {
        self.bump.allocated_bytes()
            + self.table.bytes()
            + self.values.bytes()
            + self.places.bytes()
            + self.spare.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_net_is_unusual_unless_one_of_like_size_came_before() {
        let after = |usual, bytes, ops| {
            let mut spare = Spare { usual, ..Spare::default() };
            spare.set_size(bytes, ops);
            spare.is_large
        };
        assert!(!after(0, LARGE.0, LARGE.1));
        assert!(after(0, LARGE.0 + 1, 1) && after(0, 1000, LARGE.1 + 1));
        assert!(after(LARGE.0, 2 * LARGE.0 + 2, 1) && !after(LARGE.0, 2 * LARGE.0, 1));
        assert!(after(HUGE + 1, HUGE + 1, 1));
    }

    #[test]
    fn renewed_memory_is_the_same_memory() {
        let text = String::from("a");
        let mut names: Vec<&str> = Vec::with_capacity(100);
        names.push(&text);
        let (address, room) = (names.as_ptr() as usize, names.capacity());
        let names: Vec<&'static str> = renewed(names);
        assert_eq!((names.as_ptr() as usize, names.capacity()), (address, room));
    }
}
