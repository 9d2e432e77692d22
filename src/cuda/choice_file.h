#pragma once
/// Measured choices for a card, kept in the cache folder as text: one line per
/// choice, its key and its value.
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace alpa::cuda {

/// "products_NVIDIA_H200_130000.txt" for what is chosen, the card of this name, and the version of
/// the library that offers it.
std::string choice_file_name(std::string_view what, std::string_view card, std::size_t version);
/// Name of the file for the current device's card.
std::string choice_file_name(std::string_view what, std::size_t version);

/// The choices in file `name`; none if it is not there. A damaged file is ignored as a
/// whole, with a line on stderr.
std::map<std::string, std::string> read_choices(const std::string& name);

/// Adds a choice to the file, beside those that other processes may have added by now. Of two that
/// add at once, one may be lost.
void add_choice(const std::string& name, const std::string& key, const std::string& choice);

/// The choices made so far, by this process and by others. Belongs to one host thread at a time.
class Choices {
 public:
  /// `file`: where they are kept; "": nowhere. `known`: texts of those made before, of any files.
  explicit Choices(std::string file = "", std::string_view known = "");
  /// All that were found or made so far, a line each, with the name of their file.
  std::string text() const;

  /// Null if there is none yet. Reads the file for every unknown key: other cards and processes
  /// write it as well, and equal cards must make equal choices.
  const std::string* find(const std::string& key);
  void remember(const std::string& key, const std::string& choice);

 private:
  std::string file_;
  std::map<std::string, std::string> known_;  ///< the file's content as last read or written
};

/// Bytes as hexadecimal digits, and back; false if the text is not that of so many bytes.
std::string to_text(const void* data, std::size_t bytes);
bool from_text(std::string_view text, void* data, std::size_t bytes);

}  // namespace alpa::cuda
