// tools/plan_front.cc — hours and dollars of a run on several clusters
#include "tools/plan_front.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/common/report.h"
#include "src/base/infinity.h"

namespace plan {

using namespace alpa;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kMostHosts = 65536, kMostTokens = std::int64_t{1} << 60;
constexpr double kHour = 3600;

/// Flags of one plan alone.
constexpr const char* kOfOnePlan[] = {"--compare", "--for", "--given", "--save", "--counts"};
/// Flags of a run's price.
constexpr const char* kOfPrice[] = {"--tokens", "--steps", "--deadline", "--mtbf", "--write-rate"};

/// A cluster, and what the run takes there; `failure`: why it has no plan.
struct Candidate {
  std::string cluster;
  int hosts = 1;
  double price = 0;  ///< dollars an hour of a device
  int devices = 0;
  double step_seconds = 0, steps = 0, write_seconds = 0;
  RunTime time = {};
  std::string failure = {};

  std::string name() const { return fmt::format("{} x {}", cluster, hosts); }
  double hours() const { return failure.empty() ? time.seconds / kHour : kInfinity; }
  double dollars() const { return hours() * price * devices; }
};

bool is_hosts(const std::string& text) {
  const auto good = [](const std::string& part) {
    const auto number = cli::parse_whole(part);
    return number && *number >= 1 && *number <= kMostHosts;
  };
  const std::vector<std::string> parts = cli::parts_of_list(text);
  return !parts.empty() && std::ranges::all_of(parts, good);
}

bool is_prices(const std::string& text) {
  return std::ranges::all_of(cli::parts_of_list(text), [](const std::string& part) {
    const auto price = cli::parse_number(part);
    return price && *price > 0;
  });
}

std::vector<Candidate> candidates_of(const PlanFlags& flags, const RunFlags& run) {
  const std::vector<std::string> clusters = cli::parts_of_list(flags.cluster),
                                 prices = cli::parts_of_list(run.prices);
  require(prices.size() == 1 || prices.size() == clusters.size(),
          "--price-per-hour has {} prices, but --cluster {}; give one for all, or one for each",
          prices.size(), clusters.size());
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < clusters.size(); ++i)
    for (const std::string& hosts : cli::parts_of_list(run.hosts.empty() ? "1" : run.hosts))
      all.push_back({.cluster = clusters[i],
                     .hosts = std::stoi(hosts),
                     .price = *cli::parse_number(prices[prices.size() == 1 ? 0 : i])});
  return all;
}

void check_flags(const PlanFlags& flags, const RunFlags& run) {
  require(!run.prices.empty(),
          "--cluster and --hosts name several clusters; give --price-per-hour to compare them");
  require((run.tokens > 0) != (run.steps > 0),
          "--price-per-hour needs the length of the run: one of --tokens and --steps");
  require((run.mtbf > 0) == (run.write_bytes_per_second > 0),
          "--mtbf and --write-rate price restarts together; give both or none");
  for (const char* flag : kOfOnePlan)
    cli::require_effect(flags.given, flag, true, "beside --price-per-hour, which plans several");
}

/// Steps of the run, of a model that takes so many tokens in one.
double steps_of(const RunFlags& run, const PlannedModel& model) {
  if (run.steps > 0) return static_cast<double>(run.steps);
  require(model.item == "tokens", "--tokens: a step of {} takes {}; give --steps", model.name,
          model.item.empty() ? "an unknown number of tokens" : model.item);
  return std::ceil(static_cast<double>(run.tokens) / model.items);
}

void price(Candidate& of, const PlanFlags& flags, const RunFlags& run, const PlannedModel& model,
           const Stoppable& stoppable) {
  const Cluster cluster = Cluster::find(of.cluster, of.hosts);
  of.devices = cluster.num_devices();
  const Subject subject{flags, model, cluster};
  try {
    require_room_for_state(flags, model, cluster);
    const MethodResult result = planned_with("", subject, stoppable(method_of(flags, model)));
    of.failure = result.failure;
    if (result.planned) of.step_seconds = result.planned->plan.cost.objective_seconds;
  } catch (const Error& error) {
    of.failure = error.what();
  }
  if (!of.failure.empty()) return;
  of.steps = steps_of(run, model);
  const double hosts = cluster.num_hosts, work = of.step_seconds * of.steps;
  of.time.seconds = work;
  if (run.mtbf == 0) return;
  of.write_seconds = state_bytes(model) / (run.write_bytes_per_second * hosts);
  of.time = run_time(work, of.write_seconds, run.mtbf * kHour / hosts);
  if (of.time.seconds == kInfinity)
    of.failure =
        fmt::format("does not end: a checkpoint takes {}, failures are {} apart",
                    seconds_text(of.write_seconds), seconds_text(run.mtbf * kHour / hosts));
}

/// One that takes no more hours and no more dollars, and less of one; null: there is none.
const Candidate* undercut_by(const Candidate& one, const std::vector<Candidate>& all) {
  for (const Candidate& other : all)
    if (other.failure.empty() && other.hours() <= one.hours() && other.dollars() <= one.dollars() &&
        (other.hours() < one.hours() || other.dollars() < one.dollars()))
      return &other;
  return nullptr;
}

/// The one of least dollars that ends in time; null: there is none.
const Candidate* best_in_time(const std::vector<Candidate>& all, double deadline) {
  const Candidate* best = nullptr;
  for (const Candidate& one : all)
    if (one.failure.empty() && one.hours() <= deadline &&
        (!best || one.dollars() < best->dollars()))
      best = &one;
  return best;
}

