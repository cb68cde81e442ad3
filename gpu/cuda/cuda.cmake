# The CUDA device: needs nvcc to build, and nothing to start: the runtime is linked statically and loads the
# driver where there is one. nvcc compiles the kernel files by themselves rather than as a language of the
# project: CMake's compiler checks fail for toolkits newer than CMake.
set(XDPGPU_CUDA_ARCHITECTURES
    "75-virtual;90-real"
    CACHE STRING "GPU architectures to build for: <n>-real for machine code, <n>-virtual for PTX")

# target_cuda_sources(<target> <file.cu>...): compiles kernel files of this folder into the target. Only where
# the global property XDPGPU_NVCC is set: this build has CUDA. stage_includes, where it is set: what stages' files are
# looked for in; otherwise as those of xdpgpu_gpu_stages.
function(target_cuda_sources target)
  get_property(nvcc GLOBAL PROPERTY XDPGPU_NVCC)
  if(NOT DEFINED stage_includes)
    get_target_property(stage_includes xdpgpu_gpu_stages INTERFACE_INCLUDE_DIRECTORIES)
  endif()
  list(TRANSFORM stage_includes PREPEND "-I" OUTPUT_VARIABLE includes)
  foreach(file IN LISTS ARGN)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    string(REPLACE / _ name ${file})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${nvcc} ${includes} -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      COMMENT "Compiling ${file} for CUDA"
      COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()

set(cuda_possible OFF)
if(XDPGPU_CUDA)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND CUDAToolkit_NVCC_EXECUTABLE)
    set(cuda_possible ON)
  elseif(NOT XDPGPU_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "XDPGPU_CUDA is ${XDPGPU_CUDA}, but no CUDA toolkit was found: install one, put its nvcc "
                        "on PATH or set CUDAToolkit_ROOT, or set XDPGPU_CUDA to AUTO or OFF")
  endif()
endif()

if(cuda_possible)
  message(STATUS "CUDA device: yes (${CUDAToolkit_NVCC_EXECUTABLE}, ${CUDAToolkit_VERSION})")
  set(cuda_flags -std=c++20 -O3 -lineinfo -Xcompiler=-fPIC,-Wall,-Wextra)
  if(XDPGPU_WERROR)
    list(APPEND cuda_flags -Werror=all-warnings)
  endif()
  # A third of the size; every program that has the devices in it has these.
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND cuda_flags --compress-mode=size)
  endif()
  foreach(architecture IN LISTS XDPGPU_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^([0-9]+[af]?)-(real|virtual)$")
      set(number ${CMAKE_MATCH_1})
      set(code $<IF:$<STREQUAL:${CMAKE_MATCH_2},real>,sm,compute>)
      list(APPEND cuda_flags "-gencode=arch=compute_${number},code=${code}_${number}")
    else()
      message(FATAL_ERROR "XDPGPU_CUDA_ARCHITECTURES has \"${architecture}\": write 90-real or 90-virtual")
    endif()
  endforeach()
  set_property(GLOBAL PROPERTY XDPGPU_NVCC ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} ${cuda_flags})
  target_cuda_sources(${gpu_library} cuda/kernel.cu cuda/posted.cu cuda/resident.cu cuda/watch.cu)
  target_sources(${gpu_library} PRIVATE cuda/device.cpp cuda/flows.cpp cuda/graph.cpp cuda/images.cpp cuda/loaded.cpp cuda/memory.cpp
                                     cuda/mirror.cpp cuda/persistent.cpp cuda/queue.cpp cuda/slot_memory.cpp
                                     cuda/stream_wait.cpp cuda/ways.cpp)
  target_link_libraries(${gpu_library} PRIVATE CUDA::cudart_static)
else()
  message(STATUS "CUDA device: no")
  target_sources(${gpu_library} PRIVATE cuda/absent.cpp)
endif()
