#pragma once
/// What NVRTC's programs see without including anything, and how a host calls their kernels.
/// Included ahead of them; no header of the system is visible.
#include "device_code.h"

extern "C" {
void* memcpy(void* to, const void* from, decltype(sizeof(0)) bytes);
float fabsf(float);
float cosf(float);
float erff(float);
float expf(float);
float exp2f(float);
float floorf(float);
float logf(float);
float powf(float, float);
float sinf(float);
float sqrtf(float);
float tanhf(float);
double fabs(double);
double cos(double);
double erf(double);
double exp(double);
double floor(double);
double log(double);
double pow(double, double);
double rint(double);
double sin(double);
double sqrt(double);
double tanh(double);
}
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline float cos(float x) { return cosf(x); }
inline float erf(float x) { return erff(x); }
inline float exp(float x) { return expf(x); }
inline float floor(float x) { return floorf(x); }
inline float log(float x) { return logf(x); }
inline float pow(float x, float y) { return powf(x, y); }
inline float sin(float x) { return sinf(x); }
inline float sqrt(float x) { return sqrtf(x); }
inline float tanh(float x) { return tanhf(x); }

namespace alpa_emulation {

/// The arguments of one launch.
template <class... Parameters>
struct Values {
  void load(void**) {}
  template <class Kernel, class... Arguments>
  void run(Kernel kernel, const Arguments&... arguments) const {
    kernel(arguments...);
  }
};
template <class First, class... Others>
struct Values<First, Others...> {
  First first;
  Values<Others...> others;

  void load(void** arguments) {
    first = *static_cast<First*>(arguments[0]);
    others.load(arguments + 1);
  }
  template <class Kernel, class... Arguments>
  void run(Kernel kernel, const Arguments&... arguments) const {
    others.run(kernel, arguments..., first);
  }
};

template <class... Parameters>
void* bind(void (*)(Parameters...), void** arguments) {
  check_parameters<Parameters...>();
  auto* const values = new Values<Parameters...>;
  values->load(arguments);
  return values;
}
template <class... Parameters>
void run(void (*kernel)(Parameters...), const void* values) {
  static_cast<const Values<Parameters...>*>(values)->run(kernel);
}
template <class... Parameters>
void unbind(void (*)(Parameters...), void* values) {
  delete static_cast<Values<Parameters...>*>(values);
}

}  // namespace alpa_emulation

/// Stands behind a program, once for every kernel of it.
#define ALPA_EMULATED_KERNEL(kernel)                                                         \
  extern "C" void* kernel##_bind(void** arguments) {                                         \
    return alpa_emulation::bind(&kernel, arguments);                                         \
  }                                                                                          \
  extern "C" void kernel##_run(const void* values) { alpa_emulation::run(&kernel, values); } \
  extern "C" unsigned int kernel##_bound() {                                                 \
    return alpa_emulation::bound_of(reinterpret_cast<const void*>(&kernel));                 \
  }                                                                                          \
  extern "C" void kernel##_unbind(void* values) { alpa_emulation::unbind(&kernel, values); }
