// tools/common/flag_table.cc — parses command lines and prints help from a table of flags
#include "tools/common/flag_table.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include "alpa/base/text.h"
#include "alpa/mesh/cluster.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

void require_none(int error, const std::string& path) {
  alpa::require(error == 0, "{}: cannot be written: {}", path,
                std::generic_category().message(error));
}

/// What the system answers if a file is made in `folder`; it is gone again. The permissions alone
/// would not tell: root has all of them, and a folder may be read-only or not take files.
int error_of_making_in(const fs::path& folder) {
  std::string name = (folder / "alpa.XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) return errno;
  ::close(file);
  ::unlink(name.c_str());
  return 0;
}

fs::path folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

/// Of an existing file: where a link leads decides, since files are replaced by renaming. Devices,
/// pipes and the program's own streams (/dev/stdout) are written to as they are.
int error_of_replacing(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) return EISDIR;
  if (!S_ISREG(mode) || path.starts_with("/dev/"))
    return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  std::error_code failure;
  const fs::path target = fs::canonical(path, failure);
  return failure ? failure.value() : error_of_making_in(folder_of(target));
}

/// Throws Error as `alpa::write_file` would because of the path or its folder. Writes nothing: a
/// file stays as it is, and none is left where there was none.
void require_writable_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    return require_none(error_of_replacing(path, info.st_mode), path);
  require_none(errno == ENOENT ? error_of_making_in(folder_of(path)) : errno, path);
}

/// The same for a folder that files are written to, and that is made with its parents if need be.
void require_writable_folder(const std::string& path) {
  struct stat info {};
  fs::path existing = path;  // the nearest folder that there is
  while (::stat(existing.c_str(), &info) != 0) {
    if (errno != ENOENT) require_none(errno, path);
    existing = folder_of(existing);
  }
  require_none(S_ISDIR(info.st_mode) ? error_of_making_in(existing) : ENOTDIR, path);
}

/// "adam or sgd", "auto, cpu or cuda".
std::string alternatives(const std::vector<std::string>& words) {
  std::string text = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i)
    text += (i + 1 < words.size() ? ", " : " or ") + words[i];
  return text;
}

/// The value that all of `text` is as std::from_chars reads it.
template <class T, class... Format>
std::optional<T> parse_all(const std::string& text, Format... format) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, format...);
  if (error != std::errc() || next != end) return std::nullopt;
  return value;
}

void take(const Flag& flag, const std::string& text) {
  alpa::require(!text.empty() || !flag.allowed.empty(), "{} is empty; give it a value{}", flag.name,
                flag.name.starts_with("-") ? ", or leave it out" : "");
  alpa::require(flag.take(text), "{} is '{}'; it must be {}", flag.name, alpa::excerpt(text),
                flag.allowed);
}

/// CLI11 hides flags of the group "".
std::string heading(const Flag& flag) { return flag.group.empty() ? "Options" : flag.group; }

/// What is typed often has a short name.
std::string names_of(const Flag& flag) {
  return flag.name == "--output" ? "-o," + flag.name : flag.name;
}

/// Of a flag that is given twice the last one counts.
CLI::Option* add(CLI::App& app, const Flag& flag) {
  const std::string meaning =
      flag.allowed.empty() ? flag.meaning : fmt::format("{} ({})", flag.meaning, flag.allowed);
  if (flag.on != nullptr)
    return app.add_flag(flag.name, *flag.on, meaning)
        ->disable_flag_override()
        ->group(heading(flag));
  if (!flag.bare.empty()) {
    CLI::Option* option =
        app.add_flag(flag.name, meaning)->option_text("[" + flag.value + "]")->group(heading(flag));
    return option->each(
        [&](const std::string& text) { take(flag, text == "true" ? flag.bare : text); });
  }
  CLI::Option* option = app.add_option_function<std::string>(
      names_of(flag), [&](const std::string& text) { take(flag, text); }, meaning);
  option->type_name(flag.value)->default_str(flag.initial)->group(heading(flag));
  const bool positional = !flag.name.starts_with("-");
  if (!positional) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return option->required(positional && !flag.may_lack);
}

/// As text; equal numbers are equal texts.
std::string value_of(const Flag& flag, const CLI::Option& option) {
  const std::string text = option.count() > 0 ? option.results().back() : flag.initial;
  const std::optional<double> number = parse_number(text);
  return number && !parse_whole(text) ? fmt::format("{}", *number) : text;
}

/// Throws Error unless what the flag names can be written.
void check_output(const Flag& flag) {
  try {
    (flag.folder ? require_writable_folder : require_writable_file)(*flag.written);
  } catch (const alpa::Error& error) {
    alpa::fail("{}: {}", flag.name, error.what());
  }
}

/// A path by which equal files are found; "" of a device, stream or pipe, which flags may share.
std::string identity(const std::string& path) {
  std::error_code failure;
  if (path.starts_with("/dev/") || std::filesystem::is_other(path, failure)) return "";
  // A relative path of a file that is still to be made would stay relative.
  const std::filesystem::path whole = std::filesystem::absolute(path, failure);
  return std::filesystem::weakly_canonical(whole, failure).string();
}

