// src/mesh/cluster_json.cc — cluster files
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/mesh/cluster.h"
#include "src/base/file.h"
#include "src/base/json.h"

namespace alpa {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // as it is written

constexpr FileKind kClusterFile{"cluster file", 1 << 20};

constexpr double kMaxHosts = 65536, kMaxDevicesPerHost = 1024;
constexpr double kMaxInteger = 9007199254740992;  // 2^53: exact in JSON numbers

/// One object of the file: its place and its content.
struct Section {
  const std::string& origin;
  std::string path;  ///< "" for the whole file
  const Json& json;
};

std::string key_path(const Section& section, const std::string& key) {
  return section.path.empty() ? excerpt(key) : section.path + "." + excerpt(key);
}

[[noreturn]] void bad_value(const Section& section, const std::string& key,
                            const std::string& found, const std::string& expected) {
  fail("cluster file {}: {}: found {}, expected {}", section.origin, key_path(section, key), found,
       expected);
}

const Json* find(const Section& section, const std::string& key) {
  const auto entry = section.json.find(key);
  return entry == section.json.end() ? nullptr : &*entry;
}

const Json& at(const Section& section, const std::string& key, const std::string& expected) {
  const Json* value = find(section, key);
  if (!value) bad_value(section, key, "nothing", expected);
  return *value;
}

void check_keys(const Section& section, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : section.json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail("cluster file {}: {}: unknown key; the keys here are: {}", section.origin,
         key_path(section, key), fmt::join(known, ", "));
  }
}

Section subsection(const Section& section, const std::string& key, const std::string& expected) {
  const Json& value = at(section, key, expected);
  if (!value.is_object()) bad_value(section, key, shown(value), expected);
  return {section.origin, key_path(section, key), value};
}

double read_number(const Section& section, const std::string& key, const std::string& expected) {
  const Json& value = at(section, key, expected);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!std::isfinite(number) || number < 0) bad_value(section, key, shown(value), expected);
  return number;
}

double read_number_or(const Section& section, const std::string& key, const std::string& expected,
                      double otherwise) {
  return find(section, key) ? read_number(section, key, expected) : otherwise;
}

std::int64_t read_count(const Section& section, const std::string& key, double most,
                        const std::string& what) {
  const std::string expected = fmt::format("{}: a whole number from 1 to {:.0f}", what, most);
  const double number = read_number(section, key, expected);
  if (number < 1 || number > most || number != std::floor(number))
    bad_value(section, key, shown(at(section, key, expected)), expected);
  return static_cast<std::int64_t>(number);
}

/// The element type that is a key of the section.
DType dtype_of(const Section& section, const std::string& name) {
  try {
    return parse_dtype(name);
  } catch (const Error& error) {
    fail("cluster file {}: {}: {}", section.origin, key_path(section, name), error.what());
  }
}

/// Numbers by element type.
std::map<DType, double> read_by_dtype(const Section& section, const std::string& expected) {
  std::map<DType, double> numbers;
  for (const auto& [name, value] : section.json.items())
    numbers[dtype_of(section, name)] = read_number(section, name, expected);
  return numbers;
}

constexpr const char *kAttention = "attention_flops_per_second",
                     *kAttentionGrad = "attention_grad_flops_per_second";

/// Rates that a device may have, FLOP/s of `what`.
std::map<DType, double> read_rates(const Section& device, const std::string& key,
                                   const std::string& what) {
  const std::string expected = "FLOP/s of " + what + ", above 0";
  if (!find(device, key)) return {};
  const Section section = subsection(device, key, "an object: FLOP/s by element type");
  std::map<DType, double> rates = read_by_dtype(section, expected);
  for (const auto& [dtype, rate] : rates)
    if (rate == 0) bad_value(section, std::string(name_of(dtype)), "0", expected);
  return rates;
}

