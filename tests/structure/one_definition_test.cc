// No two files define a type of the same name: the linker would keep the inline functions of one
// of the two and say nothing. In unnamed namespaces this holds for the files of a room, functions
// and constants included: a build compiles these together, more or fewer of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>

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
    for (const std::string& name : names_) all += name.empty() ? "" : name + "::";
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

/// Room of a file, whose files may be compiled together: "src/train".
std::string room_of(const std::string& path) {
  return path.substr(0, path.find('/', path.find('/') + 1));
}

/// Types of a parameter list, without names and default values: "std::string_view, int".
std::string parameter_types(const std::string& list) {
  static const std::regex kName(R"(^(.*[\w>*&]) ?([&*]* ?)\b\w+(?: = .*)?$)");
  std::string types, parameter;
  int depth = 0;
  const auto end_parameter = [&] {
    std::smatch match;
    types +=
        std::regex_match(parameter, match, kName) ? match[1].str() + match[2].str() : parameter;
    types += ", ";
    parameter.clear();
  };
  for (const char c : list) {
    depth += (c == '<' || c == '(' || c == '{') - (c == '>' || c == ')' || c == '}');
    if (c == ',' && depth == 0)
      end_parameter();
    else if (c != ' ' || !parameter.empty())
      parameter += c;
  }
  end_parameter();
  return std::regex_replace(types, std::regex(" "), "");
}

/// What `file` defines in unnamed namespaces: functions with the types of their parameters, types
/// and constants, each with its room and its namespace before it.
std::set<std::string> unnamed_of(const SourceFile& file) {
  static const std::regex kFunction(R"(^[\w:<>,*& ]+[ *&](\w+)\(((?:[^()]|\([^()]*\))*)\).*)");
  static const std::regex kName(
      R"(^(?:(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :.*)? \{.*)"
      R"(|(?:static )?(?:constexpr|const) [\w:<>,* ]+ (\w+)(?:\[.*\])? ?(?:=|\{).*))");
  std::set<std::string> names;
  Scope scope;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    scope.read(file.lines[i]);
    if (!scope.unnamed() || file.lines[i].empty() || !std::isalpha(file.lines[i].front())) continue;
    std::string text = file.lines[i];
    const std::string before = room_of(file.path) + " " + scope.prefix();
    std::smatch match;
    if (std::regex_match(text, match, kName)) {
      names.insert(before + (match[1].matched ? match[1].str() : match[2].str()));
      continue;
    }
    for (std::size_t next = i + 1; !text.ends_with('{') && !text.ends_with('}') &&
                                   !text.ends_with(';') && next < file.lines.size();
         ++next)
      text += " " + file.lines[next];
    if (std::regex_match(text, match, kFunction))
      names.insert(before + match[1].str() + "(" + parameter_types(match[2]) + ")");
  }
  return names;
}

/// "name: first file, second file" of every name that `names_of` finds in two of the files.
template <typename Names>
std::vector<std::string> defined_twice(const std::vector<SourceFile>& files, Names names_of) {
  std::map<std::string, std::string> home;
  std::vector<std::string> twice;
  for (const SourceFile& file : files)
    for (const std::string& name : names_of(file)) {
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
  for (const std::string& twice : defined_twice(files, types_of)) FAIL_CHECK(twice);
}

TEST_CASE("no two files of a room define the same in unnamed namespaces") {
  std::size_t names = 0;
  for (const char* folder : {"src", "models", "tools"}) {  // kernels are compiled one by one
    const std::vector<SourceFile> files = structure::source_files(folder, {".cc"});
    for (const SourceFile& file : files) names += unnamed_of(file).size();
    for (const std::string& twice : defined_twice(files, unnamed_of)) FAIL_CHECK(twice);
  }
  CHECK(names > 2000);
}

TEST_CASE("types of a module's headers are in the module's namespace") {
  // base, tensor, ir, mesh and train, the vocabulary of all modules, and the loader are in alpa.
  // Rooms plan and search have Alpa's two levels of parallelism as namespaces.
  const std::vector<std::pair<std::string, std::string>> namespaces = {
      {"comm", "comm"},
      {"cuda", "cuda"},
      {"ilp", "ilp"},
      {"import", "stablehlo"},
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
  CHECK(defined_twice({{"a.h", range}, {"b.h", hidden}, {"c.h", other}}, types_of).empty());
  CHECK(defined_twice({{"a.h", range}, {"b.h", range}}, types_of) ==
        std::vector<std::string>{"alpa::Range: a.h, b.h"});
}

TEST_CASE("functions of unnamed namespaces are told apart by the types of their parameters") {
  const auto file = [](const char* path, std::vector<std::string> lines) {
    lines.insert(lines.begin(), {"namespace alpa {", "namespace {"});
    return SourceFile{path, lines};
  };
  const SourceFile first =
      file("src/x/a.cc", {"std::optional<int> bytes(std::string_view text) {"});
  const SourceFile again =
      file("src/x/y/b.cc", {"const char* bytes(std::string_view words = {}) {"});
  const SourceFile overload =
      file("src/x/c.cc", {"int bytes(const Width& width,", "          int n) {"});
  const SourceFile elsewhere = file("src/z/a.cc", {"int bytes(std::string_view text) {"});
  CHECK(defined_twice({first, overload, elsewhere}, unnamed_of).empty());
  CHECK(defined_twice({first, again}, unnamed_of) ==
        std::vector<std::string>{"src/x alpa::bytes(std::string_view,): src/x/a.cc, src/x/y/b.cc"});
  CHECK(unnamed_of(overload) == std::set<std::string>{"src/x alpa::bytes(constWidth&,int,)"});
}

}  // namespace one_definition_test
