// SPDX-License-Identifier: MIT
#include "gpu/cuda/stream_wait.hpp"

#include <cuda.h>

namespace xdpgpu::gpu::cuda {
namespace {

// The operations as of CUDA 11.7, which need no module parameter of the driver's.
constexpr unsigned kVersion = 11070;
using Wait = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

Wait find_wait() noexcept {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, kVersion,
                                                             cudaEnableDefault, &result);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuStreamWaitValue32", &function, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return reinterpret_cast<Wait>(function);
  (void)cudaGetLastError();
  return nullptr;
}

Wait wait_function() noexcept {
  static const Wait function = find_wait();
  return function;
}

}  // namespace

bool has_stream_wait() noexcept { return wait_function() != nullptr; }

cudaError_t wait_for(cudaStream_t stream, const u32* at, u32 number) noexcept {
  const Wait wait = wait_function();
  if (wait == nullptr) return cudaErrorNotSupported;
  switch (wait(stream, reinterpret_cast<CUdeviceptr>(at), number, CU_STREAM_WAIT_VALUE_GEQ)) {
    case CUDA_SUCCESS:
      return cudaSuccess;
    case CUDA_ERROR_NOT_SUPPORTED:
      return cudaErrorNotSupported;
    default:
      return cudaErrorUnknown;
  }
}

}  // namespace xdpgpu::gpu::cuda
