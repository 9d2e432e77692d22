#pragma once
/// Data sets in host memory: reading and making them, and batches of them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alpa/train/batches.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Row i of every array is example i.
struct Dataset {
  Array x;                   ///< features, f32 [n, features]
  Array y;                   ///< targets f32 [n, outputs], or class labels i32 [n]
  std::int64_t classes = 0;  ///< number of classes; 0: regression, `y` holds target values

  std::int64_t size() const { return x.shape().at(0); }      ///< number of examples
  std::int64_t features() const { return x.shape().at(1); }  ///< of an example
};

/// The two parts of a data set.
struct TrainingAndTestSet {
  Dataset training, test;  ///< disjoint examples
};

/// Directory of Debian's package dataset-fashion-mnist.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 images as 784 features in [0, 1], 10 classes.
/// Throws Error naming the missing file and the Debian package, or the file that is damaged.
TrainingAndTestSet load_fashion_mnist(const std::string& directory = kFashionMnistDirectory);

/// An IDX file (LeCun's format), gzip'd or not, of unsigned bytes: u8 of the file's shape. At most
/// 4 GiB. Throws Error naming file and mistake.
Array read_idx(const std::string& path);
/// The same from the content of a file, not gzip'd; `path` for messages.
Array parse_idx(const std::string& content, const std::string& path);

/// Numbers separated by commas, one example per line, optionally a line of column names first.
/// The last column is the target: a class label if all its cells are whole numbers from 0
/// (without '.' or exponent), else a value. At most 4 GiB, gzip'd or not; a byte-order mark is
/// skipped. Throws Error naming file, line and column of the first bad cell. nan and inf are bad:
/// nothing can be learnt from them.
Dataset read_csv(const std::string& path);
/// The same from the content of a file, not gzip'd; `path` for messages.
Dataset parse_csv(std::string_view text, const std::string& path);

/// Standard normal numbers in f32, a function of (seed, stream, index of the element).
Array standard_normal(Shape shape, std::uint64_t seed, std::uint64_t stream = 0);

/// n examples of y = x·W + b + noise/10 with x, W, b and noise standard normal, all functions of
/// `seed`; x and y are [n, dim].
Dataset linear_dataset(std::int64_t n, std::int64_t dim, std::uint64_t seed);

/// Bytes of host memory that this process could allocate now, within its control groups: what made
/// or read data must fit into.
std::int64_t available_host_bytes();

/// Batches of "x" and "y".
Batches batches(const Dataset& data, std::int64_t batch, std::optional<std::uint64_t> seed = {},
                BatchOptions options = {});
}  // namespace alpa
#pragma GCC visibility pop
