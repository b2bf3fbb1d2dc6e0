"""The training loop: early stopping, determinism, checkpoints, and runs that are killed and resumed."""

from __future__ import annotations

import json
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_networks import ITEMS, grouped_sessions, log_loss, parity_slates, random_network, random_slates

import processes
from setwise.datasets.sessions import Slates
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer, trainer
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.trainer import HISTORY, PaddedSlates, Schedule, TrainingReport, derive_seed

SHAPE = Shape(dim=4, heads=1, d_kq=2, d_v=2)
SHORT = Schedule(epochs=3, batch=32)
train = partial(trainer.train, device="cpu")  # the same bits every time, which a GPU does not promise


def fresh(seed: int = 0) -> SimpleNetwork:
    torch.manual_seed(seed)
    return SimpleNetwork(ITEMS, SHAPE)


def bits(network: torch.nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}


def test_a_planted_problem_is_learned() -> None:
    """Outcomes have probability 0.9 or 0.1: the true model has log loss 0.325, an untrained one 0.693."""
    network, test = fresh(), PaddedSlates.of(parity_slates(400, seed=2))
    schedule = Schedule(epochs=12, batch=64, learning_rate=0.03, weight_decay=0.0)
    report = train(network, parity_slates(600), parity_slates(200, seed=1), schedule=schedule)
    with torch.no_grad():
        predicted = torch.sigmoid(network(test.history, test.history_mask, test.shown, test.shown_mask)).numpy()
    assert log_loss(predicted, test.outcome.numpy()) < 0.40
    assert report.training[0] > report.training[-1]
    assert len(report.training) == len(report.validation) <= 12


@pytest.mark.parametrize("loss", ["item", "set", "choice"])
def test_every_loss_falls(loss: str) -> None:
    data = parity_slates(300)
    report = train(fresh(), data, data, loss, Schedule(epochs=5, batch=64, learning_rate=0.03))
    assert min(report.validation) < report.validation[0]


def test_the_best_epoch_is_kept_and_training_stops_after_patience() -> None:
    """Noise can only be memorised: the validation loss rises, training stops, the best parameters are kept."""
    rng = np.random.default_rng(0)
    noise = parity_slates(60)
    noise = Slates(noise.history, noise.shown, rng.integers(0, 2, len(noise.outcome)).astype(np.float32), noise.ids)
    other = Slates(noise.history, noise.shown, 1 - noise.outcome, noise.ids)  # every outcome is inverted
    schedule = Schedule(epochs=40, batch=16, learning_rate=0.05, weight_decay=0.0, patience=3)
    network = fresh()
    report = train(network, noise, other, schedule=schedule)
    assert len(report.validation) == 40 // 2 + 1 + 3  # in the first half, losses may rise
    with torch.no_grad():
        data = PaddedSlates.of(other)
        argument = network(data.history, data.history_mask, data.shown, data.shown_mask)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(argument, data.outcome)
    assert float(loss) == pytest.approx(min(report.validation), rel=1e-5)
    assert not network.training


def test_the_seed_determines_every_bit() -> None:
    data, validation = parity_slates(100), parity_slates(50, seed=1)
    results = []
    for seed in (0, 0, 1):
        network = fresh()
        torch.rand(7)  # earlier draws of the caller have no effect
        results.append(
            (train(network, data, validation, schedule=Schedule(epochs=3, batch=32, seed=seed)), bits(network))
        )
    assert results[0] == results[1]
    assert results[0][1] != results[2][1]


