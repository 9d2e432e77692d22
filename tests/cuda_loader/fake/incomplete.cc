// A library that needs a function nobody has.
extern "C" int alpa_a_function_of_nobody();
extern "C" int alpa_cuda_functions() { return alpa_a_function_of_nobody(); }
