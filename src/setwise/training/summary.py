"""How a model was trained: the dictionary that is saved with it, and a short form for people."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

HIDDEN = ("transfer", "shape", "schedule", "stages", "tried", "base")  # parts that ``rows`` shortens or leaves out


class Summary(dict[str, Any]):
    """The losses, sizes and choices of a training by name; printed as the few lines of ``rows``."""

    def rows(self) -> dict[str, str]:
        """What was kept, the stages, and the numbers that decided."""
        rows = {name.replace("_", " "): text for name, part in self.items() if (text := _short(part, name))}
        for name, stage in self.get("stages", {}).items():
            text = f"epoch {stage['kept'] + 1} of {len(stage['training'])}, loss {stage['training'][stage['kept']]:.4g}"
            if stage["validation"]:
                text += f", on validation {stage['validation'][stage['kept']]:.4g}"
            rows[f"stage {name}"] = text
        if self.get("base"):
            rows["base"] = ", ".join(f"{part['weight']:.3g} {part['model']}" for part in self["base"])
        return rows

    def __repr__(self) -> str:
        return f"Summary({'; '.join(f'{name}: {text}' for name, text in self.rows().items())})"

    def _repr_html_(self) -> str:
        from setwise.training.effects.drawing import drawing

        rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self.rows().items())
        pictures = drawing(self["pictures"]) if self.get("pictures") else ""
        return f"<table>{''.join(rows)}</table>{pictures}"


def _short(part: Any, name: str = "") -> str:
    """A number, a text, or a table of numbers; empty for what is longer."""
    if name in HIDDEN or part is None or isinstance(part, list):
        return ""
    if isinstance(part, Mapping):
        return ", ".join(f"{key} {_short(value)}" for key, value in part.items() if _short(value))
    return f"{part:.4g}" if isinstance(part, float) else str(part)
