//! Recurrent units and networks.

use super::answer::{Answer, Question};
use super::arguments::positions;
use super::row::{case, one, pick, rule, Row};
use super::schema::MANY;
use super::words::{Guard::*, Read, Slot::*};
use crate::error::{Error, Kind, Result};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one("PackRNNSequence",   "UnpackRNNSequence", &[GO(0), I(1)], &[GI(0)]),
    one("ReversePackedSegs", "ReversePackedSegs", &[GO(0), I(1)], &[GI(0)]),
    one("UnpackRNNSequence", "PackRNNSequence",   &[GO(0), I(1)], &[GI(0)]),
    // The gradient operator goes on writing to two outputs of the forward operator.
    one("Recurrent", "RecurrentGradient", &[I(0), I(1), I(2), I(3), O(3), O(0), GO(0)],
                                          &[GI(0), GI(1), GI(2), GI(3), O(4), O(3)]),

    pick("GRUUnit", "GRUUnitGradient", &[
        case(&[Set("sequence_lengths")], &[I(0), I(1), I(2), I(3), O(0), GO(0)], &[GI(0), GI(1)]),
        case(&[],                        &[I(0), I(1), I(2), O(0), GO(0)],       &[GI(0), GI(1)]),
    ]).reading(SEQUENCE_LENGTHS).inputs(3, 4),
    pick("LSTMUnit", "LSTMUnitGradient", &[
        case(&[Set("sequence_lengths")], &[I(0), I(1), I(2), I(3), I(4), O(0), O(1), GO(0), GO(1)], &[GI(0), GI(1), GI(2)]),
        case(&[],                        &[I(0), I(1), I(2), I(3), O(0), O(1), GO(0), GO(1)],       &[GI(0), GI(1), GI(2)]),
    ]).reading(SEQUENCE_LENGTHS).inputs(4, 5),
    rule("RecurrentNetwork", recurrent_network).distinct_args().inputs(1, MANY).outputs(2, MANY),
];

const SEQUENCE_LENGTHS: &[Read] = &[Read::Flag("sequence_lengths", true)];

fn recurrent_network(q: &Question, a: &mut Answer) -> Result<()> {
    let outputs = positions(q, "outputs_with_grads")?;
    let states = positions(q, "initial_recurrent_state_ids")?;
    let params = positions(q, "param")?;
    if outputs.is_empty() {
        return Err(Error::new(Kind::Refused, "the argument outputs_with_grads lists no output")
            .hint("list in outputs_with_grads the outputs that have gradients"));
    }
    let gradients = outputs.into_iter().map(GO);
    let reads = gradients.chain(q.input_positions().map(I)).chain(q.output_positions().map(O));
    let writes = [0].into_iter().chain(params).chain(states).map(GI);
    a.push(q, "RecurrentNetworkGradient", true, reads, writes)
}