std::string verdict_of(const Candidate& one, const std::vector<Candidate>& all, double deadline) {
  if (!one.failure.empty()) return one.failure;
  const Candidate* const other = undercut_by(one, all);
  return (other ? "no better than " + other->name() : "front") +
         (deadline > 0 && one.hours() > deadline ? ", late" : "");
}

std::vector<std::string> row_of(const Candidate& one, const RunFlags& run) {
  std::vector<std::string> row = {one.name(), std::to_string(one.devices)};
  const auto add = [&](std::string text) {
    row.push_back(one.failure.empty() ? std::move(text) : "-");
  };
  add(seconds_text(one.step_seconds));
  add(fmt::format("{:.2f}", one.hours()));
  add(fmt::format("{:.0f}", one.dollars()));
  if (run.mtbf > 0) {
    add(fmt::format("{:.1f}", one.time.restarts));
    add(seconds_text(one.write_seconds));
    add(seconds_text(one.time.interval_seconds));
  }
  return row;
}

std::string front_text(const std::vector<Candidate>& all, const RunFlags& run) {
  std::vector<std::vector<std::string>> rows = {{"cluster", "devices", "step", "hours", "dollars"}};
  if (run.mtbf > 0) rows[0].insert(rows[0].end(), {"restarts", "checkpoint", "every"});
  for (const Candidate& one : all) rows.push_back(row_of(one, run));
  std::string text;
  std::istringstream lines(programs::table_text(rows));
  std::string line;
  std::getline(lines, line);
  text += line + "  verdict\n";
  for (const Candidate& one : all) {
    std::getline(lines, line);
    text += line + "  " + verdict_of(one, all, run.deadline) + "\n";
  }
  if (run.deadline == 0) return text;
  const Candidate* const best = best_in_time(all, run.deadline);
  return text + fmt::format("\nwithin {:g} hours: {}\n", run.deadline,
                            best ? fmt::format("{}, {:.2f} hours, {:.0f} dollars", best->name(),
                                               best->hours(), best->dollars())
                                 : "none of these");
}

Json front_json(const std::vector<Candidate>& all, const PlannedModel& model, const RunFlags& run) {
  Json rows = Json::array();
  for (const Candidate& one : all) {
    Json row{{"cluster", one.cluster}, {"hosts", one.hosts}, {"devices", one.devices}};
    if (!one.failure.empty()) {
      row["failure"] = one.failure;
    } else {
      row.update({{"step_seconds", one.step_seconds},
                  {"steps", one.steps},
                  {"hours", one.hours()},
                  {"dollars", one.dollars()},
                  {"front", undercut_by(one, all) == nullptr}});
      if (run.deadline > 0) row["in_time"] = one.hours() <= run.deadline;
      if (run.mtbf > 0)
        row.update({{"restarts", one.time.restarts},
                    {"checkpoint_seconds", one.write_seconds},
                    {"interval_seconds", one.time.interval_seconds}});
    }
    rows.push_back(std::move(row));
  }
  return {{"model", model.name}, {"candidates", std::move(rows)}};
}

}  // namespace

RunTime run_time(double work, double write, double mean) {
  const double half = write / (2 * mean);
  double interval = mean;
  if (half < 1)
    interval = std::sqrt(2 * write * mean) * (1 + std::sqrt(half) / 3 + half / 9) - write;
  interval = std::min(interval, work);
  const double seconds =
      mean * std::exp(write / mean) * std::expm1((interval + write) / mean) * work / interval;
  if (!std::isfinite(seconds)) return {kInfinity, interval, kInfinity};
  return {seconds, interval, seconds / mean};
}

std::vector<cli::Flag> rows_of_hosts(RunFlags& f) {
  return {cli::text(
      "--hosts", &f.hosts, "times as many hosts; several to compare",
      fmt::format("{}, or several with commas between them", cli::whole_allowed(1, kMostHosts)),
      is_hosts)};
}

std::vector<cli::Flag> rows_of_run(RunFlags& f) {
  using namespace cli;
  return in_group(
      "Price of a run",
      {text("--price-per-hour", &f.prices,
            "dollars of a device: hours and dollars on each of --cluster and --hosts, which may "
            "be several with commas",
            "a number above 0, or one for each cluster with commas between them", is_prices),
       whole("--tokens", &f.tokens, "of the run", 1, kMostTokens),
       whole("--steps", &f.steps, "of the run, instead", 1, kMostTokens),
       positive_number("--deadline", &f.deadline, "hours that the run may take"),
       positive_number("--mtbf", &f.mtbf, "hours between failures of a host: restarts count"),
       positive_number("--write-rate", &f.write_bytes_per_second,
                       "bytes per second at which a host writes checkpoints")});
}

bool asks_front(const PlanFlags& flags, const RunFlags& run) {
  if (run.prices.empty())
    for (const char* flag : kOfPrice)
      cli::require_effect(flags.given, flag, true, "without --price-per-hour");
  return !run.prices.empty() || cli::parts_of_list(flags.cluster).size() > 1 ||
         cli::parts_of_list(run.hosts).size() > 1;
}

void print_front(const PlanFlags& flags, const RunFlags& run, const Stoppable& stoppable) {
  check_flags(flags, run);
  std::vector<Candidate> all = candidates_of(flags, run);
  PlanFlags own = flags;
  own.solver_seconds = flags.solver_seconds / static_cast<double>(all.size());
  const PlannedModel model = model_of(own);
  steps_of(run, model);  // mistakes come first
  for (Candidate& one : all) {
    own.cluster = one.cluster, own.hosts = one.hosts;
    price(one, own, run, model, stoppable);
  }
  if (flags.as_json)
    fmt::print("{}\n", front_json(all, model, run).dump(2));
  else
    fmt::print("{}", front_text(all, run));
}

}  // namespace plan
