// Rooms and floors. The table of docs/design.md, section 3, says which room may include which; the
// picture above that table is the floors that the includes make.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "structure/source_files.h"

namespace include_test {

using namespace alpa::testing;
using structure::Include;
using structure::SourceFile;

namespace {

using Names = std::set<std::string>;
using Table = std::map<std::string, Names>;

constexpr int kMostFloors = 11;

/// Folders of rooms, with what each may include: folders, other rooms, or what the row of its own
/// room names. "." are the files of the room's folder itself.
const Table kFolders = {
    {"api/.", {"compile", "runtime", "nn", "optim"}},  // not data
    {"api/checkpoint", {"api/."}},
    {"api/alpa", {"api/checkpoint", "data"}},  // alpa.h
    {"cuda/.", {"cuda"}},
    {"cuda/load", {"cuda/."}},
    {"ilp/model", {"base"}},
    {"ilp/reduce", {"ilp/model"}},
    {"ilp/eliminate", {"ilp/reduce"}},
    {"ilp/dual", {"ilp/reduce"}},
    {"ilp/search", {"ilp/eliminate", "ilp/dual"}},
    {"ilp/.", {"ilp/search"}},
    {"kernels/.", {"tensor"}},
    {"kernels/plan", {"kernels/."}},
    {"kernels/cpu", {"kernels/plan"}},
    {"kernels/cuda", {"kernels/plan"}},
    {"plan/.", {"ir"}},  // its types, public
    {"plan/schedules", {"plan/."}},
    {"plan/cost", {"ops"}},
    {"plan/facts", {"plan/.", "plan/cost"}},
    {"plan/evaluation", {"plan/facts", "plan/schedules"}},
    {"programs/bindings", {"programs"}},
    {"programs/models", {"programs"}},
    {"programs/tools", {"programs/models"}},
    {"search/.", {"base"}},  // tuning.h
    {"search/space", {"search/.", "plan"}},
    {"search/program", {"search/space", "ilp"}},
    {"search/layers", {"search/program"}},
    {"search/sharding", {"search/layers"}},
    {"search/bound", {"search/.", "plan/schedules"}},
    {"search/stages", {"search/sharding", "search/bound"}},
};

std::string room_of(const std::string& module) { return module.substr(0, module.find('/')); }

/// The entries of `kFolders` of this room.
Names folders_of(const std::string& room) {
  Names folders;
  for (const auto& [folder, may] : kFolders)
    if (folder.starts_with(room + "/")) folders.insert(folder);
  return folders;
}

/// Section 3 of docs/design.md, line by line.
std::vector<std::string> section_on_rooms() {
  std::vector<std::string> section;
  for (const SourceFile& page : structure::source_files("docs", {".md"})) {
    if (page.path != "docs/design.md") continue;
    for (const std::string& line : page.lines)
      if (line.starts_with("## 3. ") || (!section.empty() && !line.starts_with("## ")))
        section.push_back(line);
      else if (!section.empty())
        break;
  }
  return section;
}

/// The picture of the floors: the first ```text block of the section.
std::string drawn_floors() {
  std::string picture;
  bool inside = false;
  for (const std::string& line : section_on_rooms()) {
    if (line.starts_with("```") && inside) break;
    if (inside) picture += line + "\n";
    if (line == "```text") inside = true;
  }
  return picture;
}

/// The table of the section: what each room may include, besides what those may include.
Table table_of_rooms() {
  static const std::regex kRow(R"(\| `(\w+)` \|.*\| ([^|]*) \|)"), kName(R"([\w/]+)");
  Table table;
  std::smatch row;
  for (const std::string& line : section_on_rooms()) {
    if (!std::regex_match(line, row, kRow)) continue;
    Names& may = table[row[1]];
    const std::string cell = row[2];
    for (std::sregex_iterator name(cell.begin(), cell.end(), kName), end; name != end; ++name)
      may.insert(name->str());
  }
  return table;
}

/// For modules, all that they may include. A module is a room, or a folder of one.
class Allowed {
 public:
  Allowed() : rooms_(table_of_rooms()) {}

  const Table& rooms() const { return rooms_; }
  bool knows(const std::string& module) const {
    return kFolders.contains(module) || (rooms_.contains(module) && folders_of(module).empty());
  }
  /// The module itself, the rows of the table and what they lead to.
  const Names& of(const std::string& module) const {
    Names& all = known_[module];
    if (!all.empty()) return all;
    all = {module};
    const auto folder = kFolders.find(module);
    for (const std::string& name : folder == kFolders.end() ? rooms_.at(module) : folder->second)
      all.merge(name == room_of(module) ? by_row(name) : all_of(name));
    return all;
  }
  /// What the row of a room leads to.
  Names by_row(const std::string& room) const {
    Names all;
    for (const std::string& name : rooms_.at(room)) all.merge(all_of(name));
    return all;
  }
  /// A folder, or a room with all its folders, and what they lead to.
  Names all_of(const std::string& name) const {
    const Names folders = folders_of(name);
    if (folders.empty()) return of(name);
    Names all;
    for (const std::string& folder : folders) all.merge(Names(of(folder)));
    return all;
  }

