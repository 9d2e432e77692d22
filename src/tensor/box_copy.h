#pragma once
/// Copying a box out of one dense row-major tensor into another of the same rank: slices, shards,
/// gathered pieces. A BoxCopy is built on the stack (nothing is allocated) and holds as few and as
/// long contiguous runs as both layouts allow.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace alpa {

class ThreadTeam;

using Extents = std::span<const std::int64_t>;

struct BoxCopy {
  static constexpr int kMaxRank = 16;

  int loops = 0;  ///< loops around one contiguous run, innermost first; strides in elements
  std::array<std::int64_t, kMaxRank> count{}, source_stride{}, target_stride{};
  std::int64_t source_begin = 0, target_begin = 0;  ///< first element in either tensor
  std::int64_t run = 1;  ///< elements of one contiguous run; 0 if the box is empty

  /// The box of `extent` elements at `source_at` of a tensor of shape `source`, to `target_at` of
  /// one of shape `target`. Throws Bug if it leaves one of them, or if the rank exceeds kMaxRank.
  static BoxCopy make(Extents source, Extents source_at, Extents target, Extents target_at,
                      Extents extent);

  std::int64_t runs() const;
  std::int64_t elements() const { return runs() * run; }

  /// Calls body(source element, target element) at the first element of each
  /// of the runs [begin, end).
  template <class Body>
  void for_each_run(std::int64_t begin, std::int64_t end, Body&& body) const {
    std::array<std::int64_t, kMaxRank> at{};
    std::int64_t source = source_begin, target = target_begin;
    for (std::int64_t i = 0, rest = begin; i < loops; rest /= count[i++]) {
      at[i] = rest % count[i];
      source += at[i] * source_stride[i];
      target += at[i] * target_stride[i];
    }
    for (std::int64_t r = begin; r < end; ++r) {
      body(source, target);
      for (int i = 0; i < loops; ++i) {
        source += source_stride[i];
        target += target_stride[i];
        if (++at[i] < count[i]) break;
        source -= count[i] * source_stride[i];
        target -= count[i] * target_stride[i];
        at[i] = 0;
      }
    }
  }

  /// Copies the runs [begin, end) between tensors with elements of `element_bytes`.
  void copy(const std::byte* source, std::byte* target, std::size_t element_bytes,
            std::int64_t begin, std::int64_t end) const;
  /// Copies the whole box.
  void copy(const std::byte* source, std::byte* target, std::size_t element_bytes) const {
    copy(source, target, element_bytes, 0, runs());
  }
};

/// Copies the whole box with several threads.
void copy(const BoxCopy& box, const std::byte* source, std::byte* target, std::size_t element_bytes,
          ThreadTeam& team);

}  // namespace alpa
