// The case table on the device against the CPU's kernels, which tests/ops checks against formulas.
#include <algorithm>

#include "device_run.h"
#include "ops/run_case.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"
#include "support/error_text.h"

namespace alpa::case_test {
namespace {

using namespace testing;
using cases::Case;

constexpr StepContext kStep{.seed = 5, .step = 2, .micro_batch = 1};

/// Of results near 1 or larger, relative; below, absolute. Both backends round the types of
/// 16 bits once, so they agree to one unit in the last place there, and to the device's exp,
/// log, tanh and pow in f32.
double bound(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1e-5;
    case DType::f64: return 1e-12;
    case DType::bf16:
    case DType::f16: return epsilon(dtype);
    default: return 0;
  }
}

void check_close(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected,
                 double roundings = 1) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(difference(got[i], values_of(expected[i])) <= roundings * bound(got[i].type.dtype));
}

/// Tensor cores take the probabilities of attention rounded to its type.
double roundings_of(const OpDef& op) {
  return &op == &ops::attention || &op == &ops::attention_grad ? 3 : 1;
}

std::vector<HostTensor> empty_results(const Case& row) {
  std::vector<HostTensor> results;
  for (const TensorType& type : cases::result_types(row)) results.emplace_back(type);
  return results;
}

std::vector<const Case*> computed_rows() {
  std::vector<const Case*> rows;
  for (const Case& row : cases::all())
    if (cases::is_computed(row)) rows.push_back(&row);
  return rows;
}

TEST_CASE("every operator with a CPU kernel has a CUDA kernel") {
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    if (op->cpu) CHECK(static_cast<bool>(cuda::find_kernel(*op)));
  }
}

/// Operators that run through libraries, whose tensors must be aligned.
bool is_aligned(const OpDef& op) {
  const auto all = {&ops::einsum,        &ops::conv2d,
                    &ops::conv2d_grad_x, &ops::conv2d_grad_kernel,
                    &ops::attention,     &ops::attention_grad};
  return std::find(all.begin(), all.end(), &op) != all.end();
}

TEST_CASE(
    "every row gives what the CPU gives, queued directly and from a captured graph, aligned or "
    "not") {
  // (Products rely on the alignment of planned buffers.)
  if (no_device()) return;
  for (const Case* row : computed_rows()) {
    CAPTURE(row->label());
    const std::vector<HostTensor> operands = cases::draw_operands(*row),
                                  expected = cases::run_unsplit(*row, operands);
    for (const bool captured : {false, true})
      check_close(run_on_device(*row->op, operands, empty_results(*row),
                                {.attributes = row->attributes,
                                 .step = kStep,
                                 .shift = captured && !is_aligned(*row->op) ? std::size_t{8} : 0,
                                 .captured = captured}),
                  expected, roundings_of(*row->op));
  }
}

/// Results and the operands whose buffers they may lie in: any for elementwise
/// operators, else their own.
std::vector<std::pair<int, int>> shared_buffers(const Case& row) {
  std::vector<std::pair<int, int>> shared;
  if (row.op->in_place == InPlace::none) return shared;
  const std::vector<TensorType> types = cases::result_types(row);
  for (std::size_t o = 0; o < types.size(); ++o)
    for (std::size_t i = 0; i < row.operands.size(); ++i) {
      const TensorType& operand = row.operands[i].type;
      if (operand.dtype != types[o].dtype || operand.bytes() != types[o].bytes()) continue;
      if (row.op->in_place == InPlace::paired && i != o) continue;
      shared.emplace_back(o, i);
      break;
    }
  return shared;
}

TEST_CASE("every row of an operator that works in place gives the same there") {
  if (no_device()) return;
  int rows = 0;
  for (const Case* row : computed_rows()) {
    const DeviceRun run{
        .attributes = row->attributes, .step = kStep, .in_place = shared_buffers(*row)};
    if (run.in_place.empty()) continue;
    ++rows;
    CAPTURE(row->label());
    const std::vector<HostTensor> operands = cases::draw_operands(*row);
    check_close(run_on_device(*row->op, operands, empty_results(*row), run),
                cases::run_unsplit(*row, operands));
  }
  CHECK(rows > 100);
}

TEST_CASE("a part of a tensor is drawn and counted as in the whole one") {
  if (no_device()) return;
  for (const OpDef* op : {&ops::iota, &ops::random_normal, &ops::random_uniform}) {
    HostTensor part({f32, {3, 4}});
    part.offset = {5, 2}, part.global_shape = {9, 7};
    const Attributes attributes{
        {"axis", std::int64_t{0}}, {"a", 0.5}, {"b", 2.0}, {"stream", std::int64_t{3}}};
    check_close(run_on_device(*op, {}, {part}, {.attributes = attributes, .step = kStep}),
                run_kernel(*op->cpu, {}, {part}, {.attributes = attributes, .step = kStep}));
  }
}

