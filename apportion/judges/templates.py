"""`Template`: the words of a judge's prompt as data, with a version and a digest that enters every record.

Substitution is single-pass: a slot's value is never searched for slots, so that "{reference}" in an answer stays what
it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments

__all__ = ["Template"]

_SLOT = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt with named slots.

    Attributes:
        name: what it asks for.
        version: changes whenever the words do.
        system: the system message; no slots.
        user: the user message; slots are {name} in lower-case letters.
        slots: the slots that `user` must have, each at least once.

    Raises:
        InvalidArgument: an empty text, slots in the system message, or slots that do not match the text.

    Example:
        >>> t = Template("toy", "1", system="Judge.", user="Rate {answer}. End with {form}", slots=("answer", "form"))
        >>> t.fill({"answer": "{form}", "form": "a number"})
        'Rate {form}. End with a number'
    """

    name: str
    version: str
    system: str
    user: str
    slots: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("name", "version", "system", "user"):
            _arguments.text(name, getattr(self, name))
        object.__setattr__(self, "slots", tuple(self.slots))
        if _SLOT.search(self.system):
            raise InvalidArgument("system", self.system, "a text without slots: what fills slots belongs to the user")
        found = set(_SLOT.findall(self.user))
        if found != set(self.slots):
            raise InvalidArgument("slots", self.slots, f"exactly the slots of the text: {', '.join(sorted(found))}")

    def fill(self, values: Mapping[str, str]) -> str:
        """The user message with every slot replaced, in one pass.

        Raises:
            InvalidArgument: values for other slots than the template's.
        """
        if set(values) != set(self.slots):
            raise InvalidArgument("values", sorted(values), f"one value for each of {', '.join(self.slots)}")
        return _SLOT.sub(lambda slot: values[slot[1]], self.user)

    def digest(self) -> str:
        """Twelve hexadecimal digits over name, version and words."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
