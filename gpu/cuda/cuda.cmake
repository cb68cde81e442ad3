# The CUDA device: needs nvcc to build, and nothing to start: the runtime is linked statically and loads the
# driver where there is one. nvcc compiles the kernel files by themselves rather than as a language of the
# project: CMake's compiler checks fail for toolkits newer than CMake.
set(XDPGPU_CUDA_ARCHITECTURES
    "75-virtual;90-real"
    CACHE STRING "GPU architectures to build for: <n>-real for machine code, <n>-virtual for PTX")

option(XDPGPU_CUDA_LINEINFO "Source lines in the kernels' code, for profiles: three times the size, and as long to load" OFF)

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

# target_cuda_modules(<target> <file.cu>...): compiles kernel files of this folder into modules that the target has in it
# as bytes, for each of XDPGPU_CUDA_ARCHITECTURES a module a file: gpu/cuda/kernels.cpp loads them. Those behind
# "programs" are compiled once more, for pipelines that run programs (gpu/stages/program/device.h). Machine code of these
# is linked to the interpreter, and there once more as it can be linked to programs that are translated, with the
# interpreter last (gpu/stages/program_units.h); PTX has the interpreter in it. gpu_without_programs, where it is set: there
# are none of these.
function(target_cuda_modules target)
  cmake_parse_arguments(modules "" "" "programs" ${ARGN})
  get_property(nvcc GLOBAL PROPERTY XDPGPU_NVCC)
  list(FILTER nvcc EXCLUDE REGEX "^-gencode")
  if(NOT DEFINED stage_includes)
    get_target_property(stage_includes xdpgpu_gpu_stages INTERFACE_INCLUDE_DIRECTORIES)
  endif()
  list(TRANSFORM stage_includes PREPEND "-I" OUTPUT_VARIABLE includes)
  # As translation_options() has it.
  set(with_programs -DXG_WITH_PROGRAMS=1 -DXG_PROGRAM_LINES=4u -DXG_PROGRAM_NEAR=96u)
  set(modules)
  set(bytes "")
  set(table "")
  # Compiles a file with options.
  macro(compile_module output file)
    set(${output} ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.fatbin)
    add_custom_command(
      OUTPUT ${${output}}
      COMMAND ${nvcc} ${includes} ${ARGN} -gencode=arch=${virtual},code=${code} -MD -MF ${${output}}.d -MT ${${output}} -fatbin
              ${CMAKE_CURRENT_SOURCE_DIR}/${file} -o ${${output}}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file}
      DEPFILE ${${output}}.d
      COMMENT "Compiling ${file} for CUDA (${architecture})"
      COMMAND_EXPAND_LISTS VERBATIM)
  endmacro()
  # One more for the target; no file: an empty one.
  macro(add_module)
    string(APPEND bytes ".balign 64\n${name}_begin:\n")
    if(NOT "${ARGN}" STREQUAL "")
      list(APPEND modules ${ARGN})
      string(APPEND bytes ".incbin \"${ARGN}\"\n")
    endif()
    string(APPEND bytes "${name}_end:\n")
    string(APPEND table ".quad ${name}_begin, ${name}_end\n.long ${number}, ${machine_code}\n")
  endmacro()
  foreach(architecture IN LISTS XDPGPU_CUDA_ARCHITECTURES)
    string(REGEX MATCH "^([0-9]+)([af]?)-(real|virtual)$" ignored ${architecture})
    set(number ${CMAKE_MATCH_1})
    set(form ${CMAKE_MATCH_3})
    # As xg_cuda_module has it.
    set(machine_code 1)
    set(code sm_${number}${CMAKE_MATCH_2})
    if(form STREQUAL virtual)
      set(machine_code 0)
      set(code compute_${number}${CMAKE_MATCH_2})
    elseif(CMAKE_MATCH_2)
      set(machine_code 2)
    endif()
    string(REPLACE sm_ compute_ virtual ${code})
    macro(name_module file kind)
      string(REGEX REPLACE "[^a-z0-9]" _ name ${file}_${architecture}${kind})
    endmacro()
    foreach(file IN LISTS modules_UNPARSED_ARGUMENTS)
      name_module(${file} "")
      compile_module(module ${file})
      add_module(${module})
    endforeach()
    if(machine_code EQUAL 0 OR gpu_without_programs)
      foreach(file IN LISTS modules_programs)
        name_module(${file} _programs)
        set(module)
        if(NOT gpu_without_programs)
          compile_module(module ${file} ${with_programs})
        endif()
        add_module(${module})
      endforeach()
      foreach(file IN LISTS modules_programs ITEMS cuda/interpreter.cu)
        name_module(${file} _linkable)
        add_module()
      endforeach()
      continue()
    endif()
    # Of what is linked each function is compiled by itself, so that none may take more registers than the kernels with
    # the fewest have (kernel.cu).
    set(linkable ${with_programs} -DXG_PROGRAMS_LINKED=1 -rdc=true)
    set(units)
    foreach(file IN ITEMS cuda/interpreter.cu cuda/interpreted.cu)
      name_module(${file} _linkable)
      compile_module(unit ${file} ${linkable} -maxrregcount=80)
      list(APPEND units ${unit})
    endforeach()
    foreach(file IN LISTS modules_programs)
      name_module(${file} _linkable)
      set(registers)
      if(file STREQUAL cuda/kernel.cu)
        set(registers -maxrregcount=80)
      endif()
      compile_module(unit ${file} ${linkable} ${registers})
      name_module(${file} _programs)
      set(module ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.fatbin)
      add_custom_command(
        OUTPUT ${module}
        COMMAND ${nvcc} -gencode=arch=${virtual},code=${code} -dlink -fatbin ${unit} ${units} -o ${module}
        DEPENDS ${unit} ${units}
        COMMENT "Linking ${file} for CUDA (${architecture})"
        COMMAND_EXPAND_LISTS VERBATIM)
      add_module(${module})
    endforeach()
    foreach(file IN LISTS modules_programs ITEMS cuda/interpreter.cu)
      name_module(${file} _linkable)
      add_module(${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.fatbin)
    endforeach()
  endforeach()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_modules.S)
  file(
    CONFIGURE OUTPUT ${list}
    CONTENT
      ".section .rodata\n${bytes}.section .data.rel.ro, \"aw\"\n.balign 8\n.global xg_cuda_modules_begin, xg_cuda_modules_end\nxg_cuda_modules_begin:\n${table}xg_cuda_modules_end:\n.section .note.GNU-stack, \"\", @progbits\n"
    @ONLY)
  set_source_files_properties(${list} PROPERTIES OBJECT_DEPENDS "${modules}")
  target_sources(${target} PRIVATE ${list})
