"""Advantages through veRL's own `compute_advantage`, over a hand-made batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from apportion.advantages import padded_advantages, rloo
from apportion.errors import InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.verl.encoding import ABSENT, FAILED, UNRECORDED, Layout, carriers, encode, entries
from apportion.integrations.verl.estimator import estimate
from apportion.recipes import load
from apportion.rollouts import Level
from apportion.verdicts import Failed, Scored, Verdict
from tests.differential import needs

protocol = needs.trainer("verl.protocol", extra="verl")
ray_trainer = needs.trainer("verl.trainer.ppo.ray_trainer", extra="verl")
core = needs.trainer("verl.trainer.ppo.core_algos", extra="verl")
omegaconf = needs.trainer("omegaconf", extra="verl")

MASK = torch.tensor(
    [[1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0]]
)
UIDS = ["b", "a", "b", "pad0", "a"]


def algorithm(estimator: str, *, kl: bool = False, **settings: Any) -> Any:
    section = {"adv_estimator": estimator, "gamma": 1.0, "lam": 1.0, "use_kl_in_reward": kl}
    return omegaconf.OmegaConf.create({**section, **({"apportion": settings} if settings else {})})


def computed(
    rewards: Tensor, *, mask: Tensor = MASK, uids: Sequence[str] = UIDS, config: Any = None
) -> tuple[Tensor, Tensor]:
    """veRL's dispatcher with the estimator of the configuration."""
    config = config if config is not None else algorithm("apportion_grpo")
    data = protocol.DataProto.from_dict(
        {"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": np.array(uids, dtype=object)}
    )
    made = ray_trainer.compute_advantage(data, adv_estimator=config.adv_estimator, config=config)
    return made.batch["advantages"], made.batch["returns"]


def at_last(outcomes: Sequence[float], mask: Tensor = MASK) -> Tensor:
    """Each row's outcome on its last policy token, as veRL places it where a response ends on one."""
    rewards = torch.zeros(mask.shape)
    for i, value in enumerate(outcomes):
        if bool(mask[i].any()):
            rewards[i, int(torch.nonzero(mask[i]).max())] = value
    return rewards


def encoded(recipe: Any, rows: Sequence[Sequence[list[Verdict]]], mask: Tensor, *, kl: bool = False) -> Tensor:
    """Rows as `CreditLoop` writes them; `rows[i][o]` are the verdicts of observer o."""
    layout = Layout.of(recipe.observers)
    sizes = [1 + sum(len(entries(verdict)) for cells in row for verdict in cells) for row in rows]
    short = max(n - carriers(mask[i].numpy() != 0, kl_in_reward=kl).size for i, n in enumerate(sizes))
    wide = np.pad(mask.numpy() != 0, ((0, 0), (0, max(short, 0))))
    made = []
    for i, row in enumerate(rows):
        score = row[0][0].value if isinstance(row[0][0], Scored) else 0.0
        made.append(encode(layout, row, score=score, mask=wide[i], kl_in_reward=kl))
    return torch.from_numpy(np.stack(made))


def test_the_registry_has_our_estimators_and_they_compute() -> None:
    advantages, returns = computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_rloo"))
    assert advantages.tolist() == [
        [1, 1, 0, 1, 0, 0],
        [-1, 0, 0, 0, 0, 0],
        [-1, -1, -1, 0, -1, -1],
        [0] * 6,
        MASK[4].tolist(),
    ]
    assert torch.equal(advantages, returns)
    assert advantages.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.uint8, torch.float32])
def test_masks_of_any_dtype(dtype: torch.dtype) -> None:
    made, _ = computed(at_last([1, 0, 0, 0, 1]), mask=MASK.to(dtype))
    assert torch.equal(made, computed(at_last([1, 0, 0, 0, 1]))[0])