def test_the_callers_random_state_and_threads_are_unchanged() -> None:
    torch.manual_seed(5)
    expected, threads = torch.rand(3), torch.get_num_threads()
    torch.manual_seed(5)
    train(fresh_without_seed(), parity_slates(40), parity_slates(20), schedule=SHORT)
    torch.testing.assert_close(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def fresh_without_seed() -> SimpleNetwork:
    with torch.random.fork_rng():
        return SimpleNetwork(ITEMS, SHAPE)


def test_slates_may_be_a_function_of_the_epoch() -> None:
    epochs: list[int] = []

    def of_epoch(epoch: int) -> Slates:
        epochs.append(epoch)
        return parity_slates(40, seed=epoch)

    train(fresh(), of_epoch, parity_slates(20), schedule=SHORT)
    assert [epoch for epoch in range(3) if epoch in epochs] == [0, 1, 2]


def test_the_rate_rises_and_falls() -> None:
    schedule = Schedule(learning_rate=0.1)
    rates = [schedule.rate(done) for done in np.linspace(0, 1, 101)]
    assert max(rates) == pytest.approx(0.1)
    assert int(np.argmax(rates)) == 20
    assert rates[0] < 0.01
    assert rates[-1] == pytest.approx(0, abs=1e-9)
    assert (np.diff(rates[:21]) > 0).all()
    assert (np.diff(rates[20:]) < 0).all()


def test_weight_decay_of_matrices_vectors_and_overrides() -> None:
    from setwise.training.trainer import _parameter_groups

    network = random_network(SHAPE, embedded=True)
    name_of = {id(tensor): name for name, tensor in network.named_parameters()}
    decays = {
        name_of[id(tensor)]: group["weight_decay"]
        for group in _parameter_groups(network, 0.1)
        for tensor in group["params"]
    }
    assert len(decays) == len(name_of)
    assert decays["query.weight"] == 0.1
    assert decays["query.bias"] == decays["offset"] == 0
    assert decays["items.correction.weight"] == network.decays["items.correction.weight"]


def test_padded_slates_hold_all_items_and_the_latest_of_the_histories() -> None:
    slates = random_slates(1)
    long = Ragged.of([np.arange(2 * HISTORY) % ITEMS, *list(slates.history)[1:]])
    data = PaddedSlates.of(Slates(long, slates.shown, slates.outcome, slates.ids))
    assert data.history.shape == (len(slates), HISTORY)
    np.testing.assert_array_equal(data.history[0].numpy(), (np.arange(2 * HISTORY) % ITEMS)[-HISTORY:])
    np.testing.assert_array_equal(data.shown[data.shown_mask].numpy(), slates.shown.values)
    np.testing.assert_array_equal(data.outcome[data.shown_mask].numpy(), slates.outcome)
    assert not data.outcome[~data.shown_mask].any()
    np.testing.assert_array_equal(data.history_mask.sum(1).numpy(), np.minimum(long.lengths, HISTORY))


def test_derived_seeds_differ() -> None:
    assert len({derive_seed(a, b) for a in range(20) for b in range(20)}) == 400
    assert 0 <= derive_seed(1) < 2**63


# --- errors ---


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 0}, {"patience": 0}, {"seed": -1}, {"learning_rate": 0}, {"learning_rate": np.nan}, {"weight_decay": -0.1}])  # fmt: skip
def test_schedules_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Schedule(**wrong)


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InvalidInput, match="loss must be one of item, set, choice, got 'hinge'"):
        train(fresh(), parity_slates(10), parity_slates(10), "hinge", SHORT)


def test_a_diverging_loss_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="the loss must be finite"):
        train(fresh(), parity_slates(40), parity_slates(20), schedule=Schedule(epochs=3, batch=8, learning_rate=1e30))


# --- checkpoints ---


def stopped(folder: Path, epochs_done: int) -> None:
    """A run of six epochs that was interrupted after some."""

    class Interrupted(Exception):
        pass

    def of_epoch(epoch: int) -> Slates:
        if epoch == epochs_done:
            raise Interrupted
        return parity_slates(60)

    with pytest.raises(Interrupted):
        train(fresh(), of_epoch, parity_slates(30, seed=1), schedule=Schedule(epochs=6, batch=16), checkpoint=folder)


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    schedule, data, validation = Schedule(epochs=6, batch=16), parity_slates(60), parity_slates(30, seed=1)
    unbroken = fresh()
    report = train(unbroken, data, validation, schedule=schedule)
    stopped(tmp_path / "run", 3)
    resumed, epochs = fresh(), []

    def of_epoch(epoch: int) -> Slates:
        epochs.append(epoch)
        return data

    again = train(resumed, of_epoch, validation, schedule=schedule, checkpoint=tmp_path / "run")
    assert again == report
    assert bits(resumed) == bits(unbroken)
    assert [epoch for epoch in epochs if epoch > 0] == [3, 4, 5]
    finished = fresh()
    assert train(finished, data, validation, schedule=schedule, checkpoint=tmp_path / "run") == report
    assert bits(finished) == bits(unbroken)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    schedule, data, validation = Schedule(epochs=6, batch=16), parity_slates(60), parity_slates(30, seed=1)
    stopped(tmp_path, 2)
    others = [
        (fresh(1), data, validation, "item", schedule),
        (fresh(), parity_slates(60, seed=3), validation, "item", schedule),
        (fresh(), data, parity_slates(30, seed=4), "item", schedule),
        (fresh(), data, validation, "set", schedule),
        (fresh(), data, validation, "item", Schedule(epochs=7, batch=16)),
    ]
    for network, *run in others:
        with pytest.raises(InvalidInput, match="checkpoint must be a checkpoint of the same run"):
            train(network, *run, checkpoint=tmp_path)


