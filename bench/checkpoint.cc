// Saving and restoring the state of an MLP with Adam, against what the same bytes cost in the same
// run: a copy in memory, a write with fsync, a read. With --on-request it answers the words save
// and restore with their seconds, for bench/peers/checkpoint.py.
//   bench_checkpoint --folder DIR [--dim 4096 --layers 8]
#include <alpa/alpa.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "arguments.h"
#include "interleave.h"
#include "mlp.h"

using namespace alpa;

namespace {

struct Sizes : bench::MlpSizes {
  std::string folder = "bench_checkpoint_files";
  int devices = 2, rounds = 5;
};

constexpr std::size_t kPieceBytes = 4 << 20;

/// Bytes of all tensors of a state.
std::size_t bytes_of(const TrainState& state) {
  std::size_t bytes = 0;
  for (const std::string& name : state.names()) bytes += state[name].type().bytes();
  return bytes;
}

/// As `dd bs=4M conv=fsync` does.
void write_plain(const std::string& path, const std::byte* bytes, std::size_t size) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (std::size_t at = 0; at < size; at += kPieceBytes)
    require(::write(file, bytes + at, std::min(kPieceBytes, size - at)) > 0, "{}: full?", path);
  ::fsync(file);
  ::close(file);
}

void read_plain(const std::string& path, std::byte* to, std::size_t size) {
  const int file = ::open(path.c_str(), O_RDONLY);
  for (std::size_t at = 0; at < size; at += kPieceBytes)
    require(::pread(file, to + at, std::min(kPieceBytes, size - at), at) > 0, "{}: cut?", path);
  ::close(file);
}

void measure(const Sizes& sizes) {
  const auto make = [&](const Method& method, int devices) {
    return parallelize(bench::mlp_step(sizes), method, Cluster::local(devices));
  };
  const Executable train = make(ShardParallel{}, sizes.devices), other = make(DataParallel{}, 1);
  TrainState state = train.init(0), elsewhere = other.init(0);
  const BatchData batch = bench::random_batch(sizes);
  train.run(state, batch);
  const std::size_t size = bytes_of(state);
  fmt::print(R"({{"name": "state", "bytes": {}}})"
             "\n",
             size);
  std::filesystem::create_directories(sizes.folder);
  Checkpoints saved(sizes.folder, {.keep = 1});
  const auto from = std::make_unique<std::byte[]>(size), to = std::make_unique<std::byte[]>(size);
  std::memset(from.get(), 1, size);
  const std::string plain = sizes.folder + "/plain";

  std::vector<bench::Variant> copies{
      {"memcpy", [&] { std::memcpy(to.get(), from.get(), size); }},
      {"save, until it returns", [&] { saved.save(state); }},
  };
  for (int round = -1; round < sizes.rounds; ++round) {
    for (bench::Variant& variant : copies) {
      saved.wait();
      const Stopwatch watch;
      variant.run();
      if (round >= 0) variant.seconds.push_back(watch.seconds());
    }
  }
  saved.wait();
  bench::print(copies);

  std::vector<bench::Variant> writes{
      {"write and fsync", [&] { write_plain(plain, from.get(), size); }},
      {"save, until it is durable",
       [&] {
         saved.save(state);
         saved.wait();
       }},
  };
  bench::interleave(writes, sizes.rounds);
  bench::print(writes);

  std::vector<bench::Variant> reads{
      {"read", [&] { read_plain(plain, to.get(), size); }},
      {"restore, same plan", [&] { saved.restore(state, *saved.newest()); }},
      {"restore, another plan", [&] { saved.restore(elsewhere, *saved.newest()); }},
  };
  bench::interleave(reads, sizes.rounds);
  bench::print(reads);

  std::vector<bench::Variant> steps{
      {"step", [&] { train.run(state, batch); }},
      {"step while a checkpoint is written", [&] { train.run(state, batch); }},
  };
  for (int round = -1; round < sizes.rounds; ++round) {
    for (bench::Variant& variant : steps) {
      if (&variant == &steps[1]) saved.save(state);
      const Stopwatch watch;
      variant.run();
      if (round >= 0) variant.seconds.push_back(watch.seconds());
      saved.wait();
    }
  }
  bench::print(steps);
  std::filesystem::remove_all(sizes.folder);
}

/// Reads words from standard input, a line each, and prints the seconds that each took.
void answer(const Sizes& sizes) {
  const Executable train =
      parallelize(bench::mlp_step(sizes), ShardParallel{}, Cluster::local(sizes.devices));
  TrainState state = train.init(0);
  Checkpoints saved(sizes.folder, {.keep = 1});
  for (std::string word; std::cin >> word;) {
    const Stopwatch watch;
    if (word == "save") {
      saved.save(state);
      saved.wait();
    } else {
      require(word == "restore", "{}: give save or restore", word);
      saved.restore(state, *saved.newest());
    }
    fmt::print("{:.6g}\n", watch.seconds());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes{{.dim = 2048, .batch = 512, .layers = 8}};
  std::vector<cli::Flag> flags = bench::size_flags(sizes);
  flags.push_back(cli::text("--folder", &sizes.folder, "Where checkpoints are saved; removed"));
  flags.push_back(cli::whole("--devices", &sizes.devices, "CPU devices", 1, 1024));
  flags.push_back(cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000));
  bool on_request = false;
  flags.push_back(cli::on("--on-request", &on_request, "Answer save and restore with seconds"));
  return bench::run(argc, argv, "Saving and restoring a training state.", flags,
                    [&] { on_request ? answer(sizes) : measure(sizes); });
}
