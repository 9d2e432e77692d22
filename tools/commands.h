#pragma once
/// The subcommands of the program `alpa`. Each gets its own name as argv[0] and returns the exit
/// status. `main` prints an alpa::Error that a subcommand throws, and exits with 2.

/// `solve FILE SECONDS`: solves an instance of the contest format (tools/solve.cc).
int solve_command(int argc, char** argv);

/// `check RUN --cluster FILE|NAME`: whether a run of another framework fits (tools/check.cc).
int check_command(int argc, char** argv);

/// `diff PLAN PLAN`: prints what two plans do differently (tools/diff.cc).
int diff_command(int argc, char** argv);

/// `explain FILE`: prints why a plan is as it is (tools/explain.cc).
int explain_command(int argc, char** argv);

/// `plan MODEL [SIZE] --cluster FILE|NAME …`: plans for any cluster, beside other methods
/// (tools/plan.cc).
int plan_command(int argc, char** argv);

/// `report FILE --output PAGE`: a plan as one HTML page (tools/report.cc).
int report_command(int argc, char** argv);

/// `verify PLAN …`: checks a plan file (tools/verify.cc).
int verify_command(int argc, char** argv);

/// `what-if FILE --set OP=SPEC …`: what the best plan takes under another condition
/// (tools/what_if.cc).
int what_if_command(int argc, char** argv);

/// `profile [--devices N] [--output FILE]`: measures this machine (tools/profile.cc).
int profile_command(int argc, char** argv);

/// `doctor [--json] [--seconds S]`: prints what was found, measured and missed (tools/doctor.cc).
int doctor_command(int argc, char** argv);

/// `checkpoint list|verify|diff|export FOLDER …`: looks at checkpoints (tools/checkpoint.cc).
int checkpoint_command(int argc, char** argv);

/// `launch [--restarts N] -- COMMAND…`: starts a launcher, again when a process was lost
/// (tools/launch.cc).
int launch_command(int argc, char** argv);
