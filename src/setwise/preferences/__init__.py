"""Preferences that a simple transformer can express: complements and substitutes, choice with halo effects."""

from setwise.preferences.assortment import Assortment
from setwise.preferences.choice_log import ChoiceLog
from setwise.preferences.complementarity import Complementarity
from setwise.preferences.halo_mnl import MNL, HaloMNL

__all__ = ["MNL", "Assortment", "ChoiceLog", "Complementarity", "HaloMNL"]
