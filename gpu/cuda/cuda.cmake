target_sources(xdpgpu_gpu PRIVATE cuda/absent.cpp)