/// Throws Error if an output can't be written, or if one would replace another.
void check_outputs(const std::vector<Flag>& flags) {
  std::map<std::string, const Flag*> outputs;  // by identity
  for (const Flag& flag : flags) {
    if (flag.written == nullptr || flag.written->empty()) continue;
    check_output(flag);
    const std::string file = identity(*flag.written);
    if (file.empty()) continue;
    const auto [first, added] = outputs.emplace(file, &flag);
    alpa::require(added, "{} and {} both write {}; give them different names", first->second->name,
                  flag.name, alpa::excerpt(*flag.written));
  }
}

}  // namespace

std::optional<std::int64_t> parse_whole(const std::string& text) {
  return parse_all<std::int64_t>(text);
}

std::optional<double> parse_number(const std::string& text) {
  const std::optional<double> value = parse_all<double>(text, std::chars_format::general);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::vector<std::string> parts_of_list(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool is_mesh_shape(const std::string& text) {
  try {
    return text == "auto" || !alpa::parse_mesh_shape(text).empty();
  } catch (const alpa::Error&) {
    return false;
  }
}

std::string whole_allowed(std::int64_t least, std::int64_t most) {
  return fmt::format("a whole number from {} to {}", least, most);
}

Flag on(std::string name, bool* target, std::string meaning) {
  return {std::move(name), "", std::move(meaning), "", "", {}, target};
}

Flag text(std::string name, std::string* target, std::string meaning) {
  return text(std::move(name), target, std::move(meaning), "",
              [](const std::string&) { return true; });
}

Flag optional_argument(std::string name, std::string* target, std::string meaning) {
  Flag flag = text(std::move(name), target, std::move(meaning));
  flag.may_lack = true;
  return flag;
}

Flag text(std::string name, std::string* target, std::string meaning, std::string allowed,
          std::function<bool(const std::string&)> is_allowed) {
  const auto take = [target, is_allowed = std::move(is_allowed)](const std::string& value) {
    if (!is_allowed(value)) return false;
    *target = value;
    return true;
  };
  return {std::move(name), "TEXT", std::move(meaning), std::move(allowed), *target, take, nullptr};
}

Flag output_file(std::string name, std::string* target, std::string meaning) {
  Flag flag = text(std::move(name), target, std::move(meaning));
  flag.written = target;
  return flag;
}

Flag output_folder(std::string name, std::string* target, std::string meaning) {
  Flag flag = output_file(std::move(name), target, std::move(meaning));
  flag.folder = true;
  return flag;
}

Flag choice(std::string name, std::string* target, std::string meaning,
            std::vector<std::string> words) {
  std::string allowed = alternatives(words);
  const auto is_word = [words = std::move(words)](const std::string& value) {
    return std::find(words.begin(), words.end(), value) != words.end();
  };
  Flag flag = text(std::move(name), target, std::move(meaning), std::move(allowed), is_word);
  flag.value = "WORD";
  return flag;
}

Flag optional_choice(std::string name, std::string* target, std::string meaning,
                     std::vector<std::string> words, std::string bare) {
  Flag flag = choice(std::move(name), target, std::move(meaning), std::move(words));
  flag.value = "=WORD";
  flag.bare = std::move(bare);
  return flag;
}

std::vector<Flag> in_group(const std::string& group, std::vector<Flag> rows) {
  for (Flag& row : rows) row.group = group;
  return rows;
}

std::vector<Flag> joined(const std::vector<std::vector<Flag>>& groups) {
  std::vector<Flag> rows;
  for (const std::vector<Flag>& group : groups) rows.insert(rows.end(), group.begin(), group.end());
  return rows;
}

Flag number(std::string name, double* target, std::string meaning, double least, double most) {
  const auto take = [=](const std::string& text) {
    const std::optional<double> value = parse_number(text);
    if (!value || *value < least || *value > most) return false;
    *target = *value;
    return true;
  };
  return {std::move(name),
          "NUMBER",
          std::move(meaning),
          fmt::format("a number from {} to {}", least, most),
          fmt::format("{}", *target),
          take,
          nullptr};
}

Flag positive_number(std::string name, double* target, std::string meaning) {
  Flag flag = number(std::move(name), target, std::move(meaning),
                     std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max());
  flag.allowed = "a finite number above 0";
  return flag;
}

bool parse(int argc, const char* const* argv, const std::string& purpose,
           const std::vector<Flag>& flags, std::set<std::string>* given, std::string* values) {
  CLI::App app(purpose);
  app.footer(std::string("\n") + kExitStatus);
  std::vector<CLI::Option*> options;
  for (const Flag& flag : flags) options.push_back(add(app, flag));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    fmt::print("{}", app.help());
    return true;
  } catch (const CLI::ParseError& error) {
    alpa::fail("{}; --help lists the flags", alpa::excerpt(error.what(), 200));
  }
  for (std::size_t i = 0; given && i < flags.size(); ++i)
    if (options[i]->count() > 0) given->insert(flags[i].name);
  for (std::size_t i = 0; values && i < flags.size(); ++i)
    if (!flags[i].written)
      *values += fmt::format("{} {}\n", flags[i].name, value_of(flags[i], *options[i]));
  check_outputs(flags);
  return false;
}

void require_effect(const std::set<std::string>& given, const std::string& flag, bool idle,
                    const std::string& why) {
  alpa::require(!idle || given.count(flag) == 0, "{} has no effect {}", flag, why);
}

}  // namespace cli
