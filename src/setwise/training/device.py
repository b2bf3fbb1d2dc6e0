"""The device that training runs on: a GPU where torch finds one, else the processor."""

from __future__ import annotations

import torch

from setwise.errors import InvalidInput


def resolve_device(name: str | None) -> torch.device:
    """The device of this name, cpu or cuda; None selects cuda where it is available."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = str(name).partition(":")
    if kind not in ("cpu", "cuda") or not (number.isdecimal() or name == kind):
        raise InvalidInput("device", "cpu, cuda or cuda:0, cuda:1, …", repr(name), "leave it out to select one")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InvalidInput("device", f"one of the {torch.cuda.device_count()} GPUs found", name, "use cpu")
    return torch.device(name)
