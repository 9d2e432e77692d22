#pragma once
/// Tags of messages between processes.

namespace alpa::processes {

inline constexpr int kControlTag = 0;  ///< of the protocol
inline constexpr int kHostTag = 1;     ///< of calls that all processes make together
inline constexpr int kFirstFreeTag = 2;

}  // namespace alpa::processes