 private:
  Table rooms_;
  mutable Table known_;
};

/// The module of a path from the root, or of an include; "" for what is none of ours.
std::string module_of(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (path.starts_with("tools/common/")) return "common";
  if (path.starts_with("bindings/")) return "programs/bindings";
  if (path.starts_with("models/")) return "programs/models";
  if (path.starts_with("tools/")) return "programs/tools";
  if (folder == "alpa/" || folder == "include/alpa/") {
    const std::string header = path.substr(folder.size());
    return header == "version.h" ? "base" : header == "alpa.h" ? "api/alpa" : "api/.";
  }
  std::string module = folder.starts_with("kernels/") ? folder : "";
  for (const std::string prefix : {"include/alpa/", "alpa/", "src/"})
    if (folder.starts_with(prefix)) module = folder.substr(prefix.size());
  if (folder == "src/") return path.substr(folder.size());
  if (module.empty()) return "";
  module.pop_back();
  if (module == "checkpoint") return "api/checkpoint";
  return folders_of(module).empty() ? module : module + "/.";
}

/// The module that `file`, of module `from`, includes; "" if it is none of ours.
std::string target_of(const Include& include, const std::string& from) {
  const bool beside = include.quoted && include.target.find('/') == std::string::npos;
  return beside ? from : module_of(include.target);
}

/// What is wrong with `file` including `include`; "" if nothing.
std::string complaint(const SourceFile& file, const Include& include, const Allowed& allowed) {
  const std::string where = file.path + ":" + std::to_string(include.line) + ": ";
  const std::string from = module_of(file.path), to = target_of(include, from);
  if (!allowed.knows(from)) return where + from + " is in no table of rooms";
  if (to.empty())
    return include.quoted ? where + "\"" + include.target + "\" is no path from the root" : "";
  if (allowed.of(from).contains(to)) return "";
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

/// The sources of the library and of all programs.
std::vector<SourceFile> all_sources() {
  std::vector<SourceFile> files = structure::library_files();
  for (const char* folder : {"bindings", "models", "tools"})
    for (SourceFile& file : structure::source_files(folder, {".h", ".cc"}))
      files.push_back(std::move(file));
  return files;
}

/// The floors that includes make of rooms: each room is one above the highest that it includes.
class Floors {
 public:
  explicit Floors(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files)
      for (const Include& include : structure::includes_of(file)) {
        const std::string from = module_of(file.path), to = target_of(include, from);
        below_[room_of(from)];
        if (!to.empty() && room_of(to) != room_of(from))
          below_[room_of(from)].emplace(room_of(to), file.path + " includes " + include.target);
      }
    for (const auto& [room, below] : below_) height_ = std::max(height_, floor_of(room));
  }

  int height() const { return height_; }
  /// An include for each step of a circle of rooms; "" if there is none.
  const std::string& circle() const { return circle_; }
  /// An include for each step of a longest chain.
  std::string chain() const {
    int floor = height_;
    std::string room, text;
    for (const auto& [name, number] : floor_)
      if (number == floor) room = name;
    while (--floor > 0)
      for (const auto& [name, include] : below_.at(room))
        if (floor_.at(name) == floor) {
          text += include + "\n", room = name;
          break;
        }
    return text;
  }
  /// A line per floor, the highest first: "11  programs".
  std::string picture() const {
    std::string text;
    for (int floor = height_; floor > 0; --floor) {
      std::string line = (floor < 10 ? " " : "") + std::to_string(floor) + " ";
      for (const auto& [room, number] : floor_)
        if (number == floor) line += (line.size() > 3 ? " · " : " ") + room;
      text += line + "\n";
    }
    return text;
  }

 private:
  int floor_of(const std::string& room) {
    if (const auto known = floor_.find(room); known != floor_.end()) return known->second;
    const auto first = std::find(path_.begin(), path_.end(), room) - path_.begin();
    const bool again = first < std::ssize(path_);
    path_.push_back(room);
    int floor = 1;
    if (!again)
      for (const auto& [below, include] : below_[room])
        floor = std::max(floor, floor_of(below) + 1);
    else if (circle_.empty())
      for (auto at = path_.begin() + first; at + 1 != path_.end(); ++at)
        circle_ += below_.at(*at).at(at[1]) + "\n";
    path_.pop_back();
    if (!again) floor_[room] = floor;
    return floor;
  }

  std::map<std::string, std::map<std::string, std::string>> below_;  ///< by room: an include each
  std::map<std::string, int> floor_;
  std::vector<std::string> path_;
  std::string circle_;
  int height_ = 0;
};

SourceFile file_of(const std::string& path, const std::string& line) { return {path, {"", line}}; }

}  // namespace

TEST_CASE("no module includes one that the table of docs/design.md does not allow it") {
  const Allowed allowed;
  const std::vector<SourceFile> files = all_sources();
  CHECK(files.size() > 500);
  for (const SourceFile& file : files)
    for (const Include& include : structure::includes_of(file))
      CHECK(complaint(file, include, allowed) == "");
}

TEST_CASE("the floors of rooms are those that docs/design.md draws, and no rooms are a circle") {
  const Floors floors(all_sources());
  MESSAGE("floors of rooms, by their includes:\n" << floors.picture());
  INFO("a longest chain:\n", floors.chain());
  CHECK(floors.circle() == "");
  CHECK(floors.height() <= kMostFloors);
  CHECK(floors.picture() == drawn_floors());
}

TEST_CASE("the table of docs/design.md names for rooms with folders what their folders include") {
  const Allowed allowed;
  CHECK(allowed.rooms().size() > 20);
  const auto rooms_in = [](const Names& modules, const std::string& without) {
    Names rooms;
    for (const std::string& module : modules) rooms.insert(room_of(module));
    rooms.erase(without);
    return rooms;
  };
  for (const auto& [room, may] : allowed.rooms())
    CHECK_MESSAGE(rooms_in(allowed.all_of(room), room) == rooms_in(allowed.by_row(room), room),
                  room);
}

TEST_CASE("floors follow from includes, and a circle is reported with its includes") {
  const SourceFile low = file_of("src/mesh/a.cc", "#include \"alpa/base/error.h\""),
                   high = file_of("src/ir/b.cc", "#include \"alpa/mesh/cluster.h\""),
                   back = file_of("src/base/c.cc", "#include \"src/ir/graph.h\"");
  const Floors two({low, high});
  CHECK(two.picture() == " 3  ir\n 2  mesh\n 1  base\n");
  CHECK(two.chain() ==
        "src/ir/b.cc includes alpa/mesh/cluster.h\nsrc/mesh/a.cc includes alpa/base/error.h\n");
  CHECK(two.circle() == "");
  CHECK(Floors({low, high, back}).circle() ==
        "src/base/c.cc includes src/ir/graph.h\nsrc/ir/b.cc includes alpa/mesh/cluster.h\n"
        "src/mesh/a.cc includes alpa/base/error.h\n");
}

TEST_CASE("a forbidden edge is reported with file, line and edge") {
  const Allowed allowed;
  const auto complaint_on = [&](const std::string& path, const std::string& line) {
    const SourceFile file = file_of(path, line);
    return complaint(file, structure::includes_of(file).at(0), allowed);
  };
  CHECK(complaint_on("src/ir/x.cc", "#include \"alpa/ops/ops.h\"") ==
        "src/ir/x.cc:2: ir may not include ops (alpa/ops/ops.h)");
  CHECK(complaint_on("include/alpa/ilp/x.h", "#  include <alpa/mesh/cluster.h>") ==
        "include/alpa/ilp/x.h:2: ilp/. may not include mesh (alpa/mesh/cluster.h)");
  CHECK(complaint_on("kernels/cpu/x.cc", "#include \"alpa/ir/graph.h\"") ==
        "kernels/cpu/x.cc:2: kernels/cpu may not include ir (alpa/ir/graph.h)");
  CHECK(complaint_on("kernels/cuda/x.cc", "#include \"kernels/cpu/matmul.h\"") ==
        "kernels/cuda/x.cc:2: kernels/cuda may not include kernels/cpu (kernels/cpu/matmul.h)");
  CHECK(complaint_on("src/search/bound/x.cc", "#include \"src/ilp/solve.h\"") ==
        "src/search/bound/x.cc:2: search/bound may not include ilp/. (src/ilp/solve.h)");
  CHECK(complaint_on("src/base/x.cc", "#include \"alpa/alpa.h\"") ==
        "src/base/x.cc:2: base may not include api/alpa (alpa/alpa.h)");
  CHECK(complaint_on("src/cuda/x.cc", "#include \"src/report/step_trace.h\"") ==
        "src/cuda/x.cc:2: cuda/. may not include report (src/report/step_trace.h)");
  CHECK(complaint_on("src/compile/x.cc", "#include \"alpa/executable.h\"") ==
        "src/compile/x.cc:2: compile may not include api/. (alpa/executable.h)");
  CHECK(complaint_on("src/compile/x.cc", "#include \"src/runtime/backend.h\"") ==
        "src/compile/x.cc:2: compile may not include runtime (src/runtime/backend.h)");
  CHECK(complaint_on("src/passes.cc", "#include <vector>") ==
        "src/passes.cc:2: passes.cc is in no table of rooms");
  CHECK(complaint_on("src/gadgets/x.cc", "#include <vector>") ==
        "src/gadgets/x.cc:2: gadgets is in no table of rooms");
  CHECK(complaint_on("src/runtime/x.cc", "#include \"alpa/base/error.h\"") == "");
  CHECK(complaint_on("src/plan/cost/x.cc", "#include \"spec_graph.h\"") == "");
  CHECK(complaint_on("src/api/parallelize.cc", "#include \"src/runtime/executor.h\"") == "");
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
