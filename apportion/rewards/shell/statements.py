"""Walks the parse: lists, pipelines, branches, loops, redirections, down to single commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.rewards.shell.branches import Branch
from apportion.rewards.shell.effects import Mode
from apportion.rewards.shell.marks import UNKNOWN, plain
from apportion.rewards.shell.parsing import decoded, source
from apportion.rewards.shell.state import merge

if TYPE_CHECKING:
    from tree_sitter import Node

    from apportion.rewards.shell.machine import Machine

__all__ = ["Redirection", "Statements"]

_QUIET = {"comment", "heredoc_body", "heredoc_end", "test_command", "variable_name", "file_descriptor"}
_BLOCKS = {"program", "compound_statement", "do_group", "elif_clause", "else_clause"}
_REDIRECTS = {"file_redirect", "heredoc_redirect", "herestring_redirect"}
_TURNS = 64


@dataclass(slots=True)
class Redirection:
    """Where a statement reads and writes."""

    stdin: str | None = None
    outputs: list[tuple[str, Mode]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    pipes: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)


class Statements:
    """Runs statements in a machine; every method returns what would be printed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def run(self, node: Node, stdin: str | None) -> str:
        """Runs one statement."""
        machine = self.machine
        machine.step()
        kind = node.type
        if kind in _QUIET or not node.is_named:
            if kind == "test_command":
                self.substitutions(node)
                machine.status = None
            return ""
        with machine.deeper(), machine.at(node):
            if kind in _BLOCKS:
                return self._all(node.children, stdin)
            if kind == "command":
                return self._command(node, stdin, [])
            if kind == "redirected_statement":
                return self._redirected(node, stdin)
            if kind == "list":
                return self._list(node, stdin)
            if kind == "pipeline":
                return self._pipeline(node.named_children, stdin, None)
            if kind == "negated_command":
                printed = self._all(node.named_children, stdin)
                machine.status = None if machine.status is None else not machine.status
                return printed
            if kind == "subshell":
                with machine.subshell():
                    return self._all(node.named_children, stdin)
            if kind in ("variable_assignment", "variable_assignments", "declaration_command", "unset_command"):
                return self._declare(node)
            if kind == "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is not None and body is not None:
                    # With its redirections, which apply to every call.
                    whole = (node.text or b"")[body.start_byte - node.start_byte :]
                    machine.state.functions[source(name)] = decoded(whole)
                return ""
            if kind == "if_statement":
                return self._if(node, stdin)
            if kind == "case_statement":
                return self._case(node, stdin)
            if kind == "for_statement":
                return self._for(node, stdin)
            if kind in ("while_statement", "c_style_for_statement"):
                return self._while(node, stdin)
            if kind == "ERROR":
                if source(node).startswith("{") and "," in source(node):
                    return machine.run_text(" ".join(machine.expander.broken(source(node))))
                machine.report("unknown", f"does not parse as bash: {source(node)[:60]}")
            return self._all(node.named_children, stdin)

    def _all(self, nodes: Sequence[Node], stdin: str | None) -> str:
        return "".join([self.run(child, stdin) for child in nodes])

    def substitutions(self, node: Node) -> None:
        """Runs the commands inside words of something that is no command itself."""
        for child in node.named_children:
            self.machine.step()
            if child.type in ("command_substitution", "process_substitution"):
                self.machine.captured(child)
            else:
                with self.machine.deeper():
                    self.substitutions(child)

    def _list(self, node: Node, stdin: str | None, finish: Callable[[Node], str] | None = None) -> str:
        """Runs a list.

        `finish` runs its last part: a redirection or a pipe that the grammar hung on the whole list is that part's.
        """
        # A list leans to the left: walked down in a loop, so that long ones are not deep.
        parts: list[tuple[str, Node]] = []
        while node.type == "list":
            self.machine.step()
            right = node.children[-1]
            operator = next((child.type for child in node.children if child.type in ("&&", "||")), ";")
            parts.append((operator, right))
            node = node.children[0]
        printed = self.run(node, stdin)
        for at, (operator, right) in enumerate(reversed(parts), start=1):
            last = finish if at == len(parts) else None
            printed += self._next(operator, right, stdin, last)
        return printed

    def _next(self, operator: str, right: Node, stdin: str | None, finish: Callable[[Node], str] | None = None) -> str:
        status = self.machine.status
        if status is not None and status is (operator == "||"):
            return ""
        if operator != "||":
            return self.run(right, stdin) if finish is None else finish(right)
        # It ran only if the left failed; what follows mostly relies on the left.
        with self._branch() as branch:
            printed = self.run(right, stdin) if finish is None else finish(right)
        branch.join_into(self.machine)
        self.machine.status = None
        return printed

    def _branch(self) -> Branch:
        return Branch(self.machine)

    def _pipeline(self, nodes: Sequence[Node], stdin: str | None, last: str | None) -> str:
        """Runs a pipeline; `last` is what its last command reads instead, if that is redirected."""
        first, rest = nodes[0], nodes[1:]
        body = first.child_by_field_name("body") if first.type == "redirected_statement" else first
        if body is not None and body.type == "list":
            # "a && b | c" is a, and then b into c.
            redirects = first.children_by_field_name("redirect")
            return self._list(body, stdin, lambda part: self._through(self._piped(part, redirects, stdin), rest, last))
        with self.machine.subshell():
            printed = self.run(first, stdin)
        return self._through(printed, rest, last)

    def _through(self, printed: str, nodes: Sequence[Node], last: str | None) -> str:
        for node in nodes:
            with self.machine.subshell():
                printed = self.run(node, last if last is not None and node == nodes[-1] else printed)
        return printed

    def _if(self, node: Node, stdin: str | None) -> str:
        machine = self.machine
        marks = [child.type for child in node.children]
        split = marks.index("then") if "then" in marks else len(marks)
        self._all([child for child in node.children[:split] if child.is_named], stdin)
        verdict = machine.status
        body = [child for child in node.children[split:] if child.is_named]
        other = [child for child in body if child.type in ("elif_clause", "else_clause")]
        chosen = [child for child in body if child not in other]
        if verdict is not None:
            return self._all(chosen if verdict else other, stdin)
        branches, printed = [], ""
        for arm in (chosen, other):
            with self._branch() as branch:
                printed += self._all(arm, stdin)
            branches.append(branch)
        for branch in branches:
            branch.join_into(machine)
        machine.status = None
        return printed and UNKNOWN

    def _case(self, node: Node, stdin: str | None) -> str:
        branches, printed = [], ""
        subject = node.child_by_field_name("value")
        if subject is not None:
            self.machine.expander.text(subject)
        for item in node.named_children:
            if item.type == "case_item":
                values = item.children_by_field_name("value")
                with self._branch() as branch:
                    printed += self._all([child for child in item.named_children if child not in values], stdin)
                branches.append(branch)
        for branch in branches:
            branch.join_into(self.machine)
        self.machine.status = None
        return printed and UNKNOWN

    def _for(self, node: Node, stdin: str | None) -> str:
        machine = self.machine
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if name is None or body is None:
            return self._all(node.named_children, stdin)
        nodes = node.children_by_field_name("value")
        values = machine.expander.words(nodes) if nodes else list(machine.state.arguments)
        printed = ""
        for value in values[:_TURNS] + ([UNKNOWN] if len(values) > _TURNS else []):
            # A glob stands for each file it fits, so it stays a glob.
            machine.state.assign(source(name), value)
            printed += self.run(body, stdin)
        return printed

    def _while(self, node: Node, stdin: str | None) -> str:
        machine = self.machine
        before = machine.state.copy()
        body = node.child_by_field_name("body")
        printed = self._all([child for child in node.named_children if child != body], stdin)
        if body is not None:
            printed += self.run(body, stdin)
        # Nobody knows how often: what one turn changes may be anything after more of them.
        merge(machine.state, [before])
        machine.status = None
        return printed and UNKNOWN

    def _declare(self, node: Node) -> str:
        machine = self.machine
        machine.status = True
        if node.type == "unset_command":
            for child in node.named_children:
                machine.state.variables[source(child)] = ""
                machine.state.functions.pop(source(child), None)
            return ""
        found = [node] if node.type == "variable_assignment" else node.named_children
        # A reference to another variable, whose value may change later.
        refers = source(node).startswith(("declare -n", "local -n", "typeset -n"))
        for child in found:
            if child.type == "variable_assignment":
                name, _ = self.assign(child)
                if refers:
                    machine.state.assign(name, UNKNOWN)
            elif child.type in ("word", "string", "raw_string", "concatenation"):
                name, equals, value = machine.expander.text(child).partition("=")
                if equals:
                    machine.state.assign(name, value)
        return ""

    def assign(self, node: Node) -> tuple[str, str]:
        """Carries out `name=value` and returns both."""
        machine = self.machine
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = source(target) if target is not None else ""
        if value is not None and value.type == "array":
            machine.state.assign(name, machine.expander.words(value.named_children))
            return name, ""
        text = machine.expander.text(value) if value is not None else ""
        if "[" in name and target is not None:
            self.substitutions(target)
            machine.state.assign(name.partition("[")[0], UNKNOWN)
        elif any(child.type == "+=" for child in node.children):
            old = machine.state.variables.get(name, UNKNOWN)
            if isinstance(old, list):
                machine.state.assign(name, [*old, text])
            else:
                machine.state.assign(name, old + text)
        else:
            machine.state.assign(name, text)
        return name, text

    def _command(self, node: Node, stdin: str | None, extra: list[str]) -> str:
        machine = self.machine
        assigned = [child for child in node.children if child.type == "variable_assignment"]
        name = node.child_by_field_name("name")
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        if name is None:
            for child in assigned:
                self.assign(child)
            return self._finish(self.redirected(redirects), "")
        written = source(name)
        if written in machine.state.aliases and written not in machine.expanding:
            rest = decoded((node.text or b"")[name.end_byte - node.start_byte :])
            machine.expanding.add(written)
            try:
                return machine.run_text(machine.state.aliases[written] + rest, stdin)
            finally:
                machine.expanding.discard(written)
        words = [name.named_children[0] if name.named_children else name, *node.children_by_field_name("argument")]
        argv = machine.expander.words(words) + extra
        where = self.redirected(redirects)
        stdin = stdin if where.stdin is None else where.stdin
        # Set for this command alone: what it runs sees them, what follows does not.
        before = {source(child.children[0]): None for child in assigned} | machine.state.variables
        env = tuple(self.assign(child) for child in assigned)
        printed = machine.dispatch(argv + where.arguments, stdin, env)
        for key, _ in env:
            value = before.get(key)
            if value is None:
                machine.state.variables.pop(key, None)
            else:
                machine.state.variables[key] = value
        return self._finish(where, printed)

    def _redirected(self, node: Node, stdin: str | None) -> str:
        body, redirects = node.child_by_field_name("body"), node.children_by_field_name("redirect")
        if body is not None and body.type == "list":
            return self._list(body, stdin, lambda part: self._piped(part, redirects, stdin))
        return self._piped(body, redirects, stdin)

    def _piped(self, body: Node | None, redirects: Sequence[Node], stdin: str | None) -> str:
        where = self.redirected(redirects)
        if body is None:
            printed = ""
        elif body.type == "pipeline":
            printed = self._pipeline(body.named_children, stdin, where.stdin)
        elif body.type == "command":
            with self.machine.at(body):
                printed = self._command(body, stdin if where.stdin is None else where.stdin, where.arguments)
        else:
            printed = self.run(body, stdin if where.stdin is None else where.stdin)
        return self._finish(where, printed)

    def _finish(self, where: Redirection, printed: str) -> str:
        for path, mode in where.outputs:
            old = self.machine.state.files.get(path, UNKNOWN) if mode == "append" else ""
            self.machine.state.keep(path, old + printed)
        if where.outputs:
            printed = ""
        for pipe in where.pipes:
            printed = self._through(printed, pipe.named_children, None)
        for index, node in enumerate(where.after):
            if node.is_named:
                printed += self._next(where.after[index - 1].type if index else ";", node, None)
        return printed

    def redirected(self, nodes: Sequence[Node]) -> Redirection:
        """Reads redirections: reports what they read and write."""
        where = Redirection()
        for node in nodes:
            with self.machine.at(node):
                if node.type == "herestring_redirect":
                    where.stdin = "".join(self.machine.expander.text(child) for child in node.named_children) + "\n"
                elif node.type == "heredoc_redirect":
                    self._heredoc(node, where)
                else:
                    self._file(node, where)
        return where

    def _heredoc(self, node: Node, where: Redirection) -> None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        bare = start is not None and not set(source(start)) & set("'\"\\")
        tabs = any(child.type == "<<-" for child in node.children)
        where.stdin = ""
        for child in node.children:
            if child.type == "heredoc_body":
                text = self.machine.expander.body(child, expanded=bare)
                where.stdin = "\n".join(line.lstrip("\t") for line in text.split("\n")) if tabs else text
            elif child.type == "file_redirect":
                self._file(child, where)
            elif child.type == "pipeline":
                where.pipes.append(child)
            elif child.type in ("&&", "||") or (child.is_named and where.after and not where.after[-1].is_named):
                where.after.append(child)
            elif child.is_named and child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                where.arguments.extend(self.machine.expander.words([child]))

    def _file(self, node: Node, where: Redirection) -> None:
        machine = self.machine
        operator = next((child.type for child in node.children if not child.is_named), ">")
        if any(child.type == "ERROR" and source(child) == ">" for child in node.children):
            operator = "<>"
        number = next((source(child) for child in node.children if child.type == "file_descriptor"), "")
        targets = node.children_by_field_name("destination")
        words = machine.expander.words(targets)
        where.arguments.extend(words[1:])
        if not words or (operator in (">&", "<&") and (words[0].isdigit() or words[0] == "-")):
            return
        path = machine.state.resolve(words[0])
        if operator == "<>":
            machine.report("write", f"redirect <> writes {plain(path)}", path=path)
            machine.state.keep(path, UNKNOWN)
            return
        if operator.startswith("<"):
            machine.report("read", f"redirect reads {plain(path)}", path=path)
            where.stdin = machine.state.files.get(path, UNKNOWN)
            return
        mode: Mode = "append" if ">>" in operator else "replace"
        machine.report("write", f"redirect {operator} writes {plain(path)}", path=path, mode=mode)
        if number in ("", "1"):
            where.outputs.append((path, mode))
        else:
            machine.state.keep(path, UNKNOWN)
