"""The parts of the compiled code: what is compiled together, and by which call.

A part is compiled by calling ``use``, named here as ``module:function``, which calls each of its functions once with
arguments of the types that requests have. So a part can be compiled in a process of its own (preparation.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Part:
    """One part of the compiled code.

    name       of the file that says that the part is compiled
    title      what it is for, in progress lines
    use        module:function that calls every function of the part
    functions  about how many functions of setwise are compiled with it: for progress only
    """

    name: str
    title: str
    use: str
    functions: int

    def run(self) -> None:
        """Call every function of the part: compile it, or load what is compiled."""
        called(self.use)()


def called(use: str) -> Callable[[], object]:
    """The function that ``module:function`` names."""
    module, function = use.split(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


RETRIEVAL = Part("retrieval", "retrieval", "setwise.retrieval.compiled:use_retrieval", 22)
SWAP = Part("swap", "swap search", "setwise.ranking.compiled:use_swap", 36)
FEW_SETS = Part("few-sets", "evaluation of all sets", "setwise.ranking.compiled:use_exhaustive", 8)
CANDIDATES = Part("candidates", "bounds on candidates", "setwise.ranking.compiled:use_exact", 38)
PREFIXES = Part("prefixes", "bounds on the catalogue", "setwise.bounds.compiled:use_prefixes", 44)
LIFTS = Part("lifts", "bounds for several heads", "setwise.bounds.compiled:use_lifts", 49)
SIGNED = Part("signed", "bounds beside a sink", "setwise.bounds.compiled:use_signed", 18)
# Of catalogues in double precision, which are rare:
PREFIXES_64 = Part("prefixes-64", "bounds in double precision", "setwise.bounds.compiled:use_prefixes_64", 44)
LIFTS_64 = Part("lifts-64", "the same for several heads", "setwise.bounds.compiled:use_lifts_64", 49)

LISTS = Part("lists", "re-ranking of lists", "setwise.recommend.rerank.compiled:use_lists", 30)

FIRST = (SWAP, RETRIEVAL)
"""What every first slate needs; the longest first."""

BOUNDS = (PREFIXES, LIFTS, CANDIDATES, SIGNED, FEW_SETS)
ALL = (*FIRST, *BOUNDS, LISTS, PREFIXES_64, LIFTS_64)
