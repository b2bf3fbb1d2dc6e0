"""The exceptions that setwise raises.

::

    SetwiseError
    ├── InvalidInput        (ValueError)   an argument is not what it must be
    │   ├── UnknownId       (KeyError)     an id that the catalogue does not have
    │   └── Infeasible                     the constraints leave no set at all
    ├── TooLarge                           the method would exceed its own limit of work
    ├── MalformedFile       (ValueError)   a data file that does not follow its format, with the line
    ├── DamagedArtifact     (OSError)      a saved object that is incomplete, altered or foreign
    ├── SaveFailed          (OSError)      an object that could not be written: what was saved before is intact
    ├── StartTimeout        (TimeoutError) a worker of the service did not open the artifact in time
    ├── ShardUnavailable    (TimeoutError) a part of a distributed index did not answer
    └── MissingDependency   (ImportError)  an optional library is not installed

    ScoresGivenUp           (UserWarning)  a re-ranked set has much lower scores than the best ones

Each message is one sentence: what was expected, what came, what to do next.
"""

from __future__ import annotations

from pathlib import Path


class SetwiseError(Exception):
    """The base class: ``except SetwiseError`` catches all of these errors and no others."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        # By default the message would be passed as the first argument: the error could not cross processes.
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[SetwiseError], arguments: tuple[object, ...], state: dict[str, object]) -> SetwiseError:
    """The error in another process, without the arguments that its message was made of."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(state)
    return error


class InvalidInput(SetwiseError, ValueError):
    """``parameter`` must be ``must``, got ``got``; ``todo``."""

    def __init__(self, parameter: str, must: str, got: object, todo: str) -> None:
        self.parameter, self._rest = parameter, (must, got, todo)
        super().__init__(f"{parameter} must be {must}, got {got}; {todo}{'' if todo.endswith('?') else '.'}")

    def about(self, parameter: str) -> InvalidInput:
        """The same error under another name of the parameter: that of an option, or of an argument of the caller."""
        return type(self)(parameter, *self._rest)


class UnknownId(InvalidInput, KeyError):
    """An id that is not in the catalogue."""


class Infeasible(InvalidInput):
    """No set satisfies the constraints."""


class TooLarge(SetwiseError):
    """The requested work exceeds the limit of the method."""


class MalformedFile(SetwiseError, ValueError):
    """A file does not follow its format: path, line and reason."""

    def __init__(self, path: str | Path, line: int, reason: str) -> None:
        self.path, self.line, self.reason = Path(path), line, reason
        super().__init__(f"{self.path.name}, line {line}: {reason}.")


class DamagedArtifact(SetwiseError, OSError):
    """A saved object failed a check; none of it was used."""

    def __init__(self, path: str | Path, reason: str, todo: str = "restore it or save it again") -> None:
        self.path, self.reason, self.todo = Path(path), reason, todo
        super().__init__(f"{self.path} must be an intact setwise artifact, but {reason}; {todo}.")


class SaveFailed(SetwiseError, OSError):
    """The file system refused a write (no space, no permission, an I/O error); the object saved before is intact."""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path, self.reason = Path(path), reason
        super().__init__(
            f"{self.path} must be a folder that can be written, but {reason}; what was saved there before is intact: "
            "make room or choose another folder."
        )


class StartTimeout(SetwiseError, TimeoutError):
    """A worker of the service took too long to open an artifact, which may be intact."""

    def __init__(self, path: str | Path, start_ms: int) -> None:
        self.path, self.start_ms = Path(path), start_ms
        super().__init__(
            f"A worker must open {self.path} within {start_ms} ms, but took longer; raise --start-ms or check the disk."
        )


class ShardUnavailable(SetwiseError, TimeoutError):
    """No replica of a shard answered: an answer from the others alone could be wrong, so there is none."""

    def __init__(self, shard: int, reason: str) -> None:
        self.shard, self.reason = shard, reason
        super().__init__(f"Shard {shard} must answer, but did not ({reason}); try again, or look at its host.")


class MissingDependency(SetwiseError, ImportError):
    """An optional library is missing."""

    def __init__(self, library: str, purpose: str, extra: str | None) -> None:
        """``extra`` is that of setwise which has the library; None where no extra has it."""
        install = library if extra is None else f"'setwise[{extra}]'"
        super().__init__(f"{purpose} needs {library}, which is not installed; run: pip install {install}.")


class ScoresGivenUp(UserWarning):
    """A warning: the chosen set gives up a larger share of the scores than stated."""
