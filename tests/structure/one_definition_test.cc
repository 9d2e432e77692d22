// No two files define a type of the same name: the linker would keep the inline functions of one
// of the two and say nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "structure/source_files.h"

namespace one_definition_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

/// Namespaces of a clang-formatted file at each line: "alpa::ilp", or "" outside; nullopt in an
/// unnamed one, where every file has definitions of its own.
class Scope {
 public:
  void read(const std::string& line) {
    static const std::regex kOpens(R"(^(inline )?namespace ([\w:]* ?)\{$)");
    std::smatch match;
    if (std::regex_match(line, match, kOpens)) {
      std::string name = match[2];
      if (!name.empty()) name.pop_back();
      names_.push_back(name);
    } else if (line.starts_with("}  // namespace") && !names_.empty()) {
      names_.pop_back();
    }
  }
  bool unnamed() const { return std::find(names_.begin(), names_.end(), "") != names_.end(); }
  std::string prefix() const {
    std::string all;
    for (const std::string& name : names_) all += name + "::";
    return all;
  }

 private:
  std::vector<std::string> names_;
};

/// Qualified names of the types that `file` defines at namespace level and
/// other files could define, too.
std::vector<std::string> types_of(const SourceFile& file) {
  static const std::regex kType(
      R"(^(?:template <.*> ?)?(?:struct|class|union|enum class|enum) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: :.*)? \{.*)");
  std::vector<std::string> names;
  Scope scope;
  for (const std::string& line : file.lines) {
    scope.read(line);
    std::smatch match;
    if (!scope.unnamed() && std::regex_match(line, match, kType))
      names.push_back(scope.prefix() + match[1].str());
  }
  return names;
}

/// "name: first file, second file" of every name defined twice.
std::vector<std::string> defined_twice(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string> home;
  std::vector<std::string> twice;
  for (const SourceFile& file : files)
    for (const std::string& name : types_of(file)) {
      const auto [known, fresh] = home.emplace(name, file.path);
      if (!fresh) twice.push_back(name + ": " + known->second + ", " + file.path);
    }
  return twice;
}

}  // namespace

TEST_CASE("no type of the library is defined in two files") {
  const std::vector<SourceFile> files = structure::library_files();
  std::size_t types = 0;
  for (const SourceFile& file : files) types += types_of(file).size();
  CHECK(types > 200);
  for (const std::string& twice : defined_twice(files)) FAIL_CHECK(twice);
}

TEST_CASE("types of a module's headers are in the module's namespace") {
  // base, tensor, ir, mesh and train, the vocabulary of all modules, and the loader are in alpa.
  // Rooms plan and search have Alpa's two levels of parallelism as namespaces.
  const std::vector<std::pair<std::string, std::string>> namespaces = {
      {"comm", "comm"},
      {"cuda", "cuda"},
      {"ilp", "ilp"},
      {"lower", "lower"},
      {"ops", "ops"},
      {"plan/cost", "cost"},
      {"plan/facts", "intra_op"},
      {"plan/schedules", "pipeline"},
      {"runtime", "runtime"},
      {"search/bound", "inter_op"},
      {"search/layers", "intra_op"},
      {"search/program", "intra_op"},
      {"search/sharding", "intra_op"},
      {"search/space", "intra_op"},
      {"spmd", "spmd"}};
  std::size_t types = 0;
  for (const auto& [module, name_space] : namespaces)
    for (const SourceFile& file : structure::source_files("src/" + module, {".h"}))
      for (const std::string& name : types_of(file)) {
        ++types;
        CHECK_MESSAGE(name.starts_with("alpa::" + name_space + "::"), file.path << ": " << name);
      }
  CHECK(types > 100);
}

TEST_CASE("two types of one name are found, those of unnamed namespaces are not") {
  const std::vector<std::string> range = {"namespace alpa {", "struct Range {", "};",
                                          "}  // namespace alpa"};
  std::vector<std::string> hidden = range;
  hidden[0] = "namespace {", hidden[3] = "}  // namespace";
  const std::vector<std::string> other = {"namespace alpa::ilp {",
                                          "class Range final : public Base {", "};"};
  CHECK(defined_twice({{"a.h", range}, {"b.h", hidden}, {"c.h", other}}).empty());
  CHECK(defined_twice({{"a.h", range}, {"b.h", range}}) ==
        std::vector<std::string>{"alpa::Range: a.h, b.h"});
}

}  // namespace one_definition_test
