"""Observers that compute: what happened in a rollout, as verdicts. Never imports torch.

    verdicts = observe([outcome(), path(rules), 0.2 * tag_format()], trajectories)

- outcome: `outcome` of a column, a function, `exact`, `numeric`, `set_match`; `step_reward` of the environment
- path: `path` of rules over each action and the state before it; `mutations`, a flag for turns that change something
- commands: `runs`, `deletes`, `writes` and the like, from a parse of the shell; the proof of a restored folder
- partial credit: `checks_passed`, `unit_tests`, `difference`, `reduce_turns`
- shape of the reply: `tag_format`, `tool_calls`, `repetition`, `overlong`, `cosine_length`, `stop_properly`
- checks of answers for `outcome`: `maths`, `json_match`, `schema_match`, `call_match`, `text_f1`, `text_equal`,
  `choice_letter`, `game24`; as rewards of their own `written_in`, `text_pattern`
- states: `anchor`, which turns of a group started from the same one
- your own: `@reward`
- combined: `a + b`, `0.5 * a`, `gate`, `first_of`, `clip`, `scoped`, `weighted_mean`, `passes`, `vector`
- recorded and not trained on: `metric`
- checked: `self_check`, `constant_report`, `reachable`
"""

from apportion.rewards.anchors import anchor
from apportion.rewards.answers import after, boxed, in_tag, last_line, last_number, parse_number, whole_text
from apportion.rewards.base import Composable, Observation, Reward
from apportion.rewards.checks import SelfCheck, Summary, constant_report, self_check, summarise
from apportion.rewards.combine import clip, first_of, gate
from apportion.rewards.difficulty import difficulty_weights, unit_tests
from apportion.rewards.format import tag_format
from apportion.rewards.function import FunctionReward, reward
from apportion.rewards.happened import happened
from apportion.rewards.length import cosine_length, overlong, stop_properly
from apportion.rewards.linear import Linear, linear
from apportion.rewards.mean import passes, reachable, weighted_mean
from apportion.rewards.metric import metric
from apportion.rewards.mutating import mutating, mutations
from apportion.rewards.observe import Observed, observe, observe_async
from apportion.rewards.outcome import Truncated, exact, numeric, outcome, set_match
from apportion.rewards.partial import checks_passed
from apportion.rewards.path import Finding, Path, path
from apportion.rewards.predicates import Before, Predicate, predicate
from apportion.rewards.repetition import repetition
from apportion.rewards.rules import Rule, at_most, before, never_after, no_repeat, only_between, within
from apportion.rewards.said import said
from apportion.rewards.scope import scoped
from apportion.rewards.shell import (
    deletes,
    discards_changes,
    overwrites_unread,
    reads_history,
    restore_proof,
    restores,
    runs,
    skips_hooks,
    snapshot,
    writes,
)
from apportion.rewards.steps import step_reward
from apportion.rewards.structured import any_action, argument, called, state
from apportion.rewards.temporal import open_between, repeated
from apportion.rewards.toml_rules import rules_from_toml
from apportion.rewards.tool_call import tool_calls
from apportion.rewards.tool_effects import ToolEffects, tool_effects
from apportion.rewards.turns import difference, reduce_turns
from apportion.rewards.vector import Vector, vector
from apportion.rewards.verifiers import (
    TextVerifier,
    Verifier,
    call_match,
    choice_letter,
    final_answer,
    game24,
    json_match,
    json_text,
    marked_answer,
    maths,
    schema_match,
    spoken,
    text_equal,
    text_f1,
    text_pattern,
    written_in,
)

__all__ = [
    "Before",
    "Composable",
    "Finding",
    "FunctionReward",
    "Linear",
    "Observation",
    "Observed",
    "Path",
    "Predicate",
    "Reward",
    "Rule",
    "SelfCheck",
    "Summary",
    "TextVerifier",
    "ToolEffects",
    "Truncated",
    "Vector",
    "Verifier",
    "after",
    "anchor",
    "any_action",
    "argument",
    "at_most",
    "before",
    "boxed",
    "call_match",
    "called",
    "checks_passed",
    "choice_letter",
    "clip",
    "constant_report",
    "cosine_length",
    "deletes",
    "difference",
    "difficulty_weights",
    "discards_changes",
    "exact",
    "final_answer",
    "first_of",
    "game24",
    "gate",
    "happened",
    "in_tag",
    "json_match",
    "json_text",
    "last_line",
    "last_number",
    "linear",
    "marked_answer",
    "maths",
    "metric",
    "mutating",
    "mutations",
    "never_after",
    "no_repeat",
    "numeric",
    "observe",
    "observe_async",
    "only_between",
    "open_between",
    "outcome",
    "overlong",
    "overwrites_unread",
    "parse_number",
    "passes",
    "path",
    "predicate",
    "reachable",
    "reads_history",
    "reduce_turns",
    "repeated",
    "repetition",
    "restore_proof",
    "restores",
    "reward",
    "rules_from_toml",
    "runs",
    "said",
    "schema_match",
    "scoped",
    "self_check",
    "set_match",
    "skips_hooks",
    "snapshot",
    "spoken",
    "state",
    "step_reward",
    "stop_properly",
    "summarise",
    "tag_format",
    "text_equal",
    "text_f1",
    "text_pattern",
    "tool_calls",
    "tool_effects",
    "unit_tests",
    "vector",
    "weighted_mean",
    "whole_text",
    "within",
    "writes",
    "written_in",
]
