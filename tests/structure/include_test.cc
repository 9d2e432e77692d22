// Which module may include which: the table of docs/design.md, section 3, as code.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "structure/source_files.h"

namespace include_test {

using namespace alpa::testing;
using structure::Include;
using structure::SourceFile;

namespace {

using Modules = std::set<std::string>;

// Lowest first; a module may include itself, what its row names, and what those may include.
// "kernels" are the files of the folder kernels/, whose folders are modules, too. A file of src/ or
// alpa/ itself is a module of its own: "weights" is alpa/weights.h and src/weights.cc.
const std::vector<std::pair<std::string, Modules>> kTable = {
    {"base", {}},
    {"version", {}},
    {"cuda_loader", {"base"}},
    {"processes", {"base"}},
    {"mpi", {"processes"}},  // libalpa_mpi.so
    {"ilp/model", {"base"}},
    {"ilp/reduce", {"ilp/model"}},
    {"ilp/eliminate", {"ilp/reduce"}},
    {"ilp/dual", {"ilp/reduce"}},
    {"ilp/search", {"ilp/eliminate", "ilp/dual"}},
    {"ilp", {"ilp/search"}},
    {"mesh", {"base", "cuda_loader", "processes"}},
    {"tensor", {"base"}},
    {"ir", {"mesh"}},
    {"kernels", {"tensor"}},
    {"kernels/plan", {"kernels"}},
    {"kernels/cpu", {"kernels/plan"}},
    {"kernels/cuda", {"kernels/plan"}},
    {"ops", {"ir", "kernels/cpu"}},
    {"autograd", {"ops"}},
    {"train", {"autograd", "tensor", "mesh"}},
    {"optim", {"train"}},
    {"nn", {"train"}},
    {"plan", {"ir"}},  // its types, public
    {"plan/schedules", {"plan"}},
    {"plan/cost", {"ops"}},
    {"plan/facts", {"plan", "plan/cost"}},
    {"plan/evaluation", {"plan/facts", "plan/schedules"}},
    {"search", {"base"}},  // tuning.h
    {"search/space", {"search", "plan/evaluation"}},
    {"search/program", {"search/space", "ilp"}},
    {"search/layers", {"search/program"}},
    {"search/sharding", {"search/layers"}},
    {"search/bound", {"search", "plan/schedules"}},
    {"search/stages", {"search/sharding", "search/bound"}},
    {"spmd", {"plan/evaluation"}},
    {"lower", {"spmd", "kernels/cuda"}},
    {"comm", {"mesh", "tensor"}},
    {"runtime", {"lower", "comm", "train", "cuda_loader"}},
    {"cuda", {"cuda_loader", "runtime"}},
    {"kernels/cuda/load", {"cuda"}},  // part of libalpa_cuda.so
    {"report", {"runtime", "search/stages"}},
    {"compile", {"report", "version"}},
    {"executable", {"compile"}},
    {"weights", {"executable"}},
    {"checkpoint", {"executable"}},
    {"parallelize", {"executable"}},
    {"measure", {"nn", "parallelize"}},
    {"generate", {"nn", "parallelize"}},
    {"eigen", {"tensor"}},
    {"alpa", {"nn", "optim", "generate", "weights", "checkpoint"}},
    {"models", {"alpa"}},
};

/// For every module, all it may include.
std::map<std::string, Modules> allowed_modules() {
  std::map<std::string, Modules> allowed;
  for (const auto& [module, row] : kTable) {
    Modules& all = allowed[module] = row;
    all.insert(module);
    for (const std::string& lower : row)
      all.insert(allowed.at(lower).begin(), allowed.at(lower).end());
  }
  return allowed;
}

/// The module of `path`, which starts with "include/alpa/", "alpa/", "src/" or
/// "kernels/"; "" for any other.
std::string module_of(const std::string& path) {
  if (path.starts_with("kernels/")) return path.substr(0, path.rfind('/'));
  for (const std::string prefix : {"include/alpa/", "alpa/", "src/"}) {
    if (!path.starts_with(prefix)) continue;
    const std::size_t slash = path.rfind('/');
    const std::size_t end = slash < prefix.size() ? path.rfind('.') : slash;
    return path.substr(prefix.size(), end - prefix.size());
  }
  return "";
}

/// What is wrong with `file` including `include`; "" if nothing.
std::string complaint(const SourceFile& file, const Include& include,
                      const std::map<std::string, Modules>& allowed) {
  const std::string where = file.path + ":" + std::to_string(include.line) + ": ";
  const std::string from = module_of(file.path);
  if (!allowed.contains(from))
    return where + "module " + from + " is not in the table of this test";
  std::string to = module_of(include.target);
  if (to.empty() && include.quoted && include.target.find('/') == std::string::npos) to = from;
  if (to.empty())
    return include.quoted ? where + "\"" + include.target + "\" is no path from the root" : "";
  if (allowed.at(from).contains(to)) return "";
  return where + from + " may not include " + to + " (" + include.target + ")";
}

/// What is wrong with `include` in a file of models/, or in what models share with other programs:
/// they are programs as users write them. "" if nothing.
std::string complaint_of_program(const SourceFile& file, const Include& include) {
  for (const char* folder : {"alpa/", "models/", "tools/common/"})
    if (!include.quoted || include.target.starts_with(folder)) return "";
  return file.path + ":" + std::to_string(include.line) + ": \"" + include.target +
         "\" is no public header";
}

}  // namespace

TEST_CASE("no module includes one that the table does not allow it") {
  const auto allowed = allowed_modules();
  const std::vector<SourceFile> files = structure::library_files();
  CHECK(files.size() > 50);
  for (const SourceFile& file : files)
    for (const Include& include : structure::includes_of(file))
      CHECK(complaint(file, include, allowed) == "");
}

TEST_CASE("a forbidden edge is reported with file, line and edge") {
  const auto allowed = allowed_modules();
  const auto first_complaint = [&](const std::string& path, const std::string& line) {
    const SourceFile file = {path, {"", line}};
    return complaint(file, structure::includes_of(file).at(0), allowed);
  };
  CHECK(first_complaint("src/ir/x.cc", "#include \"alpa/ops/ops.h\"") ==
        "src/ir/x.cc:2: ir may not include ops (alpa/ops/ops.h)");
  CHECK(first_complaint("include/alpa/ilp/x.h", "#  include <alpa/mesh/cluster.h>") ==
        "include/alpa/ilp/x.h:2: ilp may not include mesh (alpa/mesh/cluster.h)");
  CHECK(first_complaint("kernels/cpu/x.cc", "#include \"alpa/ir/graph.h\"") ==
        "kernels/cpu/x.cc:2: kernels/cpu may not include ir (alpa/ir/graph.h)");
  CHECK(first_complaint("kernels/cuda/x.cc", "#include \"kernels/cpu/matmul.h\"") ==
        "kernels/cuda/x.cc:2: kernels/cuda may not include kernels/cpu (kernels/cpu/matmul.h)");
  CHECK(first_complaint("src/base/x.cc", "#include \"alpa/alpa.h\"") ==
        "src/base/x.cc:2: base may not include alpa (alpa/alpa.h)");
  CHECK(first_complaint("src/cuda/x.cc", "#include \"alpa/report/report.h\"") ==
        "src/cuda/x.cc:2: cuda may not include report (alpa/report/report.h)");
  CHECK(first_complaint("src/compile/x.cc", "#include \"alpa/executable.h\"") ==
        "src/compile/x.cc:2: compile may not include executable (alpa/executable.h)");
  CHECK(first_complaint("src/executable.cc", "#include \"alpa/parallelize.h\"") ==
        "src/executable.cc:2: executable may not include parallelize (alpa/parallelize.h)");
  CHECK(first_complaint("src/passes.cc", "#include <vector>") ==
        "src/passes.cc:2: module passes is not in the table of this test");
  CHECK(first_complaint("src/gadgets/x.cc", "#include <vector>") ==
        "src/gadgets/x.cc:2: module gadgets is not in the table of this test");
  CHECK(first_complaint("src/runtime/x.cc", "#include \"alpa/base/error.h\"") == "");
  CHECK(first_complaint("src/plan/cost/x.cc", "#include \"spec_graph.h\"") == "");
  CHECK(first_complaint("src/parallelize.cc", "#include \"alpa/runtime/executor.h\"") == "");
}

TEST_CASE("programs of models/ include public headers alone, and those that programs share") {
  std::vector<SourceFile> files = structure::source_files("models", {".h", ".cc"});
  CHECK(files.size() > 30);
  for (SourceFile& header : structure::source_files("tools/common", {".h"}))
    files.push_back(std::move(header));
  for (const SourceFile& file : files)
    for (const Include& include : structure::includes_of(file))
      CHECK(complaint_of_program(file, include) == "");
  const SourceFile wrong = {"models/x.cc", {"", "#include \"src/base/file.h\""}};
  CHECK(complaint_of_program(wrong, structure::includes_of(wrong).at(0)) ==
        "models/x.cc:2: \"src/base/file.h\" is no public header");
}

}  // namespace include_test
