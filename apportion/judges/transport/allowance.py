"""What a run may spend: tokens, money, time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.judges.transport.base import at_least

__all__ = ["Allowance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Limits of a run; infinity: none.

    Attributes:
        tokens: of questions and answers together.
        money: in the currency of the prices.
        wall_s: seconds from the first request on.
        input_price, output_price: for a million tokens.

    Raises:
        InvalidArgument: a negative number or NaN, or a limit on money without a price.
    """

    tokens: float = math.inf
    money: float = math.inf
    wall_s: float = math.inf
    input_price: float = 0.0
    output_price: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            at_least(name, getattr(self, name), 0)
        if self.money < math.inf and not (self.input_price or self.output_price):
            raise InvalidArgument("money", self.money, "input_price or output_price beside it")

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Price of so many tokens."""
        return (input_tokens * self.input_price + output_tokens * self.output_price) / 1e6
