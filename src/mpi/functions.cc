// src/mpi/functions.cc — the function table of libalpa_mpi.so; no exception leaves it
#include "src/processes/mpi_functions.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "mpi_wire.h"

namespace alpa::mpi {
namespace {

using processes::MpiFunctions;
using processes::MpiMessage;

/// The first line of `text`.
void set(MpiMessage* message, std::string_view text) {
  text = text.substr(0, std::min(text.find('\n'), sizeof message->text - 1));
  std::memcpy(message->text, text.data(), text.size());
  message->text[text.size()] = '\0';
}

constexpr MpiFunctions kFunctions = {
    .interface_version = processes::kMpiInterface,
    .version =
        [](MpiMessage* out, MpiMessage* why) {
          try {
            set(out, library_version());
            return 0;
          } catch (const std::exception& error) {
            set(why, error.what());
            return 1;
          }
        },
    .make_wire = [](MpiMessage* why) -> processes::Wire* {
      try {
        return make_wire().release();
      } catch (const std::exception& error) {
        set(why, error.what());
        return nullptr;
      }
    },
    .abort = end_launch,
};

}  // namespace
}  // namespace alpa::mpi

extern "C" const alpa::processes::MpiFunctions* alpa_mpi_functions() {
  return &alpa::mpi::kFunctions;
}
