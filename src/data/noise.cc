// src/data/noise.cc — normal numbers for made data, from counters
#include <span>
#include <utility>

#include "alpa/data/dataset.h"
#include "src/base/philox.h"

namespace alpa {

Array standard_normal(Shape shape, std::uint64_t seed, std::uint64_t stream) {
  Array array(TensorType{f32, std::move(shape)});
  const RandomStream numbers = random_stream(seed, stream, 0, 0);
  const std::span<float> elements = array.mutable_elements_as<float>();
  for (std::size_t i = 0; i < elements.size(); i += 4) {
    const Philox4 words = random_words(numbers, i / 4);
    double u[4], drawn[4];
    for (int k = 0; k < 4; ++k) u[k] = unit_interval(static_cast<double>(words.word[k]));
    normal_pair(u[0], u[1], drawn[0], drawn[1]);
    normal_pair(u[2], u[3], drawn[2], drawn[3]);
    for (std::size_t k = 0; k < 4 && i + k < elements.size(); ++k)
      elements[i + k] = static_cast<float>(drawn[k]);
  }
  return array;
}

}  // namespace alpa
