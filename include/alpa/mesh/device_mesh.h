#pragma once
/// A logical mesh: devices arranged along named axes, each with its link's
/// latency and inverse bandwidth.
#include <string>
#include <vector>
#pragma GCC visibility push(default)

namespace alpa {

/// A named axis of a logical mesh.
struct MeshAxis {
  std::string name;                  ///< "x", "y", …
  int size = 1;                      ///< devices along it
  double alpha_seconds = 0;          ///< latency of one collective over this axis
  double beta_seconds_per_byte = 0;  ///< inverse bandwidth of one device's link along this axis

  bool operator==(const MeshAxis&) const = default;
};

/// Devices in a grid of named axes.
class DeviceMesh {
 public:
  DeviceMesh() : DeviceMesh(std::vector<MeshAxis>{}) {}
  /// Devices 0 … n-1 in row-major order. Throws Error on an axis of size < 1, a repeated name, or
  /// more than kMaxMeshAxes axes.
  explicit DeviceMesh(std::vector<MeshAxis> axes);
  /// As above, with explicit device ids, row-major. Throws Error unless there is
  /// one distinct id per rank.
  DeviceMesh(std::vector<MeshAxis> axes, std::vector<int> devices);

  bool operator==(const DeviceMesh&) const = default;
  const std::vector<MeshAxis>& axes() const { return axes_; }            ///< in order
  int num_axes() const { return static_cast<int>(axes_.size()); }        ///< number of axes
  int size(int axis) const { return axes_[axis].size; }                  ///< devices along an axis
  int num_devices() const { return static_cast<int>(devices_.size()); }  ///< product of the sizes
  const std::vector<int>& devices() const { return devices_; }           ///< device ids by rank

  /// Coordinates of `rank` (row-major), and the inverse.
  std::vector<int> coordinates(int rank) const;
  int rank(const std::vector<int>& coordinates) const;  ///< inverse of `coordinates`
  /// Ranks that differ from `rank` only along `axes`, ordered row-major in the order of
  /// `axes` (first = slowest).
  std::vector<int> group(int rank, const std::vector<int>& axes) const;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<int> devices_;
};

/// "2x4"; "1" for one device.
std::string shape_text(const DeviceMesh& mesh);

}  // namespace alpa
#pragma GCC visibility pop