TEST_CASE("a device that holds nothing of an operand gives the reduction of nothing") {
  if (no_device()) return;
  const Attributes attributes{{"axes", std::vector<std::int64_t>{0}},
                              {"keep_dims", std::int64_t{0}}};
  for (const OpDef* op : {&ops::reduce_sum, &ops::reduce_max}) {
    const HostTensor y = run_on_device(*op, {HostTensor({f32, {0, 5}})}, {HostTensor({f32, {5}})},
                                       {.attributes = attributes})[0];
    for (int i = 0; i < 5; ++i) CHECK(y.get(i) == (op == &ops::reduce_sum ? 0 : -INFINITY));
  }
}

TEST_CASE("joint updates give what the CPU gives, parameter by parameter") {
  if (no_device()) return;
  for (const auto& [op, states] :
       {std::pair(&ops::multi_tensor_adam, 3), std::pair(&ops::multi_tensor_sgd, 2),
        std::pair(&ops::multi_tensor_adam_copy, 3), std::pair(&ops::multi_tensor_sgd_copy, 2)}) {
    std::vector<HostTensor> operands, results, gradients, copies;
    const bool copying = op->members->copies;
    for (int member = 0; member < 30; ++member) {  // more than a small table holds
      const DType dtype = member % 3 == 0 ? (copying ? f64 : bf16) : f32;
      const Shape shape{member % 5 == 4 ? 0 : member * 401 + 1};
      for (int s = 0; s < states; ++s)
        operands.push_back(random_tensor({dtype, shape}, 7 * member + s, 0, 1));
      for (int s = 0; s < states; ++s) results.emplace_back(TensorType{dtype, shape});
      gradients.push_back(random_tensor({member % 2 ? f32 : bf16, shape}, 7 * member + 5));
      if (copying) copies.emplace_back(TensorType{bf16, shape});
    }
    const std::size_t in_place = results.size();
    results.insert(results.end(), copies.begin(), copies.end());
    operands.insert(operands.end(), gradients.begin(), gradients.end());
    operands.push_back(random_tensor({f32, {}}, 1, 0.01, 0.1));
    if (states == 3) operands.push_back(random_tensor({f32, {}}, 2, 3, 4));
    const auto row = std::find_if(cases::all().begin(), cases::all().end(),
                                  [op = op](const Case& known) { return known.op == op; });
    DeviceRun run{.attributes = row->attributes};
    const std::vector<HostTensor> expected =
        run_kernel(*op->cpu, operands, results, {.attributes = row->attributes});
    for (const bool captured : {false, true}) {
      run.captured = captured;
      check_close(run_on_device(*op, operands, results, run), expected);
    }
    for (std::size_t i = 0; i < in_place; ++i) run.in_place.emplace_back(i, i);
    check_close(run_on_device(*op, operands, results, run), expected);
  }
}

TEST_CASE("squared norms are what the CPU gives") {
  if (no_device()) return;
  std::vector<HostTensor> operands, results;
  for (int i = 0; i < 30; ++i) {
    operands.push_back(random_tensor({std::vector{f32, bf16, f64, f16}[i % 4], {i * 1001}}, i));
    results.emplace_back(TensorType{i % 4 == 2 ? f64 : f32, {}});
  }
  const std::vector<HostTensor> expected = run_kernel(*ops::squared_norms.cpu, operands, results);
  for (int i = 0; i < 30; ++i) {
    double sum = 0;
    for (const double x : values_of(operands[i])) sum += x * x;
    CHECK(difference(expected[i], {sum}) <= 1e-7);
  }
  for (const bool captured : {false, true})
    check_close(run_on_device(ops::squared_norms, operands, results, {.captured = captured}),
                expected);
}

TEST_CASE(
    "compiled at run time, an elementwise operator gives what the interpreting kernel gives") {
  if (no_device()) return;
  std::vector<const OpDef*> seen;
  for (const Case* row : computed_rows()) {
    if (row->op->elementwise < 0 || std::find(seen.begin(), seen.end(), row->op) != seen.end())
      continue;
    seen.push_back(row->op);
    CAPTURE(row->label());
    const std::vector<HostTensor> operands = cases::draw_operands(*row);
    const auto run = [&](cuda::ElementwiseForm form) {
      return run_on_device(*row->op, operands, empty_results(*row),
                           {.attributes = row->attributes, .elementwise = form});
    };
    check_close(run(cuda::ElementwiseForm::compiled), run(cuda::ElementwiseForm::interpreted));
  }
}

TEST_CASE("more dimensions than the kernels walk are an error that says so") {
  Shape shape(18, 2), reversed(shape);
  std::vector<std::int64_t> permutation;
  for (std::int64_t d = 17; d >= 0; --d) permutation.push_back(d);
  KernelCall call;
  call.inputs.push_back(kernel_tensor(HostTensor({f32, shape})));
  call.outputs.push_back(kernel_tensor(HostTensor({f32, reversed})));
  const Attributes attributes{{"permutation", permutation}};
  call.attributes = &attributes;
  CHECK(error_of([&] { cuda::find_kernel(ops::transpose)(ops::transpose, call, {}); }) ==
        "transpose: f32[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2] has too many "
        "dimensions: the CUDA kernels take at most 8 after adjacent ones are merged; reshape it to "
        "fewer dimensions");
}

}  // namespace
}  // namespace alpa::case_test
