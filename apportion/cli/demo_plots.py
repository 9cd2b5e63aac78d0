"""The plots of `apportion demo`, as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apportion._extras import require

__all__ = ["Curve", "Curves", "plot_curves", "plot_turns"]

Curve = Sequence[float]
Curves = Mapping[str, Curve]

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; the dashes help in print. Lines that
# come later are thinner, so that they cover no other.
_STYLES = (("#0072B2", "-", 3.0), ("#D55E00", "-", 1.8), ("#009E73", "--", 1.8), ("#CC79A7", ":", 1.8))
_INK, _FAINT = "#222222", "#bbbbbb"


def plot_curves(panels: Mapping[str, Curves], path: Path) -> Path:
    """One panel per measure, side by side: step -> value, one line per run.

    Args:
        panels: title -> name of the run -> value at step 0, 1, ...
        path: of the PNG file.
    """
    figure, axes = _panels(panels)
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for (name, values), (colour, dashes, thick) in zip(curves.items(), _STYLES, strict=False):
            axis.plot(range(len(values)), values, color=colour, linestyle=dashes, linewidth=thick, label=name)
        axis.set_title(title, loc="left", fontsize=11, color=_INK)
        axis.set_xlabel("step of RL")
        axis.set_ylim(bottom=min(0.0, -0.03 * max(max(values) for values in curves.values())))
    return _finished(figure, axes, path)


def plot_turns(panels: Mapping[str, Curves], path: Path) -> Path:
    """One panel per moment, side by side: turn of the episode -> credit, its terms stacked up- and downwards.

    Args:
        panels: title -> term -> mean credit at turn 0, 1, ...
        path: of the PNG file.
    """
    figure, axes = _panels(panels)
    longest = max(len(values) for terms in panels.values() for values in terms.values())
    for axis in axes[1:]:
        axis.sharex(axes[0])
        axis.sharey(axes[0])
    axes[0].set_xticks(range(1, longest + 1))
    for axis, (title, terms) in zip(axes, panels.items(), strict=True):
        turns = range(1, len(next(iter(terms.values()))) + 1)
        up, down = [0.0] * len(turns), [0.0] * len(turns)
        for (name, values), (colour, *_) in zip(terms.items(), _STYLES, strict=False):
            base = [up[k] if value >= 0 else down[k] for k, value in enumerate(values)]
            axis.bar(turns, values, bottom=base, color=colour, width=0.7, label=name)
            for k, value in enumerate(values):
                up[k], down[k] = up[k] + max(value, 0.0), down[k] + min(value, 0.0)
        axis.axhline(0, color=_INK, linewidth=0.8)
        axis.set_title(title, loc="left", fontsize=11, color=_INK)
        axis.set_xlabel("turn of the episode")
    axes[0].set_ylabel("mean credit of a token")
    return _finished(figure, axes, path)


def _panels(panels: Mapping[str, Curves]) -> tuple[Any, Sequence[Any]]:
    # The plain figure, not pyplot: no window system is asked for, and nothing global is left behind.
    size = (1.5 + 4 * len(panels), 3.6)
    figure = require("matplotlib.figure", extra="demo").Figure(figsize=size, dpi=150, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(_FAINT)
        axis.tick_params(color=_FAINT, labelcolor=_INK, labelsize=9)
        axis.grid(axis="y", color="#eeeeee")
        axis.set_axisbelow(True)
    return figure, axes


def _finished(figure: Any, axes: Sequence[Any], path: Path) -> Path:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=10)
    figure.savefig(path)
    return path
