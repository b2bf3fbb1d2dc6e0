"""Training: from sessions or slates to a calibrated simple transformer (extra ``[train]``: torch, gensim)."""

from setwise.model.encoder import Encoder
from setwise.training.simple_transformer import SimpleTransformer

__all__ = ["Encoder", "SimpleTransformer"]
