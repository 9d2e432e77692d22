#pragma once
/// UTF-8 text that may hold other bytes as well.
#include <cstddef>
#include <string>
#include <string_view>

namespace alpa {

/// Bytes at the start of `text` that are UTF-8 (`valid`), or that are not.
std::size_t utf8_run(std::string_view text, bool valid);

/// Bytes of the first character; 1 if the text begins with none.
std::size_t first_character(std::string_view text);

/// `text` with its characters in the normal form NFC; bytes that are no UTF-8 stay as they are.
std::string composed(std::string_view text);

/// The same in the normal form NFD.
std::string decomposed(std::string_view text);

}  // namespace alpa
