"""`Signal`: values at a level, a mask of what is known, and named terms that always sum to the values.

    outcome (trajectory)   +0.75  -0.25          values = outcome + path          (turn level)
    path    (turn)          0.00  -0.25  0.00    terms  = {"outcome": ..., "path": ...}   each at its own level

Signals of different levels broadcast downwards, the way NumPy broadcasts shapes. Every linear move carries the terms
along, so the finished advantage of a token still splits into its causes: that is the ledger. A non-linear move adds a
term for what it changed.

Missing is a mask. An element is KNOWN, ABSENT (nothing to say: adds nothing) or FAILED (nobody knows: makes a sum
unknown). Estimators take a signal's missing elements out *before* they form a baseline and return them as ABSENT,
exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy.typing as npt
import torch
from torch import Tensor

from apportion import segments
from apportion.batch import Batch
from apportion.errors import InvalidArgument, LedgerMismatch
from apportion.rollouts import Level
from apportion.segments import PoolHow
from apportion.verdicts import Presence, Scored, Verdict, presence

__all__ = ["Signal", "Term"]

_ABSENT, _KNOWN = int(Presence.ABSENT), int(Presence.KNOWN)
_EXACT = 1e-9
RESIDUAL_TOL = 1e-12
ROUNDING = 1e-6

Numbers: TypeAlias = Sequence[float | None] | Tensor | npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """One named cause of a signal, kept at its own level."""

    level: Level
    values: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Signal:
    """Values at one level of a batch.

    Attributes:
        batch: the structure that the values belong to.
        level: TOKEN, TURN, TRAJECTORY or GROUP.
        values: float64[size(level)], exactly 0 where not known.
        presence: uint8[size(level)], see `apportion.verdicts.Presence`.
        terms: name -> `Term`; spread to `level` they sum to `values` wherever the signal is known.
        resolution: relative distance below which two values count as equal: 1e-9 for float64 and whole numbers, the
            machine epsilon of float32 for values that came in float32 or coarser.

    Example:
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[1, 2, 1])
        >>> outcome = Signal.of(b, Level.TRAJECTORY, [1.0, 0.0], name="outcome")
        >>> path = Signal.of(b, Level.TURN, [0.0, -1.0, None], name="path")
        >>> total = outcome + 0.5 * path
        >>> total.level.name, total.values.tolist(), {n: v.tolist() for n, v in total.ledger().items()}
        ('TURN', [1.0, 0.5, 0.0], {'outcome': [1.0, 1.0, 0.0], 'path': [0.0, -0.5, 0.0]})
    """

    batch: Batch
    level: Level
    values: Tensor
    presence: Tensor
    terms: Mapping[str, Term]
    resolution: float = _EXACT

    # ------------------------------------------------------------------------------------------------ construction

    @classmethod
    def of(
        cls,
        batch: Batch,
        level: Level,
        values: Numbers,
        *,
        name: str,
        known: Tensor | Sequence[bool] | None = None,
    ) -> Signal:
        """A signal with one term.

        Args:
            batch: the structure.
            level: where the values belong.
            values: size(level) numbers: a tensor, an array or a list; None in a list means absent.
            name: the name of its only term.
            known: bool[size(level)]; False = absent, whatever the value there.

        Raises:
            InvalidArgument: a wrong number of values, something that is no number, or a known value that is not finite
                (positions are listed).
        """
        numbers = segments.checked_numbers("values", values)
        coarse = numbers.is_floating_point() and numbers.dtype != torch.float64
        numbers = numbers.to(torch.float64) if isinstance(values, Tensor) else numbers.to(batch.device, torch.float64)
        size = batch.size(level)
        have = torch.ones_like(numbers, dtype=torch.bool)
        given = have if known is None else torch.as_tensor(known, device=numbers.device).to(torch.bool)
        if numbers.shape != (size,) or given.shape != (size,):
            raise InvalidArgument(
                "values", tuple(numbers.shape), f"{size} values at the {level.name} level for signal {name!r}"
            )
        if not isinstance(values, Tensor):
            have = torch.as_tensor([value is not None for value in values], dtype=torch.bool, device=batch.device)
        have = have & given
        bad = torch.nonzero(have & ~torch.isfinite(numbers)).flatten()
        if bad.numel():
            where = bad[:10].tolist()
            raise InvalidArgument(
                "values",
                numbers[bad[:10]].tolist(),
                f"finite values in signal {name!r}; elements {where} are not. Pass known=... to mark what is missing",
            )
        numbers = torch.where(have, numbers, 0.0)
        state = torch.where(have, _KNOWN, _ABSENT).to(torch.uint8)
        return cls(
            batch=batch,
            level=level,
            values=numbers,
            presence=state,
            terms={name: Term(level, numbers)},
            resolution=float(torch.finfo(torch.float32).eps) if coarse else _EXACT,
        )

    @classmethod
    def from_verdicts(cls, batch: Batch, level: Level, verdicts: Sequence[Verdict], *, name: str) -> Signal:
        """A signal from verdicts in the batch's order; Abstained becomes ABSENT, Failed becomes FAILED.

        Example:
            >>> from apportion.verdicts import Abstained, Failed
            >>> b = Batch.of(groups=["q"] * 3)
            >>> Signal.from_verdicts(b, Level.TRAJECTORY, [Scored(1.0), Abstained("-"), Failed("-")], name="r").presence
            tensor([2, 1, 0], dtype=torch.uint8)
        """
        values = [v.value if isinstance(v, Scored) else None for v in verdicts]
        made = cls.of(batch, level, values, name=name)
        state = torch.tensor([int(presence(v)) for v in verdicts], dtype=torch.uint8, device=batch.device)
        return replace(made, presence=state)

    @classmethod
    def zeros(cls, batch: Batch, level: Level, *, name: str) -> Signal:
        """A known 0 everywhere."""
        return cls.of(batch, level, torch.zeros(batch.size(level), dtype=torch.float64, device=batch.device), name=name)

    # ------------------------------------------------------------------------------------------------------ looking

    @property
    def known(self) -> Tensor:
        """bool[size(level)]."""
        return self.presence == _KNOWN

    def ledger(self, level: Level | None = None) -> dict[str, Tensor]:
        """Every term spread to `level` (default: the signal's), 0 where the signal is not known."""
        target = self.level if level is None else level
        known = self.batch.spread(self.known, self.level, target)
        return {
            name: torch.where(known, self.batch.spread(term.values, term.level, target), 0.0)
            for name, term in self.terms.items()
        }

    def residual(self) -> float:
        """Largest |sum of terms - value|, relative to the largest magnitude involved (at least 1)."""
        if not self.values.numel():
            return 0.0
        parts = list(self.ledger().values())
        total = torch.stack(parts).sum(0) if parts else torch.zeros_like(self.values)
        largest = max(1.0, *(float(part.abs().max()) for part in (self.values, *parts)))
        return float((total - self.values).abs().max()) / largest

    def check(self, tolerance: float = RESIDUAL_TOL) -> Signal:
        """Return self, or raise `LedgerMismatch` when the terms do not sum to the values."""
        residual = self.residual()
        if not residual <= tolerance:
            raise LedgerMismatch(f"terms {sorted(self.terms)} miss the values by {residual:.3g} > {tolerance:.3g}")
        return self

    # ----------------------------------------------------------------------------------------------------- algebra

    def __add__(self, other: Signal) -> Signal:
        if not isinstance(other, Signal):
            return NotImplemented
        if other.batch is not self.batch:
            raise InvalidArgument("other", other.batch.ids[:3], "a signal of the same batch object")
        level = min(self.level, other.level)
        a, b = self.spread(level), other.spread(level)
        failed = (a.presence == int(Presence.FAILED)) | (b.presence == int(Presence.FAILED))
        state = torch.where(failed, int(Presence.FAILED), torch.maximum(a.presence, b.presence)).to(torch.uint8)
        terms = dict(a._terms_where_known())
        for name, term in b._terms_where_known().items():
            terms[name] = self._merge(terms[name], term) if name in terms else term
        known = state == _KNOWN
        return Signal(
            batch=self.batch,
            level=level,
            values=torch.where(known, a.values + b.values, 0.0),
            presence=state,
            terms=terms,
            resolution=max(self.resolution, other.resolution),
        )

    def __mul__(self, factor: float) -> Signal:
        if not isinstance(factor, (int, float)):
            raise InvalidArgument("factor", type(factor).__name__, "a number; for a tensor use scaled(tensor, level)")
        if not math.isfinite(factor):
            raise InvalidArgument("factor", factor, "a finite number")
        terms = {name: Term(term.level, term.values * factor) for name, term in self.terms.items()}
        made = replace(self, values=self.values * factor, terms=terms)
        # What carries no weight cannot make a sum unknown.
        return made if factor else made.neutral()

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Signal:
        if divisor == 0:
            raise InvalidArgument("divisor", divisor, "a number other than 0")
        return self * (1.0 / divisor)

    def __neg__(self) -> Signal:
        return self * -1.0

    def __sub__(self, other: Signal) -> Signal:
        if not isinstance(other, Signal):
            return NotImplemented
        return self + -other

    def scaled(self, factor: Tensor, level: Level) -> Signal:
        """Multiply by a statistic at this or a coarser level (a linear move: each term is multiplied too)."""
        if level < self.level:
            return self.spread(level).scaled(factor, level)

        def times(values: Tensor, at: Level) -> Term:
            fine = min(at, level)
            return Term(fine, self.batch.spread(values, at, fine) * self.batch.spread(factor, level, fine))

        terms = {name: times(term.values, term.level) for name, term in self.terms.items()}
        return replace(self, values=self.values * self.batch.spread(factor, level, self.level), terms=terms)

    def linear(self, move: Callable[[Tensor], Tensor], presence: Tensor | None = None) -> Signal:
        """Apply a linear map of [size(level)] tensors to the values and to every term."""
        state = self.presence if presence is None else presence
        known = state == _KNOWN
        terms = {
            name: Term(self.level, torch.where(known, move(values), 0.0)) for name, values in self.ledger().items()
        }
        return replace(self, values=torch.where(known, move(self.values), 0.0), presence=state, terms=terms)

    def changed(self, values: Tensor, *, because: str) -> Signal:
        """New values from a non-linear move (clip, gate); what it changed becomes the term `because`."""
        values = torch.where(self.known, values, 0.0)
        difference = Term(self.level, values - self.values)
        terms = dict(self.terms)
        terms[because] = self._merge(terms[because], difference) if because in terms else difference
        return replace(self, values=values, terms=terms)

    def clipped(self, low: float, high: float) -> Signal:
        """Values inside [low, high]; what was cut off is the term "clip"."""
        if not low <= high:
            raise InvalidArgument("low", low, f"at most high={high}")
        return self.changed(self.values.clamp(low, high), because="clip")

    def neutral(self) -> Signal:
        """After a baseline nothing missing may spoil a sum: FAILED becomes ABSENT."""
        return replace(self, presence=self.presence.clamp_min(_ABSENT))

    def masked(self, keep: Tensor) -> Signal:
        """The elements outside `keep` leave the signal: ABSENT, exactly 0."""
        if keep.shape != self.values.shape:
            raise InvalidArgument("keep", tuple(keep.shape), f"shape {tuple(self.values.shape)} at {self.level.name}")
        state = torch.where(keep, self.presence, _ABSENT).to(torch.uint8)
        return replace(self, values=torch.where(keep, self.values, 0.0), presence=state)

    def named(self, name: str) -> Signal:
        """All terms merged into one of this name."""
        return replace(self, terms={name: Term(self.level, self.values)})

    def settled(self) -> Signal:
        """The same values; what rounding left between them and the sum of the terms goes to the largest term.

        For moves that divide by something tiny and blow rounding up. A difference beyond `ROUNDING` is no rounding and
        stays for `check` to find.
        """
        parts = self.ledger()
        if len(parts) < 2 or not self.values.numel():
            return self
        rest = self.values - torch.stack(list(parts.values())).sum(0)
        name = max(parts, key=lambda one: float(parts[one].detach().abs().max()))
        rest = torch.where(rest.abs() <= ROUNDING * self.values.abs().clamp_min(1.0), rest, 0.0)
        return replace(self, terms={**self.terms, name: Term(self.level, parts[name] + rest)})

    # ------------------------------------------------------------------------------------------------------- moves

    def spread(self, level: Level) -> Signal:
        """Down to a finer level; every child gets its parent's value and terms stay where they are."""
        if level == self.level:
            return self
        move = self.batch.spread
        return replace(
            self,
            level=level,
            values=move(self.values, self.level, level),
            presence=move(self.presence, self.level, level),
        )

    def pool(self, level: Level, how: PoolHow = "sum") -> Signal:
        """Up to a coarser level over the known elements; min, max and last pick an element and its terms with it.

        A parent with a FAILED child is FAILED; one without a known child is ABSENT.
        """
        if level == self.level:
            return self
        if level == Level.GROUP and how == "last":
            raise InvalidArgument("how", how, "sum, mean, min or max; a group has no order")
        b, known = self.batch, self.known

        def up(values: Tensor, method: PoolHow) -> Tensor:
            return b.pool(values, self.level, level, method)

        count = up(known.to(torch.float64), "sum")
        failed = up((self.presence == int(Presence.FAILED)).to(torch.float64), "sum") > 0
        state = torch.where(failed, int(Presence.FAILED), torch.where(count > 0, _KNOWN, _ABSENT)).to(torch.uint8)
        if how in ("sum", "mean"):
            divisor = count.clamp_min(1) if how == "mean" else torch.ones_like(count)

            def reduce(values: Tensor) -> Tensor:
                return torch.where(state == _KNOWN, up(values, "sum") / divisor, 0.0)
        else:
            picked = self._pick(level, how)

            def reduce(values: Tensor) -> Tensor:
                return torch.where(state == _KNOWN, values[picked], 0.0) if values.numel() else up(values, "sum")

        terms = {name: Term(level, reduce(values)) for name, values in self.ledger().items()}
        return replace(self, level=level, values=reduce(self.values), presence=state, terms=terms)

    def _pick(self, level: Level, how: PoolHow) -> Tensor:
        b, known = self.batch, self.known
        position = torch.arange(self.values.numel(), device=b.device)
        if how == "last":
            best = torch.where(known, position + 1, 0)
        else:
            worst = torch.where(known, self.values, torch.inf if how == "min" else -torch.inf)
            extreme = b.spread(b.pool(worst.detach(), self.level, level, how), level, self.level)
            best = torch.where(known & (self.values == extreme), position + 1, 0)
        return (b.pool(best.to(torch.float64), self.level, level, "max").long() - 1).clamp_min(0)

    def _merge(self, a: Term, b: Term) -> Term:
        level = min(a.level, b.level)
        return Term(level, self.batch.spread(a.values, a.level, level) + self.batch.spread(b.values, b.level, level))

    def _terms_where_known(self) -> Mapping[str, Term]:
        """Terms that are 0 wherever this signal is not known, so that they can join a sum that is."""
        if bool(self.known.all()):
            return self.terms
        result = {}
        for name, term in self.terms.items():
            fine = min(term.level, self.level)
            known = self.batch.spread(self.known, self.level, fine)
            result[name] = Term(fine, torch.where(known, self.batch.spread(term.values, term.level, fine), 0.0))
        return result
