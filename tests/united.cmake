# tests/united.cmake: several sources as one translation unit (-DXDPGPU_UNITED=ON). Most of what is compiled is headers.
# A file that changed takes its neighbours along: it is for builds that are made once. Which go together is found out
# anew at each configuration (tests/united).
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Names by which one source hides another one's, and types that its unnamed namespace shares with the unit's.
target_compile_options(xdpgpu_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>
                                                $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)

set(targets_to_unite "")
function(collect_targets directory)
  get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(one IN LISTS below)
    collect_targets(${one})
  endforeach()
  get_property(here DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(base DIRECTORY ${directory} PROPERTY SOURCE_DIR)
  foreach(target IN LISTS here)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY)$")
      continue()
    endif()
    get_target_property(sources ${target} SOURCES)
    set(line ${target})
    foreach(source IN LISTS sources)
      if(source MATCHES "^[^$]+\\.cpp$")
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${base} NORMALIZE)
        cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" made)
        if(NOT made)
          cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
          list(APPEND line ${source})
        endif()
      endif()
    endforeach()
    list(LENGTH line length)
    if(length GREATER 2)
      set(targets_to_unite "${targets_to_unite}${line}\n")
    endif()
  endforeach()
  set(targets_to_unite "${targets_to_unite}" PARENT_SCOPE)
endfunction()
collect_targets(${PROJECT_SOURCE_DIR})
file(WRITE ${CMAKE_BINARY_DIR}/united.txt "${targets_to_unite}")
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/united ${CMAKE_BINARY_DIR}/united.txt ${CMAKE_BINARY_DIR}
  OUTPUT_FILE ${CMAKE_BINARY_DIR}/united.cmake COMMAND_ERROR_IS_FATAL ANY)
include(${CMAKE_BINARY_DIR}/united.cmake)
