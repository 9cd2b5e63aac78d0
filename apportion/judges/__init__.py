"""Observers that ask a model.

- `judge`: a model's opinion of each rollout, by a `Rubric`: alone, in pairs, or about a whole group
- `first_wrong`, `roles`, `links`: models as annotators; `inverse_specification`: guessing the request from the result
- `apportion.judges.exchange`: the seam; `apportion.judges.transport`: what carries requests to a model
- `apportion.judges.scoring`: log-probabilities of given tokens under a model, and potentials built on them
"""

from __future__ import annotations

from apportion.judges.annotators import first_wrong, links, roles
from apportion.judges.canaries import Canaries
from apportion.judges.exchange import Message, Request, Response, Transport, TransportError
from apportion.judges.inverse import Field, inverse_specification
from apportion.judges.judge import Judge, judge
from apportion.judges.prompts import Server
from apportion.judges.record import Judged, JudgeLog, Judgement
from apportion.judges.rubrics import Criterion, Rubric, choice, points, scale, yes_no
from apportion.judges.templates import Template

__all__ = [
    "Canaries",
    "Criterion",
    "Field",
    "Judge",
    "JudgeLog",
    "Judged",
    "Judgement",
    "Message",
    "Request",
    "Response",
    "Rubric",
    "Server",
    "Template",
    "Transport",
    "TransportError",
    "choice",
    "first_wrong",
    "inverse_specification",
    "judge",
    "links",
    "points",
    "roles",
    "scale",
    "yes_no",
]
