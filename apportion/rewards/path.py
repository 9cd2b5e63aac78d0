"""`path`: how the policy went about it, by deterministic rules over each action and the state before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.messages import Message, messages_by_turn
from apportion.rewards.predicates import Before, Predicate
from apportion.rewards.recorded import require_turns
from apportion.rewards.rules import Rule
from apportion.rewards.running import PerTrajectory
from apportion.rewards.temporal import Temporal
from apportion.rollouts import Action, Level, Trajectory, Turn
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["Finding", "Path", "path"]

Unexecuted: TypeAlias = Literal["abstain", "count"]
Kind: TypeAlias = Literal["violation", "fulfilment", "abstention"]
Counted: TypeAlias = Literal["value", "violation", "fulfilment"]

_LISTED = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule said about one action.

    Attributes:
        rule: the rule's name.
        kind: "violation", "fulfilment" or "abstention".
        turn: index of the turn.
        action: index of the action in the turn.
        value: what it adds to the turn's value: -penalty, +credit or 0.
        words: the action and what about it, in words.
    """

    rule: str
    kind: Kind
    turn: int
    action: int
    value: float
    words: str

    def __str__(self) -> str:
        signed = f" {self.value:+g}" if self.value else ""
        return f"{self.kind} of {self.rule}{signed}: turn {self.turn}, action {self.action}, {self.words}"


