"""Estimators: pure functions from reward signals to advantages. They observe nothing and import no observer."""

from apportion.advantages.aggregation import Aggregation, reweight, token_weights
from apportion.advantages.bilevel_gae import bilevel_gae
from apportion.advantages.by_source import by_source
from apportion.advantages.channel import channel, group_center
from apportion.advantages.combine import gate, normalize_then_sum, per_channel, sum_then_normalize
from apportion.advantages.dialect import DIALECTS, Dialect, dialect
from apportion.advantages.dr_grpo import dr_grpo
from apportion.advantages.gae import gae, lambda_returns
from apportion.advantages.gae_tensors import packed_gae, padded_gae
from apportion.advantages.gdpo import gdpo
from apportion.advantages.gpg import gpg
from apportion.advantages.graft import Grafted, balanced, graft, graftable, peer_weight
from apportion.advantages.group_stat import GroupStatistics, group_stat, group_statistics
from apportion.advantages.grpo import grpo
from apportion.advantages.keep import KEEP_REASONS, Kept, keep_teaching, keep_varying
from apportion.advantages.keys import step_index, within_group
from apportion.advantages.loss import Loss, aggregate_loss
from apportion.advantages.maxrl import maxrl
from apportion.advantages.mc_grpo import mc_grpo
from apportion.advantages.modulate import keep_sign, modulate
from apportion.advantages.novelty import novelty
from apportion.advantages.opo import opo
from apportion.advantages.padded import padded_advantages
from apportion.advantages.pass_at_k import pass_at_k
from apportion.advantages.pass_at_k_top import pass_at_k_top
from apportion.advantages.place import on_last_token, on_last_turn
from apportion.advantages.pseudo_samples import pseudo_samples
from apportion.advantages.reinforce_pp import penalised_rewards, reinforce_pp, reinforce_pp_baseline
from apportion.advantages.remax import remax
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.rloo import rloo
from apportion.advantages.td import td, td_errors
from apportion.advantages.teaches import teaches
from apportion.advantages.variance import variance_shares
from apportion.advantages.whiten import whiten, whitening_skipped

__all__ = [
    "DIALECTS",
    "KEEP_REASONS",
    "Aggregation",
    "Dialect",
    "Grafted",
    "GroupStatistics",
    "Kept",
    "Loss",
    "aggregate_loss",
    "balanced",
    "bilevel_gae",
    "by_source",
    "channel",
    "dialect",
    "dr_grpo",
    "gae",
    "gate",
    "gdpo",
    "gpg",
    "graft",
    "graftable",
    "group_center",
    "group_stat",
    "group_statistics",
    "grpo",
    "keep_sign",
    "keep_teaching",
    "keep_varying",
    "lambda_returns",
    "maxrl",
    "mc_grpo",
    "modulate",
    "normalize_then_sum",
    "novelty",
    "on_last_token",
    "on_last_turn",
    "opo",
    "packed_gae",
    "padded_advantages",
    "padded_gae",
    "pass_at_k",
    "pass_at_k_top",
    "peer_weight",
    "penalised_rewards",
    "per_channel",
    "pseudo_samples",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "remax",
    "return_to_go",
    "reweight",
    "rloo",
    "step_index",
    "sum_then_normalize",
    "td",
    "td_errors",
    "teaches",
    "token_weights",
    "variance_shares",
    "whiten",
    "whitening_skipped",
    "within_group",
]
