#include "alpa/mesh/cluster.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"
#include "support/error_text.h"

namespace cluster_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string data(const std::string& name) {
  return std::string(ALPA_SOURCE_DIR) + "/clusters/" + name;
}

const std::string kGood =
    R"({"num_hosts": 2, "devices_per_host": 4,
        "device": {"memory_bytes": 1e9, "flops_per_second": {"f32": 1e12}, "memory_bytes_per_second": 1e10},
        "within_host": {"alpha_seconds": 1e-6, "bytes_per_second": 1e10},
        "between_hosts": {"alpha_seconds": 1e-5, "beta_seconds_per_byte": 1e-9}})";

/// Error of the good file with one piece of text replaced.
std::string error_with(const std::string& before, const std::string& after) {
  std::string text = kGood;
  const std::size_t place = text.find(before);
  REQUIRE(place != std::string::npos);
  text.replace(place, before.size(), after);
  return error_of([&] { Cluster::from_json(text, "c.json"); });
}

bool local_link(const MeshAxis& axis) { return axis.alpha_seconds == 1e-6; }

}  // namespace

TEST_CASE("a cluster file says what the hardware is") {
  const Cluster cluster = Cluster::from_json(kGood, "c.json");
  CHECK(cluster.num_devices() == 8);
  CHECK(cluster.backend == "cpu");
  CHECK(cluster.device.memory_bytes == 1000000000);
  CHECK(cluster.device.flops_per_second == std::map<DType, double>{{f32, 1e12}});
  CHECK(cluster.device.memory_bytes_per_second == 1e10);
  CHECK(cluster.device.launch_seconds == 0);
  CHECK(cluster.within_host == Link{1e-6, 1e-10});
  CHECK(cluster.between_hosts == Link{1e-5, 1e-9});
}

TEST_CASE("a written cluster reads back equal") {
  for (const char* name : {"cpu_2x4.json", "p3_16xlarge_2x8.json", "a100_8x8.json"}) {
    const Cluster cluster = Cluster::from_file(data(name));
    CHECK(Cluster::from_json(cluster.to_json(), name) == cluster);
  }
  for (int n : {1, 3, 8})
    CHECK(Cluster::from_json(Cluster::local(n).to_json(), "local") == Cluster::local(n));
}

TEST_CASE("links that nothing uses may be absent") {
  const Cluster one = Cluster::from_json(
      R"({"num_hosts": 1, "devices_per_host": 1,
          "device": {"memory_bytes": 1, "flops_per_second": {}, "memory_bytes_per_second": 1}})",
      "one.json");
  CHECK(one.within_host == Link{});
  CHECK(one.between_hosts == Link{});
}