def test_groups_are_ids_in_any_order_and_padding_is_in_none() -> None:
    order = [4, 3, 0, 2, 1]
    outcomes = torch.tensor([0.3, 0.9, 0.1, 5.0, 0.4])
    made, _ = computed(at_last(outcomes.tolist()))
    shuffled, _ = computed(
        at_last(outcomes[order].tolist(), MASK[order]), mask=MASK[order], uids=[UIDS[i] for i in order]
    )
    assert torch.equal(shuffled, made[order])
    keep = [0, 1, 2, 4]
    alone, _ = computed(at_last(outcomes[keep].tolist(), MASK[keep]), mask=MASK[keep], uids=[UIDS[i] for i in keep])
    assert torch.equal(alone, made[keep])


def test_single_rows_and_padding_alone_have_no_credit() -> None:
    made, returns = computed(at_last([0.7], MASK[:1]), mask=MASK[:1], uids=["q"])
    assert not made.any()
    made, returns = computed(torch.zeros(2, 6), mask=torch.zeros(2, 6), uids=["pad", "pad"])
    assert not made.any()
    assert not returns.any()


@pytest.mark.parametrize("kind", ["absent", "failed"])
def test_a_missing_verdict_leaves_its_group_before_the_baseline(kind: str) -> None:
    marker = {"absent": ABSENT, "failed": FAILED}[kind]
    mask, uids = torch.ones(4, 3), ["q"] * 4
    rewards = at_last([1.0, marker, 0.0, 0.5], mask)
    made, returns = computed(rewards, mask=mask, uids=uids, config=algorithm("apportion_rloo"))
    assert made[:, 0].tolist() == [0.75, 0.0, -0.75, 0.0]
    expected = padded_advantages(rloo, [1.0, None, 0.0, 0.5], mask, uids)
    assert torch.equal(made, expected)
    assert bool(torch.isfinite(returns).all())
    # As a zero it would have moved the others.
    assert not torch.equal(made, computed(at_last([1, 0, 0, 0.5], mask), mask=mask, uids=uids)[0])


def test_a_marker_is_a_zero_to_estimators_of_verl() -> None:
    mask, uids = torch.ones(4, 3), ["q"] * 4
    config = algorithm("rloo")
    theirs = computed(at_last([1, FAILED, 0, 0.5], mask), mask=mask, uids=uids, config=config)[0]
    assert torch.allclose(theirs, computed(at_last([1, 0, 0, 0.5], mask), mask=mask, uids=uids, config=config)[0])


def test_not_a_number_is_refused_and_never_spread() -> None:
    with pytest.raises(InvalidArgument, match="finite numbers; rows 1"):
        computed(at_last([1, float("nan"), 0, 0, 1]))


def test_too_many_failures_stop_training() -> None:
    mask, uids = torch.ones(4, 3), ["q"] * 4
    rewards = at_last([1.0, FAILED, FAILED, 0.5], mask)
    computed(rewards, mask=mask, uids=uids)
    with pytest.raises(ObserverFailing, match="'outcome' failed on 2 of 4"):
        computed(rewards, mask=mask, uids=uids, config=algorithm("apportion_grpo", failure_limit=0.25))


def test_what_stands_on_observations_counts_for_an_outcome() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    made, _ = computed(
        torch.tensor([[0, 0, 1.0], [0, 0.5, 0.0]]), mask=mask, uids=["q", "q"], config=algorithm("apportion_rloo")
    )
    assert made.tolist() == [[0.5, 0.5, 0.0], [-0.5, -0.5, 0.0]]


RLVP = load("rlvp")
TURNS = torch.tensor([[1, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0]])


def path_rows(outcomes: Sequence[float | None]) -> list[list[list[Verdict]]]:
    counts = [[(0, 1), (1, 0)], [(0, 0), (2, 0)], [(0, 2)], [(1, 0), (0, 0), (0, 1)]]
    return [
        [
            [Failed("-") if outcome is None else Scored(outcome)],
            [Scored(float(broken)) for broken, _ in row],
            [Scored(float(kept)) for _, kept in row],
        ]
        for outcome, row in zip(outcomes, counts, strict=True)
    ]


