#pragma once
/// The frame of a program's `main`: exit status and error messages.

namespace alpa {

/// Runs body(argc, argv) and returns its exit status. A failure prints one line on stderr that
/// starts with `name`. A user's mistake, lack of memory or a refusal by the system gives status 2,
/// a bug of ours 3. Output that could not be written counts as a failure (`checked_status`). Lack
/// of memory gives 2 also in a thread or a destructor, where it can't be caught.
int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv);

/// Flushes standard output and returns `status`. If output was lost (a full disk), says so on
/// stderr and returns 2 instead of 0.
int checked_status(const char* name, int status);

}  // namespace alpa
