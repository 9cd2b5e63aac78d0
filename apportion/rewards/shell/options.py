"""Options of a command, in every spelling: `-rf`, `-r -f`, `-R`, `--recursive`, `--recurs`, `-ofile`, `--out=file`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apportion.rewards.shell.marks import UNKNOWN

__all__ = ["Grammar", "Options", "grammar_of", "read"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a program's options look like.

    Attributes:
        valued: letters that take a value.
        attached: letters whose value, if any, is attached (`sed -i.bak`).
        longs: long options without a value, and the letter or name that each stands for.
        long_valued: long options with a value, and the letter or name.
        same: letters that mean another letter.
        first: whether options end at the first operand (a wrapper's, since the rest is the command).
    """

    valued: str = ""
    attached: str = ""
    longs: Mapping[str, str] = field(default_factory=dict)
    long_valued: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    first: bool = False


@dataclass(slots=True)
class Options:
    """What was given.

    Attributes:
        flags: letters, or names of long options that have none.
        values: of those that take one, by letter or name.
        operands: the rest.
        unclear: whether a word that nobody can know may hide an option.
    """

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)
    unclear: bool = False

    def value(self, name: str) -> str | None:
        """The last value of an option."""
        return self.values[name][-1] if name in self.values else None


def read(words: Sequence[str], grammar: Grammar) -> Options:
    """Reads the words after the program.

    Example:
        >>> read(["-fR", "--verb", "x", "--", "-y"], GRAMMARS["rm"]).flags == {"f", "r", "verbose"}
        True
    """
    found = Options()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            found.operands.extend(words[at:])
            break
        if word.startswith(UNKNOWN):
            found.unclear = True
        if word.startswith("--") and len(word) > 2:
            at += _long(found, word[2:], words[at : at + 1], grammar)
        elif word.startswith("-") and len(word) > 1:
            at += _short(found, word[1:], words[at : at + 1], grammar)
        elif grammar.first:
            found.operands.extend([word, *words[at:]])
            break
        else:
            found.operands.append(word)
    return found


def _long(found: Options, word: str, following: Sequence[str], grammar: Grammar) -> int:
    name, equals, value = word.partition("=")
    for table, valued in ((grammar.long_valued, True), (grammar.longs, False)):
        full = name if name in table else next((long for long in table if long.startswith(name)), None)
        if full is None or (not valued and name in grammar.long_valued):
            continue
        found.flags.add(table[full])
        if valued:
            found.values.setdefault(table[full], []).append(value if equals else "".join(following))
            return 0 if equals else len(following)
        if equals:
            found.values.setdefault(table[full], []).append(value)
        return 0
    found.flags.add(name)
    if equals:
        found.values.setdefault(name, []).append(value)
    return 0


def _short(found: Options, letters: str, following: Sequence[str], grammar: Grammar) -> int:
    for at, written in enumerate(letters):
        letter = grammar.same.get(written, written)
        if letter == UNKNOWN:
            found.unclear = True
        found.flags.add(letter)
        if written in grammar.attached:
            found.values.setdefault(letter, []).append(letters[at + 1 :])
            return 0
        if written in grammar.valued:
            rest = letters[at + 1 :]
            found.values.setdefault(letter, []).append(rest or "".join(following))
            return 0 if rest else len(following)
    return 0


_COPY = Grammar(
    valued="tS",
    longs={"recursive": "r", "archive": "a", "force": "f", "link": "l", "symbolic-link": "s", "no-clobber": "n"},
    long_valued={"target-directory": "t", "suffix": "S"},
    same={"R": "r"},
)

