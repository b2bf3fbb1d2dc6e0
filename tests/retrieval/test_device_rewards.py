"""Rewards in torch equal those of the registry, family by family."""

from __future__ import annotations

import numpy as np
import pytest

from reward_families import random_reward
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import FAMILIES, evaluate
from torch_device import DEVICE

torch = pytest.importorskip("torch")

from setwise.retrieval.device_rewards import KNOWN, evaluated  # noqa: E402

NAMES = [name for name, family in FAMILIES.items() if family.code in KNOWN]


def samples(name: str) -> list:
    rng = np.random.default_rng(FAMILIES[name].code)
    return [random_reward(name, rng) for _ in range(20)]


def test_every_code_that_is_known_is_registered() -> None:
    assert len(NAMES) == len(KNOWN)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_alone(name: str) -> None:
    x = np.concatenate([np.linspace(-4.0, 4.0, 81), [-500.0, 500.0]])
    for reward in samples(name):
        with np.errstate(over="ignore"):
            value = reward.value(x)
        found = evaluated(RewardTable.of([reward]), None, torch.from_numpy(x.copy()).to(DEVICE))
        np.testing.assert_allclose(found.cpu().numpy(), value, rtol=1e-12, atol=1e-13)


def test_families_by_class() -> None:
    rewards = [samples(name)[0] for name in NAMES]
    rng = np.random.default_rng(0)
    x, of_class = rng.normal(size=(3, 50)), rng.integers(len(rewards), size=50)
    found = evaluated(
        RewardTable.of(rewards), torch.from_numpy(of_class).to(DEVICE), torch.from_numpy(x.copy()).to(DEVICE)
    )
    np.testing.assert_allclose(found.cpu().numpy(), evaluate(rewards, of_class, x), rtol=1e-12, atol=1e-13)
