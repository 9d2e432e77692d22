#include "src/plan/cost/collective.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

namespace collective_test {

using namespace alpa;

namespace {

double seconds(CollectiveKind kind, double bytes, const DeviceMesh& mesh, std::vector<int> axes,
               const cost::CollectiveOptions& options = {}) {
  return cost::collective_seconds(kind, bytes, mesh, axes, options);
}

}  // namespace

TEST_CASE(
    "Alpa's unit values come out to the digit printed (un-rounded LogicalDeviceMesh formulas, "
    "alpha = 1)") {
  struct Row {
    int n;
    double bytes, beta, all_gather, all_reduce, reduce_scatter, all_to_all;
  };
  const std::array<Row, 18> rows{
      {{2, 4096, 1, 2049.1000, 4097.0100, 2049.0010, 1025.0010},
       {2, 4096, 0.1, 205.9000, 410.6100, 205.8010, 103.4010},
       {2, 65536, 1, 32769.1000, 65537.0100, 32769.0010, 16385.0010},
       {2, 65536, 0.1, 3277.9000, 6554.6100, 3277.8010, 1639.4010},
       {2, 1048576, 1, 524289.1000, 1048577.0100, 524289.0010, 262145.0010},
       {2, 1048576, 0.1, 52429.9000, 104858.6100, 52429.8010, 26215.4010},
       {4, 4096, 1, 3073.1000, 6145.0100, 3073.0010, 1537.0010},
       {4, 4096, 0.1, 308.3000, 615.4100, 308.2010, 154.6010},
       {4, 65536, 1, 49153.1000, 98305.0100, 49153.0010, 24577.0010},
       {4, 65536, 0.1, 4916.3000, 9831.4100, 4916.2010, 2458.6010},
       {4, 1048576, 1, 786433.1000, 1572865.0100, 786433.0010, 393217.0010},
       {4, 1048576, 0.1, 78644.3000, 157287.4100, 78644.2010, 39322.6010},
       {8, 4096, 1, 3585.1000, 7169.0100, 3585.0010, 1793.0010},
       {8, 4096, 0.1, 359.5000, 717.8100, 359.4010, 180.2010},
       {8, 65536, 1, 57345.1000, 114689.0100, 57345.0010, 28673.0010},
       {8, 65536, 0.1, 5735.5000, 11469.8100, 5735.4010, 2868.2010},
       {8, 1048576, 1, 917505.1000, 1835009.0100, 917505.0010, 458753.0010},
       {8, 1048576, 0.1, 91751.5000, 183501.8100, 91751.4010, 45876.2010}}};
  const cost::CollectiveOptions alpa{.tie_break_tails = true};
  for (const Row& row : rows) {
    CAPTURE(row.n);
    CAPTURE(row.bytes);
    const DeviceMesh mesh({{"x", row.n, 1, row.beta}});
    CHECK(std::abs(seconds(CollectiveKind::all_gather, row.bytes, mesh, {0}, alpa) -
                   row.all_gather) < 5e-5);
    CHECK(std::abs(seconds(CollectiveKind::all_reduce, row.bytes, mesh, {0}, alpa) -
                   row.all_reduce) < 5e-5);
    CHECK(std::abs(seconds(CollectiveKind::reduce_scatter, row.bytes, mesh, {0}, alpa) -
                   row.reduce_scatter) < 5e-5);
    // Alpa charges half of the bytes that are sent.
    const double beyond_latency = row.all_to_all - 1.001;
    CHECK(std::abs(seconds(CollectiveKind::all_to_all, row.bytes, mesh, {0}, alpa) - 1.001 -
                   2 * beyond_latency) < 1e-4);
  }
}

TEST_CASE(
    "without the tails an all-reduce costs one latency less than reduce-scatter and all-gather") {
  const DeviceMesh mesh({{"x", 4, 3, 0.5}});
  const double all_reduce = seconds(CollectiveKind::all_reduce, 1000, mesh, {0});
  CHECK(all_reduce == 3 + 750);
  CHECK(seconds(CollectiveKind::reduce_scatter, 1000, mesh, {0}) +
            seconds(CollectiveKind::all_gather, 1000, mesh, {0}) ==
        all_reduce + 3);
  CHECK(seconds(CollectiveKind::all_to_all, 1000, mesh, {0}) == 3 + 375);
}

TEST_CASE("several axes are one group with the slowest of their links") {
  const DeviceMesh mesh({{"x", 2, 5, 0.25}, {"y", 4, 3, 0.5}});
  CHECK(seconds(CollectiveKind::all_reduce, 1600, mesh, {0, 1}) == 5 + 0.5 * 2 * 7 / 8 * 1600);
}

TEST_CASE("axes of size 1 cost nothing, not even their latency") {
  const DeviceMesh mesh({{"x", 1, 100, 100}, {"y", 4, 3, 0.5}});
  CHECK(seconds(CollectiveKind::all_reduce, 1000, mesh, {0}, {.tie_break_tails = true}) == 0);
  CHECK(seconds(CollectiveKind::all_gather, 1000, mesh, {0}, {.allow_all_gather = false}) == 0);
  CHECK(seconds(CollectiveKind::all_reduce, 1000, mesh, {0, 1}) ==
        seconds(CollectiveKind::all_reduce, 1000, mesh, {1}));
  CHECK(seconds(CollectiveKind::all_reduce, 1000, mesh, {}) == 0);
}

TEST_CASE("a forbidden collective is infinitely dear, the others are not") {
  const DeviceMesh mesh({{"x", 4, 1, 1}});
  const cost::CollectiveOptions options{.allow_all_gather = false, .allow_all_to_all = false};
  CHECK(std::isinf(seconds(CollectiveKind::all_gather, 8, mesh, {0}, options)));
  CHECK(std::isinf(seconds(CollectiveKind::all_to_all, 8, mesh, {0}, options)));
  CHECK(std::isfinite(seconds(CollectiveKind::all_reduce, 8, mesh, {0}, options)));
  CHECK(std::isfinite(seconds(CollectiveKind::reduce_scatter, 8, mesh, {0}, options)));
}

TEST_CASE("a device sends its ring's share") {
  CHECK(cost::collective_sent_bytes(CollectiveKind::all_reduce, 800, 4) == 1200);
  CHECK(cost::collective_sent_bytes(CollectiveKind::all_gather, 800, 4) == 600);
  CHECK(cost::collective_sent_bytes(CollectiveKind::reduce_scatter, 800, 4) == 600);
  CHECK(cost::collective_sent_bytes(CollectiveKind::all_to_all, 800, 4) == 600);
  CHECK(cost::collective_sent_bytes(CollectiveKind::all_reduce, 800, 1) == 0);
}

TEST_CASE(
    "measured all_reduces: exact where measured, in logarithms between, in proportion beyond") {
  cost::CollectiveOptions options;
  options.links = {.devices_per_host = 8,
                   .within = {1, 0},
                   .measured = {.members = {2, 8}, .bytes = {100, 400}, .seconds = {4, 9, 16, 36}}};
  const auto all_reduce = [&](int n, double bytes) {
    return seconds(CollectiveKind::all_reduce, bytes, DeviceMesh({{"x", n, 5, 5}}), {0}, options);
  };
  CHECK(all_reduce(2, 100) == doctest::Approx(4));
  CHECK(all_reduce(8, 400) == doctest::Approx(36));
  CHECK(all_reduce(2, 200) == doctest::Approx(6));   // sqrt(4 · 9)
  CHECK(all_reduce(4, 100) == doctest::Approx(8));   // sqrt(4 · 16)
  CHECK(all_reduce(2, 800) == doctest::Approx(18));  // twice the bytes at the last rate
  CHECK(all_reduce(2, 50) == doctest::Approx(2.5));  // the latency, and half of what is above it
  CHECK(seconds(CollectiveKind::all_gather, 100, DeviceMesh({{"x", 2, 5, 5}}), {0}, options) ==
        doctest::Approx(2));  // sends half as much
}

TEST_CASE("between hosts: reduce inside, exchange through shared adapters, gather inside") {
  cost::CollectiveOptions options;
  options.links = {.devices_per_host = 4,
                   .within = {0, 1},
                   .between = {0, 1},
                   .adapters = {.count = 1, .bytes_per_second = 0.5}};
  const DeviceMesh mesh({{"x", 2, 0, 1}, {"y", 4, 0, 1}});  // x: between two hosts of four
  const auto all_reduce = [&](const DeviceMesh& on, std::vector<int> axes) {
    return seconds(CollectiveKind::all_reduce, 8, on, std::move(axes), options);
  };
  // Whole: 2·3/4·8 bytes inside, then 2·1/2·8 bytes of each host at 0.5 bytes per second.
  CHECK(all_reduce(mesh, {0, 1}) == doctest::Approx(12 + 16));
  // Along x four groups share an adapter, each with 2·1/2·8 bytes.
  CHECK(all_reduce(mesh, {0}) == doctest::Approx(4 * 16));
  // Alone, the same group has the adapter to itself.
  CHECK(all_reduce(DeviceMesh({{"x", 2, 0, 1}}, {0, 4}), {0}) == doctest::Approx(16));
  // Inside a host nothing changes.
  CHECK(all_reduce(mesh, {1}) == doctest::Approx(12));
  // Of four adapters one device reaches one.
  options.links.adapters.count = 4;
  CHECK(all_reduce(DeviceMesh({{"x", 2, 0, 1}}, {0, 4}), {0}) == doctest::Approx(64));
  // all_to_all: each host sends 4 · 8 · 4/8 bytes to the other.
  CHECK(seconds(CollectiveKind::all_to_all, 8, mesh, {0, 1}, options) == doctest::Approx(32));
}

TEST_CASE("collectives have names") {
  CHECK(name_of(CollectiveKind::all_reduce) == "all_reduce");
  CHECK(name_of(CollectiveKind::all_gather) == "all_gather");
  CHECK(name_of(CollectiveKind::reduce_scatter) == "reduce_scatter");
  CHECK(name_of(CollectiveKind::all_to_all) == "all_to_all");
}

}  // namespace collective_test
