"""Choice logs and maximum likelihood."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from setwise.errors import InvalidInput, MissingDependency, UnknownId
from setwise.model.ids import Ids
from setwise.preferences.choice_log import ChoiceLog
from setwise.preferences.halo_mnl import MNL, HaloMNL
from setwise.preferences.likelihood import Likelihood

N_ITEMS = 5


def true_model(outside: bool = True) -> HaloMNL:
    rng = np.random.default_rng(7)
    H = rng.normal(size=(N_ITEMS, N_ITEMS))
    np.fill_diagonal(H, 0.0)
    utility = rng.normal(size=N_ITEMS)
    return HaloMNL(utility if outside else utility - utility.mean(), H, outside_option=outside)


def simulated(model: MNL, choices: int, seed: int) -> ChoiceLog:
    """``choices`` from every set of two or more items in turn."""
    offers = [[i for i in range(N_ITEMS) if bits >> i & 1] for bits in range(2**N_ITEMS)]
    offers = [offer for offer in offers if len(offer) > 1]
    each = choices // len(offers)
    chosen = [model.sample(offer, each, seed + number) for number, offer in enumerate(offers)]
    taken = [None if one < 0 else int(one) for part in chosen for one in part]
    return ChoiceLog.of([offer for offer in offers for _ in range(each)], taken, N_ITEMS)


# --- logs ---


def test_log_from_lists_of_names() -> None:
    log = ChoiceLog.of([["a", "b"], ["c"], ["a", "c"]], ["b", None, "a"], ["a", "b", "c"], context=[["c"], [], ["b"]])
    assert log.offered.tolist() == [[True, True, False], [False, False, True], [True, False, True]]
    assert log.chosen.tolist() == [1, -1, 0]
    assert log.context.tolist() == [[False, False, True], [False, False, False], [False, True, False]]
    assert log.outside_option
    assert len(log) == 3


def test_the_offered_set_is_the_context_by_default() -> None:
    log = ChoiceLog.of([[0, 2]], [2], 3)
    assert log.context is log.offered
    assert not log.outside_option


def test_log_from_slates() -> None:
    log = ChoiceLog.from_slates([[0, 1], [1, 2]], [[], [2, 1]], 3)
    assert log.chosen.tolist() == [-1, 2, 1]
    assert log.offered.tolist() == [[True, True, False], [False, True, True], [False, True, True]]


def test_log_from_baskets() -> None:
    log = ChoiceLog.from_baskets([["x", "z"], ["y"], ["x", "y", "z"]], ["x", "y", "z"])
    assert log.chosen.tolist() == [0, 2, 0, 1, 2]
    assert log.context[0].tolist() == [False, False, True]
    assert log.offered[0].tolist() == [True, True, False]
    assert (log.offered == ~log.context).all()


@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (lambda: ChoiceLog.of([], [], 3), InvalidInput, "log must be a list of at least one choice"),
        (lambda: ChoiceLog.of([[0]], [], 3), InvalidInput, "chosen must be one for each of 1 offers, got 0"),
        (
            lambda: ChoiceLog.of([[0]], [0], 3, [[], []]),
            InvalidInput,
            "context must be one for each of 1 offers, got 2",
        ),
        (
            lambda: ChoiceLog.of([[0]], [1], 3),
            InvalidInput,
            "chosen must be among the offered items, got 1 in choice 0",
        ),
        (lambda: ChoiceLog.of([["a"]], ["b"], ["a"]), UnknownId, "'b'"),
        (lambda: ChoiceLog.of([[0]], [0], 0), InvalidInput, "items must be a whole number of at least 1"),
        (lambda: ChoiceLog.from_slates([[0]], [], 2), InvalidInput, "hits must be one set for each of 1 slates, got 0"),
        (lambda: ChoiceLog.from_baskets([[0]], 2), InvalidInput, "log must be a list of at least one choice"),
    ],
)
def test_bad_logs_are_refused(build, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        build()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"chosen": [-3, 0]}, "chosen must be row numbers, 0 to 1, or -1 for nothing, got -3; correct the log"),
        ({"chosen": [7, 0]}, "chosen must be row numbers, 0 to 1, or -1 for nothing, got 7; correct the log"),
        ({"chosen": [0.0, 1.0]}, "chosen must be row numbers, 0 to 1, or -1 for nothing, got dtype float64"),
        ({"chosen": [[0], [1]]}, r"chosen must be an array of shape \(choices,\)"),
        ({"offered": [[True, True]]}, r"offered must be an array of shape \(2, 2\)"),
        ({"context": [[1, 1], [0, 1]]}, "context must be an array of booleans, got dtype int64"),
    ],
)
def test_arrays_that_are_no_log_are_refused(change, sentence: str) -> None:
    everything = [[True, True], [True, True]]
    good = {"ids": Ids.numbered(2), "offered": everything, "chosen": [-1, 1], "context": everything}
    assert ChoiceLog(**good).outside_option
    with pytest.raises(InvalidInput, match=sentence):
        ChoiceLog(**good | change)


# --- likelihood ---


@pytest.mark.parametrize("outside", [True, False])
def test_probabilities_are_those_of_the_model(outside: bool) -> None:
    model = true_model(outside)
    log = simulated(model, 60, seed=0)
    probability, log_chosen = Likelihood(log, outside).probabilities(model.utility, model.halo)
    for row, offered, chosen, one in zip(probability, log.offered, log.chosen, log_chosen, strict=True):
        items = np.flatnonzero(offered)
        assert row[items] == pytest.approx(model.choice_probabilities(items))
        assert row.sum() == pytest.approx(1.0)
        assert one == pytest.approx(np.log(row[chosen]))


@pytest.mark.parametrize("outside", [True, False])
def test_gradient_by_finite_differences(outside: bool) -> None:
    model = true_model(outside)
    log = simulated(model, 200, seed=1)
    likelihood, step = Likelihood(log, outside), 1e-6
    _, utility_gradient, halo_gradient = likelihood.loss(model.utility, model.halo)
    assert not np.diagonal(halo_gradient).any()
    for i in range(N_ITEMS):
        ahead = step * np.eye(N_ITEMS)[i]
        slope = likelihood.loss(model.utility + ahead, model.halo)[0]
        slope -= likelihood.loss(model.utility - ahead, model.halo)[0]
        assert utility_gradient[i] == pytest.approx(slope / (2 * step), abs=1e-7)
        for j in set(range(N_ITEMS)) - {i}:
            nudge = step * np.outer(np.eye(N_ITEMS)[i], np.eye(N_ITEMS)[j])
            slope = likelihood.loss(model.utility, model.halo + nudge)[0]
            slope -= likelihood.loss(model.utility, model.halo - nudge)[0]
            assert halo_gradient[i, j] == pytest.approx(slope / (2 * step), abs=1e-7)


def test_score_by_hand() -> None:
    model = MNL([0.0, np.log(3.0)])
    score = model.score(ChoiceLog.of([[0, 1], [0, 1], [0]], [1, None, None], 2))
    assert score.observations == 3
    assert score.nll == pytest.approx(-np.mean(np.log([3 / 5, 1 / 5, 1 / 2])))
    assert score.accuracy == pytest.approx(1 / 3)  # in the third the item and nothing tie; the item comes first


# --- fitting ---


def errors(model: HaloMNL, choices: int, seed: int) -> tuple[float, float]:
    fit = HaloMNL.fit(simulated(model, choices, seed), ridge=0.1)
    assert fit.converged
    return (
        float(np.sqrt(np.mean((fit.model.utility - model.utility) ** 2))),
        float(np.sqrt(np.mean((fit.model.halo - model.halo) ** 2))),
    )


@pytest.mark.nightly
def test_halo_fit_recovers_parameters_and_improves_with_data() -> None:
    """Sixteen times the data make the root mean square error about four times smaller, averaged over five logs."""
    model = true_model()
    few, many = (np.mean([errors(model, n, 1000 * seed) for seed in range(5)], axis=0) for n in (1_500, 24_000))
    assert (many < few / 2.5).all()
    assert (many < 0.1).all()


def test_mnl_fit_recovers_parameters_and_improves_with_data() -> None:
    model = MNL([0.5, -0.5, 1.0, 0.0, -1.0])

    def error(choices: int, seed: int) -> float:
        return float(np.abs(MNL.fit(simulated(model, choices, seed)).model.utility - model.utility).mean())

    few, many = (np.mean([error(n, 1000 * seed) for seed in range(5)]) for n in (500, 8_000))
    assert many < few / 2
    assert many < 0.05


def test_without_outside_option_choices_are_recovered() -> None:
    """Parameters are fixed only up to shifts there; the probabilities are not."""
    model = true_model(outside=False)
    fit = HaloMNL.fit(simulated(model, 26_000, seed=3), simulated(model, 2_600, seed=99), ridge=0.1)
    assert not fit.model.outside_option
    assert fit.model.utility.sum() == pytest.approx(0.0, abs=1e-6)
    for items in ([0, 1], [1, 3, 4], [0, 1, 2, 3, 4]):
        assert fit.model.choice_probabilities(items) == pytest.approx(model.choice_probabilities(items), abs=0.05)
    plain = MNL.fit(simulated(model, 26_000, seed=3), simulated(model, 2_600, seed=99))
    assert fit.held_out.nll < plain.held_out.nll


def test_context_other_than_the_offer() -> None:
    """Choices are always among {0, 1}; item 2, never on offer, decides which."""
    rng = np.random.default_rng(0)
    context = [[2] if rng.random() < 0.5 else [] for _ in range(4000)]
    chosen = [int(rng.random() < (0.9 if present else 0.2)) for present in context]
    fit = HaloMNL.fit(ChoiceLog.of([[0, 1]] * 4000, chosen, 3, context), ridge=0.01)
    shift = fit.model.halo[1, 2] - fit.model.halo[0, 2]
    assert shift == pytest.approx(np.log(0.9 / 0.1) - np.log(0.2 / 0.8), abs=0.3)


def test_ridge_shrinks_the_halo() -> None:
    log = simulated(true_model(), 2_600, seed=4)
    sizes = [np.linalg.norm(HaloMNL.fit(log, ridge=ridge).model.halo) for ridge in (0.1, 10.0, 1000.0)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert not np.diagonal(HaloMNL.fit(log).model.halo).any()


def test_report_reads_like_a_report() -> None:
    log = simulated(true_model(), 2_600, seed=5)
    fit = HaloMNL.fit(log, simulated(true_model(), 260, seed=6))
    assert fit.log_likelihood == pytest.approx(-fit.train.nll * len(log))
    text = str(fit)
    for piece in ("HaloMNL of 5 items, with outside option", "converged after", "log-likelihood -", "held out  NLL"):
        assert piece in text
    assert text.count("halo  ") == 5
    assert "halo " not in str(MNL.fit(log))
    assert "held out  nothing" in str(MNL.fit(log))


def test_items_never_offered_keep_finite_coefficients() -> None:
    fit = HaloMNL.fit(ChoiceLog.of([[0, 1], [0, 1]], [0, 0], 3))
    assert np.isfinite(fit.model.utility).all()
    assert fit.model.utility[2] == 0.0


def test_bad_fits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulated(true_model(), 260, seed=8)
    with pytest.raises(InvalidInput, match=r"ridge must be at least 0, got -1\.0"):
        HaloMNL.fit(log, ridge=-1.0)
    with pytest.raises(InvalidInput, match="log must be about the items of the model"):
        MNL([0.0]).score(log)
    with pytest.raises(InvalidInput, match="log must be one of choices only, as the model has no outside option"):
        true_model(outside=False).score(log)
    monkeypatch.setattr("setwise.preferences.halo_mnl.maximise", lambda *_: pytest.fail("it was fitted first"))
    with pytest.raises(InvalidInput, match="held_out must be about the items of the model, got 3 others"):
        HaloMNL.fit(log, ChoiceLog.of([[0]], [0], 3))
    chosen_only = ChoiceLog.of([[0, 1]], [0], N_ITEMS)
    with pytest.raises(InvalidInput, match="held_out must be one of choices only, as the model has no outside option"):
        MNL.fit(chosen_only, ChoiceLog.of([[0]], [None], N_ITEMS))
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingDependency, match="fitting a choice model needs scipy"):
        MNL.fit(log)
