#pragma once
/// A description of hardware, sufficient for planning without that hardware. Read
/// from and written to JSON.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/dtype.h"
#include "alpa/mesh/device_mesh.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Latency and inverse bandwidth of a link: moving b bytes takes alpha + b·beta seconds.
struct Link {
  double alpha_seconds = 0;          ///< latency
  double beta_seconds_per_byte = 0;  ///< inverse bandwidth
  bool operator==(const Link&) const = default;
};

/// Rates by size, as `profile` measures them. Between sizes they are interpolated in logarithms,
/// beyond them the last one holds.
struct MeasuredRates {
  /// FLOP/s of products [m, k] · [k, n], with m, n and k each one of `sizes`, ascending
  struct Products {
    std::vector<std::int64_t> sizes;       ///< of m, n and k
    std::vector<double> flops_per_second;  ///< m major, then n, then k
    bool operator==(const Products&) const = default;
  };
  std::map<DType, Products> products;  ///< by element type
  /// Elementwise loops: bytes that they read and write, ascending, and bytes per second.
  std::vector<std::int64_t> loop_bytes;
  std::vector<double> loop_bytes_per_second;  ///< for each of `loop_bytes`
  bool operator==(const MeasuredRates&) const = default;
};

/// All_reduces measured inside a host. Between sizes they are interpolated in logarithms. More
/// bytes than measured go at the last rate; of fewer, the time above the latency is in proportion.
struct MeasuredCollectives {
  std::vector<std::int64_t> members;  ///< numbers of devices, ascending
  std::vector<std::int64_t> bytes;    ///< that each device holds, ascending
  std::vector<double> seconds;        ///< of an all_reduce: members major, then bytes
  bool operator==(const MeasuredCollectives&) const = default;
};

/// Adapters between hosts, which the devices of a host share.
struct HostAdapters {
  int count = 1;                ///< of a host; one device reaches the rate of one at most
  double bytes_per_second = 0;  ///< of all of a host; 0: each device has a link of its own
  bool operator==(const HostAdapters&) const = default;
};

/// Constants of the system that runs the steps, beside those of the hardware. 0: without effect.
struct SoftwareModel {
  /// The host's time to launch an operator: a run of a stage takes at least as much for each. What
  /// eager systems spend; 0 for compiled steps.
  double operator_seconds = 0;
  /// The last backward run hides the reductions of gradients: both take
  /// max(backward, gradient_overlap · reductions). 0: one after the other.
  double gradient_overlap = 0;
  /// How often attention writes or reads its scores, batch x heads x queries x keys: 4 to 7 by
  /// single kernels, its gradient 2.5 times as often. 0: a fused kernel.
  double attention_passes = 0;
  bool operator==(const SoftwareModel&) const = default;
};

/// Memory and speed of one device. Rates are achievable ones, measured if possible; in files > 0.
struct DeviceModel {
  std::int64_t memory_bytes = 0;             ///< of one device
  std::map<DType, double> flops_per_second;  ///< matrix products; 0 or absent: infinitely fast
  /// m and n at which a product [m, k] · [k, n] reaches half of the rate above: it takes its FLOPs
  /// at rate · m/(m + c) · n/(n + c). Absent: the rate at every size.
  std::map<DType, double> half_rate_size = {};
  double memory_bytes_per_second = 0;  ///< 0: infinitely fast
  double launch_seconds = 0;           ///< per instruction
  MeasuredRates measured = {};         ///< where it is not empty, instead of the rates above
  /// FLOP/s of fused attention and of its gradient. Absent: products' rates.
  std::map<DType, double> attention_flops_per_second = {}, attention_grad_flops_per_second = {};
  /// The data sheet's, for shares of the peak; prices do not use them. May be empty.
  std::map<DType, double> peak_flops_per_second = {};
  bool operator==(const DeviceModel&) const = default;
};

