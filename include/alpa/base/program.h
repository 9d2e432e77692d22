#pragma once
/// What `main` of a program does around its work.

namespace alpa {

/// Returns body(argc, argv), the exit status. Failures become one line on stderr that starts with `name`: a
/// mistake of the user, too little memory or a refusal of the system give status 2, a bug of ours gives 3.
/// Output that could not be written counts as a failure, see `checked_status`.
int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv);

/// Flushes standard output. Returns `status`; if something printed was lost (a full disk), says so on
/// stderr and returns 2 in the place of 0.
int checked_status(const char* name, int status);

}  // namespace alpa