def offline(recipe: Any, rows: Sequence[Sequence[list[Verdict]]], mask: Tensor, uids: Sequence[str]) -> Tensor:
    """The same verdicts through the library's own API."""
    from apportion.batch import Batch

    batch = Batch.from_mask(mask, uids)
    verdicts: dict[str, Any] = {}
    for o, observer in enumerate(recipe.observers):
        cells = [row[o] for row in rows]
        verdicts[observer.name] = cells if observer.level is Level.TURN else [cell[0] for cell in cells]
    made: Tensor = recipe.assign(batch, verdicts)[0].padded(width=mask.shape[1])
    return made


@pytest.mark.parametrize("kl", [False, True])
def test_rlvp_from_counts_of_turns(kl: bool) -> None:
    rows, uids = path_rows([1.0, 0.0, None, 0.5]), ["p", "p", "q", "q"]
    dense = encoded(RLVP, rows, TURNS, kl=kl)
    mask = torch.nn.functional.pad(TURNS, (0, dense.shape[1] - TURNS.shape[1]))
    made, _ = computed(dense, mask=mask, uids=uids, config=algorithm("apportion_rlvp", kl=kl))
    assert torch.allclose(made, offline(RLVP, rows, mask, uids), atol=1e-7)
    assert made.abs().sum() > 0
    assert dense.sum(1).tolist() == pytest.approx([1.0, 0.0, 0.0, 0.5])


def test_kl_in_the_reward_moves_the_outcome_and_nothing_else() -> None:
    rows, uids = path_rows([1.0, 0.0, 0.25, 0.5]), ["p"] * 4
    dense = encoded(RLVP, rows, TURNS, kl=True)
    mask = torch.nn.functional.pad(TURNS, (0, dense.shape[1] - TURNS.shape[1]))
    kl = 0.125 * torch.arange(1, 5)[:, None] * mask
    made, _ = computed(dense - kl, mask=mask, uids=uids, config=algorithm("apportion_rlvp", kl=True))
    less = path_rows((torch.tensor([1.0, 0.0, 0.25, 0.5]) - kl.sum(1)).tolist())
    assert torch.allclose(made, offline(RLVP, less, mask, uids), atol=1e-6)