@pytest.mark.parametrize("what", ["data", "manifest", "kind"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, what: str) -> None:
    stopped(tmp_path, 2)
    (data,) = tmp_path.glob("arrays-*.safetensors")
    if what == "data":
        data.write_bytes(data.read_bytes()[:-1] + b"!")
    if what == "manifest":
        (tmp_path / "manifest.json").write_text("{}")
    if what == "kind":
        fitted = SimpleTransformer.fit(parity_slates(40), epochs=1, dim=2, embeddings=None)
        fitted.save(tmp_path)
    with pytest.raises(DamagedArtifact, match="must be an intact setwise artifact"):
        train(fresh(), parity_slates(60), parity_slates(30), schedule=Schedule(epochs=6, batch=16), checkpoint=tmp_path)


# --- killed processes ---

DATA = {"slates": lambda: parity_slates(300), "sessions": lambda: grouped_sessions(40)}
EPOCHS = {"slates": 60, "sessions": 40}
KILLED_AFTER = {"slates": 5, "sessions": 3}
OPTIONS = {"device": "cpu", "dim": 4, "heads": 1, "k": 3, "patience": 60, "batch": 64}
CHILD = """
import os, signal, sys
sys.path[:0] = {paths!r}
import test_trainer
from setwise.training import trainer
save, saved = trainer._Run.save, []
def save_or_end(run, *arguments):
    save(run, *arguments)
    saved.append(1)
    if len(saved) == {epochs}:
        os.kill(os.getpid(), signal.SIGKILL)
trainer._Run.save = save_or_end
test_trainer.fitted({kind!r}, checkpoint={folder!r})
"""


def fitted(kind: str, **options) -> SimpleTransformer:
    return SimpleTransformer.fit(DATA[kind](), epochs=EPOCHS[kind], **OPTIONS, **options)


def epochs_done(checkpoint: Path) -> int:
    """Completed epochs over all stages of a run."""
    contents = [json.loads(manifest.read_text())["manifest"] for manifest in checkpoint.glob("*/manifest.json")]
    return sum(len(content["meta"]["report"]["training"]) for content in contents if content["kind"] == "checkpoint")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sessions", "slates"])
def test_a_killed_and_resumed_process_gives_the_same_model(tmp_path: Path, kind: str) -> None:
    paths = [str(Path(__file__).parents[at]) for at in range(2)]
    code = CHILD.format(paths=paths, kind=kind, folder=str(tmp_path / "run"), epochs=KILLED_AFTER[kind])
    done = processes.run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert epochs_done(tmp_path / "run") == KILLED_AFTER[kind]
    resumed, unbroken = fitted(kind, checkpoint=tmp_path / "run"), fitted(kind)
    assert resumed.summary == unbroken.summary
    assert resumed.catalog().digest == unbroken.catalog().digest
    for name, array in unbroken.encoder.packed().items():
        assert resumed.encoder.packed()[name].tobytes() == array.tobytes(), name


def test_the_best_epoch_of_a_report() -> None:
    assert TrainingReport([3, 2, 1], [0.5, 0.3, 0.4]).best == 1


def test_without_validation_the_last_epoch_is_kept_and_a_killed_run_resumes(tmp_path: Path) -> None:
    data = parity_slates(60)
    whole, part = fresh(), fresh()
    report = train(whole, data, None, schedule=SHORT)
    assert (len(report.training), report.validation, report.best) == (3, [], 2)

    def killed(epoch: int) -> Slates:
        if epoch == 2:
            raise KeyboardInterrupt
        return data

    with pytest.raises(KeyboardInterrupt):
        train(part, killed, None, schedule=SHORT, checkpoint=tmp_path / "c")
    again = fresh()
    assert train(again, lambda epoch: data, None, schedule=SHORT, checkpoint=tmp_path / "c") == report
    assert bits(again) == bits(whole) != bits(part)
