// A driver without a card, for cuDNN alone: it has the functions that cuDNN looks up, and takes
// machine code without running it. So cuDNN makes plans for cards that are not there.
namespace {
constexpr int kSuccess = 0, kNoDevice = 100;
int anything[64];
}  // namespace

#define ALPA_WITHOUT_CARD(name) \
  int name() { return kNoDevice; }

extern "C" {
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuLibraryLoadData(void** library) {
  *library = anything;
  return kSuccess;
}
int cuLibraryUnload() { return kSuccess; }
int cuLibraryGetKernel(void** kernel) {
  *kernel = anything;
  return kSuccess;
}
int cuKernelGetFunction(void** function) {  // from cuDNN 9.25 on
  *function = anything;
  return kSuccess;
}
int cuGetErrorName(int, const char** text) {
  *text = "no card";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "no card";
  return kSuccess;
}

ALPA_WITHOUT_CARD(cuInit)
ALPA_WITHOUT_CARD(cuCtxGetCurrent)
ALPA_WITHOUT_CARD(cuCtxGetDevice)
ALPA_WITHOUT_CARD(cuCtxGetLimit)
ALPA_WITHOUT_CARD(cuCtxPopCurrent)
ALPA_WITHOUT_CARD(cuCtxPushCurrent)
ALPA_WITHOUT_CARD(cuDeviceGet)
ALPA_WITHOUT_CARD(cuDeviceGetAttribute)
ALPA_WITHOUT_CARD(cuDeviceGetCount)
ALPA_WITHOUT_CARD(cuDevicePrimaryCtxRelease)
ALPA_WITHOUT_CARD(cuDevicePrimaryCtxReset)
ALPA_WITHOUT_CARD(cuDevicePrimaryCtxRetain)
ALPA_WITHOUT_CARD(cuFuncGetAttribute)
ALPA_WITHOUT_CARD(cuFuncSetAttribute)
ALPA_WITHOUT_CARD(cuKernelGetAttribute)
ALPA_WITHOUT_CARD(cuKernelSetAttribute)
ALPA_WITHOUT_CARD(cuLaunchCooperativeKernel)
ALPA_WITHOUT_CARD(cuLaunchKernel)
ALPA_WITHOUT_CARD(cuLaunchKernelEx)
ALPA_WITHOUT_CARD(cuLibraryLoadFromFile)
ALPA_WITHOUT_CARD(cuLinkAddData)
ALPA_WITHOUT_CARD(cuLinkAddData_v2)
ALPA_WITHOUT_CARD(cuLinkAddFile_v2)
ALPA_WITHOUT_CARD(cuLinkComplete)
ALPA_WITHOUT_CARD(cuLinkCreate)
ALPA_WITHOUT_CARD(cuLinkCreate_v2)
ALPA_WITHOUT_CARD(cuLinkDestroy)
ALPA_WITHOUT_CARD(cuMemcpyDtoH_v2)
ALPA_WITHOUT_CARD(cuModuleGetFunction)
ALPA_WITHOUT_CARD(cuModuleGetGlobal_v2)
ALPA_WITHOUT_CARD(cuModuleLoadData)
ALPA_WITHOUT_CARD(cuModuleLoadDataEx)
ALPA_WITHOUT_CARD(cuModuleLoadFatBinary)
ALPA_WITHOUT_CARD(cuModuleUnload)
ALPA_WITHOUT_CARD(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ALPA_WITHOUT_CARD(cuOccupancyMaxPotentialClusterSize)
ALPA_WITHOUT_CARD(cuStreamGetCtx)
ALPA_WITHOUT_CARD(cuStreamSynchronize)
ALPA_WITHOUT_CARD(cuTensorMapEncodeTiled)
}
