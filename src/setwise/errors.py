"""Every error that setwise raises on purpose.

::

    SetwiseError
    ├── InvalidInput        (ValueError)   an argument is not what it must be
    │   ├── UnknownId       (KeyError)     an id that the catalogue does not have
    │   └── Infeasible                     the constraints leave no set at all
    ├── TooLarge                           the method would need more work than it allows itself
    ├── MalformedFile       (ValueError)   a data file that does not follow its format, with the line
    ├── DamagedArtifact     (OSError)      a saved object that is incomplete, altered or not ours
    └── MissingDependency   (ImportError)  an optional library is not installed

Each message is one sentence: what was expected, what came, what to do next.
"""

from __future__ import annotations

from pathlib import Path


class SetwiseError(Exception):
    """The root: ``except SetwiseError`` catches everything below and nothing else."""

    def __str__(self) -> str:
        # KeyError prints the repr of its argument; a sentence should stay a sentence.
        return str(self.args[0]) if self.args else ""


class InvalidInput(SetwiseError, ValueError):
    """``parameter`` must be ``must``, got ``got``; ``todo``."""

    def __init__(self, parameter: str, must: str, got: object, todo: str) -> None:
        self.parameter = parameter
        super().__init__(f"{parameter} must be {must}, got {got}; {todo}.")


class UnknownId(InvalidInput, KeyError):
    """An id that is not in the catalogue."""


class Infeasible(InvalidInput):
    """No set satisfies the constraints."""


class TooLarge(SetwiseError):
    """The work asked for exceeds the limit that the method sets itself."""


class MalformedFile(SetwiseError, ValueError):
    """A file breaks its format: where, and why."""

    def __init__(self, path: str | Path, line: int, reason: str) -> None:
        self.path, self.line, self.reason = Path(path), line, reason
        super().__init__(f"{self.path.name}, line {line}: {reason}.")


class DamagedArtifact(SetwiseError, OSError):
    """A saved object cannot be trusted: nothing of it was used."""

    def __init__(self, path: str | Path, reason: str, todo: str = "restore it or save it again") -> None:
        self.path, self.reason, self.todo = Path(path), reason, todo
        super().__init__(f"{self.path} must be an intact setwise artifact, but {reason}; {todo}.")


class MissingDependency(SetwiseError, ImportError):
    """An optional library is needed here."""

    def __init__(self, library: str, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs {library}, which is not installed; run: pip install 'setwise[{extra}]'.")
