"""The local backend against one forward pass per prefix, and what it refuses."""

import numpy as np
import pytest
import torch
import transformers

from apportion.errors import InvalidArgument
from apportion.judges.scoring import (
    LogProbs,
    TransformersRescorer,
    Vocabulary,
    at_boundaries,
    continuation,
    own_tokens,
)
from apportion.judges.scoring import transformers as backend
from apportion.verdicts import Abstained, Failed
from tests.judges.scoring.tiny import WIDTH, qwen3, ragged, values, written_out

MODEL = qwen3()


@pytest.mark.parametrize("how", ["packed", "naive"])
@pytest.mark.parametrize("tokens", [1, 60, 16384])
def test_equals_one_pass_per_prefix(how: str, tokens: int) -> None:
    requests = ragged(seed=tokens)
    answers = TransformersRescorer(MODEL, name="tiny", how=how, tokens_per_pass=tokens).score(requests)
    for request, row in zip(requests, answers, strict=True):
        assert len(row) == request.at.size
        for k, answer in enumerate(row):
            assert values(answer) == pytest.approx(written_out(MODEL, request, k), abs=2e-5)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_portions_of_branches_change_nothing(attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = qwen3(attn_implementation=attention)
    request = at_boundaries(np.arange(30), [4, 30, 11, 11, 25], np.arange(40, 47), lead=[3])
    monkeypatch.setattr(backend, "_BRANCH_TOKENS", 15)
    rescorer = TransformersRescorer(model, name="tiny", how="packed")
    for k, answer in enumerate(rescorer.score([request, at_boundaries([1, 2], [1, 2], [[5], [6, 7]])])[0]):
        assert values(answer) == pytest.approx(written_out(model, request, k), abs=2e-5)


def test_long_branches_become_sequences_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_BRANCH_TOKENS", 3)
    request = at_boundaries(np.arange(12), [3, 6, 12], [[1, 2, 3, 4, 5, 6], [7, 8], [9, 10]])
    for k, answer in enumerate(TransformersRescorer(MODEL, name="tiny", how="packed").score([request])[0]):
        assert values(answer) == pytest.approx(written_out(MODEL, request, k), abs=2e-5)


def test_passes_over_the_model_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    rescorer = TransformersRescorer(MODEL, name="tiny", how="packed")
    seen: list[torch.Size] = []
    hook = MODEL.model.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    rescorer.score([at_boundaries(np.arange(20), [5, 10, 20], [1, 2, 3, 4])])
    rescorer.score([at_boundaries(np.arange(20), [5, 10, 20], [1])])
    rescorer.score([own_tokens(np.arange(20), start=5)])
    hook.remove()
    assert seen == [(1, 20), (1, 3 * (4 - 1)), (1, 20), (1, 19)]


def test_head_sees_the_target_tokens_only() -> None:
    rescorer = TransformersRescorer(MODEL, name="tiny", how="packed")
    seen = []
    hook = MODEL.lm_head.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[0]))
    rescorer.score([at_boundaries(np.arange(40), [5, 10, 20], [1, 2, 3, 4])])
    hook.remove()
    assert sum(seen) == 3 * 4


def test_own_tokens_and_another_context() -> None:
    ids = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    rescorer = TransformersRescorer(MODEL, name="tiny")
    (whole,), (late,), (hindsight,) = rescorer.score(
        [own_tokens(ids), own_tokens(ids, start=5), continuation([7, 7], ids[5:])]
    )
    assert values(whole).size == 7
    assert values(late) == pytest.approx(values(whole)[4:], abs=1e-5)
    assert np.abs(values(hindsight) - values(late)).max() > 1e-2


def test_temperature_divides_the_logits() -> None:
    requests = ragged(seed=3, requests=2)
    answers = TransformersRescorer(MODEL, name="tiny").score(requests, temperature=2.0)
    for request, row in zip(requests, answers, strict=True):
        for k, answer in enumerate(row):
            assert values(answer) == pytest.approx(written_out(MODEL, request, k, temperature=2.0), abs=2e-5)


