"""Models as annotators: the first wrong step, the role of every turn, and who used what whom brought.

Each is an async function of one trajectory, as `apportion.rewards.annotators` takes it: `flagged(first_wrong(...))`,
`labelled(roles(...), ROLES)`, `link_features(links(...))`, and the recipes that read their notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.judges.answering import answered
from apportion.judges.builtin import FIRST_WRONG, LINKS, ROLES
from apportion.judges.exchange import Transport
from apportion.judges.fencing import Piece
from apportion.judges.forms import Choice, Edges, Form, Turns
from apportion.judges.grammar import Read
from apportion.judges.prompts import Prompt, Server, build, candidate_pieces, reference_pieces, task_pieces, turn_pieces
from apportion.judges.templates import Template
from apportion.rewards import _arguments
from apportion.rewards.annotators import Annotated, Label, Links
from apportion.rewards.annotators.base import asked_of
from apportion.rewards.recorded import require_turns
from apportion.rewards.running import UNLIMITED, gather
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored

__all__ = ["ROLE_MEANINGS", "FirstWrong", "LinksOf", "RolesOf", "first_wrong", "links", "roles"]

ROLE_MEANINGS: Mapping[str, str] = {
    "progress": "brings the task decisively closer to its end",
    "exploration": "finds out something that is useful for the task",
    "infrastructure": "only sets something up or repeats what is known, without bringing the task forward",
    "regression": "undoes progress, or does something that has to be undone",
}


@dataclass(frozen=True)
class _Asking:
    transport: Transport
    server: Server
    template: Template
    reasks: int

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` for trajectories without a table of turns."""
        require_turns(f"the {self.template.name} judge", trajectories)

    async def _read(self, prompt: Prompt) -> Read | Failed:
        answer = await answered(self.transport, prompt, limits=UNLIMITED, reasks=self.reasks)
        return answer.reply if isinstance(answer.reply, Read) else Failed(f"no verdict: {answer.reply}")

    def _prompt(self, material: Mapping[str, Sequence[Piece]], words: Mapping[str, str], form: Form) -> Prompt:
        return build(self.template, material=material, words=words, form=form, server=self.server)


@dataclass(frozen=True)
class FirstWrong(_Asking):
    """See `first_wrong`."""

    async def __call__(self, trajectory: Trajectory) -> list[bool | None] | Failed | None:
        """Per turn: False before the first wrong one, True there, None after it; all False when none is wrong."""
        found = await self.locate(trajectory)
        if found is None or isinstance(found, Failed):
            return found
        turns = len(trajectory.turns)
        wrong = turns if found < 0 else found
        return [True if k == wrong else (False if k < wrong else None) for k in range(turns)]

    async def locate(self, trajectory: Trajectory) -> int | Failed | None:
        """The number of the first wrong turn, -1 for none; None without turns."""
        if not trajectory.turns:
            return None
        material = {
            "task": task_pieces(trajectory),
            "reference": reference_pieces(trajectory),
            "candidates": candidate_pieces(trajectory, label="step", shows="conversation"),
        }
        form: Form = {"first_wrong": Turns(len(trajectory.turns), most=1)}
        read = await self._read(self._prompt(material, {}, form))
        if isinstance(read, Failed):
            return read
        named: tuple[int, ...] = read.values["first_wrong"]
        return named[0] if named else -1

    def position(self, *, name: str = "first wrong turn") -> Annotated:
        """The number of the first wrong turn as a TRAJECTORY observer of role "shaping": -1 for none."""
        return Annotated(asked_of(_Located(self)), _position, _arguments.text("name", name), Level.TRAJECTORY)


@dataclass(frozen=True)
class _Located:
    find: FirstWrong

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        self.find.require(trajectories)

    async def __call__(self, trajectory: Trajectory) -> int | Failed | None:
        return await self.find.locate(trajectory)


def _position(trajectory: Trajectory, found: int) -> Scored:
    return Scored(float(found), "no wrong turn" if found < 0 else f"turn {found} is wrong")


def first_wrong(
    transport: Transport, *, server: Server, reasks: int = 1, template: Template = FIRST_WRONG
) -> FirstWrong:
    r"""The first wrong step of a solution, located by a model that sees the task and the reference.

    Args:
        transport: carries requests.
        server: which model, and how it is asked.
        reasks: how often a reply that cannot be read is asked for again.
        template: the words.

    Returns:
        An annotator of flags: False before the first wrong turn, True there; turns after it get none, nobody judged
        them. `.position()` is an observer of the number, -1 for none, as `fapo` takes it. A reply that cannot be read
        is `Failed`.

    Raises:
        InvalidArgument: negative `reasks`.
        MissingInput: when asked, trajectories without a table of turns.

    Example:
        >>> import asyncio
        >>> from apportion.judges.transport import Mock
        >>> from apportion.rollouts import Turn
        >>> def says(request):
        ...     code = request.messages[1].content.rsplit("VERDICT ", 1)[1][:8]
        ...     return f"Turn 1 adds wrongly.\nVERDICT {code}: first_wrong=1"
        >>> find = first_wrong(Mock(says), server=Server("judge"))
        >>> asyncio.run(find(Trajectory(id="r", group="q", turns=[Turn(text="2+2=4")] * 3)))
        [False, True, None]

    Source: the question is that of ProcessBench (arXiv 2412.06559) and of FAPO's flaw detector (arXiv 2510.22543).
    """
    return FirstWrong(transport, server, template, _arguments.whole("reasks", reasks, at_least=0))


