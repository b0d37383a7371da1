"""Real programs, built from the language: one module a family, `MODELS` by name."""

from benchmarks.models.mlp import mlp_full, mlp_tanh
from benchmarks.models.model import Model
from benchmarks.models.normalisation import group_norm, layer_norm, softmax
from benchmarks.models.transformer import attention_block, bert, gelu_dense

MODELS = {
    "mlp_tanh": mlp_tanh,
    "mlp_full": mlp_full,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "gelu_dense": gelu_dense,
    "attention_block": attention_block,
    "bert": bert,
}

__all__ = ["MODELS", "Model", "attention_block", "bert", "gelu_dense", "group_norm", "layer_norm", "mlp_full",
           "mlp_tanh", "softmax"]
