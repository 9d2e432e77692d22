#pragma once
/// Runs of small MLPs under every kind of plan, to be compared with the run on one device.
#include <alpa/alpa.h>

#include <map>
#include <string>
#include <vector>

namespace alpa::testing {

/// What a model has beside dense layers and ReLU.
enum class Trait : std::uint8_t { plain, bias, tied, residual };

/// What is computed.
struct MlpCase {
  Trait trait = Trait::bias;
  int layers = 2;
  bool adam = true;
  DType dtype = f32;
};

/// How it is spread.
struct Spread {
  const char* method = "shard";
  std::vector<int> mesh = {2};
  int micro_batches = 1;
  int threads = 0;  ///< of each device; 0: the default
};

std::string to_string(const MlpCase& model);
std::string to_string(const Spread& spread);

/// Everything the state holds after three steps, by name.
using Contents = std::map<std::string, std::vector<double>>;

/// The run on one device, whole batch at once.
Contents run_serial(const MlpCase& model);

/// The run under `spread` on devices of `backend`; checks on the way that planned peak and
/// traffic are the measured ones.
Contents run_spread(const MlpCase& model, const Spread& spread, const std::string& backend = "cpu");

/// The same `times` times, each on devices of its own, under one plan: planning again within a
/// time limit may find another.
std::vector<Contents> run_spread(const MlpCase& model, const Spread& spread,
                                 const std::string& backend, int times);

/// Largest deviation of any tensor, as a share of the largest element of the reference tensor;
/// infinite if a number of either is not finite.
double deviation(const Contents& run, const Contents& reference);

/// What `deviation` may be: 2e-5 in f32, where sums in another order are that far apart after three
/// steps of twelve layers, 1e-10 in f64.
double tolerance(DType dtype);

}  // namespace alpa::testing
