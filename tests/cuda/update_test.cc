#include "kernels/cuda/update.h"

#include <cmath>

#include "device_call.h"
#include "kernels/cpu/kernels.h"

namespace alpa::update_test {
namespace {

using namespace testing;
using cuda::UpdateTensor;

/// The tensors of one parameter on the device.
struct Parameter {
  std::vector<HostTensor> host;  ///< w, m, v, g — or w, velocity, g
  std::vector<DeviceBuffer> buffers;
};

Parameter parameter(std::int64_t elements, DType dtype, DType gradient_type, int states,
                    unsigned seed, std::size_t shift) {
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

constexpr std::pair<DType, DType> kTypes[] = {{f32, f32},  {f32, bf16}, {bf16, bf16},
                                              {bf16, f32}, {f16, f16},  {f16, f32},
                                              {f32, f16},  {f64, f32},  {f32, f64}};

/// Sizes around chunks, of every type, aligned and not.
std::vector<Parameter> parameters(int states) {
  std::vector<Parameter> all;
  unsigned seed = 1;
  for (const auto& [dtype, gradient] : kTypes)
    for (const std::int64_t elements : {1, 0, 1023, 8192, 20001})
      for (const std::size_t shift : {0, 8})
        all.push_back(parameter(elements, dtype, gradient, states, seed += 20, shift));
  return all;
}

/// Sizes around what one thread (16 bytes), one block at once and one chunk take.
std::vector<Parameter> border_parameters(DType dtype, DType gradient) {
  std::vector<Parameter> all;
  for (std::int64_t rest = 1; rest < 16; ++rest)
    for (const std::int64_t whole : {0, 1024, 2048, 4096, 8192})
      all.push_back(parameter(whole + rest, dtype, gradient, 2,
                              static_cast<unsigned>(100 * rest + whole), 0));
  return all;
}

std::vector<UpdateTensor> rows_of(const std::vector<Parameter>& all) {
  std::vector<UpdateTensor> rows;
  for (const Parameter& p : all) rows.push_back(row_of(p));
  return rows;
}

HostTensor scalar(double value) {
  HostTensor t({f32, {}});
  t.put(0, value);
  return t;
}

double bound(const HostTensor& t) {
  return t.type.dtype == f64 ? 1e-12 : std::max(1e-6, epsilon(t.type.dtype));
}

/// Updates `all` on the device and compares with the CPU.
void check_adam(const std::vector<Parameter>& all, double step_number, bool decoupled) {
  const std::vector<UpdateTensor> table = rows_of(all);
  const HostTensor rate = scalar(0.01), step = scalar(step_number);
  const DeviceBuffer rate_buffer(rate), step_buffer(step);
  check(cuda::run_adam(table.data(), static_cast<int>(table.size()),
                       {0.9, 0.99, 1e-8, 0.1, decoupled}, {rate_buffer.data(), f32},
                       {step_buffer.data(), f32}, nullptr));
  CallOptions options;
  options.attributes = {{"beta1", 0.9},
                        {"beta2", 0.99},
                        {"epsilon", 1e-8},
                        {"weight_decay", 0.1},
                        {"decoupled", std::int64_t{decoupled}}};
  for (const Parameter& p : all) {
    CAPTURE(p.host[0].type.elements());
    const auto expected = run_kernel(
        cpu::multi_tensor_adam, {p.host[0], p.host[1], p.host[2], p.host[3], rate, step},
        {HostTensor(p.host[0].type), HostTensor(p.host[1].type), HostTensor(p.host[2].type)},
        options);
    for (int i = 0; i < 3; ++i)
      CHECK(difference(p.buffers[i].download(p.host[i].type), values_of(expected[i])) <=
            bound(p.host[i]));
  }
}

TEST_CASE("all parameters are updated as Adam on the CPU does one by one") {
  if (no_device()) return;
  for (const bool decoupled : {false, true}) check_adam(parameters(2), 3, decoupled);
}

TEST_CASE("Adam's bias correction holds for any step, also one that is not a whole number") {
  if (no_device()) return;
  for (const double step : {1.0, 2.5, 17.0, 1000.0, 123456.0, 3e9}) {
    std::vector<Parameter> all;
    for (const DType dtype : {f32, f64}) all.push_back(parameter(100, dtype, dtype, 2, 1, 0));
    check_adam(all, step, true);
  }
}

TEST_CASE("Adam updates every element at the borders of accesses, blocks and chunks") {
  if (no_device()) return;
  for (const auto& [dtype, gradient] : kTypes) {
    CAPTURE(name_of(dtype));
    CAPTURE(name_of(gradient));
    check_adam(border_parameters(dtype, gradient), 3, true);
  }
}

TEST_CASE("Adam updates more parameters than a table holds, of several types in any order") {
  if (no_device()) return;
  std::vector<Parameter> all;
  for (int i = 0; i < 900; ++i) {
    const auto& [dtype, gradient] = i % 2 == 0 ? kTypes[0] : kTypes[i / 2 % std::size(kTypes)];
    all.push_back(
        parameter(i % 7 == 3 ? 0 : 1 + i % 40, dtype, gradient, 2, static_cast<unsigned>(i), 0));
  }
  check_adam(all, 3, true);
}

TEST_CASE("all parameters are updated as SGD on the CPU does one by one") {
  if (no_device()) return;
  for (const bool nesterov : {false, true}) {
    const std::vector<Parameter> all = parameters(1);
    const std::vector<UpdateTensor> table = rows_of(all);
    const HostTensor rate = scalar(0.1);
    const DeviceBuffer rate_buffer(rate);
    check(cuda::run_sgd(table.data(), static_cast<int>(table.size()), {0.9, 0.01, nesterov},
                        {rate_buffer.data(), f32}, nullptr));
    CallOptions options;
    options.attributes = {
        {"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", std::int64_t{nesterov}}};
    for (const Parameter& p : all) {
      const auto expected =
          run_kernel(cpu::multi_tensor_sgd, {p.host[0], p.host[1], p.host[2], rate},
                     {HostTensor(p.host[0].type), HostTensor(p.host[1].type)}, options);
      for (int i = 0; i < 2; ++i)
        CHECK(difference(p.buffers[i].download(p.host[i].type), values_of(expected[i])) <=
              bound(p.host[i]));
    }
  }
}

TEST_CASE("what is added to sums of all types and sizes is the CPU's, bit for bit") {
  if (no_device()) return;
  const std::vector<Parameter> all = parameters(1);
  std::vector<UpdateTensor> table = rows_of(all);
  for (UpdateTensor& row : table) row.first_type = row.second_type = row.w_type;
  check(cuda::run_add(table.data(), static_cast<int>(table.size()), nullptr));
  for (const Parameter& p : all)
    CHECK(p.buffers[0].download(p.host[0].type) == run_kernel(cpu::multi_tensor_add,
                                                              {p.host[0], p.host.back()},
                                                              {HostTensor(p.host[0].type)})[0]);
}

TEST_CASE("the squared norms are the sums of the tensors' squares, the same bits every time") {
  if (no_device()) return;
  const std::vector<Parameter> all = parameters(1);
  for (const int count : {3, 24, 100, 430}) {  // a small table, a large one, two launches
    std::vector<cuda::NormTensor> table;
    std::int64_t chunks = 0;
    const DeviceBuffer results(static_cast<std::size_t>(count) * sizeof(double));
    for (int i = 0; i < count; ++i) {
      const Parameter& p = all[i % all.size()];
      const TensorType& type = p.host.back().type;
      table.push_back({p.buffers.back().data(), static_cast<double*>(results.data()) + i,
                       type.dtype, f64, type.elements()});
      chunks += cuda::chunks_of(type.elements());
    }
    const DeviceBuffer workspace(static_cast<std::size_t>(chunks) * sizeof(double));
    std::vector<double> norms(static_cast<std::size_t>(count)), first;
    for (int repeated = 0; repeated < 3; ++repeated) {
      check(cuda::run_squared_norms(table.data(), count, static_cast<double*>(workspace.data()),
                                    nullptr));
      results.download(norms.data());
      if (repeated == 0) first = norms;
      CHECK(norms == first);
    }
    for (int i = 0; i < count; ++i) {
      double expected = 0;
      for (const double g : values_of(all[i % all.size()].host.back())) expected += g * g;
      CHECK(std::abs(norms[i] - expected) <= 1e-12 * expected);
    }
  }
}

}  // namespace
}  // namespace alpa::update_test
