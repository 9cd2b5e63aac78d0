"""Constant values of Python expressions, as far as they can be read without running anything; UNKNOWN otherwise."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from apportion.rewards.shell.marks import DEEP, STAR, TILDE, UNKNOWN, globbing, is_wild

__all__ = ["Names", "dotted", "value_of"]

Value: TypeAlias = str | list[str]
Names: TypeAlias = Mapping[str, Value]

_LONGEST = 20_000
_PATH_TYPES = {"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "os.fspath", "str", "bytes",
               "os.path.abspath", "os.path.realpath", "os.path.normpath",
               "os.fsencode", "os.fsdecode", "py.path.local"}  # fmt: skip


def dotted(node: ast.AST, names: Names, imports: Mapping[str, str]) -> str:
    """What an expression names, e.g. "os.remove", seen through import aliases, `getattr` and `__import__`."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            parts.append(imports.get(node.id, node.id))
            break
        elif isinstance(node, ast.Call):
            inner = dotted(node.func, names, imports)
            arguments = [value_of(argument, names, imports) for argument in node.args]
            if inner.endswith("__import__") or inner == "importlib.import_module":
                parts.append(_text(arguments[0]) if arguments else UNKNOWN)
                break
            if inner in ("getattr", "builtins.getattr") and len(arguments) > 1:
                parts.append(_text(arguments[1]))
                node = node.args[0]
                continue
            parts.append(inner + "()")
            break
        elif isinstance(node, ast.NamedExpr):
            node = node.value
        elif isinstance(node, ast.Subscript):
            inner = dotted(node.value, names, imports)
            if inner.endswith(("__dict__", "vars()", "globals()", "locals()", "sys.modules")):
                parts.append(_text(value_of(node.slice, names, imports)))
                if inner.endswith("sys.modules"):
                    break
                if isinstance(node.value, ast.Attribute):
                    node = node.value.value
                    continue
                if isinstance(node.value, ast.Call) and node.value.args:
                    node = node.value.args[0]
                    continue
                break
            parts.append("?")
            break
        else:
            parts.append("?")
            break
    return ".".join(reversed(parts)).removeprefix("builtins.").removeprefix("__builtins__.")


def value_of(node: ast.AST | None, names: Names, imports: Mapping[str, str]) -> Value:
    """The text (or list of texts) that an expression is."""
    if node is None:
        return UNKNOWN
    found = _value(node, names, imports)
    return found if len(found) <= _LONGEST else UNKNOWN


def _text(value: Value) -> str:
    return value if isinstance(value, str) else UNKNOWN


