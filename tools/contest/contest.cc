// tools/contest/contest.cc — problems of the contest: read, checked, solved and printed
#include "tools/contest/contest.h"

#include <fmt/ranges.h>

#include <map>
#include <new>

#include "alpa/base/error.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/timing.h"
#include "src/ilp/solve.h"

namespace alpa::ilp {
namespace {

using Json = nlohmann::json;
using Costs = std::vector<std::int64_t>;

constexpr FileKind kContestFile{"", 1 << 30};

/// The file being read, for messages.
struct Reader {
  std::string file;
  std::map<Costs, Table> tables;  // equal tables are stored once

  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail("{}: {}", file, fmt::format(format, std::forward<Args>(args)...));
  }

  const Json& member(const Json& object, const std::string& path, const char* name) const {
    check(object.is_object(), "`{}` must be an object; see the contest's format", path);
    auto found = object.find(name);
    check(found != object.end(), "`{}.{}` is missing; add it", path, name);
    return *found;
  }

  const Json& list(const Json& value, const std::string& path) const {
    check(value.is_array(), "`{}` must be a list, not {}", path, value.type_name());
    return value;
  }

  /// Comparing the value itself with INT64_MAX would compare as signed numbers.
  static bool is_integer(const Json& value) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  }

  std::int64_t integer(const Json& value, const std::string& path) const {
    check(is_integer(value), "`{}` is {}; write a whole number from -2^63 to 2^63 - 1", path,
          shown(value));
    return value.get<std::int64_t>();
  }

  Costs integers(const Json& value, const std::string& path) const {
    list(value, path);
    Costs result;
    result.reserve(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      // The common case without the cost of building a path.
      if (is_integer(value[i]))
        result.push_back(value[i].get<std::int64_t>());
      else
        result.push_back(integer(value[i], fmt::format("{}[{}]", path, i)));
    }
    return result;
  }

  /// Costs so low that two of them could not be added are refused.
  Costs costs(const Json& value, const std::string& path) const {
    Costs result = integers(value, path);
    for (std::size_t i = 0; i < result.size(); ++i)
      check(result[i] > -kInfinite,
            "`{}[{}]` is {}; costs must be above -10^18 (and at least 10^18 means never)", path, i,
            result[i]);
    return result;
  }

  Table shared(Costs costs) {
    auto found = tables.find(costs);
    if (found != tables.end()) return found->second;
    Table result = table(costs);
    return tables.emplace(std::move(costs), result).first->second;
  }

  Node node(const Json& nodes, std::size_t i) const {
    Node result;
    result.costs = costs(nodes["costs"][i], fmt::format("problem.nodes.costs[{}]", i));
    check(!result.costs.empty(),
          "`problem.nodes.costs[{}]` is empty; give node {} at least one strategy", i, i);
    Costs interval = integers(nodes["intervals"][i], fmt::format("problem.nodes.intervals[{}]", i));
    check(interval.size() == 2, "`problem.nodes.intervals[{}]` has {} numbers; write [from, to]", i,
          interval.size());
    Usage usage{interval[0], interval[1],
                integers(nodes["usages"][i], fmt::format("problem.nodes.usages[{}]", i))};
    check(usage.amounts.size() == result.costs.size(),
          "`problem.nodes.usages[{}]` has {} numbers but node {} has {} costs; give one usage per "
          "strategy",
          i, usage.amounts.size(), i, result.costs.size());
    for (std::size_t s = 0; s < usage.amounts.size(); ++s)
      check(usage.amounts[s] >= 0 && usage.amounts[s] < kInfinite,
            "`problem.nodes.usages[{}][{}]` is {}; usages must be in [0, 10^18)", i, s,
            usage.amounts[s]);
    if (usage.from < usage.to) result.usages.push_back(std::move(usage));
    return result;
  }

  void read_nodes(const Json& nodes, Problem& problem) const {
    std::size_t count = list(member(nodes, "problem.nodes", "costs"), "problem.nodes.costs").size();
    for (const char* name : {"intervals", "usages"}) {
      std::string path = fmt::format("problem.nodes.{}", name);
      std::size_t size = list(member(nodes, "problem.nodes", name), path).size();
      check(size == count,
            "`{}` has {} entries but `problem.nodes.costs` has {}; give one per node", path, size,
            count);
    }
    for (std::size_t i = 0; i < count; ++i) problem.nodes.push_back(node(nodes, i));
  }

