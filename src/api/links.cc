// src/api/links.cc — links between devices of several processes, from all-reduces
#include "src/api/links.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "src/base/timing.h"
#include "src/comm/group.h"
#include "src/plan/cost/collective.h"

namespace alpa {
namespace {

const std::vector<std::int64_t> kElements = {1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 22};
constexpr int kFewestRounds = 3, kMostRounds = 2000;

/// Devices of this process in one group: the members that they are.
struct OwnGroup {
  std::unique_ptr<comm::Group> group;
  std::vector<int> members;
};

/// Collective: the groups that have a device in this process. Every device is in one of `groups`.
std::vector<OwnGroup> join(processes::World& world, const std::vector<int>& ranks,
                           const std::vector<std::vector<int>>& groups) {
  std::vector<OwnGroup> own;
  for (const std::vector<int>& devices : groups) {
    comm::GroupPlaces places;
    places.rank = world.rank();
    places.courier = &world.courier();
    std::vector<int> members;
    for (const int device : devices) {
      if (ranks[device] == world.rank()) members.push_back(static_cast<int>(places.ranks.size()));
      places.ranks.push_back(ranks[device]);
    }
    places.first_tag = world.reserve_tags(comm::tags_of_group(places.ranks));
    if (!members.empty()) own.push_back({comm::make_group(places), members});
  }
  return own;
}

/// The median seconds of `rounds` all-reduces of so many f32, of one member.
double member_seconds(comm::Group& group, int member, std::int64_t elements, int rounds) {
  std::vector<float> values(static_cast<std::size_t>(elements), 1.0F);
  const KernelTensor tensor{
      reinterpret_cast<std::byte*>(values.data()), {f32, {elements}}, {0}, {elements}};
  group.reserve(member, {CollectiveKind::all_reduce, {&tensor, 1}, {&tensor, 1}});
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch watch;
    group.all_reduce(member, {&tensor, 1}, {&tensor, 1}, Combiner::max);
    seconds.push_back(watch.seconds());
  }
  return median(std::move(seconds));
}

/// The same of all devices of this process, a thread each: their median.
double own_seconds(std::vector<OwnGroup>& groups, std::int64_t elements, int rounds) {
  std::vector<std::function<double()>> parts;
  for (OwnGroup& own : groups)
    for (const int member : own.members)
      parts.emplace_back([&own, member, elements, rounds] {
        try {
          return member_seconds(*own.group, member, elements, rounds);
        } catch (...) {
          own.group->abort();  // nobody waits for this member
          throw;
        }
      });
  std::vector<double> seconds(parts.size());
  std::vector<std::exception_ptr> failures(parts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < parts.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        seconds[i] = parts[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return median(std::move(seconds));
}

/// Collective: the largest of all processes' `own_seconds`.
double all_seconds(processes::World& world, std::vector<OwnGroup>& groups, std::int64_t elements,
                   int rounds) {
  world.require_alive();
  try {
    return world.largest(own_seconds(groups, elements, rounds));
  } catch (const comm::Aborted&) {
    world.rethrow();
  }
}

/// Collective: the link of groups that all work at once.
Link link_of(processes::World& world, const std::vector<int>& ranks,
             const std::vector<std::vector<int>>& groups, double seconds) {
  std::vector<OwnGroup> own = join(world, ranks, groups);
  AllReduces measured;
  const double part = seconds / static_cast<double>(kElements.size());
  for (const std::int64_t elements : kElements) {
    const double once = all_seconds(world, own, elements, kFewestRounds);
    // The same in all processes, as `once` is.
    const auto rounds =
        static_cast<int>(std::clamp(part / once, 1.0 * kFewestRounds, 1.0 * kMostRounds));
    measured.emplace_back(4.0 * static_cast<double>(elements),
                          all_seconds(world, own, elements, rounds));
  }
  return fitted_link(static_cast<int>(groups.front().size()), measured);
}

}  // namespace

Link fitted_link(int members, const AllReduces& measured) {
  const auto coefficient = [&](double bytes, double alpha, double beta) {
    const int axes[] = {0};
    return cost::collective_seconds(CollectiveKind::all_reduce, bytes,
                                    DeviceMesh({{"x", members, alpha, beta}}), axes);
  };
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;  // normal equations of relative errors
  for (const auto& [bytes, seconds] : measured) {
    const double a = coefficient(bytes, 1, 0) / seconds, b = coefficient(bytes, 0, 1) / seconds;
    aa += a * a, ab += a * b, bb += b * b, a1 += a, b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  return {std::max((a1 * bb - b1 * ab) / determinant, 0.0),
          std::max((b1 * aa - a1 * ab) / determinant, 0.0)};
}

void measure_links(processes::World& world, Cluster& cluster, double seconds) {
  const std::vector<int> ranks = world.ranks_of_devices(cluster.num_devices());
  std::vector<std::vector<int>> within(cluster.num_hosts), between(cluster.devices_per_host);
  for (int device = 0; device < cluster.num_devices(); ++device) {
    within[device / cluster.devices_per_host].push_back(device);
    between[device % cluster.devices_per_host].push_back(device);
  }
  if (cluster.devices_per_host > 1) cluster.within_host = link_of(world, ranks, within, seconds);
  cluster.between_hosts =
      cluster.num_hosts > 1 ? link_of(world, ranks, between, seconds) : cluster.within_host;
}

}  // namespace alpa
