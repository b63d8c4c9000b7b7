//! Gradient generation for Caffe2 nets.
//!
//! The crate knows no Python: `python.rs` alone does. Everything else works on the bytes of protobuf
//! messages and compiles, tests and benches without an interpreter.

mod accumulate;
pub mod api;
pub mod backward;
pub mod blobs;
mod control;
mod differentiate;
pub mod emit;
pub mod error;
pub mod few;
pub mod gradient;
mod helpers;
pub mod makers;
pub mod memory;
pub mod message;
pub mod net;
pub mod outline;
mod producers;
mod registered;
mod regular;
mod rename;
pub mod seen;
pub mod session;
mod sharing;
pub mod slice;
pub mod ssa;
pub mod surroundings;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod values;
pub mod verify;
pub mod wire;

#[cfg(feature = "python")]
mod python;
