#pragma once
/// The losses of a run as a table and as a picture.
#include <alpa/alpa.h>

#include <span>
#include <string>

namespace programs {

/// A file of lines "step,loss,seconds" that grows while a run goes on; the first line names them.
class LossLog {
 public:
  /// Replaces the file. `first`: steps that an earlier run did. Throws Error if it can't be
  /// written.
  explicit LossLog(const std::string& path, std::int64_t first = 0);

  /// Adds a line, which is in the file when this returns.
  void add(double loss, double seconds);

 private:
  alpa::GrowingFile file_;
  std::int64_t steps_;
};

/// An SVG of the losses over the steps, with axes from 1 to the last step and from the least to the
/// largest finite loss. Losses that are not finite are left out.
std::string loss_svg(std::span<const double> losses);

}  // namespace programs
