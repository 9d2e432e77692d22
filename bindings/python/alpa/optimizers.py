"""Optimizers of losses, as options. Rules and defaults are those of alpa/optim."""
from typing import Any, Dict

Optimizer = Dict[str, Any]


def _rule(name: str, learning_rate: float, **numbers: float) -> Optimizer:
    return {"name": name, "learning_rate": learning_rate, **numbers}


def adamw(learning_rate: float = 1e-3, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
          weight_decay: float = 0.01) -> Optimizer:
    """AdamW (Loshchilov and Hutter 2019): decoupled weight decay."""
    return _rule("adamw", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay)


def adam(learning_rate: float = 1e-3, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Optimizer:
    """Adam (Kingma and Ba 2015)."""
    return _rule("adam", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)


def sgd(learning_rate: float = 1e-2, *, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Stochastic gradient descent, with momentum (Sutskever et al. 2013) if it is above 0."""
    return _rule("sgd", learning_rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)


def lion(learning_rate: float = 1e-4, *, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0) -> Optimizer:
    """Lion (Chen et al. 2023)."""
    return _rule("lion", learning_rate, beta1=beta1, beta2=beta2, weight_decay=weight_decay)


def lamb(learning_rate: float = 1e-3, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6,
         weight_decay: float = 0.0) -> Optimizer:
    """LAMB, for large batches (You et al. 2020)."""
    return _rule("lamb", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay)


def adafactor(learning_rate: float, *, decay: float = 0.8, momentum: float = 0.0, weight_decay: float = 0.0) -> Optimizer:
    """Adafactor (Shazeer and Stern 2018)."""
    return _rule("adafactor", learning_rate, decay=decay, momentum=momentum, weight_decay=weight_decay)