TEST_CASE(
    "every mistake in a cluster file is named with its place, what was found and what is "
    "expected") {
  const std::string file = "cluster file c.json: ";
  CHECK(error_with("\"num_hosts\": 2", "\"hosts\": 2") ==
        file +
            "hosts: unknown key; the keys here are: description, backend, num_hosts, "
            "devices_per_host, device, within_host, between_hosts, software");
  CHECK(error_with("\"num_hosts\": 2,", "") ==
        file + "num_hosts: found nothing, expected hosts, a whole number from 1 to 65536");
  CHECK(error_with("\"num_hosts\": 2", "\"num_hosts\": 0") ==
        file + "num_hosts: found 0, expected hosts, a whole number from 1 to 65536");
  CHECK(error_with("\"devices_per_host\": 4", "\"devices_per_host\": 2.5") ==
        file +
            "devices_per_host: found 2.5, expected devices of one host, a whole number from 1 to "
            "1024");
  CHECK(error_with("\"num_hosts\"", "\"backend\": \"tpu\", \"num_hosts\"") ==
        file + "backend: found \"tpu\", expected \"cpu\" or \"cuda\"");
  CHECK(error_with("\"num_hosts\"", "\"description\": 3, \"num_hosts\"") ==
        file + "description: found 3, expected a text for people");
  CHECK(error_with("1e9,", "\"16 GB\",") ==
        file +
            "device.memory_bytes: found \"16 GB\", expected bytes of one device, "
            "a whole number from 1 to 9007199254740992");
  CHECK(
      error_with("\"f32\": 1e12", "\"fp32\": 1e12").find(file + "device.flops_per_second.fp32: ") ==
      0);
  CHECK(error_with("1e12", "-1") ==
        file +
            "device.flops_per_second.f32: found -1, expected FLOP/s of matrix products, from 1 to "
            "1e+21");
  CHECK(error_with("{\"f32\": 1e12}", "1e12") ==
        file +
            "device.flops_per_second: found 1000000000000.0, expected an object by element type, "
            "like {\"f32\": 1.4e13}: FLOP/s of matrix products, from 1 to 1e+21");
  CHECK(
      error_with("\"memory_bytes_per_second\": 1e10", "\"memory_bytes_per_second\": true") ==
      file +
          "device.memory_bytes_per_second: found true, expected bytes per second, from 1 to 1e+18");
  CHECK(
      error_with("\"within_host\": {\"alpha_seconds\": 1e-6, \"bytes_per_second\": 1e10},", "") ==
      file +
          "within_host: found nothing, expected an object with alpha_seconds and bytes_per_second, "
          "because the hosts have several devices");
  CHECK(error_with("{\"alpha_seconds\": 1e-5, \"beta_seconds_per_byte\": 1e-9}", "[1]") ==
        file +
            "between_hosts: found a list, expected an object with alpha_seconds and "
            "bytes_per_second, because there are several hosts");
  CHECK(error_with("\"beta_seconds_per_byte\": 1e-9",
                   "\"beta_seconds_per_byte\": 1e-9, \"bytes_per_second\": 1e9") ==
        file + "between_hosts: give exactly one of bytes_per_second and beta_seconds_per_byte");
  CHECK(error_with("\"bytes_per_second\": 1e10", "\"bytes_per_second\": 0") ==
        file + "within_host.bytes_per_second: found 0, expected bytes per second, from 1 to 1e+18");
  CHECK(error_with("\"alpha_seconds\": 1e-6", "\"alpha\": 1e-6") ==
        file +
            "within_host.alpha: unknown key; the keys here are: "
            "alpha_seconds, beta_seconds_per_byte, bytes_per_second, all_reduce");
  CHECK(error_with("\"device\": {", "\"device\": {\"memory_bytes\": 5, ") ==
        file + "key \"memory_bytes\" is given twice in one object; remove one");
}

TEST_CASE("mistakes among measured rates are named with their place") {
  const auto error = [](const std::string& products, const std::string& bytes) {
    return error_with("\"memory_bytes\": 1e9",
                      "\"memory_bytes\": 1e9, \"measured\": {\"products\": {" + products +
                          "}, \"loop_bytes\": " + bytes + ", \"loop_bytes_per_second\": [1, 2]}");
  };
  const std::string place = "cluster file c.json: device.measured.";
  CHECK(error(R"("f32": {"sizes": [4], "flops_per_second": [1, 2]})", "[1, 2]") ==
        place + "products.f32.flops_per_second: found 2 numbers, expected 1");
  CHECK(error(R"("f32": {"sizes": [4, 4], "flops_per_second": [1]})", "[1, 2]") ==
        place + "products.f32.sizes[1]: found 4, expected more than the one before, 4");
  CHECK(error(R"("f31": {"sizes": [4], "flops_per_second": [1]})", "[1, 2]")
            .starts_with(place + "products.f31: "));
  CHECK(error("", "[1]") == place + "loop_bytes_per_second: found 2 numbers, expected 1");
  CHECK(error("", "7") ==
        place +
            "loop_bytes: found 7, expected an ascending list: bytes of a loop, a whole number "
            "from 1 to 9007199254740992");
}

