"""Potentials from log-probabilities: what a state is worth, read off how likely a known answer is there.

- `log_gap`: how much of the gap to the gold answer is closed, on a log scale (TRACE)
- `answer_probability`: the probability of the gold answer per token (IGPO)
- `cluster_support`: support for the rollout's own answer among those of its group, no gold answer needed (SIOP)
"""

from apportion.judges.scoring.potentials.answer_probability import AnswerProbability, answer_probability
from apportion.judges.scoring.potentials.cluster_support import ClusterSupport, cluster_support
from apportion.judges.scoring.potentials.clusters import Cluster, clustered, reliability
from apportion.judges.scoring.potentials.log_gap import LogGap, log_gap

__all__ = [
    "AnswerProbability",
    "Cluster",
    "ClusterSupport",
    "LogGap",
    "answer_probability",
    "cluster_support",
    "clustered",
    "log_gap",
    "reliability",
]
