"""What Python code does to files, read from its syntax tree: `python -c`, here-documents and scripts written before."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Sequence

from apportion.rewards.shell.machine import Call
from apportion.rewards.shell.marks import DEEP, UNKNOWN, is_wild, plain
from apportion.rewards.shell.parsing import Exhausted
from apportion.rewards.shell.python_names import (
    BELOW,
    COPIES,
    DELETES,
    DYNAMIC,
    FIXTURES,
    LINKS,
    LOOKERS,
    MOVES,
    OPENS,
    PATH_METHODS,
    PROCESSES,
    QUIET,
    SHELLS,
    UNPACKS,
)
from apportion.rewards.shell.python_values import Value, dotted, value_of

__all__ = ["run_python"]


def run_python(call: Call, code: str, *, used: Collection[str] = (), arguments: Sequence[str] = ("",)) -> str:
    """Reports what the code does.

    Args:
        call: the command that runs it.
        code: its source.
        used: functions of it that somebody else calls.
        arguments: `sys.argv`.
    """
    machine = call.machine
    if is_wild(code):
        call.unknown(f"Python code that is not known: {plain(code)[:60]!r}")
        return UNKNOWN
    if len(code) > machine.limits.characters:
        raise Exhausted(f"code longer than {machine.limits.characters} characters")
    cell = re.match(r"\s*%%(bash|sh|script \w+)[^\n]*\n", code)
    if cell is not None:
        return machine.run_text(code[cell.end() :])
    for line in re.findall(r"^[ \t]*!(.*)$", code, re.MULTILINE):
        machine.run_text(re.sub(r"\{[^}]*\}", UNKNOWN, line))
    code = re.sub(r"^([ \t]*)[!%].*$", r"\1pass", code, flags=re.MULTILINE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        call.unknown(f"code that does not parse as Python ({type(error).__name__}): {code[:60]!r}")
        return UNKNOWN
    # Functions in it may change the folder; the shell's own stays.
    with machine.subshell():
        return _Reader(call, used, arguments).read(tree)


class _Reader:
    """Goes through the statements in order, with the names that are known so far."""

    def __init__(self, call: Call, used: Collection[str], arguments: Sequence[str]) -> None:
        self.call = call
        self.used = set(used)
        self.names: dict[str, Value] = {"__file__": UNKNOWN, "sys.argv": list(arguments)}
        self.imports: dict[str, str] = {}
        self.printed: list[str] = []
        self.depth = 0

    def read(self, tree: ast.Module) -> str:
        self.used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self.used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        self.used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
        self._block(tree.body)
        return "".join(self.printed)

    def _block(self, body: Sequence[ast.stmt]) -> None:
        with self.call.machine.deeper():
            for statement in body:
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        self.call.machine.step()
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imported(alias.name)
                self.imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            self._imported(node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    self.imports.update(_starred(node.module or ""))
                self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                self._expression(decorator)
            given = {dotted(decorator, self.names, self.imports) for decorator in node.decorator_list}
            if isinstance(node, ast.ClassDef) and node.name in self.used:
                self.used |= {
                    part.name for part in node.body if isinstance(part, ast.FunctionDef) and part.name.startswith("__")
                }
            # A function that nothing names is never called, unless a decorator does it.
            if isinstance(node, ast.ClassDef) or node.name in self.used or given - QUIET:
                saved = dict(self.names)
                if not isinstance(node, ast.ClassDef):
                    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                    self.names.update({a.arg: FIXTURES.get(a.arg, UNKNOWN) for a in arguments})
                self._block(node.body)
                self.names = saved
        elif isinstance(node, ast.Assign):
            self._expression(node.value)
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            if node.value is not None:
                self._expression(node.value)
                if isinstance(node, ast.AnnAssign):
                    self._bind(node.target, node.value)
                elif isinstance(node.target, ast.Name):
                    joined = ast.BinOp(ast.Name(node.target.id), node.op, node.value)
                    self.names[node.target.id] = self._value(joined)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._loop(node)
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.stmt):
                    self._statement(part)
                elif isinstance(part, ast.expr):
                    self._expression(part)
                elif isinstance(part, ast.withitem):
                    self._expression(part.context_expr)
                    if isinstance(part.optional_vars, ast.Name):
                        self.names[part.optional_vars.id] = self._value(part.context_expr)
                else:
                    self._nested(part)

    def _nested(self, part: ast.AST) -> None:
        with self.call.machine.deeper():
            for child in ast.iter_child_nodes(part):
                if isinstance(child, ast.stmt):
                    self._statement(child)
                elif isinstance(child, ast.expr):
                    self._expression(child)

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        self._expression(node.iter)
        values = self._value(node.iter)
        several = values if isinstance(values, list) else [UNKNOWN]
        for value in several[:32] + ([UNKNOWN] if len(several) > 32 else []):
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    self.names[name.id] = value if name is node.target else UNKNOWN
            self._block(node.body)
        self._block(node.orelse)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            named = dotted(value, self.names, self.imports)
            self.names[target.id] = self._value(value)
            if isinstance(value, ast.Attribute | ast.Name | ast.Call) and "?" not in named and not named.endswith("()"):
                self.imports[target.id] = named
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                if isinstance(part, ast.Name):
                    self.names[part.id] = UNKNOWN

    def _value(self, node: ast.AST | None) -> Value:
        return value_of(node, self.names, self.imports)

    def _expression(self, node: ast.expr) -> None:
        """Reports the calls in an expression, inner ones first."""
        self.call.machine.step()
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for generator in node.generators:
                self._expression(generator.iter)
                values = self._value(generator.iter)
                if isinstance(generator.target, ast.Name):
                    self.names[generator.target.id] = (
                        values[0] if isinstance(values, list) and len(values) == 1 else UNKNOWN
                    )
        with self.call.machine.deeper():
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._expression(child)
                elif isinstance(child, ast.keyword):
                    self._expression(child.value)
        if isinstance(node, ast.NamedExpr):
            self._bind(node.target, node.value)
        if isinstance(node, ast.Call):
            self._called(node)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            for part in node.values if isinstance(node, ast.Dict) else node.elts:
                kept = dotted(part, self.names, self.imports) if isinstance(part, ast.Attribute | ast.Name) else ""
                if kept in DELETES | SHELLS | PROCESSES:
                    self.call.unknown(f"keeps {kept} for later")

    def _called(self, node: ast.Call) -> None:
        call = self.call
        name = dotted(node.func, self.names, self.imports).replace("posix.", "os.")
        arguments = [self._value(argument) for argument in node.args]
        first = _path(arguments[0]) if arguments else UNKNOWN
        named = {keyword.arg: self._value(keyword.value) for keyword in node.keywords if keyword.arg}
        second = _path(arguments[1]) if len(arguments) > 1 else _path(named.get("dst", UNKNOWN))
        handed_over = [*node.args, *(keyword.value for keyword in node.keywords)] if name not in LOOKERS else []
        arguments_too = [*arguments, *(self._value(keyword.value) for keyword in node.keywords)]
        for at, argument in enumerate(handed_over):
            handed = (
                dotted(argument, self.names, self.imports) if isinstance(argument, ast.Attribute | ast.Name) else ""
            )
            if handed in DELETES:
                listed = next((value for value in arguments_too[at + 1 :] if isinstance(value, list)), [UNKNOWN])
                for value in listed:
                    call.emit("delete", value, below=handed in BELOW, last=False, how=f"{handed} deletes")
            elif handed in SHELLS or handed in PROCESSES:
                call.unknown(f"hands {handed} to {plain(name)}")
        if name.startswith("os.spawn"):
            arguments = arguments[1:]
        if name in DELETES:
            call.emit("delete", first, below=name in BELOW, last=False, how=f"{name} deletes")
            call.machine.state.forget(call.path(first))
        elif name in MOVES:
            call.emit("delete", first, below=True, last=False, how=f"{name} moves away")
            call.emit("write", second, below=True, mode="replace", how=f"{name} writes")
        elif name in COPIES:
            call.emit("read", first, how=f"{name} reads")
            call.emit("write", second, below=name.endswith("copytree"), mode="replace", how=f"{name} writes")
        elif name in LINKS:
            path = call.emit("write", second, mode="replace", last=False, how=f"{name} replaces")
            call.machine.state.link(path, call.path(first))
        elif name in ("os.truncate", "os.mknod"):
            call.emit("write", first, mode="replace", how=f"{name} writes")
            if name == "os.truncate" and second in ("0", UNKNOWN):
                call.emit("delete", first, how=f"{name} empties")
        elif name in ("urllib.request.urlretrieve", "wget.download"):
            call.emit("write", second, mode="replace", how=f"{name} writes")
        elif name in UNPACKS or (isinstance(node.func, ast.Attribute) and node.func.attr in ("extractall", "extract")):
            folder = second if name in UNPACKS or name.endswith(".extract") else first if arguments else "."
            call.emit("write", f"{folder}/{DEEP}", sure=False, how=f"{plain(name)} unpacks into")
        elif (command := re.search(r"(^|\.)git\.(\w+)$", name)) and "git" in ".".join(self.imports.values()):
            # GitPython: a method for every command.
            call.run(["git", command[2].replace("_", "-"), *map(_path, arguments)])
        elif name.startswith(("operator.methodcaller()", "operator.attrgetter()")):
            self._by_name(node)
        elif name in ("os.chdir", "contextlib.chdir"):
            call.machine.state.cwd = call.path(first)
        elif name in SHELLS:
            call.machine.run_text(first)
        elif name in PROCESSES:
            self._process(arguments, named)
        elif name in OPENS:
            self._opened(node, name, first, arguments, named)
        elif name in DYNAMIC:
            if name in ("exec", "eval", "compile") and not is_wild(first):
                with call.machine.deeper():
                    self.printed.append(run_python(call, first))
            elif name != "compile":
                call.unknown(f"{name} of something that is not known")
        elif name.startswith("sh.") and name.count(".") == 1 and self.imports.get("sh", name) == "sh":
            call.run([name.removeprefix("sh."), *map(_path, arguments)])
        elif name.startswith("ctypes."):
            call.unknown(f"calls into a library: {plain(name)}")
        elif name == "fileinput.input" and _path(named.get("inplace", "")) not in ("", "False", "0"):
            call.emit("write", first, how="fileinput edits")
        elif name == "print":
            self.printed.append(" ".join(_path(value) for value in arguments) + "\n")
        elif any(part.startswith(UNKNOWN) for part in name.split(".")):
            call.unknown(f"calls a function whose name is not known: {plain(name)}")
        elif isinstance(node.func, ast.Attribute):
            self._method(node, node.func, name, first)

    def _by_name(self, node: ast.Call) -> None:
        """`methodcaller("remove", path)(os)`: unknown unless the name is a harmless one."""
        maker = node.func
        while isinstance(maker, ast.Call) and isinstance(maker.func, ast.Call):
            maker = maker.func
        word = _path(self._value(maker.args[0])) if isinstance(maker, ast.Call) and maker.args else UNKNOWN
        if is_wild(word) or any(name.endswith(f".{word}") for name in DELETES | SHELLS | PROCESSES | MOVES):
            self.call.unknown(f"calls a function by its name: {plain(word)}")

    def _imported(self, module: str) -> None:
        """A module that the rollout wrote is run when it is imported."""
        machine = self.call.machine
        script = _path(self.names["sys.argv"][0]) if isinstance(self.names["sys.argv"], list) else ""
        folders = [".", "src", script.rpartition("/")[0] or "."]
        places = [f"{folder}/{module.replace('.', '/')}{end}" for folder in folders for end in (".py", "/__init__.py")]
        path = next((path for path in map(self.call.path, places) if path in machine.state.files), None)
        if path is None or path in machine.expanding:
            return
        machine.expanding.add(path)
        try:
            with machine.deeper():
                self.printed.append(run_python(self.call, machine.state.files[path], used=self.used))
        finally:
            machine.expanding.discard(path)

    def _method(self, node: ast.Call, function: ast.Attribute, name: str, first: str) -> None:
        method = function.attr
        kind = PATH_METHODS.get(method)
        owner = _path(self._value(function.value))
        if kind == "delete":
            self.call.emit("delete", owner, below=method == "rmtree", last=False, how=f".{method}() deletes")
        elif kind == "write":
            mode_of = "append" if method == "touch" else "replace"
            self.call.emit(
                "write", owner, mode="append" if mode_of == "append" else "replace", how=f".{method}() writes"
            )
        elif method in ("rename", "replace") and len(node.args) == 1 and not node.keywords:
            self.call.emit("delete", owner, below=True, last=False, how=f".{method}() moves away")
            self.call.emit("write", first, below=True, mode="replace", how=f".{method}() writes")
        elif method in ("symlink_to", "hardlink_to"):
            path = self.call.emit("write", owner, mode="replace", last=False, how=f".{method}() replaces")
            self.call.machine.state.link(path, self.call.path(first))
        elif method == "open" and re.fullmatch(r"[rwaxbt+]{1,4}", first if node.args else "r"):
            self._opened(node, "open", owner, [owner, *map(self._value, node.args)], {})
        elif method in ("read_text", "read_bytes"):
            self.call.emit("read", owner, how=f".{method}() reads")

    def _opened(
        self, node: ast.Call, name: str, path: str, arguments: Sequence[Value], named: dict[str, Value]
    ) -> None:
        if path == UNKNOWN and "file" in named:
            path = _path(named["file"])
        mode = _path(arguments[1]) if len(arguments) > 1 else _path(named.get("mode", "r"))
        if name == "os.open":
            flags = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
            mode = "w" if any(flag in flags for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")) else "r"
        if not set(mode) & set("wax+") and mode != UNKNOWN:
            self.call.emit("read", path, how="open() reads")
            return
        self.call.emit(
            "write",
            path,
            sure=mode != UNKNOWN,
            mode="replace" if "w" in mode else "append" if "a" in mode else "edit",
            how=f"open(..., {plain(mode)!r}) writes",
        )
        target = self.call.path(path)
        self.call.machine.state.keep(target, UNKNOWN)

    def _process(self, arguments: Sequence[Value], named: dict[str, Value]) -> None:
        call = self.call
        command = arguments[0] if arguments else named.get("args", UNKNOWN)
        with call.machine.subshell():
            if "cwd" in named:
                call.machine.state.cwd = call.path(_path(named["cwd"]))
            if isinstance(command, list):
                call.run(command)
            elif len(arguments) > 1 and isinstance(arguments[1], list):
                call.run(arguments[1])
            elif len(arguments) > 2 and all(isinstance(argument, str) for argument in arguments):
                call.run([_path(argument) for argument in arguments[1:]])
            else:
                call.machine.run_text(command)


def _path(value: Value) -> str:
    return value if isinstance(value, str) else UNKNOWN


def _starred(module: str) -> dict[str, str]:
    names = [*DELETES, *MOVES, *COPIES, *LINKS, *SHELLS, *PROCESSES, "pathlib.Path", "os.chdir"]
    return {name.rpartition(".")[2]: name for name in names if name.rpartition(".")[0] == module}
