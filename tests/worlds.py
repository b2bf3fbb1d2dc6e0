"""Random catalogues, users and instances for the tests."""

from __future__ import annotations

import numpy as np

import setwise as sw

REWARDS = (
    sw.Logistic(0.7, -0.3),
    sw.Linear(1.3, 0.2),
    sw.ReLU(1.1, 0.4),
    sw.LeakyReLU(0.9, -0.1, slope=0.2),
    sw.Tanh(0.8, 0.1),
    sw.Softplus(1.2, -0.5),
    sw.Exp(0.5, -0.2),
    sw.Exp(-0.5, 0.1),
    sw.PiecewiseLinear((-1.0, 0.0, 0.5, 2.0), (-0.5, 0.0, 1.0, 1.2)),
    sw.Constant(0.4),
)


def random_catalog(
    seed: int,
    n: int = 12,
    heads: int = 1,
    d: int = 3,
    base: bool = False,
    sink: bool = False,
    positions: int = 0,
    sharpness: float = 1.0,
    rewards=(sw.Logistic(1.5, -0.5),),
    **others,
) -> tuple[sw.Catalog, sw.User]:
    """A catalogue and a user drawn from a seed; every optional part on request."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    catalog = sw.Catalog(
        sharpness * normal(n, heads, d),
        normal(n, heads, d),
        normal(n, heads, d),
        reward=(list(rewards), rng.integers(len(rewards), size=n)),
        base=normal(n, 2) if base else None,
        sink=sw.Sink(normal(heads, d), normal(heads, d)) if sink else None,
        positions=sw.Positions(*(normal(positions, heads, d) for _ in range(3))) if positions else None,
        **others,
    )
    return catalog, sw.User(normal(heads, d), normal(2) if base else None)


def random_instance(seed: int, **parts) -> sw.Instance:
    """The instance on all items of ``random_catalog``."""
    catalog, user = random_catalog(seed, **parts)
    return sw.Instance.from_catalog(catalog, user, np.arange(catalog.n_items))
