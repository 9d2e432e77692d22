// tools/checkpoint.cc — alpa checkpoint list|verify|diff|export: what a folder of checkpoints holds
#include <fmt/format.h>

#include <optional>
#include <string>

#include "alpa/base/text.h"
#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/inspect.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"

using namespace alpa;
using namespace alpa::checkpoint;

namespace {

struct CheckpointFlags {
  std::string folder, other, file;
  std::optional<std::int64_t> step, other_step;
  bool all = false;
};

constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;

/// The step that was given, or the newest. Throws Error if the folder has no such checkpoint.
std::int64_t chosen_step(const std::string& folder, std::optional<std::int64_t> given) {
  const std::vector<std::int64_t> steps = steps_in(folder);
  require(!steps.empty(), "{}: holds no checkpoint", excerpt(folder));
  if (!given) return steps.back();
  for (const std::int64_t step : steps)
    if (step == *given) return step;
  fail("{}: holds no checkpoint of step {}; its newest is {}", excerpt(folder), *given,
       steps.back());
}

/// Tells each step with body(step); what it throws instead. Throws Error at the end if a checkpoint
/// is damaged.
template <class Body>
void for_each_step(const std::string& folder, const std::vector<std::int64_t>& steps,
                   const Body& body) {
  int damaged = 0;
  for (const std::int64_t step : steps) {
    try {
      body(step);
    } catch (const Error& error) {
      ++damaged;
      fmt::print("{:>12}  {}\n", step, error.what());
    }
  }
  require(damaged == 0, "{}: {} of {} checkpoints are damaged", excerpt(folder), damaged,
          steps.size());
}

void list(const CheckpointFlags& flags) {
  chosen_step(flags.folder, {});
  fmt::print("{:>12}  {:>12}  {:>10}  {:<16}  {}\n", "step", "loss", "size", "plan", "user");
  for_each_step(flags.folder, steps_in(flags.folder), [&](std::int64_t step) {
    const Manifest manifest = read_manifest(flags.folder, step);
    const auto loss = manifest.metrics.find("loss");
    std::vector<std::string> user;
    for (const auto& [key, value] : manifest.user)
      user.push_back(fmt::format("{}={}", excerpt(key), excerpt(value)));
    fmt::print("{:>12}  {:>12}  {:>10}  {:<16}  {}\n", step,
               loss == manifest.metrics.end() ? "" : fmt::format("{:.6g}", loss->second),
               bytes_text(static_cast<double>(shard_bytes(manifest))), manifest.plan_hash,
               fmt::join(user, " "));
  });
}

void verify_steps(const CheckpointFlags& flags) {
  const std::int64_t chosen = chosen_step(flags.folder, flags.step);
  for_each_step(flags.folder, flags.step ? std::vector{chosen} : steps_in(flags.folder),
                [&](std::int64_t step) {
                  verify(flags.folder, step);
                  fmt::print("{:>12}  whole\n", step);
                });
}

void diff(const CheckpointFlags& flags) {
  const std::string& other = flags.other.empty() ? flags.folder : flags.other;
  const std::vector<Difference> found =
      differences(flags.folder, chosen_step(flags.folder, flags.step), other,
                  chosen_step(other, flags.other_step));
  if (found.empty()) fmt::print("equal to the bit\n");
  for (const Difference& difference : found)
    fmt::print("{}: {}\n", difference.name,
               difference.what.empty() ? fmt::format("{} elements differ, by {:.3g} at most",
                                                     difference.elements, difference.largest)
                                       : difference.what);
}

void export_file(const CheckpointFlags& flags) {
  export_tensors(flags.folder, chosen_step(flags.folder, flags.step), flags.file, flags.all);
}

/// A form of the command; its rows come after the folder.
struct Form {
  std::string_view name;
  const char* purpose;
  void (*run)(const CheckpointFlags& flags);
};

constexpr Form kForms[] = {
    {"list", "Lists the checkpoints of a directory.", list},
    {"verify", "Reads and checks every byte of the checkpoints of a directory.", verify_steps},
    {"diff", "Says which tensors of two checkpoints differ, and by how much.", diff},
    {"export", "Writes the weights of a checkpoint into one safetensors file.", export_file},
};

std::vector<cli::Flag> rows_of(std::string_view form, CheckpointFlags& f) {
  using namespace cli;
  std::vector<Flag> rows = {text("FOLDER", &f.folder, "directory of the checkpoints")};
  if (form == "export") rows.push_back(output_file("FILE", &f.file, "safetensors file to write"));
  if (form != "list")
    rows.push_back(
        whole("--step", &f.step, "of the checkpoint; by default the newest", 0, kMostSteps));
  if (form == "diff") {
    rows.push_back(text("--with", &f.other, "directory of the second; by default the same"));
    rows.push_back(
        whole("--with-step", &f.other_step, "of the second; by default its newest", 0, kMostSteps));
  }
  if (form == "export") rows.push_back(on("--all", &f.all, "optimizer state, too"));
  return rows;
}

}  // namespace

int checkpoint_command(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h") {
    for (const Form& form : kForms)
      fmt::print("alpa checkpoint {:<7} {}\n", form.name, form.purpose);
    return 0;
  }
  for (const Form& form : kForms) {
    if (form.name != name) continue;
    CheckpointFlags flags;
    if (!cli::parse(argc - 1, argv + 1, form.purpose, rows_of(form.name, flags))) form.run(flags);
    return 0;
  }
  fail("checkpoint: '{}' is not list, verify, diff or export", excerpt(name));
}
