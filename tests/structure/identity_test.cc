// Who may ask which operator a node is: records say what others need to know (src/ir/op_def.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "structure/source_files.h"

namespace identity_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

/// Files that ask, and why no record could tell them.
const std::map<std::string, std::string> kReasons = {
    {"src/api/local_cluster.cc", "a cluster is found on a machine by its backend's name"},
    {"src/spmd/fuse_epilogues.cc",
     "looks for named patterns: a product, and the bias, activation and addend it can take in"},
    {"src/spmd/group_einsums.cc",
     "looks for named patterns: products of one operand, with or without an epilogue"},
    {"src/spmd/einsum_group.cc", "is_einsum_group: the one operator whose nodes share an operand"},
    {"src/search/stages/stage_graph.cc",
     "looks for a named pattern: the terms that are added to an accumulator"},
    {"src/plan/facts/tensor_factors.cc",
     "tables that examples are looked up in: Megatron-LM splits their rows, whatever reads them"},
    {"src/train/parameter_copies.cc",
     "looks for named patterns: a parameter's conversion, and the update that can make a copy"},
    {"src/spmd/fuse_small_sums.cc",
     "looks for a named pattern: what is added to an accumulator, behind a conversion"},
    {"src/spmd/fuse_squares.cc", "looks for a named pattern: the sum of squares"},
    {"src/plan/facts/fusion.cc",
     "constants and broadcasts become part of the loops that read them"},
    {"src/spmd/reshard_ops.cc",
     "is_transfer: the one operator whose operand and result are on different meshes"},
    {"src/spmd/fuse_elementwise.cc",
     "constants and broadcasts become attributes of the fused node"},
};

/// Files that ask for the kind of a collective, and why its row (`CollectiveDef`) could not tell.
const std::map<std::string, std::string> kAskForCollectives = {
    {"src/api/links.cc", "measures all_reduces"},
    {"src/comm/device_group.cc", "does each kind between threads and processes"},
    {"src/comm/group.h", "has a function for each kind"},
    {"src/cuda/copy_group.cc", "does each kind on one card"},
    {"src/cuda/nccl_group.cc", "does each kind through NCCL"},
    {"src/plan/cost/collective.cc", "prices are known as those of measured all_reduces"},
    {"src/search/stages/stage_guess.cc", "guesses the collectives of Megatron-LM's layouts"},
    {"src/spmd/reshard_ops.cc", "has an operator for each kind"},
};

/// "file:line " of every line in which an operator is told by its record, or by its name,
/// or a backend by its name.
std::string identity_tests(const std::vector<SourceFile>& files) {
  const std::regex record(R"([!=]=\s*&(alpa::)?ops::(?!input\b))");
  const std::regex name(R"(\bop((\.|->)name)?(\s*[!=]=\s*"|\.(starts_with|ends_with|find)\())");
  const std::regex backend(R"([!=]=\s*"(cpu|cuda)\")");
  std::string found;
  for (const SourceFile& file : files)
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      for (const std::regex* pattern : {&record, &name, &backend})
        if (std::regex_search(file.lines[i], *pattern))
          found += file.path + ":" + std::to_string(i + 1) + " ";
  return found;
}

/// The library without the operators' own files and without `kReasons`.
std::vector<SourceFile> files_that_must_not_ask() {
  std::vector<SourceFile> files = structure::library_files();
  std::erase_if(files, [](const SourceFile& file) {
    // Clusters are described in files by their backend's name.
    return file.path.starts_with("src/ops/") || file.path.starts_with("src/mesh/") ||
           kReasons.count(file.path) > 0;
  });
  return files;
}

}  // namespace

TEST_CASE(
    "outside src/ops nobody asks which operator a node is, or which backend it runs on, without a "
    "reason") {
  CHECK(identity_tests(files_that_must_not_ask()) == "");
  CHECK(identity_tests({{"x.cc",
                         {"if (node.op == &ops::relu) return;",
                          "if (node.op != &ops::input) return;", "return op == \"einsum\";",
                          "node.op->name.starts_with(\"einsum\")", "if (backend == \"cuda\")",
                          "found = op.name == name;"}}}) == "x.cc:1 x.cc:3 x.cc:4 x.cc:5 ");
}

TEST_CASE("few files ask for the kind of a collective, each for a reason") {
  std::set<std::string> asking, named;
  for (const SourceFile& file : structure::library_files())
    for (const std::string& line : file.lines)
      if (line.find("CollectiveKind::") != std::string::npos ||
          (line.find("using enum CollectiveKind") != std::string::npos &&
           file.path != "include/alpa/mesh/collective.h"))
        asking.insert(file.path);
  for (const auto& [path, reason] : kAskForCollectives) named.insert(path);
  CHECK(asking == named);
}

TEST_CASE("every reason to ask which operator a node is belongs to a file that asks") {
  for (const auto& [path, reason] : kReasons) {
    const std::vector<SourceFile> files = structure::library_files();
    const auto file =
        std::find_if(files.begin(), files.end(),
                     [&, path = path](const SourceFile& f) { return f.path == path; });
    CAPTURE(path);
    REQUIRE(file != files.end());
    CHECK(!reason.empty());
    CHECK(identity_tests({*file}) != "");
  }
}

}  // namespace identity_test
