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

/// Valid range of a number in a cluster file, by its key; for an object or a list, of each of its
/// numbers. Within these ranges sums of prices do not overflow, and the planner's programs are
/// well scaled.
struct Quantity {
  std::string_view key, unit;
  double least, most;
  bool whole = false;
};

constexpr double kMaxInteger = 9007199254740992;  // 2^53: exact in JSON numbers

constexpr Quantity kQuantities[] = {
    {"num_hosts", "hosts", 1, 65536, true},
    {"devices_per_host", "devices of one host", 1, 1024, true},
    {"memory_bytes", "bytes of one device", 1, kMaxInteger, true},
    {"flops_per_second", "FLOP/s of matrix products", 1, 1e21},
    {"half_rate_size", "rows of a product at half of its rate", 0, 1e9},
    {"peak_flops_per_second", "FLOP/s of the data sheet", 1, 1e21},
    {"attention_flops_per_second", "FLOP/s of fused attention", 1, 1e21},
    {"attention_grad_flops_per_second", "FLOP/s of the gradient of fused attention", 1, 1e21},
    {"memory_bytes_per_second", "bytes per second", 1, 1e18},
    {"launch_seconds", "seconds per instruction", 0, 1000},
    {"sizes", "rows of a product", 1, kMaxInteger, true},
    {"loop_bytes", "bytes of a loop", 1, kMaxInteger, true},
    {"loop_bytes_per_second", "bytes per second", 1, 1e18},
    {"alpha_seconds", "seconds of latency", 0, 1000},
    {"beta_seconds_per_byte", "seconds per byte", 0, 1},
    {"bytes_per_second", "bytes per second", 1, 1e18},
    {"members", "devices of an all_reduce", 1, 67108864, true},
    {"bytes", "bytes of an all_reduce", 1, kMaxInteger, true},
    {"seconds", "seconds of an all_reduce", 1e-12, 1e6},
    {"count", "adapters of one host", 1, 1024, true},
    {"operator_seconds", "seconds to launch an operator", 0, 1000},
    {"gradient_overlap", "times the seconds of hidden reductions", 0, 1000},
    {"attention_passes", "passes over attention's scores", 0, 1000},
};

const Quantity& quantity_of(std::string_view key) {
  const auto* found = std::ranges::find(kQuantities, key, &Quantity::key);
  invariant(found != std::end(kQuantities), "cluster file: key {} has no range", key);
  return *found;
}

/// "seconds of latency, from 0 to 1000".
std::string text_of(const Quantity& of) {
  return fmt::format("{}, {}from {} to {}", of.unit, of.whole ? "a whole number " : "", of.least,
                     of.most);
}

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

/// The number at `key`, `found`, if it is one that `of` allows.
double checked(const Section& section, const std::string& key, const Json& found,
               const Quantity& of) {
  const double number = found.is_number() ? found.get<double>() : of.least - 1;
  if (!(number >= of.least && number <= of.most) || (of.whole && number != std::floor(number)))
    bad_value(section, key, shown(found), text_of(of));
  return number;
}

double read_number(const Section& section, const std::string& key) {
  const Quantity& of = quantity_of(key);
  return checked(section, key, at(section, key, text_of(of)), of);
}

double read_number_or_0(const Section& section, const std::string& key) {
  return find(section, key) ? read_number(section, key) : 0;
}

/// The element type that is a key of the section.
DType dtype_of(const Section& section, const std::string& name) {
  try {
    return parse_dtype(name);
  } catch (const Error& error) {
    fail("cluster file {}: {}: {}", section.origin, key_path(section, name), error.what());
  }
}

/// Numbers by element type: the object at `key`, like `example`; none if it need not be there.
std::map<DType, double> read_by_dtype(const Section& device, const std::string& key,
                                      const std::string& example, bool needed = false) {
  if (!needed && !find(device, key)) return {};
  const Quantity& of = quantity_of(key);
  const Section section = subsection(
      device, key, fmt::format("an object by element type, like {}: {}", example, text_of(of)));
  std::map<DType, double> numbers;
  for (const auto& [name, value] : section.json.items())
    numbers[dtype_of(section, name)] = checked(section, name, value, of);
  return numbers;
}

/// `ascending`: each is larger than the one before.
std::vector<double> read_numbers(const Section& section, const std::string& key, bool ascending) {
  const Quantity& of = quantity_of(key);
  const std::string expected =
      fmt::format("{}: {}", ascending ? "an ascending list" : "a list", text_of(of));
  const Json& value = at(section, key, expected);
  if (!value.is_array()) bad_value(section, key, shown(value), expected);
  std::vector<double> numbers;
  for (const Json& entry : value) {
    const std::string place = fmt::format("{}[{}]", key, numbers.size());
    const double number = checked(section, place, entry, of);
    if (ascending && !numbers.empty() && number <= numbers.back())
      bad_value(section, place, shown(entry),
                fmt::format("more than the one before, {}", numbers.back()));
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
              "launch_seconds", "measured", "peak_flops_per_second", "attention_flops_per_second",
              "attention_grad_flops_per_second"});
  DeviceModel device;
  device.memory_bytes = static_cast<std::int64_t>(read_number(section, "memory_bytes"));
  device.flops_per_second = read_by_dtype(section, "flops_per_second", "{\"f32\": 1.4e13}", true);
  device.half_rate_size = read_by_dtype(section, "half_rate_size", "{\"bf16\": 124}");
  device.peak_flops_per_second =
      read_by_dtype(section, "peak_flops_per_second", "{\"bf16\": 312e12}");
  device.attention_flops_per_second =
      read_by_dtype(section, "attention_flops_per_second", "{\"bf16\": 480e12}");
  device.attention_grad_flops_per_second =
      read_by_dtype(section, "attention_grad_flops_per_second", "{\"bf16\": 400e12}");
  device.memory_bytes_per_second = read_number(section, "memory_bytes_per_second");
  device.launch_seconds = read_number_or_0(section, "launch_seconds");
  if (find(section, "measured"))
    device.measured = read_measured(subsection(section, "measured", "an object"));
  return device;
}

/// `own`: a key that only this link has.
Link read_link(const Section& section, const char* own) {
  check_keys(section, {"alpha_seconds", "beta_seconds_per_byte", "bytes_per_second", own});
  Link link;
  link.alpha_seconds = read_number(section, "alpha_seconds");
  const bool as_rate = find(section, "bytes_per_second") != nullptr;
  if (as_rate == (find(section, "beta_seconds_per_byte") != nullptr)) {
    fail("cluster file {}: {}: give exactly one of bytes_per_second and beta_seconds_per_byte",
         section.origin, section.path);
  }
  link.beta_seconds_per_byte = as_rate ? 1 / read_number(section, "bytes_per_second")
                                       : read_number(section, "beta_seconds_per_byte");
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
  return {static_cast<int>(read_number(section, "count")),
          read_number(section, "bytes_per_second")};
}

SoftwareModel read_software(const Section& section) {
  check_keys(section, {"operator_seconds", "gradient_overlap", "attention_passes"});
  return {read_number_or_0(section, "operator_seconds"),
          read_number_or_0(section, "gradient_overlap"),
          read_number_or_0(section, "attention_passes")};
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
  cluster.num_hosts = static_cast<int>(read_number(file, "num_hosts"));
  cluster.devices_per_host = static_cast<int>(read_number(file, "devices_per_host"));
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
  describe("attention_flops_per_second", device.attention_flops_per_second);
  describe("attention_grad_flops_per_second", device.attention_grad_flops_per_second);
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
  return json_text(json, 2) + "\n";
}

}  // namespace alpa
