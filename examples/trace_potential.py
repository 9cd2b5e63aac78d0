"""TRACE's potential under a frozen reference model: how far each turn closes the gap to the gold answer.

    export REFERENCE_MODEL=path/to/model
    apportion score rollouts.jsonl -r trace -p potential=examples/trace_potential.py -o credit.jsonl

Rollouts need token ids of the reference model's own tokenizer, and their gold answer as text in `reference`.
"""

import os

from transformers import AutoModelForCausalLM, AutoTokenizer

from apportion.judges.scoring import TransformersRescorer, Vocabulary, reference_target
from apportion.judges.scoring.potentials import log_gap

path = os.environ["REFERENCE_MODEL"]
tokenizer = AutoTokenizer.from_pretrained(path)
frozen = TransformersRescorer(
    AutoModelForCausalLM.from_pretrained(path, dtype="auto"), name=path, vocabulary=Vocabulary.of(tokenizer)
)
# Read before the answer and not scored: open a message as your model knows it. Answer and lead are encoded apart, so
# where a tokenizer joins spaces to words, each `reference` starts with its space.
potential = log_gap(frozen, target=reference_target(tokenizer, before="\nThe answer is"))
