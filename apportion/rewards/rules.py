"""Rules of conduct: what an action must not do in the state it is taken in, and the compliant action that earns credit.

Four rules of verified penalties (arXiv 2607.07435) are built in: a penalty is for something done, never left out; each
is paired with a credit; that is for an action, not for the absence of violations; and the outcome drives (see recipes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.happened import happened
from apportion.rewards.predicates import Predicate
from apportion.rewards.structured import any_action
from apportion.rewards.temporal import Counting, open_between, repeated

__all__ = ["Rule", "at_most", "before", "never_after", "no_repeat", "only_between", "within"]

_OMISSION = (
    "a violation that names what the policy did; this one also holds for what it left out, and a penalty for omission "
    "teaches it to act for the sake of acting. Name the action that must not happen, e.g. "
    "called('answer') & ~happened(called('search')), or pay a credit for the action you want"
)
_UNEARNED = (
    "a compliant action; this one also holds for whatever else the policy does and would pay for doing nothing of use. "
    "Name the action that earns the credit, e.g. called('answer') & happened(called('search'))"
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule, judged at every action by the state before it.

        violation  (v += 1, value -= penalty)  where `violates` holds
        fulfilment (d += 1, value += credit)   where `fulfils` holds and `violates` does not

    Attributes:
        name: unique in its `path`.
        violates: what must not be done; `None` for a rule that only pays credit.
        fulfils: the compliant action.
        penalty: taken off per violation, >= 0.
        credit: paid per fulfilment, >= 0.
        unpaired: why this penalty has no credit; without it a penalty must have one.
        max_credits: at most so many paid fulfilments per trajectory, where a credit could be farmed; `None`: no limit.
        why: the rule in a sentence, for the evidence; default: written from the predicates.

    Raises:
        InvalidArgument: a rule without predicates, a penalty for omission, a credit for no action in particular, a
            penalty that is neither paired nor declared unpaired, a negative penalty or credit.

    Example:
        >>> from apportion.rewards.structured import called
        >>> Rule(name="no_force", violates=called("force_push"), unpaired="any other push is fine").penalty
        0.25
        >>> Rule(name="search", violates=~called("search"), fulfils=called("search"))
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: violates='not (call of search)': expected a violation that names what ...
    """

    name: str
    violates: Predicate | None = None
    fulfils: Predicate | None = None
    penalty: float = 0.25
    credit: float = 0.25
    unpaired: str | None = None
    max_credits: int | None = None
    why: str = ""

    def __post_init__(self) -> None:
        _arguments.text("name", self.name)
        for argument in ("violates", "fulfils"):
            given = getattr(self, argument)
            if given is not None and not isinstance(given, Predicate):
                raise InvalidArgument(
                    argument, given, "a predicate; wrap a function with predicate(function, words=...)"
                )
        if self.violates is None and self.fulfils is None:
            raise InvalidArgument("violates", None, f"a violation or a fulfilment in rule {self.name!r}")
        _arguments.number("penalty", self.penalty, at_least=0)
        _arguments.number("credit", self.credit, at_least=0)
        if self.max_credits is not None:
            _arguments.whole("max_credits", self.max_credits, at_least=1)
        if self.violates is not None and not self.violates.commits:
            raise InvalidArgument("violates", self.violates.words, _OMISSION)
        if self.fulfils is not None and not self.fulfils.commits:
            raise InvalidArgument("fulfils", self.fulfils.words, _UNEARNED)
        paired = self.fulfils is not None and self.credit > 0
        if self.violates is not None and self.penalty > 0 and not paired and not self.unpaired:
            raise InvalidArgument(
                "fulfils",
                None if self.fulfils is None else self.fulfils.words,
                f"the compliant action, with a credit above 0, in rule {self.name!r}: penalties alone teach inaction; "
                "or unpaired='why this one needs no credit'",
            )

    @property
    def violation_words(self) -> str:
        """What a violation was, in words."""
        return self.why or (self.violates.words if self.violates is not None else "")

    @property
    def fulfilment_words(self) -> str:
        """What a fulfilment was, in words."""
        return self.fulfils.words if self.fulfils is not None else ""


