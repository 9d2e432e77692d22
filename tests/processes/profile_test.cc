// Links between processes and hosts, measured in a launch in memory.
#include <doctest/doctest.h>

#include "alpa/parallelize.h"
#include "src/api/links.h"
#include "support/processes.h"

namespace profile_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("profile of two hosts measures both links, the same in all processes") {
  std::vector<Cluster> clusters(4);
  const std::vector<std::string> errors = run_processes(
      4, [&](int rank) { clusters[rank] = profile(4, 0.01); }, {.launch = {.hosts = {0, 0, 1, 1}}});
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(errors[rank] == "");
    CHECK(clusters[rank] == clusters[0]);
  }
  const Cluster& cluster = clusters[0];
  CHECK(cluster.num_hosts == 2);
  CHECK(cluster.devices_per_host == 2);
  for (const Link& link : {cluster.within_host, cluster.between_hosts})
    CHECK(link.alpha_seconds + link.beta_seconds_per_byte > 0);
  CHECK(cluster.within_host != cluster.between_hosts);
}

TEST_CASE("the fitted link is the one that made the seconds") {
  // α + 2(n-1)/n · bytes · β, a ring's all-reduce (docs/cost-model.md)
  const double alpha = 3e-6, beta = 2e-9;
  const int members = 4;
  AllReduces measured;
  for (const double bytes : {1e3, 1e5, 1e7})
    measured.emplace_back(bytes, alpha + 2.0 * (members - 1) / members * bytes * beta);
  const Link link = fitted_link(members, measured);
  CHECK(link.alpha_seconds == doctest::Approx(alpha));
  CHECK(link.beta_seconds_per_byte == doctest::Approx(beta));
}

TEST_CASE("hosts with different numbers of processes cannot share devices evenly") {
  const std::vector<std::string> errors =
      run_processes(3, [](int) { Cluster::local(3); }, {.launch = {.hosts = {0, 0, 1}}});
  for (const std::string& error : errors) {
    CHECK(error.starts_with("3 devices on 2 hosts: "));
    CHECK(
        error.ends_with(" would have 1; start as many processes on every host, and take a "
                        "multiple of them as devices"));
  }
}

}  // namespace profile_test