TEST_CASE("optional prices: read, written, without effect where absent, named if wrong") {
  std::string text = kGood;
  const auto add = [&](const std::string& before, const std::string& more) {
    text.replace(text.find(before), before.size(), more + before);
  };
  add("\"memory_bytes\":", R"("half_rate_size": {"f32": 124}, )");
  add("\"alpha_seconds\": 1e-6",
      R"("all_reduce": {"members": [2, 4], "bytes": [8], "seconds": [1, 2]}, )");
  add("\"alpha_seconds\": 1e-5", R"("adapters": {"count": 2, "bytes_per_second": 1e9}, )");
  add("\"num_hosts\":",
      R"("software": {"operator_seconds": 1e-5, "gradient_overlap": 1.5, "attention_passes": 4}, )");
  const Cluster cluster = Cluster::from_json(text, "c.json");
  CHECK(cluster.device.half_rate_size == std::map<DType, double>{{f32, 124}});
  CHECK(cluster.measured_within_host == MeasuredCollectives{{2, 4}, {8}, {1, 2}});
  CHECK(cluster.adapters == HostAdapters{2, 1e9});
  CHECK(cluster.software == SoftwareModel{1e-5, 1.5, 4});
  CHECK(Cluster::from_json(cluster.to_json(), "again") == cluster);
  CHECK(Cluster::from_json(kGood, "c.json").software == SoftwareModel{});
  CHECK(error_with("\"alpha_seconds\": 1e-6",
                   R"("all_reduce": {"members": [2, 4], "bytes": [8], "seconds": [1]},
                      "alpha_seconds": 1e-6)") ==
        "cluster file c.json: within_host.all_reduce.seconds: found 1 numbers, expected 2");
  CHECK(error_with("\"alpha_seconds\": 1e-5",
                   R"("adapters": {"count": 1, "bytes_per_second": 0}, "alpha_seconds": 1e-5)") ==
        "cluster file c.json: between_hosts.adapters.bytes_per_second: found 0, expected bytes per "
        "second, from 1 to 1e+18");
}

