"""Ways to run Python: `python -c`, scripts and modules that the rollout wrote, its tests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import DEEP, UNKNOWN
from apportion.rewards.shell.options import Grammar, read
from apportion.rewards.shell.python_code import run_python

__all__ = ["HANDLERS"]

_TESTS = re.compile(r"test_.*\.py|.*_test\.py")
# What a test runner calls.
_COLLECTED = re.compile(r"(?:def|class)\s+((?:test|Test|setup|setUp|teardown|tearDown|pytest_)\w*)")


def _module(call: Call, module: str, words: list[str]) -> str:
    """`python -m`: a program of the same name, or one of the library's that write files."""
    if module in ("zipfile", "tarfile") and re.match(r"-?-e", words[0] if words else ""):
        call.emit("write", f"{words[-1]}/{DEEP}", sure=False, how=f"python -m {module} unpacks into")
    elif module == "json.tool" and len(words) > 1:
        call.emit("write", words[-1], mode="replace", how="python -m json.tool writes")
    elif (content := _written(call, module.replace(".", "/"))) is not None:
        return run_python(call, content, arguments=[module, *words])
    elif module not in call.machine.handlers or module in (
        "pytest",
        "unittest",
        "base64",
        "black",
        "isort",
        "ruff",
        "yapf",
        "autopep8",
    ):
        return call.run([module, *words], call.stdin)
    return UNKNOWN


def _written(call: Call, base: str) -> str | None:
    """A module that the rollout wrote."""
    files = call.machine.state.files
    paths = (call.path(f"{base}{end}") for end in (".py", "/__main__.py"))
    return next((files[path] for path in paths if path in files), None)


def _tests(call: Call, words: Sequence[str]) -> str:
    """Files of tests that the rollout wrote, among those asked for."""
    asked = [call.path(word.partition("::")[0]) for word in words if not word.startswith("-") and "=" not in word]
    for path, content in list(call.machine.state.files.items()):
        name = path.rpartition("/")[2]
        below = any(f"{path}/".startswith(f"{place.rstrip('/')}/") for place in asked or [call.path(".")])
        if (below and _TESTS.fullmatch(name)) or path in asked or name == "conftest.py":
            run_python(call, content, used=_COLLECTED.findall(content))
    return UNKNOWN


def _python(call: Call) -> str:
    grammar = Grammar(valued="cmWX", first=True)
    words: list[str] = call.argv[1:]
    given = read(words, grammar)
    for name in ("sitecustomize.py", "usercustomize.py"):
        # Whoever starts Python runs these.
        if call.path(name) in call.machine.state.files:
            run_python(call, call.machine.state.files[call.path(name)])
    code = given.value("c")
    if code is not None:
        return run_python(call, code, arguments=["-c", *given.operands])
    module = given.value("m")
    if module is not None:
        return _module(call, module, words[next(at for at, word in enumerate(words) if word.endswith(module)) + 1 :])
    script = given.operands[0] if given.operands else "-"
    if script in ("-", "/dev/stdin"):
        return run_python(call, call.stdin, arguments=given.operands or [""]) if call.stdin else UNKNOWN
    path = call.path(script)
    content = call.machine.state.files.get(path, call.machine.state.files.get(f"{path}/__main__.py"))
    if content is not None:
        return run_python(call, content, arguments=given.operands)
    if UNKNOWN in path:
        call.unknown(f"runs a script whose path is not known: {call.line}")
    return UNKNOWN


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("python", "pypy", "ipython"), _python),
    **dict.fromkeys(("pytest", "py.test", "unittest"), lambda call: _tests(call, call.argv[1:])),
}
