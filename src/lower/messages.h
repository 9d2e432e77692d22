#pragma once
/// The messages of a program: which boxes each device sends and receives for each transfer.
#include <map>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Messages of one device for one transfer, in order.
struct DeviceMessages {
  std::vector<Message> sends, receives;
  std::vector<Message> passed_on;  ///< sends of boxes that are received for the same transfer

  const std::vector<Message>& of(Instruction::Kind kind, bool passes_on) const {
    return kind == Instruction::Kind::receive ? receives : passes_on ? passed_on : sends;
  }
};

/// Computed once for all devices.
class Messages {
 public:
  explicit Messages(const spmd::SpmdProgram& program);

  /// Messages of `device` for node `n`, a transfer; empty if it takes no part.
  const DeviceMessages& of(int n, int device) const;

 private:
  std::map<int, std::map<int, DeviceMessages>> of_;  ///< by node and device
};

}  // namespace alpa::lower
