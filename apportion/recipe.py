"""`Recipe`: which observers, and one `assign` from their signals to credit. `Credit`: what leaves it, with its ledger.

    rollouts --observe--> verdicts --Recipe.assign--> Credit --> the trainer's loss, or a page to look at

`assign` is pure: no I/O, no randomness, no global state. Whatever changes over training (annealing, running pass rates)
is the explicit `state` that goes in and comes out; saved beside the model it makes a resumed run give identical credit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from apportion.advantages.aggregation import Aggregation, token_weights
from apportion.advantages.group_stat import group_statistics
from apportion.advantages.loss import Loss, aggregate_loss
from apportion.advantages.variance import variance_shares
from apportion.batch import STATUSES, Batch
from apportion.errors import InvalidArgument, LedgerMismatch, MissingInput, RecipeRefused
from apportion.rewards import Reward, observe
from apportion.rollouts import Level, Trajectory
from apportion.segments import checked_door
from apportion.signal import Signal
from apportion.verdicts import Verdict

__all__ = ["Credit", "Recipe", "State", "Streams"]

State: TypeAlias = Mapping[str, Any]
Assign: TypeAlias = Callable[..., "Signal | Streams | tuple[Signal | Streams, State]"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Streams:
    """What `assign_signals` returns when there is more than advantages.

    Attributes:
        advantages: the policy gradient's.
        returns: the critic's targets, per turn or policy token; ABSENT where there is nothing to learn.
    """

    advantages: Signal
    returns: Signal | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Credit:
    """How much each token (or turn, for text-only rollouts) deserves, and why.

    Attributes:
        advantages: at the batch's finest level; exactly 0 and not known on tokens that take no part in the loss.
            Rollouts for which neither tokens nor a single turn was recorded get credit as a whole.
        aggregation: the loss aggregation that the recipe assumes, see `apportion.advantages.aggregation`.
        rewards: the signals that were observed, by name.
        labels: the names of those whose values are codes, which no mean makes sense of.
        recipe: the name of the recipe.
        returns: the targets of a critic, for recipes that have one.
    """

    advantages: Signal
    aggregation: Aggregation
    rewards: Mapping[str, Signal]
    recipe: str
    returns: Signal | None = None
    labels: frozenset[str] = frozenset()

    @property
    def batch(self) -> Batch:
        """The structure that the credit belongs to."""
        return self.advantages.batch

    @property
    def in_loss(self) -> Tensor:
        """bool: the tokens (turns) that take part in the loss and in its denominators."""
        return self.advantages.known

    def ledger(self, level: Level | None = None) -> dict[str, Tensor]:
        """The advantage of every element, split into its named causes."""
        return self.advantages.ledger(level)

    def padded(self, *, width: int | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
        """[B, width] advantages for a trainer, exactly 0 on every token outside the loss.

        Raises:
            InvalidArgument: a `dtype` of whole numbers.
            LedgerMismatch: an advantage too large for `dtype`.
        """
        door = self.advantages.values.to(checked_door(dtype))
        if not bool(torch.isfinite(door).all()):
            raise LedgerMismatch(
                f"an advantage of {float(self.advantages.values.abs().max()):.3g} does not fit {dtype}"
            )
        return self.batch.pad(door, width=width)

    def loss_weights(self, *, constant: float | None = None) -> Tensor:
        """float64[N]: the weight of each token's loss under the recipe's aggregation."""
        return token_weights(self.batch, self.aggregation, in_loss=self.in_loss, constant=constant)

    def loss(self, losses: Tensor, *, constant: float | None = None) -> Loss:
        """The loss of per-token losses [N] (or [B, T]) under the recipe's aggregation, see `aggregate_loss`."""
        return aggregate_loss(losses, self.batch, self.aggregation, in_loss=self.in_loss, constant=constant)

    def diagnostics(self) -> dict[str, float]:
        """What to log every step: how rollouts ended, groups per reward, missing shares, and the credit itself.

        A group is dead for a reward when its known values are constant, whatever the estimator scales by. The share of
        a term is that of the variance inside groups, see `variance_shares`. What has no data is left out, never 0; of a
        label only the missing share is told.
        """
        a = self.advantages
        known, n = a.values[a.known], max(a.values.numel(), 1)
        result = {
            "credit/out_of_loss_share": 1.0 - known.numel() / n,
            "rollouts/empty_share": float((~_wrote(a.batch)).to(torch.float64).mean()),
        }
        if known.numel():
            result["credit/mean"] = float(known.mean())
            result["credit/std"] = float(known.std(correction=0))
            result["credit/zero_share"] = float((known == 0).to(torch.float64).mean())
        for i, status in enumerate(STATUSES):
            result[f"rollouts/{status}_share"] = float((a.batch.status == i).to(torch.float64).mean())
        group_of = a.batch.owner(a.level, Level.GROUP)
        moving = torch.zeros(a.batch.size(Level.GROUP), dtype=torch.float64, device=a.batch.device)
        moving = moving.index_add(0, group_of, (a.values != 0).to(torch.float64))
        result["groups/without_credit_share"] = float((moving == 0).to(torch.float64).mean())
        for name, term in a.ledger().items():
            used = term[a.known]
            if used.numel():
                result[f"terms/{name}/mean"] = float(used.mean())
                result[f"terms/{name}/std"] = float(used.std(correction=0))
        for name, share in (variance_shares(a) or {}).items():
            result[f"terms/{name}/variance_share"] = share
        for name, reward in self.rewards.items():
            if reward.known.numel():
                result[f"rewards/{name}/missing_share"] = 1.0 - float(reward.known.to(torch.float64).mean())
            if name in self.labels:
                continue
            stats = group_statistics(reward)
            some = stats.count > 0
            if bool(reward.known.any()):
                result[f"rewards/{name}/mean"] = float(reward.values[reward.known].mean())
            result[f"groups/{name}/dead_share"] = float((stats.constant & some).to(torch.float64).mean())
            result[f"groups/{name}/effective_n"] = float(stats.count.to(torch.float64).mean())
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """Observers and how their signals become credit.

    Attributes:
        name: shown in every output.
        observers: rewards with unique names; `observe` of each yields verdicts.
        assign_signals: (batch, signals, *, step, state) -> Signal, or `Streams` where a critic's targets leave beside
            the advantages; a recipe with state returns (that, new state).
        aggregation: the loss aggregation that the method assumes.
        scope: "group" when a group's credit depends on that group alone, "batch" when whole steps must stay together.
        paper: arXiv id or title.
        needs: columns or facts that rollouts must carry, in words.
        reconstruction: what is not from the paper but rebuilt; "" when nothing is.
        parameters: the settings it was made with, for the record.
        initial_state: the state before the first step.
        force: "" or the reason why a recipe without a driving reward is wanted all the same.

    Raises:
        InvalidArgument: no observers, two of one name, or an unknown aggregation or scope.
        RecipeRefused: only penalties, progress or other shaping: such a recipe is known to teach inaction, endless
            searching or never submitting. A reward may declare `role = "shaping"`, "metric" for what is only
            recorded, or "label" for codes; all others drive.

    Example:
        >>> from apportion.verdicts import Scored
        >>> class Outcome:
        ...     name, level = "outcome", Level.TRAJECTORY
        ...     def observe(self, trajectories):
        ...         return [Scored(t.columns["reward"]) for t in trajectories]
        >>> from apportion.advantages.group_stat import group_stat
        >>> def assign(batch, signals, *, step, state):
        ...     return group_stat(signals["outcome"])
        >>> mine = Recipe(name="mine", observers=[Outcome()], assign_signals=assign, aggregation="token-mean")
        >>> b = Batch.of(groups=["q", "q"], tokens=[1, 2])
        >>> credit, _ = mine.assign(b, {"outcome": [Scored(1.0), Scored(0.0)]})
        >>> [round(v, 4) for v in credit.advantages.values.tolist()]
        [0.7071, -0.7071, -0.7071]
    """

    name: str
    observers: Sequence[Reward]
    assign_signals: Assign
    aggregation: Aggregation
    scope: Literal["group", "batch"] = "group"
    paper: str = ""
    needs: Sequence[str] = ()
    reconstruction: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    initial_state: State = field(default_factory=dict)
    force: str = ""

    def __post_init__(self) -> None:
        names = [observer.name for observer in self.observers]
        if not names or len(set(names)) < len(names):
            raise InvalidArgument("observers", names, f"at least one observer, each name once, in recipe {self.name!r}")
        if self.aggregation not in get_args(Aggregation):
            raise InvalidArgument("aggregation", self.aggregation, f"one of {', '.join(get_args(Aggregation))}")
        if self.scope not in ("group", "batch"):
            raise InvalidArgument("scope", self.scope, "'group' or 'batch'")
        if not self.force and all(getattr(o, "role", "outcome") != "outcome" for o in self.observers):
            raise RecipeRefused(
                f"recipe {self.name!r} has no reward that drives ({', '.join(names)}). Penalties alone teach inaction, "
                "progress alone teaches never to finish: add the outcome (e.g. apportion.rewards.outcome()), or pass "
                "force='why' if you want this all the same"
            )

    def assign(
        self,
        batch: Batch,
        verdicts: Mapping[str, Sequence[Verdict] | Sequence[Sequence[Verdict]]],
        *,
        step: int | None = None,
        state: State | None = None,
    ) -> tuple[Credit, State]:
        """Credit for a batch, and the state after it.

        Args:
            batch: whole groups; for scope "batch", everything of one step. A rollout in which the policy wrote nothing
                cannot be scored: whatever was said about it counts as missing.
            verdicts: for every observer, one verdict per trajectory, or per turn nested by trajectory.
            step: the training step, for schedules.
            state: what the previous call returned; default the initial state.

        Raises:
            MissingInput: verdicts of an observer are absent.
            InvalidArgument: a wrong number of verdicts, or a recipe that assigns something else than a signal of this
                batch, alone or with its new state.
            LedgerMismatch: the recipe's terms do not sum to its advantages.
        """
        missing = [o.name for o in self.observers if o.name not in verdicts]
        if missing:
            raise MissingInput(f"recipe {self.name!r}", f"verdicts of {', '.join(missing)}", "run observe() first")
        wrote = _wrote(batch)
        signals = {o.name: _signal(batch, o, verdicts[o.name]) for o in self.observers}
        signals = {n: x.masked(batch.spread(wrote, Level.TRAJECTORY, x.level)) for n, x in signals.items()}
        before = dict(self.initial_state if state is None else state)
        made = self.assign_signals(batch, signals, step=step, state=before)
        streams, after = self._taken(made, batch, before)
        advantages = streams.advantages.spread(min(streams.advantages.level, batch.finest)).neutral()
        if batch.own is not None:
            advantages = advantages.masked(batch.own)
        credit = Credit(
            advantages=advantages.check(),
            aggregation=self.aggregation,
            rewards=signals,
            recipe=self.name,
            returns=streams.returns,
            labels=frozenset(o.name for o in self.observers if getattr(o, "role", "outcome") == "label"),
        )
        return credit, after

    def _taken(self, made: object, batch: Batch, before: State) -> tuple[Streams, State]:
        found, after = made if isinstance(made, tuple) and len(made) == 2 else (made, before)
        streams = Streams(advantages=found) if isinstance(found, Signal) else found
        parts = [streams.advantages, streams.returns] if isinstance(streams, Streams) else [found]
        strange = [p for p in parts if p is not None and not (isinstance(p, Signal) and p.batch is batch)]
        if not isinstance(streams, Streams) or strange or not isinstance(after, Mapping):
            named = [type(part).__name__ for part in (made if isinstance(made, tuple) else [made])]
            expected = f"a Signal of the batch (or Streams), or that and the new state, from recipe {self.name!r}"
            raise InvalidArgument("assign_signals", named, expected)
        return streams, after

    def score(
        self,
        trajectories: Sequence[Trajectory],
        *,
        step: int | None = None,
        state: State | None = None,
        failure_limit: float = 0.5,
    ) -> tuple[Credit, State]:
        """Observe the trajectories and assign their credit; see `assign` and `apportion.rewards.observe`."""
        batch = Batch.pack(trajectories)
        verdicts = observe(self.observers, trajectories, failure_limit=failure_limit)
        return self.assign(batch, verdicts, step=step, state=state)


def _wrote(batch: Batch) -> Tensor:
    """bool[B]: the trajectories in which the policy wrote anything."""
    return batch.lengths(batch.finest, Level.TRAJECTORY) > 0


def _signal(batch: Batch, observer: Reward, verdicts: Sequence[Any]) -> Signal:
    if len(verdicts) != len(batch):
        raise InvalidArgument(
            "verdicts", len(verdicts), f"{len(batch)} entries of {observer.name!r}, one per trajectory"
        )
    if observer.level == Level.TRAJECTORY:
        return Signal.from_verdicts(batch, observer.level, verdicts, name=observer.name)
    counts = batch.turns.tolist()
    pairs = zip(batch.ids, verdicts, counts, strict=True)
    wrong = [f"{name}: {len(row)} for {n} turns" for name, row, n in pairs if len(row) != n]
    if wrong:
        raise InvalidArgument("verdicts", wrong[:10], f"one verdict of {observer.name!r} per turn")
    return Signal.from_verdicts(batch, Level.TURN, [v for row in verdicts for v in row], name=observer.name)
