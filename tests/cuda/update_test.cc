#include "kernels/cuda/update.h"

#include <cmath>

#include "device_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa {
namespace {

using namespace testing;
using cuda::UpdateTensor;

/// The tensors of one parameter on the device.
struct Parameter {
  std::vector<HostTensor> host;  ///< w, m, v, g — or w, velocity, g
  std::vector<DeviceBuffer> buffers;
};

Parameter parameter(std::int64_t elements, DType dtype, DType gradient_type, int states, unsigned seed,
                    std::size_t shift) {
  Parameter p;
  for (int i = 0; i <= states; ++i)
    p.host.push_back(random_tensor({dtype, {elements}}, seed + i, i < 2 ? -1 : 0, 1));
  p.host.push_back(random_tensor({gradient_type, {elements}}, seed + 9, -1, 1));
  for (const HostTensor& t : p.host) p.buffers.emplace_back(t, shift);
  return p;
}

UpdateTensor row_of(const Parameter& p) {
  const bool adam = p.host.size() == 4;
  UpdateTensor t;
  t.w = t.new_w = p.buffers[0].data(), t.w_type = p.host[0].type.dtype;
  t.first = t.new_first = p.buffers[1].data(), t.first_type = p.host[1].type.dtype;
  if (adam) t.second = t.new_second = p.buffers[2].data(), t.second_type = p.host[2].type.dtype;
  t.gradient = p.buffers.back().data(), t.gradient_type = p.host.back().type.dtype;
  t.elements = p.host[0].type.elements();
  return t;
}

/// Sizes around chunks, of every type, aligned and not.
std::vector<Parameter> parameters(int states) {
  std::vector<Parameter> all;
  unsigned seed = 1;
  for (const auto& [dtype, gradient] :
       {std::pair{f32, f32}, {f32, bf16}, {bf16, bf16}, {f16, f32}, {f64, f32}, {f32, f64}})
    for (const std::int64_t elements : {1, 0, 1023, 8192, 20001})
      all.push_back(parameter(elements, dtype, gradient, states, seed += 20, elements % 2 == 0 ? 0 : 8));
  return all;
}

struct Table {
  std::vector<UpdateTensor> rows;
  std::int64_t chunks;
  DeviceBuffer buffer;

  explicit Table(const std::vector<Parameter>& all)
      : rows(rows_of(all)),
        chunks(cuda::number_chunks(rows.data(), count())),
        buffer(rows.size() * sizeof(UpdateTensor)) {
    check(
        cudaMemcpy(buffer.data(), rows.data(), rows.size() * sizeof(UpdateTensor), cudaMemcpyHostToDevice));
  }
  static std::vector<UpdateTensor> rows_of(const std::vector<Parameter>& all) {
    std::vector<UpdateTensor> rows;
    for (const Parameter& p : all) rows.push_back(row_of(p));
    return rows;
  }
  int count() const { return static_cast<int>(rows.size()); }
  const UpdateTensor* data() const { return static_cast<const UpdateTensor*>(buffer.data()); }
};

HostTensor scalar(double value) {
  HostTensor t({f32, {}});
  t.put(0, value);
  return t;
}

double bound(const HostTensor& t) {
  return t.type.dtype == f64 ? 1e-12 : std::max(1e-6, epsilon(t.type.dtype));
}

TEST_CASE("one launch updates all parameters as Adam on the CPU does one by one") {
  if (no_device()) return;
  for (const bool decoupled : {false, true}) {
    const std::vector<Parameter> all = parameters(2);
    const Table table(all);
    const HostTensor rate = scalar(0.01), step = scalar(3);
    const DeviceBuffer rate_buffer(rate), step_buffer(step);
    check(cuda::run_adam(table.data(), table.count(), table.chunks, {0.9, 0.99, 1e-8, 0.1, decoupled},
                         {rate_buffer.data(), f32}, {step_buffer.data(), f32}, nullptr));
    CallOptions options;
    options.attributes = {{"beta1", 0.9},
                          {"beta2", 0.99},
                          {"epsilon", 1e-8},
                          {"weight_decay", 0.1},
                          {"decoupled", std::int64_t{decoupled}}};
    for (const Parameter& p : all) {
      const auto expected = run_kernel(
          cpu::adam_update, {p.host[0], p.host[1], p.host[2], p.host[3], rate, step},
          {HostTensor(p.host[0].type), HostTensor(p.host[1].type), HostTensor(p.host[2].type)}, options);
      for (int i = 0; i < 3; ++i)
        CHECK(difference(p.buffers[i].download(p.host[i].type), values_of(expected[i])) <=
              bound(p.host[i]));
    }
  }
}

TEST_CASE("one launch updates all parameters as SGD on the CPU does one by one") {
  if (no_device()) return;
  for (const bool nesterov : {false, true}) {
    const std::vector<Parameter> all = parameters(1);
    const Table table(all);
    const HostTensor rate = scalar(0.1);
    const DeviceBuffer rate_buffer(rate);
    check(cuda::run_sgd(table.data(), table.count(), table.chunks, {0.9, 0.01, nesterov},
                        {rate_buffer.data(), f32}, nullptr));
    CallOptions options;
    options.attributes = {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", std::int64_t{nesterov}}};
    for (const Parameter& p : all) {
      const auto expected = run_kernel(cpu::sgd_update, {p.host[0], p.host[1], p.host[2], rate},
                                       {HostTensor(p.host[0].type), HostTensor(p.host[1].type)}, options);
      for (int i = 0; i < 2; ++i)
        CHECK(difference(p.buffers[i].download(p.host[i].type), values_of(expected[i])) <=
              bound(p.host[i]));
    }
  }
}

TEST_CASE("the squared norm is the sum of all gradients' squares, the same bits every time") {
  if (no_device()) return;
  const std::vector<Parameter> all = parameters(1);
  const Table table(all);
  double expected = 0;
  for (const Parameter& p : all)
    for (const double g : values_of(p.host.back())) expected += g * g;
  const DeviceBuffer workspace(static_cast<std::size_t>(cuda::squared_norm_workspace_bytes(table.chunks)));
  double first = 0;
  for (int i = 0; i < 3; ++i) {
    const DeviceBuffer result(sizeof(double));
    check(cuda::run_squared_norm(table.data(), table.count(), table.chunks,
                                 static_cast<double*>(workspace.data()),
                                 static_cast<double*>(result.data()), nullptr));
    double norm;
    result.download(&norm);
    CHECK(std::abs(norm - expected) <= 1e-12 * expected);
    if (i > 0) CHECK(norm == first);
    first = norm;
  }
}

}  // namespace
}  // namespace alpa