def before(
    first: Predicate,
    then: Predicate,
    *,
    same: str | Sequence[str | int] | None = None,
    since: Predicate | None = None,
    counting: Counting = "answered",
    name: str = "before",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """`then` only after `first`: a violation is `then` without it, a fulfilment is `then` with it.

    Args:
        first: what must have been done.
        then: what may only follow it.
        same: an argument that must have the same value in both.
        since: only a `first` after the last of these counts, e.g. `since=then`: each `first` is good for one `then`.
        counting: "answered": in an earlier turn, its result seen; "issued": also earlier in the same turn.
        name: of the rule.
        penalty: per violation.
        credit: per fulfilment.
        max_credits: at most so many paid fulfilments per trajectory.
        why: the rule in a sentence.

    Returns:
        A rule for `path`. A rollout that never does `then` is neither punished nor paid.

    Raises:
        InvalidArgument: as `Rule`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> before(called("read"), called("edit"), same="path").violation_words
        'call of edit and not (an answered call of read with the same path)'
    """
    done = happened(first, same=same, since=since, counting=counting)
    return Rule(
        name=name,
        violates=then & ~done,
        fulfils=then & done,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )


def within(
    turns: int,
    first: Predicate,
    then: Predicate,
    *,
    same: str | Sequence[str | int] | None = None,
    name: str = "within",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """`then` only in the `turns` turns after `first`: acting on what was read too long ago is the violation.

    Never doing `then` is no violation; that would be a penalty for omission.

    Args:
        turns: how many turns `first` stays good for.
        first: what must have been done recently.
        then: what may only follow it.
        same: as in `before`.
        name: of the rule.
        penalty: per violation.
        credit: per fulfilment.
        max_credits: as in `before`.
        why: the rule in a sentence.

    Returns:
        A rule for `path`.

    Raises:
        InvalidArgument: `turns` < 1; as `Rule`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> within(2, called("quote"), called("buy")).violation_words
        'call of buy and not (an answered call of quote in the last 2 turns)'
    """
    done = happened(first, within=_arguments.whole("turns", turns, at_least=1), same=same)
    return Rule(
        name=name,
        violates=then & ~done,
        fulfils=then & done,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )


def only_between(
    start: Predicate,
    action: Predicate,
    stop: Predicate,
    *,
    name: str = "only_between",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """`action` only while open: after an answered `start` and before the next `stop`.

    Args:
        start: opens.
        action: what is only allowed while open.
        stop: closes.
        name: of the rule.
        penalty: per `action` outside.
        credit: per `action` inside.
        max_credits: as in `before`.
        why: the rule in a sentence.

    Returns:
        A rule for `path`.

    Raises:
        InvalidArgument: as `Rule`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> only_between(called("begin"), called("write"), called("commit")).fulfilment_words
        'call of write and after call of begin and before call of commit'
    """
    inside = open_between(start, stop)
    return Rule(
        name=name,
        violates=action & ~inside,
        fulfils=action & inside,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )


def never_after(
    first: Predicate,
    then: Predicate,
    *,
    fulfils: Predicate | None = None,
    unpaired: str | None = None,
    name: str = "never_after",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """Once `first` was done, `then` is a violation.

    Args:
        first: what ends the permission.
        then: what must not follow.
        fulfils: the compliant action; which one it is depends on the task.
        unpaired: why there is none.
        name: of the rule.
        penalty: per violation.
        credit: per fulfilment.
        max_credits: as in `before`.
        why: the rule in a sentence.

    Returns:
        A rule for `path`; order inside one turn counts.

    Raises:
        InvalidArgument: neither `fulfils` nor `unpaired`; as `Rule`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> never_after(called("submit"), called("edit"), unpaired="nothing is left to do").violation_words
        'call of edit and an earlier call of submit'
    """
    return Rule(
        name=name,
        violates=then & happened(first, counting="issued"),
        fulfils=fulfils,
        unpaired=unpaired,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )


def at_most(
    times: int,
    action: Predicate,
    *,
    since: Predicate | None = None,
    fulfils: Predicate | None = None,
    unpaired: str | None = None,
    name: str = "at_most",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """`action` at most `times` times; every further one is a violation.

    Args:
        times: how many are allowed.
        action: what is counted.
        since: the count starts again at each of these, e.g. at every confirmation of the user.
        fulfils: the compliant action. Not the allowed calls themselves: that would pay for using them up.
        unpaired: why there is none.
        name: of the rule.
        penalty: per violation.
        credit: per fulfilment.
        max_credits: as in `before`.
        why: the rule in a sentence.

    Returns:
        A rule for `path`.

    Raises:
        InvalidArgument: `times` < 1 (say that an action is forbidden with `Rule(violates=action)`); neither `fulfils`
            nor `unpaired`; as `Rule`.

    Example:
        >>> from apportion.rewards.structured import called
        >>> at_most(3, called("ask_user"), unpaired="fewer questions need no praise").violation_words
        'call of ask_user and an earlier call of ask_user at least 3 times'
    """
    allowed = _arguments.whole("times", times, at_least=1)
    return Rule(
        name=name,
        violates=action & happened(action, times=allowed, since=since, counting="issued"),
        fulfils=fulfils,
        unpaired=unpaired,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )


def no_repeat(
    action: Predicate | None = None,
    *,
    turns: int | None = None,
    fulfils: Predicate | None = None,
    unpaired: str | None = None,
    name: str = "no_repeat",
    penalty: float = 0.25,
    credit: float = 0.25,
    max_credits: int | None = None,
    why: str = "",
) -> Rule:
    """The same call with the same arguments a second time is a violation.

    Args:
        action: which actions are looked at; default: all.
        turns: only repeats of the last so many turns; `None` for the whole rollout.
        fulfils: the compliant action.
        unpaired: why there is none.
        name: of the rule.
        penalty: per violation.
        credit: per fulfilment.
        max_credits: as in `before`.
        why: the rule in a sentence.

    Returns:
        A rule for `path`.

    Raises:
        InvalidArgument: `turns` < 0; neither `fulfils` nor `unpaired`; as `Rule`.

    Example:
        >>> no_repeat(unpaired="a new call is not better in itself").violation_words
        'any action and the same call with the same arguments'
    """
    return Rule(
        name=name,
        violates=(any_action() if action is None else action) & repeated(within=turns),
        fulfils=fulfils,
        unpaired=unpaired,
        penalty=penalty,
        credit=credit,
        max_credits=max_credits,
        why=why,
    )
