#!/usr/bin/env python3
"""Plans and trains a function that jax printed before, by NumPy alone."""
import numpy as np

import alpa

# mean((x w - y)²), as docs/from-jax.md says how to print it.
TEXT = """
"builtin.module"() ({
  "func.func"() <{sym_name = "main"}> ({
  ^bb0(%w: tensor<64x8xf32> loc("params['w']"), %x: tensor<32x64xf32> loc("batch['x']"),
       %y: tensor<32x8xf32> loc("batch['y']")):
    %0 = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<
        lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}>
        : (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
    %1 = "stablehlo.subtract"(%0, %y) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %2 = "chlo.square"(%1) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %3 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.reduce"(%2, %3) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %5 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%5) : (tensor<f32>) -> ()
    }) : (tensor<32x8xf32>, tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.constant"() <{value = dense<256.0> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.divide"(%4, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%7) : (tensor<f32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def main():
    plan = alpa.plan(TEXT, cluster="dgx-a100", method="data", optimizer=alpa.sgd(0.5))
    for argument in plan.arguments:
        print(argument["name"], argument["shape"], argument["spec"])
    print(f"{plan.seconds * 1e6:.0f} us a step on mesh {plan.meshes}, {plan.bytes_per_device} bytes of a device")

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(64, 8)).astype(np.float32), rng.normal(size=(32, 64)).astype(np.float32)
    y = np.zeros((32, 8), np.float32)
    run = alpa.parallelize(TEXT, devices=4, optimizer=alpa.sgd(0.5))
    run.state["params.w"] = w
    for step in range(3):
        expected = ((x @ w - y) ** 2).mean()
        w = w - 0.5 * 2 / 256 * x.T @ (x @ w - y)
        found = run.step({"batch.x": x, "batch.y": y}).loss
        print(f"step {step} loss {found:.5f}, of NumPy {expected:.5f}")
        assert abs(found - expected) < 1e-4 * expected
    assert np.abs(run.state["params.w"] - w).max() < 1e-4


if __name__ == "__main__":
    main()
