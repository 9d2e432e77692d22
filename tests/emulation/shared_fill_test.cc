// Kernels read nothing of their shared memory that they did not write.
#include <map>

#include "cuda/device_run.h"
#include "emulation.h"
#include "ops/run_case.h"

namespace alpa::shared_fill_test {
namespace {

using namespace testing;
using cases::Case;

std::int64_t elements_of(const Case& row) {
  std::int64_t elements = 0;
  for (const cases::Operand& operand : row.operands) elements += operand.type.elements();
  return elements;
}

/// Of each operator and element type the row with the fewest elements.
std::vector<const Case*> smallest_rows() {
  std::map<std::pair<std::string, DType>, const Case*> smallest;
  for (const Case& row : cases::all()) {
    if (!cases::is_computed(row)) continue;
    const DType dtype = row.operands.empty() ? f32 : row.operands[0].type.dtype;
    const Case*& kept = smallest[{std::string(row.op->name), dtype}];
    if (kept == nullptr || elements_of(row) < elements_of(*kept)) kept = &row;
  }
  std::vector<const Case*> rows;
  for (const auto& [key, row] : smallest) rows.push_back(row);
  return rows;
}

TEST_CASE("the smallest rows of all operators have the same bits whatever shared memory holds") {
  const std::vector<const Case*> rows = smallest_rows();
  CHECK(rows.size() > 100);
  for (const Case* row : rows) {
    CAPTURE(row->label());
    const std::vector<HostTensor> operands = cases::draw_operands(*row);
    std::vector<HostTensor> empty;
    for (const TensorType& type : cases::result_types(*row)) empty.emplace_back(type);
    const auto run = [&](unsigned char fill) {
      emulation::restart({.shared_fill = fill});
      return run_on_device(*row->op, operands, empty,
                           {.attributes = row->attributes, .step = {.seed = 5, .step = 2}});
    };
    const std::vector<HostTensor> a = run(0xa5), b = run(0xff);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].bytes == b[i].bytes);
  }
  emulation::restart({});
}

}  // namespace
}  // namespace alpa::shared_fill_test
