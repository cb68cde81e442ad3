target_sources(xdpgpu_gpu PRIVATE vulkan/absent.cpp)
