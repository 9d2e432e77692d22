// Clusters by name.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "alpa/base/error.h"
#include "alpa/mesh/cluster.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace known_clusters_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string file_of(const std::string& name) {
  return ALPA_SOURCE_DIR "/clusters/" + name + ".json";
}

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a name means the file of clusters/, and needs no file") {
  const std::vector<std::string> names = Cluster::names();
  CHECK(names == std::vector<std::string>{"p3.16xlarge", "dgx-v100", "dgx-a100", "hgx-h100",
                                          "hgx-h200", "local"});
  for (const std::string& name : names)
    CHECK(Cluster::named(name) ==
          (name == "local" ? Cluster::local() : Cluster::from_file(file_of(name))));
}

TEST_CASE("hosts multiply, of names and of files") {
  Cluster eight = Cluster::named("dgx-a100");
  eight.num_hosts = 8;
  CHECK(Cluster::named("dgx-a100", 8) == eight);
  CHECK(Cluster::find("dgx-a100", 8) == eight);
  CHECK(Cluster::find(ALPA_SOURCE_DIR "/clusters/cpu_2x4.json", 3).num_hosts == 6);
  const Cluster here = Cluster::named("local", 2);
  CHECK(here.num_hosts == 2);
  CHECK(here.between_hosts == Link{30e-6, 1 / 1.1e9});
}

TEST_CASE("no device of a known cluster exceeds its data sheet, and every type has a rate") {
  for (const std::string& name : Cluster::names()) {
    if (name == "local") continue;
    CAPTURE(name);
    const DeviceModel device = Cluster::named(name).device;
    for (const DType dtype : {f32, f16, bf16, f64}) {
      REQUIRE(device.flops_per_second.contains(dtype));
      REQUIRE(device.peak_flops_per_second.contains(dtype));
      CHECK(device.flops_per_second.at(dtype) > 0);
      CHECK(device.flops_per_second.at(dtype) < device.peak_flops_per_second.at(dtype));
    }
  }
}

TEST_CASE("the description of a known cluster says where each of its figures comes from") {
  for (const std::string& name : Cluster::names()) {
    if (name == "local") continue;
    const std::string text = text_of(file_of(name));
    const std::string described = text.substr(0, text.find('\n', text.find("\"description\"")));
    for (const char* figure :
         {"memory_bytes", "peak_flops_per_second: ", "flops_per_second: ",
          "memory_bytes_per_second: ", "launch_seconds: ", "within_host: ", "between_hosts: "})
      CHECK_MESSAGE(described.find(figure) != std::string::npos, name << " " << figure);
  }
}

TEST_CASE("a cluster that is neither a name nor a file is refused with the names") {
  const std::string names =
      "known by name are p3.16xlarge, dgx-v100, dgx-a100, hgx-h100, hgx-h200, local";
  CHECK(error_of([] { Cluster::named("dgx-b200"); }) ==
        "cluster \"dgx-b200\" is unknown; " + names);
  CHECK(error_of([] { Cluster::find("dgx-b200"); }) ==
        "cluster \"dgx-b200\" is unknown: there is no such file, and " + names);
  CHECK(error_of([] { Cluster::named("dgx-a100", 0); }) ==
        "a cluster of 0 times its hosts; give at least 1");
  CHECK(error_of([] { Cluster::find(ALPA_SOURCE_DIR "/clusters/cpu_2x4.json", 40000); }) ==
        "a cluster of 40000 times 2 hosts; there may be 65536 in all");
}

TEST_CASE("peaks and rates of attention are read, written and checked") {
  const auto cluster = [](const std::string& key, const std::string& rates) {
    return Cluster::from_json(
        R"({"num_hosts": 1, "devices_per_host": 1, "device": {"memory_bytes": 1,
            "flops_per_second": {}, "memory_bytes_per_second": 1, ")" +
            key + "\": " + rates + "}}",
        "c.json");
  };
  const auto check = [&](const std::string& key, const std::string& what, auto member) {
    const Cluster one = cluster(key, R"({"bf16": 312e12})");
    CHECK(one.device.*member == std::map<DType, double>{{bf16, 312e12}});
    CHECK(Cluster::from_json(one.to_json(), "c.json") == one);
    CHECK(error_of([&] { cluster(key, R"({"bf16": 0})"); }) ==
          "cluster file c.json: device." + key + ".bf16: found 0, expected FLOP/s of " + what +
              ", from 1 to 1e+21");
  };
  check("peak_flops_per_second", "the data sheet", &DeviceModel::peak_flops_per_second);
  check("attention_flops_per_second", "fused attention", &DeviceModel::attention_flops_per_second);
  check("attention_grad_flops_per_second", "the gradient of fused attention",
        &DeviceModel::attention_grad_flops_per_second);
}

}  // namespace known_clusters_test