def _value(node: ast.AST, names: Names, imports: Mapping[str, str]) -> Value:
    def inner(part: ast.AST) -> str:
        return _text(value_of(part, names, imports))

    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return node.value.decode("utf-8", "replace")
        return str(node.value).replace("\0", "\ufffd") if isinstance(node.value, str | int) else UNKNOWN
    if isinstance(node, ast.Name):
        return names.get(node.id, names.get(imports.get(node.id, ""), UNKNOWN))
    if isinstance(node, ast.Attribute):
        return names.get(dotted(node, {}, imports), UNKNOWN)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [inner(part) for part in node.elts[:500]]
    if isinstance(node, ast.JoinedStr):
        return "".join(inner(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values)
    if isinstance(node, ast.BinOp):
        left, right = value_of(node.left, names, imports), value_of(node.right, names, imports)
        if isinstance(node.op, ast.Add):
            if isinstance(left, list) and isinstance(right, list):
                return [*left, *right]
            return _text(left) + _text(right)
        if isinstance(node.op, ast.Div):
            return posixpath.join(_text(left), _text(right))
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            filled = left
            for part in right if isinstance(right, list) else [right]:
                filled = filled.replace("%s", part, 1)
            return filled
        return UNKNOWN
    if isinstance(node, ast.Subscript):
        return _sliced(node, names, imports)
    if isinstance(node, ast.Call):
        return _called(node, names, imports)
    return UNKNOWN


def _sliced(node: ast.Subscript, names: Names, imports: Mapping[str, str]) -> Value:
    value = value_of(node.value, names, imports)
    if isinstance(node.slice, ast.Slice) and isinstance(value, str) and not is_wild(value):
        try:
            bounds = [
                None if part is None else ast.literal_eval(part)
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return value[slice(*bounds)]
        except (ValueError, TypeError, RecursionError):
            return UNKNOWN
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) and not is_wild("".join(value)):
        at = node.slice.value
        return value[at] if -len(value) <= at < len(value) else UNKNOWN
    return UNKNOWN


def _called(node: ast.Call, names: Names, imports: Mapping[str, str]) -> Value:
    name = dotted(node.func, names, imports)
    values = [value_of(argument, names, imports) for argument in node.args]
    texts = [_text(value) for value in values]
    if name == "os.path.join" or name in _PATH_TYPES:
        return posixpath.join(*texts) if texts else "."
    if name == "os.path.expanduser":
        return _home(texts[0]) if texts else UNKNOWN
    if name in ("tempfile.mkdtemp", "tempfile.mktemp", "tempfile.gettempdir", "tempfile.TemporaryDirectory"):
        return "/tmp" if name.endswith("tempdir") else "/tmp/tmp.apportion"
    if name == "shlex.split" and texts:
        return texts[0].split() if not is_wild(texts[0]) else UNKNOWN
    if name == "os.getcwd":
        return "."
    if name in ("pathlib.Path.cwd", "pathlib.Path.home"):
        return "." if name.endswith("cwd") else TILDE
    if name in ("glob.glob", "glob.iglob") and texts:
        return [globbing(texts[0])]
    if name in ("os.listdir", "os.scandir"):
        return [STAR]
    if name in ("sorted", "list", "tuple", "reversed", "set", "iter", "enumerate") and values:
        return values[0]
    if any(is_wild(text) for text in texts):
        return UNKNOWN
    decode = _DECODERS.get(name)
    if decode is not None and texts:
        try:
            return decode(texts)
        except (ValueError, binascii.Error, LookupError, OverflowError):
            return UNKNOWN
    if isinstance(node.func, ast.Attribute):
        return _method(value_of(node.func.value, names, imports), node.func.attr, values)
    return UNKNOWN


_DECODERS: dict[str, Callable[[Sequence[str]], str]] = {
    "base64.b64decode": lambda texts: base64.b64decode(texts[0]).decode(),
    "base64.b32decode": lambda texts: base64.b32decode(texts[0]).decode(),
    "base64.b16decode": lambda texts: base64.b16decode(texts[0]).decode(),
    "bytes.fromhex": lambda texts: bytes.fromhex(texts[0]).decode(),
    "binascii.unhexlify": lambda texts: bytes.fromhex(texts[0]).decode(),
    "chr": lambda texts: chr(int(texts[0])),
    "codecs.decode": lambda texts: codecs.decode(texts[0], "rot13") if "rot" in texts[-1] else UNKNOWN,
}


def _home(path: str) -> str:
    return TILDE + path[1:] if path == "~" or path.startswith("~/") else path


def _method(value: Value, name: str, values: Sequence[Value]) -> Value:
    texts = [_text(part) for part in values]
    if name == "join" and isinstance(value, str) and values and isinstance(values[0], list):
        return value.join(values[0])
    if name == "joinpath" and isinstance(value, str):
        return posixpath.join(value, *texts)
    if isinstance(value, list) or is_wild(value):
        return UNKNOWN
    if name in ("decode", "encode", "resolve", "absolute", "as_posix", "strip"):
        return value
    if name == "expanduser":
        return _home(value)
    if name in ("lower", "upper"):
        return value.lower() if name == "lower" else value.upper()
    if name == "replace" and len(texts) == 2:
        return value.replace(texts[0], texts[1]) if len(value) * max(len(texts[1]), 1) < _LONGEST else UNKNOWN
    if name == "split":
        return (value.split(texts[0]) if texts else value.split()) if not texts or texts[0] else UNKNOWN
    if name == "format":
        for text in texts:
            value = value.replace("{}", text, 1)
        return value
    if name in ("glob", "rglob") and texts:
        return [f"{value}/{globbing(texts[0])}" if name == "glob" else f"{value}/{DEEP}{globbing(texts[0])}"]
    if name == "iterdir":
        return [f"{value}/{STAR}"]
    return UNKNOWN
