/* Plans a training step of a linear model through the C interface, and trains it on two devices. */
#include <alpa_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kLoss[] =
    "\"builtin.module\"() ({\n"
    "  \"func.func\"() <{sym_name = \"main\"}> ({\n"
    "  ^bb0(%w: tensor<4x2xf32> loc(\"w\"), %x: tensor<8x4xf32> loc(\"x\")):\n"
    "    %0 = \"stablehlo.dot_general\"(%x, %w) <{dot_dimension_numbers = #stablehlo.dot<\n"
    "        lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}>\n"
    "        : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>\n"
    "    %1 = \"chlo.square\"(%0) : (tensor<8x2xf32>) -> tensor<8x2xf32>\n"
    "    %2 = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>\n"
    "    %3 = \"stablehlo.reduce\"(%1, %2) <{dimensions = array<i64: 0, 1>}> ({\n"
    "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
    "      %4 = \"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
    "      \"stablehlo.return\"(%4) : (tensor<f32>) -> ()\n"
    "    }) : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>\n"
    "    \"func.return\"(%3) : (tensor<f32>) -> ()\n"
    "  }) : () -> ()\n"
    "}) : () -> ()\n";
static const char kOptions[] = "{\"devices\": 2, \"parameters\": \"w\", \"method\": \"data\"}";

static void require(int is_true) {
  if (is_true) return;
  fprintf(stderr, "%s\n", alpa_last_error());
  exit(1);
}

int main(void) {
  alpa_function* loss = alpa_import(kLoss, strlen(kLoss));
  require(loss != NULL);
  alpa_run* run = alpa_run_new(loss, kOptions, 0);
  require(run != NULL);
  float w[4 * 2], x[8 * 4];
  for (int i = 0; i < 4 * 2; ++i) w[i] = 0.5f;
  for (int i = 0; i < 8 * 4; ++i) x[i] = 1;
  const int64_t shape_of_w[] = {4, 2}, shape_of_x[] = {8, 4};
  const alpa_tensor start = {"w", "f32", 2, shape_of_w, w};
  const alpa_tensor batch = {"x", "f32", 2, shape_of_x, x};
  require(alpa_run_set(run, &start) == 0);
  require(alpa_run_step(run, &batch, 1) == 0);
  char* results = alpa_run_results(run);
  require(results != NULL);
  printf("%s\n", results);
  alpa_free_text(results);
  alpa_run_free(run);
  alpa_function_free(loss);
  return 0;
}
