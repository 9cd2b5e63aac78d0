"""`analyse`: the effects of one command line in the state that earlier ones left."""

from __future__ import annotations

from apportion.rewards.shell import files, git, other_code, outputs, python_programs, rare_tools, text_tools, wrappers
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.machine import Call, Handler, Machine
from apportion.rewards.shell.marks import clean
from apportion.rewards.shell.parsing import Exhausted, Limits
from apportion.rewards.shell.python_code import run_python
from apportion.rewards.shell.state import State

__all__ = ["analyse", "machine_for"]

_HANDLERS: dict[str, Handler] = {
    **outputs.HANDLERS,
    **wrappers.HANDLERS,
    **text_tools.HANDLERS,
    **files.HANDLERS,
    **rare_tools.HANDLERS,
    **git.HANDLERS,
    **other_code.HANDLERS,
    **python_programs.HANDLERS,
}


def machine_for(state: State, limits: Limits) -> Machine:
    """A machine that knows every program that is modelled."""
    return Machine(state, _HANDLERS, limits)


def analyse(code: str, state: State, *, language: str = "shell", limits: Limits | None = None) -> list[Effect]:
    """What a command line does, without running it.

    Args:
        code: as the policy wrote it.
        state: what earlier commands left; changed to what this one leaves.
        language: "shell" or "python".
        limits: what the analysis may cost.

    Returns:
        The effects in order. One of kind "unknown" stands for everything that nobody can know, what is beyond the
        limits included.

    Raises:
        MissingExtra: tree-sitter or its grammar of bash is not installed.

    Example:
        >>> from apportion.rewards.shell.state import Workspace
        >>> for effect in analyse("cd src && env x=1 r''m -f 'a b'", State(Workspace())):
        ...     if effect.kind != "run":
        ...         print(effect)
        rm deletes /workspace/src/a b (command "env x=1 r''m -f 'a b'")
    """
    machine = machine_for(state, limits or Limits())
    try:
        if language == "python":
            run_python(Call(machine, ["python"]), clean(code))
        else:
            machine.run_text(clean(code))
    except Exhausted as beyond:
        _beyond(machine, str(beyond))
    except RecursionError:
        _beyond(machine, "nested too deeply")
    if machine.state.lost:
        _beyond(machine, "more variables, files or links than are followed")
    machine.state.between_actions()
    return machine.effects


def _beyond(machine: Machine, why: str) -> None:
    machine.effects.append(Effect("unknown", why, "program", ""))