@dataclass(frozen=True)
class Path(PerTrajectory):
    """See `path`.

    Attributes:
        rules: judged in order at every action.
        unexecuted: what a move that never reached the environment counts for.
        name: what the verdicts are called.
        counted: the value itself, or the number of violations or fulfilments.
    """

    _role: ClassVar[Role] = "shaping"
    rules: tuple[Rule, ...]
    unexecuted: Unexecuted
    name: str
    counted: Counted = "value"
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise InvalidArgument("rules", self.rules, "at least one Rule, and nothing else")
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument("rules", names, f"rules with different names ({', '.join(twice)} repeats); set name=")
        _arguments.choice("unexecuted", self.unexecuted, get_args(Unexecuted))
        _arguments.text("name", self.name)

    @property
    def violations(self) -> Path:
        """A TURN reward that counts violations: v_k."""
        return replace(self, counted="violation", name=f"{self.name}.violations")

    @property
    def fulfilments(self) -> Path:
        """A TURN reward that counts fulfilments: d_k."""
        return replace(self, counted="fulfilment", name=f"{self.name}.fulfilments")

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no table of turns."""
        require_turns(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> list[Verdict]:
        """One verdict per turn."""
        return [
            self._verdict(turn, found) for turn, found in zip(trajectory.turns, self.findings(trajectory), strict=True)
        ]

    def findings(self, trajectory: Trajectory) -> list[list[Finding]]:
        """Everything the rules said, turn by turn."""
        run = _Run(self.rules, trajectory)
        return [
            run.turn(index, turn, judged=turn.executed or self.unexecuted == "count")
            for index, turn in enumerate(trajectory.turns)
        ]

    def _verdict(self, turn: Turn, found: Sequence[Finding]) -> Verdict:
        told = [str(finding) for finding in found[:_LISTED]]
        if len(found) > _LISTED:
            told.append(f"and {len(found) - _LISTED} more")
        unparsed = [action.error for action in turn.actions if action.error is not None]
        if unparsed:
            told.append(
                f"{len(unparsed)} of {len(turn.actions)} actions did not parse: {_arguments.brief(unparsed[0], 80)}"
            )
        if turn.actions and len(unparsed) == len(turn.actions):
            return Abstained("; ".join(told))
        if turn.actions and not turn.executed and self.unexecuted == "abstain":
            return Abstained("the move never reached the environment")
        if self.counted == "value":
            value = sum(finding.value for finding in found)
        else:
            value = float(sum(finding.kind == self.counted for finding in found))
        return Scored(value, "; ".join(told) or ("no rule fired" if turn.actions else "no action"))


def path(rules: Iterable[Rule], *, unexecuted: Unexecuted = "abstain", name: str = "path") -> Path:
    """Penalties for violations and credits for compliant actions, turn by turn.

        value_k = Σ credit * d_{rule,k} - Σ penalty * v_{rule,k}

    `.violations` and `.fulfilments` are rewards too: they count v_k and d_k, for recipes that weigh them themselves.
    The rules see an action and the state before it, never the outcome and never a judge, so one rollout has one value.
    Actions of one turn are judged in the order they stand; the state before them grows action by action, but what
    counts as answered is only what stands in earlier turns.

    Args:
        rules: with different names; see `Rule` and its ready-made forms.
        unexecuted: a move that never reached the environment (cut off, rejected): "abstain", or "count" where the
            attempt itself is the violation. Either way it does not become part of the state.
        name: what the verdicts are called.

    Returns:
        A TURN reward. A turn without actions is `Scored(0)`; a turn none of whose actions parsed abstains, since nobody
        can say what they would have done (`tool_calls` scores that).

    Raises:
        InvalidArgument: no rules, two of one name, an unknown `unexecuted`.
        MissingInput: when observing, trajectories without a table of turns.

    Example:
        >>> from apportion.rewards import before, called
        >>> careful = path([before(called("read"), called("edit"), same="path", name="read_first")])
        >>> turns = (
        ...     Turn(actions=(Action("edit", {"path": "a"}),)),
        ...     Turn(actions=(Action("read", {"path": "a"}),)),
        ...     Turn(actions=(Action("edit", {"path": "a"}),)),
        ... )
        >>> rollout = Trajectory(id="r0", group="q", turns=turns)
        >>> [verdict.value for verdict in careful.observe([rollout])[0]]
        [-0.25, 0.0, 0.25]
        >>> [verdict.value for verdict in careful.violations.observe([rollout])[0]]
        [1.0, 0.0, 0.0]

    Source: arXiv 2607.07435; which rules there are is up to the task.
    """
    return Path(tuple(rules), unexecuted, name)


class _Run:
    """The rules over one trajectory: the state machine and what was found so far."""

    def __init__(self, rules: Sequence[Rule], trajectory: Trajectory) -> None:
        self.rules = rules
        self.before = Before(trajectory, turn=-1)
        self.paid = dict.fromkeys((rule.name for rule in rules), 0)
        roots = [root for rule in rules for root in (rule.violates, rule.fulfils) if root is not None]
        # One entry per object: a predicate shared by two rules remembers once.
        nodes = {id(node): node for root in roots for node in root.walk()}
        self.temporal = [node for node in nodes.values() if isinstance(node, Temporal)]
        self.before.memory = {id(node): node.fresh() for node in self.temporal}
        self.listening = [node for node in self.temporal if node.listens]
        self.messages = messages_by_turn(trajectory) if self.listening else []
        self._hear()

    def turn(self, index: int, turn: Turn, *, judged: bool) -> list[Finding]:
        self.before.turn = index
        found: list[Finding] = []
        for position, action in enumerate(turn.actions):
            if action.error is not None:
                continue
            if judged:
                for rule in self.rules:
                    finding = self._judge(rule, action, position)
                    if finding is not None:
                        found.append(finding)
            if turn.executed:
                self._take_in(self.temporal, action)
                self.before.actions.append((index, action))
        self._hear()
        return found

    def _judge(self, rule: Rule, action: Action, position: int) -> Finding | None:
        where = (self.before.turn, position)
        violates = False if rule.violates is None else rule.violates.holds(action, self.before)
        if violates:
            words = f"{_shown(action)}: {rule.violation_words}{self._because(rule.violates, action)}"
            return Finding(rule.name, "violation", *where, -rule.penalty, words)
        if violates is None:
            why = self._because(rule.violates, action)
            return Finding(rule.name, "abstention", *where, 0.0, f"{_shown(action)}: cannot tell{why}")
        if rule.fulfils is None or not rule.fulfils.holds(action, self.before):
            return None
        if rule.max_credits is not None and self.paid[rule.name] >= rule.max_credits:
            return None
        self.paid[rule.name] += 1
        words = f"{_shown(action)}: {rule.fulfilment_words}{self._because(rule.fulfils, action)}"
        return Finding(rule.name, "fulfilment", *where, rule.credit, words)

    def _because(self, predicate: Predicate | None, action: Action) -> str:
        told = "" if predicate is None else predicate.because(action, self.before)
        return f" [{_arguments.brief(told, 400)}]" if told else ""

    def _hear(self) -> None:
        for message in self.messages[self.before.turn + 1] if self.listening else ():
            self._take_in(self.listening, message)

    def _take_in(self, nodes: Sequence[Temporal], event: Action | Message) -> None:
        noticed = [(node, node.notice(event, self.before)) for node in nodes]
        for node, what in noticed:
            node.remember(self.before.memory[id(node)], what, self.before.turn)


def _shown(action: Action) -> str:
    return f"{_arguments.brief(str(action.name), 60)}({_arguments.excerpt(dict(action.arguments), 120)})"
