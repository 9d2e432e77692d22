"""Plans functions of JAX for any cluster, and trains them on alpa's devices.

    plan = alpa.plan(train_step, state, batch, cluster="dgx-a100", hosts=4)
    plan.in_specs, plan.out_specs          # pytrees of jax.sharding.PartitionSpec
    run = alpa.parallelize(loss, params, batch, optimizer=alpa.adamw(1e-3), devices=8)
    run.step(batch).loss

Functions are jax's, or their StableHLO text, for which no jax is needed. docs/python.md has more.
"""
from ._library import AlpaError, version
from .optimizers import adafactor, adam, adamw, lamb, lion, sgd
from .plan import Constraint, Plan, plan
from .run import Result, Run, parallelize

__version__ = version()
__all__ = ["AlpaError", "Constraint", "Plan", "Result", "Run", "adafactor", "adam", "adamw", "lamb", "lion", "parallelize",
           "plan", "sgd"]
