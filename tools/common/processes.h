#pragma once
/// Whether a program runs alone.

namespace cli {

/// Processes of the launch that this one belongs to, which it joins; 1: the program runs alone.
int processes();

}  // namespace cli
