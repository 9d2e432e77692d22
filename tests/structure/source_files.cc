#include "structure/source_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace alpa::testing::structure {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = ALPA_SOURCE_DIR;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

SourceFile read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return {fs::relative(path, kRoot).generic_string(), split(text.str(), '\n')};
}

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char chunk[4096];
  while (const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe))
    output.append(chunk, size);
  pclose(pipe);
  return output;
}

bool is_build_folder(const fs::path& path) {
  const std::string name = path.filename();
  return name == "build" || name == "bundle" || name == "dist" ||
         (name.front() == '.' && name != ".ci");
}

std::vector<fs::path> walk(const fs::path& folder) {
  std::vector<fs::path> paths;
  if (!fs::exists(folder)) return paths;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator();
       ++at) {
    if (at->is_directory() && is_build_folder(at->path())) at.disable_recursion_pending();
    if (at->is_regular_file()) paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_text(const SourceFile& file) {
  return std::none_of(file.lines.begin(), file.lines.end(),
                      [](const std::string& line) { return line.find('\0') != std::string::npos; });
}

}  // namespace

std::vector<SourceFile> source_files(const std::string& folder,
                                     const std::vector<std::string>& endings) {
  std::vector<SourceFile> files;
  for (const fs::path& path : walk(kRoot / folder))
    if (std::find(endings.begin(), endings.end(), path.extension()) != endings.end())
      files.push_back(read(path));
  return files;
}

std::vector<SourceFile> library_files() {
  std::vector<SourceFile> files;
  for (const char* folder : {"include", "src", "kernels"})
    for (SourceFile& file : source_files(folder, {".h", ".cc", ".cu"}))
      files.push_back(std::move(file));
  return files;
}

std::vector<SourceFile> committed_files() {
  std::vector<fs::path> paths;
  for (const std::string& path :
       split(output_of("git -C '" + kRoot.string() + "' ls-files -z 2>&-"), '\0'))
    if (fs::is_regular_file(kRoot / path)) paths.push_back(kRoot / path);
  if (paths.empty()) paths = walk(kRoot);
  std::vector<SourceFile> files;
  for (const fs::path& path : paths) files.push_back(read(path));
  std::erase_if(files, [](const SourceFile& file) { return !is_text(file); });
  return files;
}

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> includes;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const std::size_t open = line.find_first_of("\"<", word);
    const std::size_t close =
        open == std::string::npos ? open : line.find_first_of("\">", open + 1);
    if (close == std::string::npos) continue;
    includes.push_back(
        {line.substr(open + 1, close - open - 1), line[open] == '"', static_cast<int>(i) + 1});
  }
  return includes;
}

}  // namespace alpa::testing::structure