/// Numbers above 0; `ascending`: each larger than the one before.
std::vector<double> read_numbers(const Section& section, const std::string& key, bool ascending) {
  const std::string expected =
      ascending ? "ascending numbers above 0" : "a list of numbers above 0";
  const Json& value = at(section, key, expected);
  std::vector<double> numbers;
  for (const Json& entry : value.is_array() ? value : Json::array({nullptr})) {
    const double number = entry.is_number() ? entry.get<double>() : 0;
    if (!std::isfinite(number) || number <= (ascending && !numbers.empty() ? numbers.back() : 0))
      bad_value(section, key, shown(value), expected);
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::int64_t> read_sizes(const Section& section, const std::string& key) {
  const std::vector<double> numbers = read_numbers(section, key, /*ascending=*/true);
  return {numbers.begin(), numbers.end()};
}

void check_count(const Section& section, const std::string& key, std::size_t found,
                 std::size_t expected) {
  if (found != expected)
    bad_value(section, key, fmt::format("{} numbers", found), fmt::format("{}", expected));
}

MeasuredRates::Products read_products(const Section& section) {
  check_keys(section, {"sizes", "flops_per_second"});
  MeasuredRates::Products products{read_sizes(section, "sizes"),
                                   read_numbers(section, "flops_per_second", false)};
  const std::size_t n = products.sizes.size();
  check_count(section, "flops_per_second", products.flops_per_second.size(), n * n * n);
  return products;
}

MeasuredRates read_measured(const Section& section) {
  check_keys(section, {"products", "loop_bytes", "loop_bytes_per_second"});
  MeasuredRates measured;
  const Section products =
      subsection(section, "products", "an object: measured rates by element type");
  for (const auto& [name, value] : products.json.items())
    measured.products[dtype_of(products, name)] =
        read_products(subsection(products, name, "an object with sizes and flops_per_second"));
  measured.loop_bytes = read_sizes(section, "loop_bytes");
  measured.loop_bytes_per_second = read_numbers(section, "loop_bytes_per_second", false);
  check_count(section, "loop_bytes_per_second", measured.loop_bytes_per_second.size(),
              measured.loop_bytes.size());
  return measured;
}

DeviceModel read_device(const Section& section) {
  check_keys(section,
             {"memory_bytes", "flops_per_second", "half_rate_size", "memory_bytes_per_second",
              "launch_seconds", "measured", "peak_flops_per_second", kAttention, kAttentionGrad});
  DeviceModel device;
  device.memory_bytes = read_count(section, "memory_bytes", kMaxInteger, "bytes of one device");
  device.flops_per_second =
      read_by_dtype(subsection(section, "flops_per_second",
                               "an object: FLOP/s by element type, like {\"f32\": 1.4e13}"),
                    "FLOP/s of matrix products, 0 or more (0: infinitely fast)");
  if (find(section, "half_rate_size"))
    device.half_rate_size =
        read_by_dtype(subsection(section, "half_rate_size",
                                 "an object: a size by element type, like {\"bf16\": 124}"),
                      "the size at which a product reaches half of its rate, 0 or more");
  device.peak_flops_per_second = read_rates(section, "peak_flops_per_second", "the data sheet");
  device.attention_flops_per_second = read_rates(section, kAttention, "fused attention");
  device.attention_grad_flops_per_second =
      read_rates(section, kAttentionGrad, "the gradient of fused attention");
  device.memory_bytes_per_second = read_number(section, "memory_bytes_per_second",
                                               "bytes per second, 0 or more (0: infinitely fast)");
  device.launch_seconds =
      read_number_or(section, "launch_seconds", "seconds per instruction, 0 or more", 0);
  if (find(section, "measured"))
    device.measured = read_measured(subsection(section, "measured", "an object"));
  return device;
}

/// `own`: a key that only this link has.
Link read_link(const Section& section, const char* own) {
  check_keys(section, {"alpha_seconds", "beta_seconds_per_byte", "bytes_per_second", own});
  Link link;
  link.alpha_seconds = read_number(section, "alpha_seconds", "seconds, 0 or more");
  const bool as_rate = find(section, "bytes_per_second") != nullptr;
  if (as_rate == (find(section, "beta_seconds_per_byte") != nullptr)) {
    fail("cluster file {}: {}: give exactly one of bytes_per_second and beta_seconds_per_byte",
         section.origin, section.path);
  }
  if (!as_rate) {
    link.beta_seconds_per_byte =
        read_number(section, "beta_seconds_per_byte", "seconds per byte, 0 or more");
    return link;
  }
  const std::string expected = "bytes per second, more than 0";
  const double rate = read_number(section, "bytes_per_second", expected);
  if (!std::isnormal(rate))
    bad_value(section, "bytes_per_second", shown(at(section, "bytes_per_second", expected)),
              expected);
  link.beta_seconds_per_byte = 1 / rate;
  return link;
}

/// The link, if it is needed or given; `read_own` reads what only this link has, at key `own`.
template <class ReadOwn>
Link read_link_if(const Section& file, const std::string& key, bool needed, const std::string& why,
                  const char* own, ReadOwn&& read_own) {
  if (!needed && !find(file, key)) return {};
  const Section section =
      subsection(file, key, "an object with alpha_seconds and bytes_per_second, because " + why);
  if (find(section, own)) read_own(subsection(section, own, "an object"));
  return read_link(section, own);
}

MeasuredCollectives read_collectives(const Section& section) {
  check_keys(section, {"members", "bytes", "seconds"});
  MeasuredCollectives measured{read_sizes(section, "members"), read_sizes(section, "bytes"),
                               read_numbers(section, "seconds", false)};
  check_count(section, "seconds", measured.seconds.size(),
              measured.members.size() * measured.bytes.size());
  return measured;
}

HostAdapters read_adapters(const Section& section) {
  check_keys(section, {"count", "bytes_per_second"});
  HostAdapters adapters;
  adapters.count =
      static_cast<int>(read_count(section, "count", kMaxDevicesPerHost, "adapters of one host"));
  const std::string expected = "bytes per second of all adapters of a host, more than 0";
  adapters.bytes_per_second = read_number(section, "bytes_per_second", expected);
  if (!std::isnormal(adapters.bytes_per_second))
    bad_value(section, "bytes_per_second", shown(at(section, "bytes_per_second", expected)),
              expected);
  return adapters;
}

SoftwareModel read_software(const Section& section) {
  check_keys(section, {"operator_seconds", "gradient_overlap", "attention_passes"});
  return {
      read_number_or(section, "operator_seconds", "seconds to launch an operator, 0 or more", 0),
      read_number_or(section, "gradient_overlap",
                     "a factor of the seconds of hidden reductions, 0 or more (0: none)", 0),
      read_number_or(section, "attention_passes",
                     "how often attention's scores are in memory, 0 or more (0: never)", 0)};
}

std::string read_backend(const Section& file) {
  const Json* value = find(file, "backend");
  if (!value) return "cpu";
  if (*value != "cpu" && *value != "cuda")
    bad_value(file, "backend", shown(*value), "\"cpu\" or \"cuda\"");
  return value->get<std::string>();
}

Cluster read_cluster(const Section& file) {
  check_keys(file, {"description", "backend", "num_hosts", "devices_per_host", "device",
                    "within_host", "between_hosts", "software"});
  if (const Json* text = find(file, "description"); text && !text->is_string()) {
    bad_value(file, "description", shown(*text), "a text for people");
  }
  Cluster cluster;
  cluster.backend = read_backend(file);
  cluster.num_hosts = static_cast<int>(read_count(file, "num_hosts", kMaxHosts, "hosts"));
  cluster.devices_per_host = static_cast<int>(
      read_count(file, "devices_per_host", kMaxDevicesPerHost, "devices of one host"));
  cluster.device = read_device(subsection(file, "device", "an object that describes one device"));
  cluster.within_host = read_link_if(
      file, "within_host", cluster.devices_per_host > 1, "the hosts have several devices",
      "all_reduce",
      [&](const Section& section) { cluster.measured_within_host = read_collectives(section); });
  cluster.between_hosts = read_link_if(
      file, "between_hosts", cluster.num_hosts > 1, "there are several hosts", "adapters",
      [&](const Section& section) { cluster.adapters = read_adapters(section); });
  if (find(file, "software"))
    cluster.software = read_software(subsection(file, "software", "an object"));
  return cluster;
}

OrderedJson link_json(const Link& link) {
  return {{"alpha_seconds", link.alpha_seconds},
          {"beta_seconds_per_byte", link.beta_seconds_per_byte}};
}

OrderedJson by_dtype_json(const std::map<DType, double>& numbers) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [dtype, number] : numbers) json[std::string(name_of(dtype))] = number;
  return json;
}

