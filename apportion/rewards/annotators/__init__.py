"""What was noted about turns: labels, flags, links between them, the first error. They move credit and give none."""

from apportion.rewards.annotators.base import Annotated, Annotator
from apportion.rewards.annotators.decisive import decisive_turn
from apportion.rewards.annotators.labels import Label, flagged, labelled
from apportion.rewards.annotators.links import Links, link_features
from apportion.rewards.annotators.recorded import first_error, recorded_notes

__all__ = [
    "Annotated",
    "Annotator",
    "Label",
    "Links",
    "decisive_turn",
    "first_error",
    "flagged",
    "labelled",
    "link_features",
    "recorded_notes",
]