GRAMMARS: dict[str, Grammar] = {
    "rm": Grammar(
        longs={
            "recursive": "r",
            "force": "f",
            "verbose": "verbose",
            "dir": "d",
            "interactive": "i",
            "no-preserve-root": "no-preserve-root",
            "one-file-system": "one-file-system",
            "help": "help",
            "version": "version",
        },
        same={"R": "r", "v": "verbose"},
    ),
    "cp": _COPY,
    "mv": _COPY,
    "install": Grammar(
        valued="tmogS",
        longs={"directory": "d"},
        long_valued={"target-directory": "t", "mode": "m", "owner": "o", "group": "g", "suffix": "S"},
    ),
    "ln": Grammar(
        valued="tS", longs={"symbolic": "s", "force": "f"}, long_valued={"target-directory": "t", "suffix": "S"}
    ),
    "sed": Grammar(
        valued="efl",
        attached="i",
        longs={"quiet": "n", "silent": "n", "regexp-extended": "E", "in-place": "i", "separate": "s"},
        long_valued={"expression": "e", "file": "f", "line-length": "l"},
        same={"r": "E"},
    ),
    "tee": Grammar(longs={"append": "a"}),
    "truncate": Grammar(valued="sr", long_valued={"size": "s", "reference": "r"}, longs={"no-create": "c"}),
    "shred": Grammar(valued="ns", longs={"remove": "u", "force": "f", "zero": "z"}, long_valued={"iterations": "n"}),
    "chmod": Grammar(longs={"recursive": "R"}, long_valued={"reference": "reference"}),
    "patch": Grammar(
        valued="pidoDBbzrFY",
        longs={"dry-run": "dry-run", "reverse": "R"},
        long_valued={"strip": "p", "input": "i", "directory": "d", "output": "o"},
    ),
    "curl": Grammar(
        valued="oXHdFuAebKmTx",
        longs={"remote-name": "O", "location": "L", "silent": "s"},
        long_valued={"output": "o", "output-dir": "output-dir", "request": "X", "header": "H", "data": "d"},
    ),
    "wget": Grammar(valued="OPoaUt", long_valued={"output-document": "O", "directory-prefix": "P"}),
    "sort": Grammar(valued="oktST", long_valued={"output": "o", "key": "k", "field-separator": "t"}),
    "tar": Grammar(
        valued="fCTX",
        longs={"extract": "x", "get": "x", "create": "c", "list": "t", "remove-files": "remove-files"},
        long_valued={"file": "f", "directory": "C", "to-command": "to-command", "checkpoint-action": "action"},
    ),
    "unzip": Grammar(valued="d"),
    "git commit": Grammar(
        valued="mFcCtu",
        longs={"no-verify": "n", "all": "a", "amend": "amend", "quiet": "q", "verbose": "v"},
        long_valued={"message": "m", "file": "F", "author": "author", "date": "date"},
    ),
    "git push": Grammar(
        valued="o",
        longs={
            "force": "f",
            "dry-run": "n",
            "no-verify": "no-verify",
            "force-with-lease": "force-with-lease",
            "delete": "d",
            "mirror": "mirror",
        },
    ),
    "git merge": Grammar(valued="mXs", longs={"no-verify": "no-verify"}),
    "git am": Grammar(longs={"no-verify": "no-verify"}),
    "git rebase": Grammar(valued="xX", longs={"no-verify": "no-verify"}, long_valued={"exec": "x"}),
    **dict.fromkeys(
        ("git log", "git show", "git rev-list", "git shortlog", "git whatchanged", "git diff", "git format-patch"),
        Grammar(
            valued="nSGL",
            long_valued={
                name: name
                for name in (
                    "grep",
                    "author",
                    "committer",
                    "since",
                    "after",
                    "until",
                    "before",
                    "format",
                    "max-count",
                    "output",
                )
            },
        ),
    ),
    "git config": Grammar(valued="f", long_valued={"file": "f"}),
    "git clean": Grammar(valued="e", longs={"force": "f", "dry-run": "n", "quiet": "q"}, long_valued={"exclude": "e"}),
    "git checkout": Grammar(
        valued="bB",
        longs={"force": "f", "patch": "p", "quiet": "q", "ours": "ours", "theirs": "theirs", "detach": "detach"},
        long_valued={"orphan": "b", "conflict": "conflict", "pathspec-from-file": "pathspec-from-file"},
    ),
    "git restore": Grammar(
        valued="s",
        longs={"staged": "S", "worktree": "W", "patch": "p"},
        long_valued={"source": "s", "pathspec-from-file": "pathspec-from-file"},
    ),
    "git switch": Grammar(
        valued="cC", longs={"force": "f", "discard-changes": "f", "detach": "d"}, long_valued={"create": "c"}
    ),
    "git reset": Grammar(longs={"hard": "hard", "soft": "soft", "mixed": "mixed", "keep": "keep", "merge": "merge"}),
    "git rm": Grammar(longs={"cached": "cached", "force": "f", "dry-run": "n"}),
    "git mv": Grammar(longs={"force": "f", "dry-run": "n"}),
    "git stash": Grammar(valued="m", longs={"include-untracked": "u", "all": "a"}, long_valued={"message": "m"}),
    "git apply": Grammar(
        valued="pC",
        longs={"check": "check", "stat": "stat", "numstat": "stat", "cached": "cached", "reverse": "R"},
        long_valued={"directory": "directory", "exclude": "exclude", "include": "include"},
    ),
}


def grammar_of(program: str) -> Grammar:
    """The grammar of a program; of one that is not listed, letters and long names without values."""
    return GRAMMARS.get(program, Grammar())
