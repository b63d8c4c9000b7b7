"""Which net a number stands for: random operators, or one of Caffe2's own builders."""

from collections import Counter

# For their effect: they put themselves into BUILDERS.
from . import model_nets, net_builder_nets, recurrent_nets  # noqa: F401
from .built import generate_built
from .generate import Case, generate

OPERATORS = "operators"
KINDS = (
    [OPERATORS] * 4
    + ["net_builder", "model"]
    + [OPERATORS] * 4
    + ["cells", "net_builder"]
    + [OPERATORS] * 4
    + ["model", "steps"]
    + [OPERATORS] * 2
)


def kind(number: int) -> str:
    return KINDS[number % len(KINDS)]


def question(seed: int, number: int) -> Case:
    """Net number `number` of this seed."""
    name = kind(number)
    return generate(seed, number) if name == OPERATORS else generate_built(name, seed, number)


def counts(first: int, nets: int) -> Counter:
    return Counter(kind(number) for number in range(first, first + nets))