endfunction()

set(cuda_possible OFF)
if(XDPGPU_CUDA)
  find_package(CUDAToolkit QUIET)
  # Whose runtime loads modules.
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND CUDAToolkit_NVCC_EXECUTABLE AND CUDAToolkit_VERSION
                                                                                          VERSION_GREATER_EQUAL 12.8)
    set(cuda_possible ON)
  elseif(NOT XDPGPU_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "XDPGPU_CUDA is ${XDPGPU_CUDA}, but no CUDA toolkit of 12.8 or later was found: install "
                        "one, put its nvcc on PATH or set CUDAToolkit_ROOT, or set XDPGPU_CUDA to AUTO or OFF")
  endif()
endif()

if(cuda_possible)
  message(STATUS "CUDA device: yes (${CUDAToolkit_NVCC_EXECUTABLE}, ${CUDAToolkit_VERSION})")
  set(cuda_flags -std=c++20 -O3 -Xcompiler=-fPIC,-Wall,-Wextra)
  if(XDPGPU_CUDA_LINEINFO)
    list(APPEND cuda_flags -lineinfo)
  endif()
  if(XDPGPU_WERROR)
    list(APPEND cuda_flags -Werror=all-warnings)
  endif()
  # A third of the size; every program that has the devices in it has these.
  list(APPEND cuda_flags --compress-mode=size)
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
  enable_language(ASM)
  # In the order of kModules (kernels.hpp), and of built_in_code.cpp.
  target_cuda_modules(${gpu_library} cuda/kernel.cu cuda/posted.cu cuda/resident.cu cuda/watch.cu programs cuda/kernel.cu cuda/posted.cu
                      cuda/resident.cu)
  target_sources(${gpu_library} PRIVATE cuda/built_in_code.cpp cuda/device.cpp cuda/flows.cpp cuda/graph.cpp cuda/images.cpp cuda/kernels.cpp
                                     cuda/launch.cpp cuda/loaded.cpp cuda/memory.cpp cuda/mirror.cpp cuda/persistent.cpp cuda/queue.cpp cuda/slot_memory.cpp
                                     cuda/stream_wait.cpp cuda/ways.cpp)
  target_link_libraries(${gpu_library} PRIVATE CUDA::cudart_static)
else()
  message(STATUS "CUDA device: no")
  target_sources(${gpu_library} PRIVATE cuda/absent.cpp)
endif()
