// tools/launched.cc — alpa launch: number of processes and hosts in the words of a command
#include "tools/launched.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "alpa/base/error.h"
#include "tools/common/flag_table.h"

namespace launch {
namespace {

using Words = std::vector<std::string>;

/// Index of the launcher's name; that of the last word's successor without one.
std::size_t launcher_in(const Words& words) {
  static const std::set<std::string> kLaunchers = {"mpirun", "mpiexec", "orterun", "srun"};
  const auto found = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
    return kLaunchers.contains(std::filesystem::path(word).filename());
  });
  return static_cast<std::size_t>(found - words.begin());
}

/// A value in the words: the index of its word, and where it begins there.
struct FlagValue {
  std::size_t word = 0, begin = 0;
};

/// The first value of one of these flags behind the launcher: "-n 8", "--ntasks=8", "-n8".
std::optional<FlagValue> place_of(const Words& words, const std::set<std::string>& flags) {
  for (std::size_t i = launcher_in(words) + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (flags.contains(word))
      return i + 1 < words.size() ? std::optional(FlagValue{i + 1, 0}) : std::nullopt;
    const std::size_t equals = word.find('=');
    if (equals != word.npos && flags.contains(word.substr(0, equals)))
      return FlagValue{i, equals + 1};
    if (word.size() > 2 && word[1] != '-' && flags.contains(word.substr(0, 2)) &&
        cli::parse_whole(word.substr(2)))
      return FlagValue{i, 2};
  }
  return std::nullopt;
}

const std::set<std::string> kCountFlags = {"-n", "-np", "--n", "--np", "--ntasks"},
                            kHostFlags = {"--host", "-host", "-H"},
                            kFileFlags = {"--hostfile", "-hostfile", "--machinefile",
                                          "-machinefile"};

/// What the shell's command prints.
std::string printed_by(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return "";
  std::string text;
  for (char chunk[4096]; const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe);)
    text.append(chunk, size);
  pclose(pipe);
  return text;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// ---- Slurm

/// "2(x4)" for fewer nodes: "2(x3)". Of nodes that differ, the least counts: "2,1(x3)" → "1(x3)".
std::string of_each_node(const std::string& text, int nodes) {
  std::int64_t least = 0;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto number = cli::parse_whole(part.substr(0, part.find('(')));
    if (number && (least == 0 || *number < least)) least = *number;
  }
  return least == 0 ? text : fmt::format("{}(x{})", least, nodes);
}

/// "4 n[1-4]" of the job, whose variables still say what it had before.
Hosts nodes_of_job(const std::string& job, Command& command) {
  std::istringstream text(
      printed_by("squeue -h -j '" + job + "' -o '%D %N' 2>/dev/null </dev/null"));
  Hosts hosts;
  std::string names;
  const auto before = cli::parse_whole(variable("SLURM_JOB_NUM_NODES"));
  if (!(text >> hosts.left >> names) || !before || hosts.left < 1) return {};
  hosts.all = static_cast<int>(*before);
  if (hosts.left >= hosts.all) return hosts;
  hosts.text = fmt::format("{} of {} nodes are left ({})", hosts.left, hosts.all, names);
  const std::string count = std::to_string(hosts.left);
  if (const auto place = place_of(command.words, {"-N", "--nodes"}))
    command.words[place->word].replace(place->begin, std::string::npos, count);
  for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) setenv(name, count.c_str(), 1);
  for (const char* name : {"SLURM_NODELIST", "SLURM_JOB_NODELIST"}) setenv(name, names.c_str(), 1);
  for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"})
    if (const std::string value = variable(name); !value.empty())
      setenv(name, of_each_node(value, hosts.left).c_str(), 1);
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"})  // the command says them
    unsetenv(name);
  return hosts;
}

// ---- hosts of mpirun

struct Host {
  std::string name, words;  ///< as --host or the line of the hostfile has it
  int slots = 1;
};

/// "n1:4,n2:4".
std::vector<Host> hosts_of_list(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) {
    const std::size_t colon = part.find(':');
    const auto slots = colon == part.npos ? std::nullopt : cli::parse_whole(part.substr(colon + 1));
    hosts.push_back({part.substr(0, colon), part, static_cast<int>(slots.value_or(1))});
  }
  return hosts;
}

