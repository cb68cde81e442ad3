# The Vulkan device: needs vulkan.hpp and glslc to build, and nothing but a loader to run.
find_path(XDPGPU_VULKAN_INCLUDE vulkan/vulkan.hpp)
find_program(XDPGPU_GLSLC glslc)
mark_as_advanced(XDPGPU_VULKAN_INCLUDE XDPGPU_GLSLC)

set(vulkan_possible OFF)
if(XDPGPU_VULKAN AND XDPGPU_VULKAN_INCLUDE AND XDPGPU_GLSLC)
  set(vulkan_possible ON)
elseif(XDPGPU_VULKAN AND NOT XDPGPU_VULKAN STREQUAL "AUTO")
  message(FATAL_ERROR "XDPGPU_VULKAN is ${XDPGPU_VULKAN}, but vulkan/vulkan.hpp or glslc was not found: "
                      "install libvulkan-dev and glslc, or set it to AUTO or OFF")
endif()

if(vulkan_possible)
  message(STATUS "Vulkan device: yes (${XDPGPU_GLSLC})")
  set(shader ${CMAKE_CURRENT_SOURCE_DIR}/stages/pipeline.comp)
  list(TRANSFORM stage_includes PREPEND "-I" OUTPUT_VARIABLE shader_includes)
  set(shader_words)
  # name: of the words to be included, as name_spirv.inc. ARGN: what glslc is told beside.
  function(xdpgpu_shader name file)
    set(spirv ${CMAKE_CURRENT_BINARY_DIR}/${name}.spv)
    set(spirv_words ${CMAKE_CURRENT_BINARY_DIR}/vulkan/${name}_spirv.inc)
    add_custom_command(
      OUTPUT ${spirv}
      COMMAND ${XDPGPU_GLSLC} --target-env=vulkan1.2 -Werror ${ARGN} ${shader_includes} -MD -MF ${spirv}.d -MT
              ${spirv} -o ${spirv} ${file}
      DEPENDS ${file}
      DEPFILE ${spirv}.d
      COMMENT "Compiling the stages to SPIR-V (${name})"
      VERBATIM)
    add_custom_command(
      OUTPUT ${spirv_words}
      COMMAND ${CMAKE_COMMAND} -DINPUT=${spirv} -DOUTPUT=${spirv_words} -P
              ${CMAKE_CURRENT_SOURCE_DIR}/vulkan/embed.cmake
      DEPENDS ${spirv} ${CMAKE_CURRENT_SOURCE_DIR}/vulkan/embed.cmake
      VERBATIM)
    set(shader_words ${shader_words} ${spirv_words} PARENT_SCOPE)
  endfunction()
  foreach(kind 0 1 2 3)
    xdpgpu_shader(pipeline_${kind} ${shader} -O -DKIND=${kind})
  endforeach()
  set(context_definitions)
  # What runs programs, where there is the stage. Not with -O: glslc 2023.2 crashes then. Drivers optimize.
  set(program_shader ${CMAKE_CURRENT_SOURCE_DIR}/stages/program/program.comp)
  if("program" IN_LIST stage_names)
    foreach(kind 0 1)
      xdpgpu_shader(program_${kind} ${program_shader} -DKIND=${kind})
    endforeach()
    foreach(name patches events)
      xdpgpu_shader(program_${name} ${CMAKE_CURRENT_SOURCE_DIR}/stages/program/${name}.comp -O)
    endforeach()
    foreach(kind 0 1 2 3)
      xdpgpu_shader(program_pipeline_${kind} ${shader} -O -DKIND=${kind} -DXG_PROGRAMS_HAVE_RUN=1)
    endforeach()
    list(APPEND context_definitions XDPGPU_VULKAN_PROGRAMS=1)
  endif()
  # What follows streams; with -O glslc takes half a minute for it. The second one is software's.
  set(streams_shader ${CMAKE_CURRENT_SOURCE_DIR}/stages/signatures/streams.comp)
  if("signatures" IN_LIST stage_names)
    xdpgpu_shader(streams_0 ${streams_shader})
    xdpgpu_shader(streams_1 ${streams_shader} -DALONE=1)
    list(APPEND context_definitions XDPGPU_VULKAN_STREAMS=1)
  endif()
  if(context_definitions)
    xdpgpu_shader(settle ${CMAKE_CURRENT_SOURCE_DIR}/stages/settle.comp -O)
    set_source_files_properties(vulkan/context.cpp PROPERTIES COMPILE_DEFINITIONS "${context_definitions}")
  endif()
  target_sources(${gpu_library} PRIVATE vulkan/context.cpp vulkan/device.cpp vulkan/memory.cpp vulkan/queue.cpp
                                    ${shader_words})
  target_include_directories(${gpu_library} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/vulkan)
  target_include_directories(${gpu_library} SYSTEM PRIVATE ${XDPGPU_VULKAN_INCLUDE})
  target_link_libraries(${gpu_library} PRIVATE ${CMAKE_DL_LIBS})
else()
  message(STATUS "Vulkan device: no")
  target_sources(${gpu_library} PRIVATE vulkan/absent.cpp)
endif()