@pytest.mark.parametrize("name", ["grpo", "rloo", "opo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_estimators_of_verl_see_the_score_alone(name: str) -> None:
    outcomes, uids = [1.0, 0.0, 0.25, 0.5], ["p", "p", "q", "q"]
    dense = encoded(RLVP, path_rows(outcomes), TURNS, kl=True)
    mask = torch.nn.functional.pad(TURNS, (0, dense.shape[1] - TURNS.shape[1]))
    made, _ = computed(dense, mask=mask, uids=uids, config=algorithm(name))
    plain, _ = computed(at_last(outcomes, mask), mask=mask, uids=uids, config=algorithm(name))
    assert torch.allclose(made, plain, atol=1e-6)


def test_recipes_of_turns_need_the_agent_loop() -> None:
    with pytest.raises(MissingInput, match=r"violations, fulfilments, which is absent.*CreditLoop"):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_rlvp"))


def test_a_turn_column_that_no_turn_has_is_a_wrong_name() -> None:
    rows = [[[Scored(1.0)], [UNRECORDED], [UNRECORDED]]] * 2
    mask = torch.ones(2, 8, dtype=torch.int64)
    dense = encoded(RLVP, rows, mask)
    with pytest.raises(MissingInput, match=r"a column 'violations'.*extra_fields: 'turn_columns'"):
        computed(dense, mask=mask, uids=["q", "q"], config=algorithm("apportion_rlvp"))


def test_dense_rewards_of_an_ordinary_loop_are_turn_rewards_when_told() -> None:
    mask = torch.tensor([[1, 0, 1, 0], [1, 0, 1, 0]])
    rewards = torch.tensor([[0.0, 0.5, 1.0, 0.0], [0.25, 0.0, 0.0, 0.0]])
    config = algorithm("apportion_mt_grpo", dense="turn_rewards")
    made, _ = computed(rewards, mask=mask, uids=["q", "q"], config=config)
    recipe = load("mt_grpo")
    rows: list[list[list[Verdict]]] = [
        [[Scored(1.5)], [Scored(0.5), Scored(1.0)]],
        [[Scored(0.25)], [Scored(0.25), Scored(0.0)]],
    ]
    assert torch.allclose(made, offline(recipe, rows, mask, ["q", "q"]), atol=1e-6)
    with pytest.raises(MissingInput, match="turn_reward"):
        computed(rewards, mask=mask, uids=["q", "q"], config=algorithm("apportion_mt_grpo"))


def test_kl_without_the_agent_loop_is_refused_unless_none_is_missing() -> None:
    with pytest.raises(MissingInput, match="unmarked=scored"):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_grpo", kl=True))
    told = algorithm("apportion_grpo", kl=True, unmarked="scored")
    assert torch.equal(computed(at_last([1, 0, 0, 0, 1]), config=told)[0], computed(at_last([1, 0, 0, 0, 1]))[0])


def test_how_a_rollout_ended_is_not_guessed() -> None:
    with pytest.raises(MissingInput, match="how the rollouts ended"):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_grpo", truncated="exclude"))


def test_state_and_steps_are_refused() -> None:
    rows, uids = path_rows([1.0, 0.0, 0.0, 0.5]), ["p", "p", "q", "q"]
    dense = encoded(RLVP, rows, TURNS)
    mask = torch.nn.functional.pad(TURNS, (0, dense.shape[1] - TURNS.shape[1]))
    with pytest.raises(MissingInput, match="its state of the step before"):
        computed(dense, mask=mask, uids=uids, config=algorithm("apportion_rlvp", gate="reachable"))
    with pytest.raises(MissingInput, match="the training step"):
        computed(dense, mask=mask, uids=uids, config=algorithm("apportion_rlvp", anneal_after=40))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"penalti": 0.5}, r"algorithm\.apportion=\['penalti'\]: expected settings of 'rlvp'"),
        ({"penalty": -1}, r"algorithm\.apportion\.penalty=-1"),
        ({"failure_limit": 2}, r"algorithm\.apportion\.failure_limit=2"),
        ({"timeout": 0}, r"algorithm\.apportion\.timeout=0"),
        ({"dense": "sum"}, r"algorithm\.apportion\.dense='sum': expected one of outcome, turn_rewards"),
        ({"unmarked": True}, r"algorithm\.apportion\.unmarked=True"),
    ],
)
def test_a_bad_setting_is_named_by_its_key(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_rlvp", **settings))


def test_a_recipe_of_the_users_by_file(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from apportion.recipes import load\nrecipe = load('rloo')\n")
    made, _ = computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion", recipe=str(file)))
    assert torch.equal(made, computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_rloo"))[0])
    with pytest.raises(InvalidArgument, match=r"algorithm\.apportion\.recipe=None"):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion"))


def test_a_recipe_that_needs_a_critic_says_so() -> None:
    with pytest.raises(MissingInput, match="apportion_ppo needs values of a critic"):
        computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_ppo"))


def test_shapes_and_uids_are_checked() -> None:
    config = algorithm("apportion_grpo")
    with pytest.raises(InvalidArgument, match="token_level_rewards"):
        estimate(torch.zeros(2, 3), torch.ones(2, 4), config, ["q", "q"])
    with pytest.raises(InvalidArgument, match="2 uids, one per row"):
        estimate(torch.zeros(2, 3), torch.ones(2, 3), config, None)


def test_what_later_versions_hand_over_is_not_looked_at() -> None:
    made = core.get_adv_estimator_fn("apportion_rloo")(
        token_level_rewards=at_last([1, 0, 0, 0, 1]),
        response_mask=MASK,
        config=algorithm("apportion_rloo"),
        index=np.array(UIDS, dtype=object),
        reward_baselines=torch.zeros(5),
        batch={},
        non_tensor_batch={},
    )
    assert torch.equal(made[0], computed(at_last([1, 0, 0, 0, 1]), config=algorithm("apportion_rloo"))[0])
