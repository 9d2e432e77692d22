// Every function that a header of the library's own declares has a caller outside tests.
#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <regex>

#include "structure/source_files.h"

namespace uncalled_test {

using namespace alpa::testing;
using structure::SourceFile;

namespace {

/// Those that tests alone call, and why.
const std::map<std::string, std::string> kForTests = {
    {"select_isa", "every processor runs the kernels of older ones in tests"},
};

/// The text without comments, literals, and what belongs to other libraries.
std::string words_of(const SourceFile& file) {
  static const std::regex kNoise(R"(//.*|"(\\.|[^"\\])*"|\b(_mm|cuda|nccl|cublas|cudnn)\w+)");
  std::string code;
  for (const std::string& line : file.lines) code += std::regex_replace(line, kNoise, "") + "\n";
  return code;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

void count_words(const std::string& code, std::map<std::string, int>& counts) {
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i;
    while (end < code.size() && is_word(code[end])) ++end;
    if (end > i) ++counts[code.substr(i, end - i)];
    i = end + 1;
  }
}

/// Names of the functions that `code`, a header, declares and leaves to a .cc file to define.
std::vector<std::string> declared_functions(const std::string& code) {
  // A line that starts with a type, then a name and its parameters.
  static const std::regex kStart(R"(\n(?! *(?:return |throw |else |using |const \w+ \w+\(|#)))"
                                 R"( *[\w:<>,&*\[\] ]*[\w>&*\]] ?[ &*](\w+)\()");
  std::vector<std::string> names;
  for (std::sregex_iterator at(code.begin(), code.end(), kStart), end; at != end; ++at) {
    auto i = static_cast<std::size_t>(at->position() + at->length());
    for (int open = 1; open > 0 && i < code.size(); ++i)
      open += (code[i] == '(') - (code[i] == ')');
    if (code.find_first_of(";{=", i) == code.find(';', i)) names.push_back((*at)[1]);
  }
  return names;
}

std::vector<std::string> uncalled(const std::vector<SourceFile>& headers,
                                  const std::vector<SourceFile>& files) {
  std::map<std::string, int> counts;
  for (const SourceFile& file : files) count_words(words_of(file), counts);
  std::vector<std::string> names;
  for (const SourceFile& header : headers)
    for (const std::string& name : declared_functions(words_of(header)))
      if (counts[name] <= 2) names.push_back(name);  // its declaration and its definition
  return names;
}

}  // namespace

TEST_CASE("no function is for tests alone") {
  std::vector<SourceFile> headers, files;
  for (const char* folder : {"include", "src", "kernels", "models", "tools", "bench"})
    for (SourceFile& file : structure::source_files(folder, {".h", ".cc", ".cu", ".cuh"}))
      files.push_back(std::move(file));
  for (const char* folder : {"src", "kernels", "models", "tools"})
    for (SourceFile& file : structure::source_files(folder, {".h"}))
      headers.push_back(std::move(file));
  std::size_t declared = 0;
  for (const SourceFile& header : headers) declared += declared_functions(words_of(header)).size();
  CHECK(declared > 500);
  for (const std::string& name : uncalled(headers, files))
    CHECK_MESSAGE(kForTests.contains(name), name << " has no caller outside tests");
}

TEST_CASE("a function without a caller is found") {
  const SourceFile header{"src/a.h", {"", "int used(int x,", "         int y);", "int unused();"}},
      source{"src/a.cc",
             {"int used(int x, int y) { return x; }", "int unused() { return used(1, 2); }"}};
  CHECK(uncalled({header}, {header, source}) == std::vector<std::string>{"unused"});
}

}  // namespace uncalled_test
