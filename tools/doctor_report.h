#pragma once
/// The report of `alpa doctor`, a JSON document: collected in doctor_examine.cc, doctor_launch.cc
/// and doctor_libraries.cc, shown in words by doctor_report.cc. A text that is absent is null.
///
///   processor  model, cores and usable_cores, instruction_sets, kernels (the instruction set of
///              alpa's kernels), memory_bytes, limit_bytes (of its control groups, else all memory),
///              available_bytes, ceilings
///   cuda       reason (why there is no device), library (path of libalpa_cuda.so), cards_seen
///              (NVIDIA's display controllers on the PCI bus), versions (null without the library),
///              devices (with dnn: what cuDNN ran; free_behind_bytes: once the kernels of all that
///              was measured are loaded; error: failure of the examination), links
///   launch     launcher ("mpirun", "srun"), processes (null: unknown, or they know nothing of each
///              other), library (path of libalpa_mpi.so), mpi (that it was built with), reason (why
///              it does not load), mpirun (what it says of itself; without a launcher), hosts
///              (offered_cores: that its processes could use, if the launcher bound none), wrong
///              (what is wrong with the launch, and how it is mended)
///   libraries  name, version, tested (the version that alpa was tested with), status
///   missing    what, remedy
///   ceilings   matmul_flops_per_second by element type, copy_bytes_per_second; null: not measured
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace doctor {

using Json = nlohmann::ordered_json;

/// Looks at this machine and measures each ceiling for `seconds`; 0 measures nothing.
Json examine(double seconds, const Json& launch);

/// Collective: finds the other processes of the launch, if there are any.
Json examine_launch();

/// The libraries of CUDA, if its backend is there, of MPI and of the core.
Json libraries(const Json& cuda, const Json& launch);

/// "ok", "older than tested", "newer than tested", "not tested" or "not found"; by the numbers that
/// both versions have. "": there is none.
std::string verdict(std::string version, std::string tested);

/// Mistakes of bindings and numbers of processes; a line each.
std::vector<std::string> wrong_bindings(const Json& launch);

/// True in one process of a launch, also if its processes do not find together.
bool speaks();

/// The reason why CUDA does not run here; empty if it does.
Json missing_for_cuda(const Json& cuda);

std::string report_text(const Json& report);

/// Null for "".
Json text_or_null(const std::string& text);

/// A text or a number as lines of the report have it; "" for null.
std::string shown(const Json& value);

}  // namespace doctor
