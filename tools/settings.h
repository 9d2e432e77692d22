#pragma once
/// Settings of a training run, as commands and files of frameworks give them: texts by key.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plan {

/// Largest degree of parallelism that is read.
inline constexpr std::int64_t kMostDegree = 65536;
/// Largest number of rows of a micro-batch, and of micro-batches.
inline constexpr std::int64_t kMostRows = std::int64_t{1} << 20;

/// Keys of files with sections are joined by dots ("training.seq_len"); flags of commands keep
/// their dashes.
class Settings {
 public:
  explicit Settings(std::string origin) : origin_(std::move(origin)) {}

  /// `line`: where it is, from 1; 0: unknown.
  void set(const std::string& key, std::string value, int line = 0);
  void erase(const std::string& key) { values_.erase(key); }

  /// False of null and None, too.
  bool has(const std::string& key) const;
  /// `otherwise` if it lacks or is empty.
  std::string text(const std::string& key, const std::string& otherwise = "") const;
  /// False if it lacks; true of a flag without a value. Throws Error unless it is true or false.
  bool on(const std::string& key) const;
  /// A whole number from 1 to `most`. Without `otherwise`, the key must be there.
  std::int64_t whole(const std::string& key, std::optional<std::int64_t> otherwise = {},
                     std::int64_t most = std::int64_t{1} << 31) const;
  /// The degree of a kind of parallelism. -1: all devices that are left.
  int degree(const std::string& key, int otherwise) const;

  /// Throws Error unless all keys of the section are known.
  void check_section(const std::string& section, const std::vector<std::string>& known) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

  const std::string& origin() const { return origin_; }
  std::vector<std::string> keys() const;

 private:
  struct Value {
    std::string text;
    int line = 0;
  };
  std::string place_of(const std::string& key) const;

  std::string origin_;
  std::map<std::string, Value> values_;
};

/// A command, or a shell script with variables: flags ("--tp"), and words such as "name=value". Of
/// a flag that is given twice the last value counts. A word that ends in ".yml" is "config", but
/// for MaxText's base.yml, whose values are known.
Settings read_words(const std::string& text, const std::string& origin);

/// TOML and YAML of plain keys, sections, texts and numbers; lists are texts. Throws Error with the
/// line for anything else.
Settings read_toml(const std::string& text, const std::string& origin);
Settings read_yaml(const std::string& text, const std::string& origin);

/// Keyword arguments of nested calls in a Python function: `training=TrainingConfig(seq_len=8)` is
/// "training.seq_len". `function`: which, where the text has several.
Settings read_python(const std::string& text, const std::string& origin,
                     const std::string& function);

/// Numbers and texts of JSON.
Settings read_json(const std::string& text, const std::string& origin);

}  // namespace plan