class Fixed(torch.nn.Module):
    """A head that gives the same logits everywhere."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(len(logits), 32))
        self.logits = torch.tensor(logits)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(*hidden.shape[:-1], -1).clone()


def fixed(logits: list[float], **settings: object) -> TransformersRescorer:
    model = qwen3(width=len(logits))
    model.lm_head = Fixed(logits)
    return TransformersRescorer(model, name="fixed", **settings)


@pytest.mark.parametrize(("temperature", "expected"), [(1, -0.1269), (2, -0.3133)])
def test_known_log_probs_at_both_temperatures(temperature: float, expected: float) -> None:
    ((answer,),) = fixed([2.0, 0.0]).score([continuation([1], [0])], temperature=temperature)
    assert values(answer) == pytest.approx([expected], abs=5e-5)


def test_padding_outputs_are_cut_before_the_softmax() -> None:
    narrow = fixed([2.0, 0.0, 50.0], vocabulary=Vocabulary("two words", 2))
    ((answer,),) = narrow.score([continuation([1], [0])])
    assert values(answer) == pytest.approx([-0.1269], abs=5e-5)


def test_a_vocabulary_wider_than_the_head_names_both_widths() -> None:
    with pytest.raises(InvalidArgument, match="'words' has 62 tokens, 'tiny' 61 outputs"):
        TransformersRescorer(MODEL, name="tiny", vocabulary=Vocabulary("words", WIDTH + 1))


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="request 1 has 61"):
        TransformersRescorer(MODEL, name="tiny").score([continuation([1], [2]), continuation([1], [WIDTH])])


def test_what_cannot_be_scored_says_why_and_the_rest_is_scored() -> None:
    rescorer = TransformersRescorer(MODEL, name="tiny", max_length=10)
    request = at_boundaries(np.arange(9), [0, 3, 9, 5], [[1], [1], [1, 2], []])
    first, second, third, fourth = rescorer.score([request])[0]
    assert first == Abstained("no token precedes the target")
    assert values(second) == pytest.approx(written_out(MODEL, request, 1), abs=2e-5)
    assert third == Abstained("9 context and 2 target tokens exceed the limit of 10")
    assert fourth == Abstained("the target is empty")


def test_nothing_asked_nothing_answered() -> None:
    rescorer = TransformersRescorer(MODEL, name="tiny")
    assert rescorer.score([]) == []
    assert rescorer.score([at_boundaries([1, 2], [], [3]), at_boundaries([], [0], [3])]) == [
        [],
        [Abstained("no token precedes the target")],
    ]


def test_a_boundary_of_nothing_but_a_lead() -> None:
    request = at_boundaries(np.arange(8), [0, 4, 8], [5, 6], lead=[2, 3])
    for k, answer in enumerate(TransformersRescorer(MODEL, name="tiny", how="packed").score([request])[0]):
        assert values(answer) == pytest.approx(written_out(MODEL, request, k), abs=2e-5)


def test_an_error_of_the_model_fails_its_batch_only() -> None:
    model = qwen3()
    rescorer = TransformersRescorer(model, name="tiny", tokens_per_pass=1)

    def refuse(_: object, __: object, kwargs: dict[str, torch.Tensor]) -> None:
        if kwargs["input_ids"].shape[1] > 5:
            raise RuntimeError("out of memory")

    model.model.register_forward_pre_hook(refuse, with_kwargs=True)
    (long,), (short,) = rescorer.score([continuation(np.arange(9), [1]), continuation([1, 2], [1])])
    assert long == Failed("RuntimeError: 'out of memory' while scoring under 'tiny'")
    assert isinstance(short, LogProbs)


def test_a_log_prob_that_is_no_number_fails() -> None:
    ((answer,),) = fixed([float("nan"), 0.0], how="naive").score([continuation([1], [0, 1])])
    assert isinstance(answer, Failed)
    assert "target token 0 is nan" in answer.error


def test_mode_and_gradients_are_as_before() -> None:
    model = qwen3(attention_dropout=0.5).train()
    model.lm_head.eval()
    rescorer = TransformersRescorer(model, name="tiny")
    once, again = (rescorer.score([own_tokens(np.arange(30))])[0][0] for _ in range(2))
    assert values(once).tolist() == values(again).tolist()
    assert model.training
    assert model.model.layers[0].training
    assert not model.lm_head.training
    assert torch.is_grad_enabled()


def test_half_precision_is_said() -> None:
    rescorer = TransformersRescorer(qwen3().to(torch.bfloat16), name="tiny")
    assert rescorer.dtype == "bfloat16"
    assert rescorer.how == "packed"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}, "sliding_attention"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "'dynamic'"),
    ],
)
def test_models_that_cannot_be_packed_are_scored_naively(settings: dict[str, object], why: str) -> None:
    model = qwen3(**settings)
    request = at_boundaries(np.arange(20), [3, 9, 20], [30, 31])
    rescorer = TransformersRescorer(model, name="tiny")
    assert rescorer.how == "naive"
    assert why in rescorer.why
    for k, answer in enumerate(rescorer.score([request])[0]):
        assert values(answer) == pytest.approx(written_out(model, request, k), abs=2e-5)
    with pytest.raises(InvalidArgument, match="how='packed': expected 'naive' or 'auto'"):
        TransformersRescorer(model, name="tiny", how="packed")


def test_a_model_whose_head_is_not_all_is_found_out() -> None:
    config = transformers.Gemma2Config(
        vocab_size=WIDTH,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=0.5,
        layer_types=["full_attention"],
        initializer_range=0.4,
    )
    torch.manual_seed(0)
    rescorer = TransformersRescorer(transformers.Gemma2ForCausalLM(config), name="capped")
    assert rescorer.how == "naive"
    assert "packed and naive scores of a small example differ" in rescorer.why


@pytest.mark.parametrize("kind", ["Llama", "GPT2", "Qwen2"])
def test_other_families(kind: str) -> None:
    sizes = {
        "Llama": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
        "Qwen2": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
        "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    }[kind]
    extra = {"num_key_value_heads": 2} if kind == "Qwen2" else {}
    config = getattr(transformers, f"{kind}Config")(vocab_size=WIDTH, initializer_range=0.4, **sizes, **extra)
    torch.manual_seed(0)
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    model = getattr(transformers, name)(config).eval()
    rescorer = TransformersRescorer(model, name=kind)
    assert rescorer.how == "packed", rescorer.why
    request = at_boundaries(np.arange(20), [3, 9, 20], [30, 31, 32], lead=[33])
    for k, answer in enumerate(rescorer.score([request])[0]):
        assert values(answer) == pytest.approx(written_out(model, request, k), abs=2e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "name="),
        ({"how": "fast"}, "how='fast'"),
        ({"max_length": 0}, "max_length=0"),
        ({"tokens_per_pass": 1.5}, "tokens_per_pass=1.5"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        TransformersRescorer(MODEL, **{"name": "tiny", **settings})


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), True])
def test_wrong_temperature(temperature: float) -> None:
    with pytest.raises(InvalidArgument, match="temperature="):
        TransformersRescorer(MODEL, name="tiny").score([own_tokens([1, 2])], temperature=temperature)


def test_no_language_model() -> None:
    config = transformers.T5Config(vocab_size=10, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(InvalidArgument, match="decoder-only"):
        TransformersRescorer(transformers.T5ForConditionalGeneration(config), name="t5")