OrderedJson measured_json(const MeasuredRates& measured) {
  OrderedJson products = OrderedJson::object();
  for (const auto& [dtype, rates] : measured.products)
    products[std::string(name_of(dtype))] = {{"sizes", rates.sizes},
                                             {"flops_per_second", rates.flops_per_second}};
  return {{"products", products},
          {"loop_bytes", measured.loop_bytes},
          {"loop_bytes_per_second", measured.loop_bytes_per_second}};
}

}  // namespace

Cluster Cluster::from_json(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, "cluster file " + origin);
  if (!json.is_object()) fail("cluster file {}: found {}, expected an object", origin, shown(json));
  return read_cluster({origin, "", json});
}

Cluster Cluster::from_file(const std::string& path) {
  return from_json(read_file(path, kClusterFile), path);
}

std::string Cluster::to_json() const {
  OrderedJson described = {{"memory_bytes", device.memory_bytes},
                           {"flops_per_second", by_dtype_json(device.flops_per_second)},
                           {"memory_bytes_per_second", device.memory_bytes_per_second},
                           {"launch_seconds", device.launch_seconds}};
  if (!device.half_rate_size.empty())
    described["half_rate_size"] = by_dtype_json(device.half_rate_size);
  if (device.measured != MeasuredRates{}) described["measured"] = measured_json(device.measured);
  const auto describe = [&](const char* key, const std::map<DType, double>& rates) {
    if (!rates.empty()) described[key] = by_dtype_json(rates);
  };
  describe("peak_flops_per_second", device.peak_flops_per_second);
  describe(kAttention, device.attention_flops_per_second);
  describe(kAttentionGrad, device.attention_grad_flops_per_second);
  OrderedJson within = link_json(within_host), between = link_json(between_hosts);
  if (measured_within_host != MeasuredCollectives{})
    within["all_reduce"] = {{"members", measured_within_host.members},
                            {"bytes", measured_within_host.bytes},
                            {"seconds", measured_within_host.seconds}};
  if (adapters != HostAdapters{})
    between["adapters"] = {{"count", adapters.count},
                           {"bytes_per_second", adapters.bytes_per_second}};
  OrderedJson json = {
      {"backend", backend},  {"num_hosts", num_hosts}, {"devices_per_host", devices_per_host},
      {"device", described}, {"within_host", within},  {"between_hosts", between}};
  if (software != SoftwareModel{})
    json["software"] = {{"operator_seconds", software.operator_seconds},
                        {"gradient_overlap", software.gradient_overlap},
                        {"attention_passes", software.attention_passes}};
  return json.dump(2) + "\n";
}

}  // namespace alpa