@dataclass(frozen=True)
class RolesOf(_Asking):
    """See `roles`."""

    meanings: Mapping[str, str]
    around: int

    async def __call__(self, trajectory: Trajectory) -> list[Label | Failed]:
        """One label per turn."""
        return await gather(self._label(trajectory, k) for k in range(len(trajectory.turns)))

    async def _label(self, trajectory: Trajectory, turn: int) -> Label | Failed:
        before = range(max(0, turn - self.around), turn)
        after = range(turn + 1, min(len(trajectory.turns), turn + 1 + self.around))
        material = {
            "task": task_pieces(trajectory),
            "before": [piece for k in before for piece in turn_pieces(trajectory, k)],
            "action": turn_pieces(trajectory, turn),
            "after": [piece for k in after for piece in turn_pieces(trajectory, k)],
        }
        words = {"roles": "\n".join(f"- {role}: {meaning}" for role, meaning in self.meanings.items())}
        read = await self._read(self._prompt(material, words, {"role": Choice(tuple(self.meanings))}))
        if isinstance(read, Failed):
            return read
        return Label(read.values["role"], _arguments.brief(read.critique, 240))


def roles(
    transport: Transport,
    *,
    server: Server,
    meanings: Mapping[str, str] = ROLE_MEANINGS,
    around: int = 5,
    reasks: int = 1,
    template: Template = ROLES,
) -> RolesOf:
    """The role of every turn, one question each; the model sees the task and a few turns around, never the outcome.

    Args:
        transport: carries requests.
        server: which model, and how it is asked.
        meanings: what every role means; the roles are the labels.
        around: turns shown before, and after.
        reasks: how often a reply that cannot be read is asked for again.
        template: the words.

    Returns:
        An annotator of labels, such as `triage` takes. A turn whose reply cannot be read is `Failed`.

    Raises:
        InvalidArgument: fewer than two roles, or a negative number.
        MissingInput: when asked, trajectories without a table of turns.

    Source: arXiv 2606.32017 (TRIAGE); the words of the prompt are ours.
    """
    Choice(tuple(meanings))
    _arguments.whole("around", around, at_least=0)
    return RolesOf(transport, server, template, _arguments.whole("reasks", reasks, at_least=0), dict(meanings), around)


@dataclass(frozen=True)
class LinksOf(_Asking):
    """See `links`."""

    most: int

    async def __call__(self, trajectory: Trajectory) -> Links | Failed | Abstained:
        """The graph over the turns."""
        turns = len(trajectory.turns)
        if not turns:
            return Abstained("no turns")
        if turns > self.most:
            return Abstained(f"{turns} turns, at most {self.most} are traced")
        material = {
            "task": task_pieces(trajectory),
            "candidates": candidate_pieces(trajectory, label="action", shows="conversation"),
        }
        form: Form = {
            "supports": Edges(turns),
            "failed_uses": Edges(turns),
            "errors": Turns(turns),
            "from_user": Turns(turns),
        }
        read = await self._read(self._prompt(material, {}, form))
        if isinstance(read, Failed):
            return read
        return Links(**read.values, why=_arguments.brief(read.critique, 240))


def links(
    transport: Transport, *, server: Server, most: int = 60, reasks: int = 1, template: Template = LINKS
) -> LinksOf:
    """Which turn used what which other turn brought, and which suffered from whose error.

    Args:
        transport: carries requests.
        server: which model; the paper asks at temperature 0.
        most: turns beyond which a rollout is not traced; it is `Abstained` then.
        reasks: how often a reply that cannot be read is asked for again.
        template: the words.

    Returns:
        An annotator of `Links`, such as `iapo` takes. A reply that cannot be read, or that names turns which do not
        exist or pairs that lead backwards, is `Failed` as a whole.

    Raises:
        InvalidArgument: `most` below 1 or negative `reasks`.
        MissingInput: when asked, trajectories without a table of turns.

    Source: arXiv 2608.24588 (IAPO); the words of the prompt are ours.
    """
    _arguments.whole("most", most, at_least=1)
    return LinksOf(transport, server, template, _arguments.whole("reasks", reasks, at_least=0), most)
