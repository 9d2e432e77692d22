#pragma once
/// Whether a program runs alone.
#include <string>

namespace cli {

/// Processes of the launch that this one belongs to, which it joins; 1: the program runs alone.
int processes();

/// Fails the launch unless `text`, of `what` in words, is the same in all its processes.
void require_equal_in_all(const std::string& what, const std::string& text);

}  // namespace cli
