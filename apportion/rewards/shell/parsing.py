"""The parse of a command line by tree-sitter's grammar of bash, within limits that hostile text cannot exceed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from apportion._extras import require
from apportion.rewards.shell.marks import clean

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["Limits", "parse", "source"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the analysis of one action may cost; beyond it the answer is "unknown", never a crash and never a guess.

    Counts and not seconds, so that one rollout gets the same answer on every machine.

    Attributes:
        characters: of one command line, script or piece of code.
        steps: visited nodes of the parse, scripts and functions that it runs included.
        depth: of nesting: subshells, functions, scripts, `sh -c`.
        words: that one word may expand to.
    """

    characters: int = 100_000
    steps: int = 6_000
    depth: int = 24
    words: int = 256


@lru_cache(maxsize=1)
def _parser() -> Parser:
    sitter = require("tree_sitter", extra="rules")
    bash = require("tree_sitter_bash", extra="rules")
    made: Parser = sitter.Parser(sitter.Language(bash.language()))
    return made


def parse(text: str) -> Node:
    """The root of the parse; text that is not bash gives a tree with ERROR nodes.

    Example:
        >>> parse("rm -rf build").children[0].type
        'command'
    """
    return _parser().parse(clean(text).encode()).root_node


def source(node: Node) -> str:
    """The text of a node, as it was written."""
    return (node.text or b"").decode("utf-8", "replace")