/// Lines "n1 slots=4 # comment".
std::vector<Host> hosts_of_file(const std::string& path) {
  std::vector<Host> hosts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    host.words = line;
    if (!(words >> host.name)) continue;
    for (std::string word; words >> word;)
      if (word.starts_with("slots="))
        host.slots = static_cast<int>(cli::parse_whole(word.substr(6)).value_or(1));
    hosts.push_back(host);
  }
  return hosts;
}

/// Those that `ssh` does not reach; all are asked at once.
std::set<std::string> lost_of(const std::vector<Host>& hosts) {
  char self[256] = {};
  gethostname(self, sizeof self - 1);
  std::set<std::string> others;
  for (const Host& host : hosts)
    if (host.name != "localhost" && host.name != self &&
        host.name.find_first_of("'\\ ") == std::string::npos && !host.name.starts_with("-"))
      others.insert(host.name);
  if (others.empty()) return {};
  std::string command;
  for (const std::string& name : others)
    command += fmt::format(
        "(ssh -o BatchMode=yes -o ConnectTimeout=5 '{}' true >/dev/null 2>&1 </dev/null || "
        "echo '{}') & ",
        name, name);
  std::istringstream text(printed_by(command + "wait"));
  std::set<std::string> lost;
  for (std::string name; text >> name;) lost.insert(name);
  return lost;
}

/// A file of memory with the lines of these hosts, which stays as long as this program; its path.
std::string hostfile_of(const std::vector<Host>& hosts) {
  const int file = memfd_create("hostfile", MFD_CLOEXEC);
  alpa::require(file >= 0, "no memory is left for a hostfile");
  std::string text;
  for (const Host& host : hosts) text += host.words + '\n';
  alpa::require(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                "no memory is left for a hostfile");
  return fmt::format("/proc/{}/fd/{}", getpid(), file);
}

Hosts hosts_of_mpirun(Command& command) {
  const auto list = place_of(command.words, kHostFlags), file = place_of(command.words, kFileFlags);
  if (!list && !file) return {};
  const FlagValue place = list ? *list : *file;
  std::string& word = command.words[place.word];
  const std::vector<Host> all =
      list ? hosts_of_list(word.substr(place.begin)) : hosts_of_file(word.substr(place.begin));
  const std::set<std::string> lost = lost_of(all);
  std::vector<Host> left;
  Hosts hosts;
  for (const Host& host : all) {
    hosts.all += host.slots;
    if (lost.contains(host.name)) continue;
    hosts.left += host.slots;
    left.push_back(host);
  }
  if (lost.empty() || left.empty()) return {};  // of all, ssh itself is what is lost
  hosts.text = fmt::format("{} cannot be reached", fmt::join(lost, ", "));
  Words names;
  for (const Host& host : left) names.push_back(host.words);
  word = word.substr(0, place.begin) +
         (list ? fmt::format("{}", fmt::join(names, ",")) : hostfile_of(left));
  return hosts;
}

}  // namespace

Command command_of(std::vector<std::string> words) {
  Command command{std::move(words)};
  if (const auto place = place_of(command.words, kCountFlags))
    command.processes = static_cast<int>(std::clamp<std::int64_t>(
        cli::parse_whole(command.words[place->word].substr(place->begin)).value_or(0), 0,
        cli::kMaxCount));
  return command;
}

std::vector<std::string> words_for(const Command& command, int processes) {
  Words words = command.words;
  const std::string count = std::to_string(processes);
  if (command.processes > 0) {
    const FlagValue place = *place_of(words, kCountFlags);
    words[place.word].replace(place.begin, std::string::npos, count);
    const std::string key = "{processes}";
    for (std::string& word : words)
      for (std::size_t at; (at = word.find(key)) != word.npos;) word.replace(at, key.size(), count);
  }
  return words;
}

Hosts leave_out_lost_hosts(Command& command) {
  const std::string job = variable("SLURM_JOB_ID");
  if (!job.empty() && cli::parse_whole(job)) return nodes_of_job(job, command);
  return hosts_of_mpirun(command);
}

}  // namespace launch
