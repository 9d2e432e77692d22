#pragma once
/// A covering set of the full product (covering_test.cc): every mesh with every method, number of
/// micro-batches and element type; number of layers, trait and optimizer take turns, so that every
/// pair of values of any two factors occurs.
#include <array>

#include "equivalence/mlp_case.h"

namespace alpa::testing {

inline const std::vector<std::vector<int>> kMeshes = {{1},    {2},    {3}, {4}, {2, 2}, {5},   {6},
                                                      {2, 3}, {3, 2}, {7}, {8}, {2, 4}, {4, 2}};
inline constexpr const char* kMethods[] = {"data", "zero2", "zero3", "shard"};
inline constexpr int kLayers[] = {2, 3, 4, 6, 12};

/// One number per factor: mesh, method, micro-batches, dtype, layers, trait, optimizer.
using Choice = std::array<int, 7>;

inline std::vector<Choice> covering_choices() {
  std::vector<Choice> choices;
  int turn = 0;
  for (int mesh = 0; mesh < static_cast<int>(kMeshes.size()); ++mesh)
    for (int method = 0; method < 4; ++method)
      for (int half = 0; half < 2; ++half, ++turn)
        choices.push_back({mesh, method, half, (method + half) % 2, turn % 5,
                           (method + mesh + 2 * half) % 4, turn / 3 % 2});
  return choices;
}

inline MlpCase model_of(const Choice& c) {
  return {static_cast<Trait>(c[5]), kLayers[c[4]], c[6] == 1, c[3] == 1 ? f64 : f32};
}

/// The default number of threads, 1, 2 and 3 take turns, too.
inline Spread spread_of(const Choice& c) {
  return {kMethods[c[1]], kMeshes[c[0]], c[2] == 1 ? 4 : 1, (c[0] + c[1] + c[2]) % 4};
}

/// Compares every choice of a mesh, run on `backend`, with one CPU device.
inline void check_mesh(int mesh, const std::string& backend) {
  static std::map<std::string, Contents> references;
  for (const Choice& choice : covering_choices()) {
    if (choice[0] != mesh) continue;
    const MlpCase model = model_of(choice);
    const std::string name = to_string(model);
    INFO(name << "; " << to_string(spread_of(choice)) << " on " << backend);
    if (!references.contains(name)) references[name] = run_serial(model);
    CHECK(deviation(run_spread(model, spread_of(choice), backend), references[name]) <=
          tolerance(model.dtype));
  }
}

}  // namespace alpa::testing
