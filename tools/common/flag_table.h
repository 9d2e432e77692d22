#pragma once
/// Command lines as tables: a row per flag holds its name, destination, allowed values and meaning.
/// Parsing, `--help` and messages use the rows. Only flag_table.cc includes CLI11.
///
/// Whole numbers are decimal digits, with a minus sign before them where negative ones
/// are allowed; other numbers are decimal, finite, with or without exponent. Blanks, a
/// plus sign and 0x are refused.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "alpa/base/error.h"

namespace cli {

/// One flag ("--devices") or, if its name has no dashes, one argument by position ("FILE").
struct Flag {
  std::string name;
  std::string value;  ///< name of its value in the help: "N"
  std::string meaning;
  std::string allowed;  ///< "a whole number from 1 to 8"; "": every text that is not empty
  std::string initial;  ///< the value it has if it is not given, for the help; "" if there is none
  /// Takes a value. Returns false if it is not allowed.
  std::function<bool(const std::string& text)> take;
  /// of a flag without a value, for which the others but name and meaning are empty
  bool* on = nullptr;
  std::string bare = {};   ///< the value of a flag that is given without one; "": it needs one
  std::string group = {};  ///< heading in the help; "": the common one
  /// Of a flag that names what the program writes: the target, and whether it is a folder.
  const std::string* written = nullptr;
  bool folder = false;
  bool may_lack = false;  ///< an argument by position that need not be given
};

/// The whole number that all of `text` is, if there is one.
std::optional<std::int64_t> parse_whole(const std::string& text);
/// The finite number that all of `text` is, if there is one.
std::optional<double> parse_number(const std::string& text);

/// The parts of a list between commas; none of an empty one.
std::vector<std::string> parts_of_list(const std::string& list);

/// True for "auto" and what alpa::parse_mesh_shape takes.
bool is_mesh_shape(const std::string& text);

/// Largest value of counts that have no tighter bound.
inline constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

/// A flag without a value.
Flag on(std::string name, bool* target, std::string meaning);
/// Any text that is not empty.
Flag text(std::string name, std::string* target, std::string meaning);
/// An argument by position that need not be given.
Flag optional_argument(std::string name, std::string* target, std::string meaning);
/// Text that `is_allowed`; `allowed` says which that is.
Flag text(std::string name, std::string* target, std::string meaning, std::string allowed,
          std::function<bool(const std::string&)> is_allowed);
/// A file, or a folder, that the program writes; "": none. `parse` checks that it can be written,
/// before the work whose result it is to hold.
Flag output_file(std::string name, std::string* target, std::string meaning);
Flag output_folder(std::string name, std::string* target, std::string meaning);
/// One of a few words.
Flag choice(std::string name, std::string* target, std::string meaning,
            std::vector<std::string> words);
/// One of a few words after "=", or the flag alone, which means the word
/// `bare`: `--explain`, `--explain=full`.
Flag optional_choice(std::string name, std::string* target, std::string meaning,
                     std::vector<std::string> words, std::string bare);
/// The rows under the heading `group` of the help.
std::vector<Flag> in_group(const std::string& group, std::vector<Flag> rows);
/// The rows of all groups, one after the other.
std::vector<Flag> joined(const std::vector<std::vector<Flag>>& groups);
/// A finite number from `least` to `most`.
Flag number(std::string name, double* target, std::string meaning, double least, double most);
/// A finite number above 0.
Flag positive_number(std::string name, double* target, std::string meaning);

/// "a whole number from 1 to 8".
std::string whole_allowed(std::int64_t least, std::int64_t most);

template <class T>
struct IntegerOf {
  using type = T;
};
template <class T>
struct IntegerOf<std::optional<T>> {
  using type = T;
};

/// A whole number from `least` to `most`. `T`: an integer, or an optional one that is empty if the
/// flag is not given. Every value allowed fits into it.
template <class T>
Flag whole(std::string name, T* target, std::string meaning, std::int64_t least,
           std::int64_t most = kMaxCount) {
  Flag flag{std::move(name), "N", std::move(meaning), whole_allowed(least, most), "", {}, nullptr};
  using Integer = typename IntegerOf<T>::type;
  alpa::invariant(std::in_range<Integer>(least) && std::in_range<Integer>(most),
                  "flag {}: {} does not fit into its target", flag.name, flag.allowed);
  if constexpr (std::is_integral_v<T>) flag.initial = std::to_string(*target);
  flag.take = [=](const std::string& text) {
    const std::optional<std::int64_t> value = parse_whole(text);
    if (!value || *value < least || *value > most) return false;
    *target = static_cast<Integer>(*value);
    return true;
  };
  return flag;
}

/// Text on exit statuses in the `--help` of every program (alpa/base/program.h).
inline constexpr const char* kExitStatus =
    "Exit status: 0 done, 2 a mistake in what was given or a refusal of the system, 3 an internal "
    "error, 75 a process of the launch was lost: try again.";

/// Fills the targets from the command line; of a flag that is given twice the last one counts.
/// Throws alpa::Error, one line, on a mistake: flag, value and what is allowed; also if an output
/// can't be written, or two flags name the same one. Returns true if only help was asked for, and
/// prints it. `given`: takes the names of the flags that were given. `values`: takes a line with
/// the value of each flag that is not an output.
[[nodiscard]] bool parse(int argc, const char* const* argv, const std::string& purpose,
                         const std::vector<Flag>& flags, std::set<std::string>* given = nullptr,
                         std::string* values = nullptr);

/// Throws alpa::Error if the flag was given although it is idle: another flag, or its absence,
/// leaves it without effect. `why` completes "--stages has no effect ".
void require_effect(const std::set<std::string>& given, const std::string& flag, bool idle,
                    const std::string& why);

}  // namespace cli