/// Hosts with equal devices, and the links between them.
struct Cluster {
  int num_hosts = 1;                              ///< with equal devices
  int devices_per_host = 1;                       ///< consecutive ones
  DeviceModel device;                             ///< every device
  Link within_host, between_hosts;                ///< of two devices
  MeasuredCollectives measured_within_host = {};  ///< where not empty, instead of `within_host`
  HostAdapters adapters = {};                     ///< of collectives between hosts
  SoftwareModel software = {};                    ///< that runs the steps
  std::string backend = "cpu";                    ///< "cpu" (virtual devices: threads) or "cuda"

  bool operator==(const Cluster&) const = default;
  int num_devices() const { return num_hosts * devices_per_host; }  ///< of all hosts

  /// All CUDA devices of this machine; without any, one CPU device with all cores. In a launch of
  /// several processes: one CPU device for each.
  static Cluster local();
  /// `n` devices, with the rates derived in docs/cost-model.md. In a launch of several processes
  /// (mpirun, srun) they are spread evenly over these, and hosts are those of the launch. CPU
  /// devices share the cores, and the memory that a process may use (`HostMemory::limit_bytes`).
  /// Memory held by other processes is not subtracted, so that the same step always has the
  /// same plan. Each CUDA device is one card; on a machine with one card, all are logical
  /// devices of it. Throws Error if n < 1, if there are several cards but fewer than n, or with
  /// the reason why CUDA is unavailable.
  static Cluster local(int n, const std::string& backend = "cpu");
  /// Reads a cluster file. Throws Error naming the file, the key, what was found and what is
  /// expected: of a number its unit and its range (docs/cost-model.md).
  static Cluster from_file(const std::string& path);
  /// As `from_file`, from text; messages name `origin`.
  static Cluster from_json(const std::string& text, const std::string& origin);
  std::string to_json() const;  ///< a cluster file

  /// Hosts of a kind that is known by name, one of `names()`; "local" is `local()`. The figures and
  /// their sources are those of clusters/NAME.json. Throws Error that lists the names for any
  /// other, and unless hosts >= 1.
  static Cluster named(const std::string& name, int hosts = 1);
  static std::vector<std::string> names();  ///< that `named` knows
  /// `named`, or else the cluster file `name_or_path`, with `hosts` times the hosts it has. Throws
  /// Error that lists the names if it is neither, and as `from_file` and `with_hosts`.
  static Cluster find(const std::string& name_or_path, int hosts = 1);
  /// The same with `times` as many hosts. Hosts without a link between them (`local()`) get 10
  /// Gbit/s Ethernet. Throws Error unless times >= 1, and if there are more than 65536 hosts.
  Cluster with_hosts(int times) const;

  /// A logical mesh of all devices with a shape such as {2, 4} and axes "x", "y", …. An axis whose
  /// groups stay within one host has the link within a host, any other the slower one. Throws Error
  /// unless the product of the shape is num_devices().
  DeviceMesh mesh(const std::vector<int>& shape) const;
  /// A cluster of the first `hosts` hosts with `devices` devices each. Throws
  /// Error if there are fewer.
  Cluster submesh(int hosts, int devices) const;
};

/// The CUDA devices that this process can use.
struct CudaDevices {
  int count = 0;  ///< cards
  /// "2 x NVIDIA H200, CUDA 13.0, driver for 13.1; /opt/lib/libalpa_cuda.so"; without cards, why
  std::string text;
};
/// Loads CUDA at the first call. Throws Error if a card that was found does not answer.
CudaDevices cuda_devices();

/// Every shape of at most two axes with product n, 1-D first: 8 → {8}, {2,4}, {4,2}.
std::vector<std::vector<int>> logical_mesh_shapes(int n);

/// "2x4" → {2, 4}. Throws Error on anything else.
std::vector<int> parse_mesh_shape(const std::string& text);

}  // namespace alpa
#pragma GCC visibility pop
