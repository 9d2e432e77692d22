#include "src/lower/backend.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"

namespace backend_test {

using namespace alpa;

namespace {

/// Operators that a backend has no kernel for, though programs may have it compute them.
std::string without_kernel(const lower::Backend& backend, std::span<const OpDef* const> operators) {
  std::string names;
  for (const OpDef* op : operators)
    if (op != &ops::input && op != &ops::transfer && !op->reshard && !backend.has_kernel(*op))
      names += std::string(op->name) + " ";
  return names;
}

}  // namespace

TEST_CASE("every operator has a kernel in every backend, and the one that has none is named") {
  const OpDef forgotten{.name = "forgotten"};
  const OpDef* const some[] = {&ops::add, &forgotten, &ops::input};
  for (const char* name : {"cpu", "cuda"}) {
    const lower::Backend& backend = lower::find_backend(name);
    CAPTURE(name);
    CHECK(backend.name == name);
    CHECK(without_kernel(backend, all_ops()) == "");
    CHECK(without_kernel(backend, spmd::partitioned_ops()) == "");
    CHECK(without_kernel(backend, some) == "forgotten ");
  }
}

TEST_CASE("an unknown backend is an error that names those there are") {
  const auto message = [] {
    try {
      lower::find_backend("tpu");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message() == "backend \"tpu\" is unknown; known are \"cpu\" and \"cuda\"");
}

TEST_CASE("CUDA devices have one thread and overlap by default; CPU devices share the cores") {
  const lower::Backend &cpu = lower::find_backend("cpu"), &cuda = lower::find_backend("cuda");
  CHECK(lower::threads_per_device(cpu, {.threads_per_device = 3}, 2) == 3);
  CHECK(lower::threads_per_device(cuda, {.threads_per_device = 3}, 2) == 1);
  CHECK(!lower::overlaps(cpu, {}, 1 << 20));
  CHECK(lower::overlaps(cuda, {}, 1 << 20));
  CHECK(lower::overlaps(cpu, {.overlap = Overlap::always}, 1 << 20));
  CHECK(!lower::overlaps(cuda, {.overlap = Overlap::never}, 1));
}

}  // namespace backend_test
