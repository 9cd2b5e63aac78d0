"""The audit of tokens: where recorded rows are not what a trainer takes them for.

`audit_tokens` runs every check; the functions beside it are useful on their own. None of it corrects anything, and none
of it belongs in a training loop: there, the recorded ids are used as they are.
"""

from apportion.report.tokens.audit import TokenAudit, TokenAuditor, audit_tokens
from apportion.report.tokens.bos import check_bos
from apportion.report.tokens.compare import Difference, carry_mask, common_prefix, differences, drift, supervised_ids
from apportion.report.tokens.logps import Gap
from apportion.report.tokens.masks import end_mask, next_token_mask
from apportion.report.tokens.tokenizer import ChatTokenizer, load_tokenizer

__all__ = [
    "ChatTokenizer",
    "Difference",
    "Gap",
    "TokenAudit",
    "TokenAuditor",
    "audit_tokens",
    "carry_mask",
    "check_bos",
    "common_prefix",
    "differences",
    "drift",
    "end_mask",
    "load_tokenizer",
    "next_token_mask",
    "supervised_ids",
]