TEST_CASE("text that is not a JSON object is refused with its place") {
  CHECK(error_of([] { Cluster::from_json("{\"num_hosts\": 2\n \"x\": 1}", "c.json"); }) ==
        "cluster file c.json: line 2, column 4: not valid JSON; "
        "check for a missing comma, quote or bracket just before");
  CHECK(error_of([] { Cluster::from_json("", "c.json"); }) ==
        "cluster file c.json: is empty; expected JSON");
  CHECK(
      error_of(
          [] { Cluster::from_json("{\"a\\n" + std::string(100'000, 'x') + "\": 1}", "c.json"); }) ==
      "cluster file c.json: a\\n" + std::string(54, 'x') +
          "...: unknown key; the keys here are: description, backend, num_hosts, devices_per_host, "
          "device, within_host, between_hosts, software");
  CHECK(error_of([] { Cluster::from_json("[1]", "c.json"); }) ==
        "cluster file c.json: found a list, expected an object");
  CHECK(error_of([] { Cluster::from_json("{\"num_hosts\": 1e999}", "c.json"); }) ==
        "cluster file c.json: a number is too large for a double; write a smaller one");
  CHECK(error_of([] { Cluster::from_json(std::string(100'000, '['), "c.json"); }) ==
        "cluster file c.json: line 1, column 65: lists and objects are nested more than 64 deep");
  CHECK(error_of([] { Cluster::from_file("/dev/zero"); }) ==
        "cluster file /dev/zero: cannot be read: it is a device, not a file");
  CHECK(error_of([] { Cluster::from_file("/nowhere/c.json"); }) ==
        "cluster file /nowhere/c.json: cannot be read: No such file or directory");
  CHECK(error_of([] { Cluster::from_file(ALPA_SOURCE_DIR); }) ==
        "cluster file " ALPA_SOURCE_DIR ": cannot be read: it is a folder, not a file");
}

TEST_CASE("an axis within one host has the link of the host, any other that between hosts") {
  const Cluster cluster = Cluster::from_json(kGood, "c.json");  // 2 hosts of 4
  const auto links = [&](const std::vector<int>& shape) {
    std::string text;
    const DeviceMesh mesh = cluster.mesh(shape);
    for (const MeshAxis& axis : mesh.axes())
      text += axis.name + (local_link(axis) ? ":host " : ":net ");
    return text;
  };
  CHECK(links({8}) == "x:net ");
  CHECK(links({2, 4}) == "x:net y:host ");
  CHECK(links({4, 2}) == "x:net y:host ");
  CHECK(links({1, 8}) == "x:host y:net ");
  CHECK(links({2, 2, 2}) == "x:net y:host z:host ");
  CHECK(cluster.mesh({2, 4}).axes()[0].beta_seconds_per_byte == 1e-9);
  CHECK(cluster.mesh({2, 4}).axes()[1].beta_seconds_per_byte == 1e-10);
}

TEST_CASE("groups that straddle hosts pay for it even where a host is not a power of two") {
  Cluster cluster = Cluster::from_json(kGood, "c.json");
  cluster.devices_per_host = 3;  // hosts {0 1 2} {3 4 5}
  CHECK(local_link(cluster.mesh({2, 3}).axes()[1]));
  CHECK_FALSE(local_link(cluster.mesh({2, 3}).axes()[0]));
  CHECK_FALSE(local_link(cluster.mesh({3, 2}).axes()[1]));  // pair {2, 3}
}

TEST_CASE("a mesh has to use every device") {
  const Cluster cluster = Cluster::from_json(kGood, "c.json");
  CHECK(error_of([&] {
          cluster.mesh({2, 2});
        }) ==
        "mesh shape 2x2 has 4 devices, but the cluster has 8 (2 hosts of 4); "
        "the product of the axes must be 8");
  CHECK(error_of([&] {
          cluster.mesh({4, 4});
        }) ==
        "mesh shape 4x4: the cluster has 8 devices (2 hosts of 4), fewer than the mesh needs");
  CHECK(error_of([&] {
          cluster.mesh({-2, -4});
        }) == "mesh shape -2x-4: every axis needs at least one device");
  CHECK(error_of([&] { cluster.mesh({}); }) == "mesh shape \"\": give 1 to 4 axes");
}

TEST_CASE("a submesh is the same hardware, less of it") {
  const Cluster cluster = Cluster::from_json(kGood, "c.json");
  const Cluster part = cluster.submesh(1, 2);
  CHECK(part.num_devices() == 2);
  CHECK(part.device == cluster.device);
  CHECK(local_link(part.mesh({2}).axes()[0]));
  CHECK(error_of([&] { cluster.submesh(3, 1); }) == "submesh of 3 hosts: the cluster has 2");
  CHECK(error_of([&] { cluster.submesh(1, 5); }) ==
        "submesh of 5 devices per host: the hosts have 4");
}

TEST_CASE("local devices share the cores") {
  const int cores = usable_cores();
  const Cluster one = Cluster::local(1), many = Cluster::local(4 * cores);
  CHECK(one.device.flops_per_second.at(f32) == doctest::Approx(80e9 * cores));
  CHECK(many.device.flops_per_second.at(f32) == doctest::Approx(80e9 / 4));
  CHECK(many.device.memory_bytes_per_second == doctest::Approx(9e9 / 4));
  CHECK(one.device.memory_bytes / (4 * cores) == many.device.memory_bytes);
  CHECK(many.within_host.alpha_seconds == doctest::Approx(16e-6));
  CHECK(many.mesh({4 * cores}).num_devices() == 4 * cores);
  CHECK(error_of([] { Cluster::local(0); }) == "Cluster::local: 0 devices; ask for at least 1");
}

TEST_CASE("logical shapes are all factorisations into at most two axes") {
  using Shapes = std::vector<std::vector<int>>;
  CHECK(logical_mesh_shapes(8) == Shapes{{8}, {2, 4}, {4, 2}});
  CHECK(logical_mesh_shapes(7) == Shapes{{7}});
  CHECK(logical_mesh_shapes(1) == Shapes{{1}});
  CHECK(logical_mesh_shapes(12) == Shapes{{12}, {2, 6}, {3, 4}, {4, 3}, {6, 2}});
}

TEST_CASE("mesh shapes are read from text") {
  CHECK(parse_mesh_shape("8") == std::vector<int>{8});
  CHECK(parse_mesh_shape("2x4") == std::vector<int>{2, 4});
  for (const std::string text :
       {"", "x", "2x", "x4", "2*4", "0x4", "-2x4", "2x4 ", "1x1x1x1x2", "99999999999"}) {
    CHECK(error_of([&] { parse_mesh_shape(text); }) ==
          "mesh shape \"" + text +
              "\": expected 1 to 4 positive sizes joined by \"x\", like \"8\" or \"2x4\"");
  }
}

}  // namespace cluster_test
