"""The commands in one program, and what its errors look like: one clear message and an exit code."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import apportion
from apportion.cli import _console
from apportion.cli._errors import Code, described, exit_code
from apportion.cli.audit import audit
from apportion.cli.demo import demo
from apportion.cli.doctor import doctor
from apportion.cli.probe import probe
from apportion.cli.recipes import recipes
from apportion.cli.score import score
from apportion.cli.show import show
from apportion.errors import ApportionError

__all__ = ["app"]


_EPILOG = (
    "Exit codes: 0 done, 1 audit --strict or doctor found an error or the demo is not as expected, 2 bad argument or "
    "file, 3 rollouts that cannot be read or used, 4 missing extra, 70 a bug in apportion or a recipe file, 130 "
    "interrupted, 143 terminated."
)


class Program(typer.core.TyperGroup):
    """Turns what a command raises into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _console.error("interrupted")
            raise typer.Exit(Code.INTERRUPTED) from None
        except (ApportionError, OSError) as error:
            if ctx.params.get("debug"):
                _console.trace()
            else:
                _console.error(described(error))
            raise typer.Exit(exit_code(error)) from error
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if hasattr(error, "format_message"):  # how the parser of the command line says what is wrong with it
                raise
            _console.trace()
            _console.error(f"{type(error).__name__}: a bug in apportion, or in the recipe file; see above")
            raise typer.Exit(Code.BUG) from error


app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apportion {apportion.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error was raised.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """How much each token of an agent's rollouts deserves, and why."""


for _command in (demo, audit, probe, score, show, recipes, doctor):
    app.command(epilog=_EPILOG)(_command)