  void read_edges(const Json& edges, Contest& contest) {
    const Json& ends = list(member(edges, "problem.edges", "nodes"), "problem.edges.nodes");
    const Json& costs = list(member(edges, "problem.edges", "costs"), "problem.edges.costs");
    check(ends.size() == costs.size(),
          "`problem.edges.nodes` has {} entries but `problem.edges.costs` has {}; give one of each "
          "per edge",
          ends.size(), costs.size());
    for (std::size_t e = 0; e < ends.size(); ++e) {
      Costs members = integers(ends[e], fmt::format("problem.edges.nodes[{}]", e));
      Costs values = this->costs(costs[e], fmt::format("problem.edges.costs[{}]", e));
      check_edge(contest, members, values.size(), e);
      add_edge(contest.problem, std::vector<int>(members.begin(), members.end()), std::move(values),
               e);
    }
  }

  void check_edge(const Contest& contest, const Costs& members, std::size_t values,
                  std::size_t e) const {
    check(!members.empty(), "`problem.edges.nodes[{}]` is empty; name at least one node", e);
    double expected = 1;
    for (std::int64_t m : members) {
      check(m >= 0 && m < contest.num_nodes,
            "`problem.edges.nodes[{}]` names node {} but there are {} nodes; use indices from 0 to "
            "{}",
            e, m, contest.num_nodes, contest.num_nodes - 1);
      expected *=
          static_cast<double>(contest.problem.nodes[static_cast<std::size_t>(m)].costs.size());
    }
    check(static_cast<double>(values) == expected,
          "`problem.edges.costs[{}]` has {} numbers but the strategies of its nodes combine in {} "
          "ways; give one cost per combination, the last node fastest",
          e, values, expected);
  }

  void add_edge(Problem& problem, const std::vector<int>& members, Costs values, std::size_t e) {
    if (members.size() == 1) {
      Costs& costs = problem.nodes[members[0]].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        costs[s] =
            costs[s] >= kInfinite || values[s] >= kInfinite ? kInfinite : costs[s] + values[s];
        check(costs[s] > -kInfinite,
              "`problem.edges.costs[{}][{}]` is {}, which takes node {}'s cost to {}; "
              "costs must stay above -10^18",
              e, s, values[s], members[0], costs[s]);
      }
    } else if (members.size() == 2) {
      problem.edges.push_back({members[0], members[1], shared(std::move(values))});
    } else {
      add_wide_edge(problem, members, values);
    }
  }

  /// A node per combination; an edge to each member forbids the combinations in
  /// which it chooses otherwise.
  void add_wide_edge(Problem& problem, const std::vector<int>& members, const Costs& values) {
    int extra = static_cast<int>(problem.nodes.size());
    std::size_t below = values.size();
    for (int m : members) {
      std::size_t size = problem.nodes[m].costs.size();
      below /= size;
      Costs agrees(values.size() * size, kInfinite);
      for (std::size_t v = 0; v < values.size(); ++v) agrees[v * size + v / below % size] = 0;
      problem.edges.push_back({extra, m, shared(std::move(agrees))});
    }
    problem.nodes.push_back({values, {}});
  }
};

}  // namespace

Contest parse_contest(const std::string& text, const std::string& file_name) {
  Reader reader{file_name, {}};
  const Json json = parse_json(text, file_name);
  const Json& body = reader.member(json, "the file", "problem");
  Contest contest;
  Problem& problem = contest.problem;
  reader.read_nodes(reader.member(body, "problem", "nodes"), problem);
  contest.num_nodes = static_cast<int>(problem.nodes.size());
  reader.read_edges(reader.member(body, "problem", "edges"), contest);
  auto limit = body.find("usage_limit");
  if (limit != body.end() && !limit->is_null()) {
    problem.usage_limit = reader.integer(*limit, "problem.usage_limit");
    reader.check(*problem.usage_limit >= 0, "`problem.usage_limit` is {}; it must be at least 0",
                 *problem.usage_limit);
  }
  try {
    validate(problem);
  } catch (const Error& error) {
    fail("{}: {}", file_name, error.what());
  }
  return contest;
}

Contest read_contest(const std::string& path) {
  try {
    return parse_contest(read_file(path, kContestFile), path);
  } catch (const std::bad_alloc&) {
    fail("{}: the problem does not fit in memory", path);
  }
}

std::string solve_contest(const std::string& path, double seconds) {
  const Stopwatch watch;
  Contest contest = read_contest(path);
  Options options;
  // The rest is for the last step under way and for printing.
  options.limits.seconds = 0.97 * seconds - 0.2 - watch.seconds();
  Solution solution = solve(contest.problem, options);
  solution.choice.resize(static_cast<std::size_t>(contest.num_nodes));
  return fmt::format("cost {} lower_bound {} gap {:.4f}%\n[{}]\n", solution.cost,
                     solution.lower_bound, 100 * solution.gap(), fmt::join(solution.choice, ", "));
}

}  // namespace alpa::ilp
