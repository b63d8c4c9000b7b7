"""Chance that is written down, so that the same net can be built again, or a smaller one.

Whatever is drawn becomes a number in a list. A build that is given the list takes the same way; one
that is given a part of it takes a shorter one, for where the numbers end each choice is the first
of its options. So the plainest option comes first.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Optional, TypeVar

Option = TypeVar("Option")
Numbers = tuple[int, ...]


class Choices:
    """Draws from `rng`, or takes what was drawn before."""

    def __init__(self, given: Numbers = (), rng: Optional[random.Random] = None):
        self.given, self.rng = given, rng
        self.taken: list[int] = []

    def below(self, end: int) -> int:
        if self.rng:
            number = self.rng.randrange(end)
        else:
            at = len(self.taken)
            number = self.given[at] % end if at < len(self.given) else 0
        self.taken.append(number)
        return number

    def pick(self, options: Sequence[Option]) -> Option:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def more(self, most: int) -> Iterator[int]:
        """Up to `most` rounds. Each begins with a choice, so that a round can be cut out whole."""
        for number in range(most):
            if not self.chance(100 - 100 // (most + 1)):
                return
            yield number


def shorter(numbers: Numbers) -> Iterator[Numbers]:
    """Lists with something cut out, large pieces first; then lists with a plainer choice."""
    size = 1 << max(len(numbers).bit_length() - 1, 0)
    while size:
        for at in range(len(numbers) - size, -1, -max(size // 2, 1)):
            yield numbers[:at] + numbers[at + size :]
        size //= 2
    for at, number in enumerate(numbers):
        if number:
            yield (*numbers[:at], 0, *numbers[at + 1 :])
