#pragma once
/// Functions of JAX as functions over `Value`s, read from StableHLO text. docs/from-jax.md says how
/// to print the text and has an example.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alpa/train/training_step.h"
#pragma GCC visibility push(default)

namespace alpa {

namespace stablehlo {
struct FlatFunction;
}

/// An argument or a result of an imported function. Masks (i1) are u8 of 0 and 1; ui32 is i32 with
/// the same bits.
struct ImportedTensor {
  std::string name;  ///< "params.layers.0.kernel"; "arg3" or "result3" where the text has no name
  TensorType type;   ///< as the function was lowered
};

/// A pattern that became an operator of alpa: attention, layer_norm, cross_entropy, ….
struct Recognised {
  std::string pattern;  ///< its name
  int times = 0;        ///< how often it was found

  bool operator==(const Recognised&) const = default;
};

/// Which random numbers an imported function draws.
enum class RandomNumbers : std::uint8_t {
  as_written,  ///< those that jax computes from its key, bit by bit
  /// Numbers of `random_uniform` and `dropout`, in place of `jax.random.uniform`, and of what jax
  /// makes of it, such as `bernoulli` and the dropout of flax. They are new in every step, whatever
  /// the key is; numbers that the function draws twice from one key are equal.
  ours,
};

/// How a function is read.
struct ImportOptions {
  RandomNumbers random = RandomNumbers::as_written;  ///< which it draws
};

/// A function of JAX. Copies share it.
class Imported {
 public:
  std::vector<ImportedTensor> arguments, results;  ///< in JAX's order of leaves
  std::vector<Recognised> recognised;              ///< by name

  /// The results for these arguments, as nodes of their graph; rounds of a loop that have products
  /// are layers. Throws Error if number or types differ from `arguments`, or, with line and column,
  /// if the text has an operation that is not supported.
  Values operator()(const Values& arguments) const;

  /// True for a loss: one floating number as result.
  bool is_loss() const;
  /// The function without calls and loops, for the library.
  const stablehlo::FlatFunction& function() const { return *function_; }

 private:
  friend Imported import_stablehlo(const std::string& text, const ImportOptions& options);
  std::shared_ptr<const stablehlo::FlatFunction> function_;
};

/// Reads function @main of StableHLO's generic text (`print_generic_op_form`). Calls are inlined,
/// loops with a fixed number of rounds are unrolled. Throws Error with line and column for
/// malformed text, and for loops whose number of rounds depends on data.
Imported import_stablehlo(const std::string& text, const ImportOptions& options = {});

/// The function in a file, which may be gzip'd. Throws Error as `import_stablehlo`, which names the
/// file, or if it can't be read.
Imported read_stablehlo(const std::string& path, const ImportOptions& options = {});

/// How the arguments of an imported function are used.
struct ImportedStepOptions {
  /// Arguments that are trained: how many of the first ones ("12"), or a pattern of names
  /// ("params.*"). "": those that begin with the same name as the first argument.
  std::string parameters = {};
  /// A step has so many times the rows of the function, which is one micro-batch; its loss is the
  /// mean of theirs.
  int micro_batches = 1;
  /// First content of a parameter whose content is not set otherwise.
  std::function<Initializer(const ImportedTensor& parameter)> initial = {};
  StepOptions step = {};  ///< of a loss: clipping, precision, rematerialisation, …
};

/// A step that trains an imported loss, a function with one floating number as result, by our
/// gradients and optimizer. The other arguments are its batch inputs, named as they are. Dimension
/// 0 is the batch of those that have as many rows as most. Throws Error if the function is no loss,
/// or if nothing says which arguments are parameters.
TrainingStep training_step(const Imported& loss, Optimizer optimizer,
                           ImportedStepOptions options = {});

/// An imported step as it is written: its first results are the new content of its first arguments,
/// as far as their types are equal. Further results are metrics if they are single numbers, else
/// outputs. Throws Error if no argument is returned.
TrainingStep whole_step(const Imported& step, ImportedStepOptions options = {});

}  // namespace alpa
#pragma GCC visibility pop
