# Of gpu/stages/stages.def: stage_tests_sources, the test of each stage, <name>.cpp; of those that have one the part
# of the program `backends`, <name>_test.cpp or <name>_*_test.cpp, in stage_tests_on_devices, and that of netns_test,
# <name>_wire_test.cpp or <name>_*_wire_test.cpp, in the global property stage_tests_on_the_wire; and in the folder stage_tests_generated
#   tests/stages/list.hpp    what each stage's test defines
#   tests/stages/list.cpp    all of them
set(def ${PROJECT_SOURCE_DIR}/gpu/stages/stages.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${def})
file(STRINGS ${def} lines REGEX "^XG_STAGE")
set(stage_tests_sources)
set(stage_tests_on_devices)
set(declarations)
set(calls)
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^XG_STAGE\\(([a-z0-9_]+),.*$" "\\1" name "${line}")
  set(test ${CMAKE_CURRENT_LIST_DIR}/${name}.cpp)
  if(NOT EXISTS ${test})
    message(FATAL_ERROR "${def} has a stage ${name}, and there is no ${test}: write one, as gpu/README.md says")
  endif()
  list(APPEND stage_tests_sources ${test})
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${name}_test.cpp ${CMAKE_CURRENT_LIST_DIR}/${name}_*_test.cpp)
  foreach(part IN LISTS parts)
    if(part MATCHES "_wire_test\\.cpp$")
      set_property(GLOBAL APPEND PROPERTY stage_tests_on_the_wire ${part})
    else()
      list(APPEND stage_tests_on_devices ${part})
    endif()
  endforeach()
  string(APPEND declarations "StageTests ${name}_tests();\n")
  list(APPEND calls "${name}_tests()")
endforeach()
list(JOIN calls ", " calls)
set(head "/* Made by tests/stages/stages.cmake. */\n")

file(CONFIGURE OUTPUT ${stage_tests_generated}/tests/stages/list.hpp @ONLY CONTENT "@head@#pragma once

#include \"tests/stages/stage_tests.hpp\"

namespace xdpgpu::tests {

@declarations@
}  // namespace xdpgpu::tests
")

file(CONFIGURE OUTPUT ${stage_tests_generated}/tests/stages/list.cpp @ONLY CONTENT "@head@#include \"tests/stages/list.hpp\"

namespace xdpgpu::tests {

const std::vector<StageTests>& stage_tests() {
  static const std::vector<StageTests> all{@calls@};
  return all;
}

}  // namespace xdpgpu::tests
")
list(APPEND stage_tests_sources ${stage_tests_generated}/tests/stages/list.cpp)
