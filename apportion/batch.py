"""`Batch`: ragged rollouts, packed. One flat array per level and the lengths between neighbouring levels.

    group      0            1
    trajectory 0      1     2            group  = [0, 0, 1]   (any order: only ids define a group)
    turn       0  1   2     3  4         turns  = [2, 1, 2]
    token      ## ### ##    #  ##        tokens = [2, 3, 2, 1, 2]   policy-written tokens only
    between      ..  .  .     ..         gaps   = [2, 1, 1, 2, 0]   observation and template tokens

The token level holds the tokens that the policy wrote and nothing else, so an observation token cannot receive credit,
enter a mean or be discounted over. Padded [B, T] tensors exist only in `pad` and `unpad`, an adapter's door.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from apportion import segments
from apportion.errors import InvalidArgument
from apportion.rollouts import Level, Status, Trajectory
from apportion.scans import Plan, plan
from apportion.segments import PoolHow

__all__ = ["Batch", "Level"]

STATUSES: tuple[str, ...] = get_args(Status)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Structure of B trajectories with K turns and N policy tokens in G groups. Made by `pack`, `of` or `from_mask`.

    Attributes:
        ids: B trajectory ids.
        group_ids: G group ids.
        group: int64[B] index into `group_ids`.
        turns: int64[B] turns of each trajectory.
        tokens: int64[K] policy tokens of each turn; None for text-only rollouts.
        lead: int64[B] other tokens before the first turn.
        gaps: int64[K] other tokens after each turn.
        positions: int64[N] offset of each policy token in its response, when other tokens lie inside turns.
        own: bool[N] sampled by the current policy in this rollout; None = all.
        status: int64[B] index into ("terminated", "truncated", "aborted").
        columns: free tensors per trajectory, [B].
        token_columns: free tensors per policy token, [N], such as "behaviour_logps".
    """

    ids: tuple[str, ...]
    group_ids: tuple[str, ...]
    group: Tensor
    turns: Tensor
    tokens: Tensor | None
    lead: Tensor
    gaps: Tensor
    positions: Tensor | None = None
    own: Tensor | None = None
    status: Tensor
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    token_columns: Mapping[str, Tensor] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------ construction

    @classmethod
    def pack(cls, trajectories: Sequence[Trajectory]) -> Batch:
        """Pack trajectories; all carry tokens or none does, but for aborted ones, which may have nothing.

        Raises:
            InvalidArgument: no trajectories, an id used twice, or token and text-only rollouts mixed (all listed).
        """
        texts = [t.id for t in trajectories if not t.has_tokens and t.status != "aborted"]
        if (tokenised := any(t.has_tokens for t in trajectories)) and texts:
            raise InvalidArgument("trajectories", texts[:10], "tokens on all or none, but for aborted; these lack them")
        layouts, masks = [t.layout() for t in trajectories], [t.policy for t in trajectories]

        def join(parts: list[Any], dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.as_tensor(np.concatenate(parts) if parts else np.empty(0)).to(dtype)

        def per_token(default: float, columns: list[Any]) -> list[Any]:
            both: Any = zip(columns, masks, strict=True)
            return [np.full(int(m.sum()), default) if c is None else c[m] for c, m in both if m is not None]

        ragged = any(layout.positions is not None for layout in layouts)
        positions = join([np.flatnonzero(m) for m in masks if m is not None]) if ragged else None
        own, token_columns = join(per_token(1, [t.own for t in trajectories]), torch.bool), {}
        if any(t.policy_version is not None for t in trajectories):
            token_columns["policy_version"] = join(per_token(-1, [t.policy_version for t in trajectories]))
        rows = [{"behaviour_logps": t.behaviour_logps, **t.token_columns} for t in trajectories]
        for name in sorted({name for row in rows for name, column in row.items() if column is not None}):
            token_columns[name] = join(per_token(np.nan, [row.get(name) for row in rows]), torch.float64)
        return cls.of(
            groups=[t.group for t in trajectories],
            ids=[t.id for t in trajectories],
            turns=torch.tensor([layout.turn_lengths.size for layout in layouts], dtype=torch.int64),
            tokens=join([layout.turn_lengths for layout in layouts]) if tokenised else None,
            lead=torch.tensor([layout.lead for layout in layouts], dtype=torch.int64),
            gaps=join([layout.gap_lengths for layout in layouts]),
            positions=positions,
            own=None if bool(own.all()) else own,
            status=[t.status for t in trajectories],
            token_columns=token_columns,
        )

    @classmethod
    def of(
        cls,
        *,
        groups: Sequence[object],
        turns: Tensor | Sequence[int] | None = None,
        tokens: Tensor | Sequence[int] | None = None,
        ids: Sequence[str] | None = None,
        lead: Tensor | None = None,
        gaps: Tensor | None = None,
        positions: Tensor | None = None,
        own: Tensor | None = None,
        status: Sequence[Status] | None = None,
        token_columns: Mapping[str, Tensor] | None = None,
    ) -> Batch:
        """A batch from plain lengths.

        Args:
            groups: B group ids, in any order; two ids that read the same are the same.
            turns: B turn counts; default one turn each.
            tokens: policy tokens of every turn, flat; None = text only.
            ids: B unique names; default "0", "1", ...
            lead: as the attribute; default 0.
            gaps: as the attribute; default 0.
            positions: as the attribute.
            own: as the attribute.
            status: B names; default "terminated".
            token_columns: as the attribute.

        Example:
            >>> b = Batch.of(groups=["q", "q"], turns=[2, 1], tokens=[2, 3, 4])
            >>> [b.size(level) for level in Level]
            [9, 3, 2, 1]
        """
        size = len(labels := segments.checked_labels("groups", groups))
        names = segments.checked_names("ids", map(str, range(size)) if ids is None else ids, size)
        turn_counts = segments.checked_lengths("turns", [1] * size if turns is None else turns, size)
        n_turns, device = int(turn_counts.sum()), turn_counts.device
        token_counts = None if tokens is None else segments.checked_lengths("tokens", tokens, n_turns)
        endings = segments.checked_codes("status", status or ["terminated"] * size, STATUSES)
        number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
        made = cls(
            ids=names,
            group_ids=tuple(number),
            group=torch.tensor([number[label] for label in labels], device=device),
            turns=turn_counts,
            tokens=token_counts,
            lead=segments.checked_lengths("lead", turn_counts.new_zeros(size) if lead is None else lead, size),
            gaps=segments.checked_lengths("gaps", turn_counts.new_zeros(n_turns) if gaps is None else gaps, n_turns),
            positions=positions,
            own=own,
            status=torch.tensor(endings, device=device),
            token_columns=dict(token_columns or {}),
        )
        per_token = {"positions": positions, "own": own, **made.token_columns}
        wrong = [f"{k} {len(v)}" for k, v in per_token.items() if v is not None and len(v) != made.n_tokens]
        if wrong or made.status.numel() != size:
            raise InvalidArgument("lengths", wrong or len(status or ()), f"{made.n_tokens} per token, {size} statuses")
        if positions is not None:
            segments.checked_rising("positions", positions, made.owner(Level.TOKEN, Level.TRAJECTORY))
        return made

    @classmethod
    def from_mask(
        cls, mask: Tensor | Sequence[Any], groups: Sequence[object], *, ids: Sequence[str] | None = None
    ) -> Batch:
        """A batch from a padded response mask; one turn per run of ones. The one place that reads turns off a mask.

        Args:
            mask: [B, T], any dtype, non-zero where the policy wrote the token and it takes part in the loss.
            groups: B group ids.
            ids: B unique names.

        Example:
            >>> b = Batch.from_mask(torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0]]), ["q", "q"])
            >>> b.tokens.tolist(), b.turns.tolist(), b.lead.tolist()
            ([2, 1], [2, 0], [0, 4])
        """
        if (mask := segments.checked_numbers("mask", mask)).ndim != 2 or mask.shape[0] != len(groups):
            raise InvalidArgument("mask", tuple(mask.shape), f"shape [{len(groups)}, T], one row per group id")
        turns, tokens, lead, gaps = segments.runs(mask != 0)
        return cls.of(groups=groups, ids=ids, turns=turns, tokens=tokens, lead=lead, gaps=gaps)

    # -------------------------------------------------------------------------------------------------- structure

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def has_tokens(self) -> bool:
        """False for text-only rollouts, whose credit ends at the turn level."""
        return self.tokens is not None

    @property
    def finest(self) -> Level:
        """The finest level that credit can reach: that of the trajectories where not a single turn is recorded."""
        if self.has_tokens:
            return Level.TOKEN
        return Level.TURN if self.gaps.numel() else Level.TRAJECTORY

    @cached_property
    def n_tokens(self) -> int:
        """N, the number of policy tokens (0 for text-only rollouts)."""
        return 0 if self.tokens is None else int(self.tokens.sum())

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.group.device

    def size(self, level: Level) -> int:
        """Number of elements at a level."""
        if level == Level.TOKEN:
            self._need_tokens()
            return self.n_tokens
        return (self.gaps.numel(), len(self.ids), len(self.group_ids))[level - 1]

    @cached_property
    def tokens_per_trajectory(self) -> Tensor:
        """int64[B] policy tokens of each trajectory."""
        return segments.pool(self._need_tokens(), self.turns, "sum")

    def lengths(self, child: Level, parent: Level) -> Tensor:
        """int64: how many `child` elements each `parent` element holds (tokens and turns are contiguous in theirs)."""
        if (child, parent) == (Level.TOKEN, Level.TURN):
            return self._need_tokens()
        if (child, parent) == (Level.TURN, Level.TRAJECTORY):
            return self.turns
        if (child, parent) == (Level.TOKEN, Level.TRAJECTORY):
            return self.tokens_per_trajectory
        return torch.bincount(self.owner(child, parent), minlength=self.size(parent))

    def owner(self, child: Level, parent: Level) -> Tensor:
        """int64[size(child)]: the `parent` element that each `child` element belongs to."""
        if child == parent:
            return torch.arange(self.size(child), device=self.device)
        if parent == Level.GROUP:
            return self.group if child == Level.TRAJECTORY else self.group[self.owner(child, Level.TRAJECTORY)]
        return segments.kept(
            self.__dict__, f"_owner_{child}_{parent}", lambda: segments.owners(self.lengths(child, parent))
        )

    def spread(self, values: Tensor, source: Level, target: Level) -> Tensor:
        """Copy the value of every `source` element to its `target` elements (downwards)."""
        if source == target:
            return values
        if source < target:
            raise InvalidArgument("target", target.name, f"a level below {source.name}; use pool to go up")
        return values.index_select(0, self.owner(target, source))

    def pool(self, values: Tensor, source: Level, target: Level, how: PoolHow) -> Tensor:
        """Reduce the `source` elements of every `target` element to one value (upwards); 0 where it has none."""
        if source == target:
            return values
        if source > target:
            raise InvalidArgument("target", target.name, f"a level above {source.name}; use spread to go down")
        if target != Level.GROUP:
            return segments.pool(values, self.lengths(source, target), how)
        owner, n = self.owner(source, target), self.size(target)
        if how in ("sum", "mean"):
            total = values.new_zeros(n).index_add(0, owner, values)
            return total if how == "sum" else total / torch.bincount(owner, minlength=n).clamp_min(1)
        if how == "last":
            raise InvalidArgument("how", how, "sum, mean, min or max; a group has no order")
        return values.new_zeros(n).scatter_reduce(0, owner, values, f"a{how}", include_self=False)

    def scan(self, values: Tensor, level: Level, discount: float | Tensor = 1.0) -> Tensor:
        """Discounted sum from every element to the end of its trajectory; one step per element of `level`."""
        return segments.reverse_scan(values, self.plan(level), discount)

    def plan(self, level: Level) -> Plan:
        """What scans along the trajectories share."""
        lengths = self.lengths(level, Level.TRAJECTORY)
        return segments.kept(self.__dict__, f"_plan_{level}", lambda: plan(lengths, self.size(level)))

    # ------------------------------------------------------------------------------------------ the padded door

    @cached_property
    def offsets(self) -> Tensor:
        """int64[N]: the index of every policy token in its response."""
        if self.positions is not None:
            return self.positions
        tokens = self._need_tokens()
        stride = tokens + self.gaps
        first = segments.starts(segments.pool(stride, self.turns, "sum"))
        turn_start = segments.starts(stride) - self.spread(first - self.lead, Level.TRAJECTORY, Level.TURN)
        return torch.arange(self.n_tokens, device=self.device) + self.spread(
            turn_start - segments.starts(tokens), Level.TURN, Level.TOKEN
        )

    @cached_property
    def response_lengths(self) -> Tensor:
        """int64[B]: tokens of each response, observations included."""
        return self.lead + segments.pool(self._need_tokens() + self.gaps, self.turns, "sum")

    def pad(self, values: Tensor, *, width: int | None = None, fill: float = 0.0) -> Tensor:
        """Token values [N] as a padded [B, width] tensor, `fill` at every token that the policy did not write."""
        shape = len(self), int(self.response_lengths.max()) if width is None else width
        return values.new_full(shape, fill).view(-1).scatter_(0, self.cells(shape[1]), values).view(shape)

    def unpad(self, padded: Tensor) -> Tensor:
        """The policy tokens' values [N] of a padded [B, T] tensor; what lies on other tokens is not looked at."""
        if padded.ndim != 2 or padded.shape[0] != len(self):
            raise InvalidArgument("padded", tuple(padded.shape), f"shape [{len(self)}, T]")
        return padded.reshape(-1).index_select(0, self.cells(padded.shape[1]))

    def cells(self, width: int) -> Tensor:
        """int64[N]: where every policy token lies in a flattened [B, width] tensor; rising."""
        row = self.owner(Level.TOKEN, Level.TRAJECTORY)
        return segments.kept(self.__dict__, f"_cells_{width}", lambda: segments.cells(row, self.offsets, width))

    # --------------------------------------------------------------------------------------- selection and moves

    def select(self, index: Tensor | Sequence[int]) -> Batch:
        """The chosen trajectories, in the order chosen, each once; groups that are left empty disappear."""
        chosen = segments.checked_positions("index", index, len(self)).to(self.device)
        turns = segments.gather_segments(self.turns, chosen)
        kept, group = torch.unique(self.group[chosen], return_inverse=True)
        token = None if self.tokens is None else segments.gather_segments(self.tokens, turns)

        def take(values: Tensor | None) -> Tensor | None:
            return None if values is None or token is None else values[token]

        return Batch(
            ids=tuple(self.ids[i] for i in chosen.tolist()),
            group_ids=tuple(self.group_ids[i] for i in kept.tolist()),
            group=group,
            turns=self.turns[chosen],
            tokens=None if self.tokens is None else self.tokens[turns],
            lead=self.lead[chosen],
            gaps=self.gaps[turns],
            positions=take(self.positions),
            own=take(self.own),
            status=self.status[chosen],
            columns={name: column[chosen] for name, column in self.columns.items()},
            token_columns={name: column[token] for name, column in self.token_columns.items()},
        )

    @staticmethod
    def concat(batches: Sequence[Batch]) -> Batch:
        """One batch after the other; groups of the same id become one group.

        Raises:
            InvalidArgument: none given, token and text-only batches mixed, different columns, or an id used twice.
        """
        if not batches:
            raise InvalidArgument("batches", batches, "at least one batch")
        if len({b.has_tokens for b in batches}) > 1:
            raise InvalidArgument("batches", [b.has_tokens for b in batches], "tokens in every batch, or in none")
        names = [(sorted(b.columns), sorted(b.token_columns)) for b in batches]
        if any(n != names[0] for n in names):
            raise InvalidArgument("batches", names, "the same columns in every batch")

        def offsets(b: Batch) -> Tensor | None:
            return b.offsets if any(x.positions is not None for x in batches) else None

        def own(b: Batch) -> Tensor | None:
            if all(x.own is None for x in batches):
                return None
            return torch.ones(b.n_tokens, dtype=torch.bool) if b.own is None else b.own

        def join(parts: list[Tensor | None]) -> Tensor | None:
            return None if parts[0] is None else torch.cat([part for part in parts if part is not None])

        made = Batch.of(
            groups=[b.group_ids[g] for b in batches for g in b.group.tolist()],
            ids=[name for b in batches for name in b.ids],
            turns=torch.cat([b.turns for b in batches]),
            tokens=join([b.tokens for b in batches]),
            lead=torch.cat([b.lead for b in batches]),
            gaps=torch.cat([b.gaps for b in batches]),
            positions=join([offsets(b) for b in batches]),
            own=join([own(b) for b in batches]),
            status=[STATUSES[i] for b in batches for i in b.status.tolist()],
            token_columns={n: torch.cat([b.token_columns[n] for b in batches]) for n in batches[0].token_columns},
        )
        return replace(made, columns={n: torch.cat([b.columns[n] for b in batches]) for n in batches[0].columns})

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on `device`."""

        def move(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: column.to(device) for name, column in value.items()}
            return value.to(device) if isinstance(value, Tensor) else value

        return Batch(**{f.name: move(getattr(self, f.name)) for f in fields(self)})

    def _need_tokens(self) -> Tensor:
        if self.tokens is None:
            raise InvalidArgument("level", "TOKEN", "TURN or above; these rollouts are text only and have no tokens")
        return self.tokens
