# Every library of the project is declared by one of these two functions, so
# that flags, include roots and precompiled headers are stated once.
#
#   diffc_runtime_library(NAME SOURCES a.cpp ... [LINK target ...])
#       A library of runtime/: sees nothing of LLVM or MLIR.
#   diffc_mlir_library(NAME SOURCES a.cpp ... [LINK target ...])
#       A library of dialects/, passes/ or compiler/ (DiffcMlir.cmake).
#   diffc_unit_test(NAME SOURCES a.cpp ... [LINK target ...] [MLIR] [SANITIZED]
#                   [SHARDS n])
#       One GoogleTest binary, one ctest entry, or n that share its tests. Tests of what reads untrusted
#       files and of the runtime are SANITIZED: `./test` runs them under
#       AddressSanitizer too (the target of that name builds them).

set(DIFFC_WARNINGS -Wall -Wextra -Wno-unused-parameter)
if(DIFFC_SANITIZE)
  add_compile_options(-fsanitize=${DIFFC_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${DIFFC_SANITIZE})
endif()

add_custom_target(sanitized)

# One precompiled header for all of runtime/ (the standard library and fmt).
add_library(diffc_runtime_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(diffc_runtime_pch PRIVATE
  <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <optional> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

function(diffc_runtime_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_compile_options(${name} PRIVATE ${DIFFC_WARNINGS})
  target_precompile_headers(${name} REUSE_FROM diffc_runtime_pch)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

function(diffc_unit_test name)
  cmake_parse_arguments(ARG "MLIR;SANITIZED" "SHARDS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_MLIR)
    # The header was made with -fPIC, executables get -fPIE: not interchangeable.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM diffc_mlir_pch)
    target_compile_options(${name} PRIVATE ${DIFFC_MLIR_OPTIONS})
    target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  endif()
  target_compile_definitions(${name} PRIVATE DIFFC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(ARG_SHARDS)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${name}_${shard} COMMAND ${name})
      set_tests_properties(${name}_${shard} PROPERTIES ENVIRONMENT
        "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_SANITIZED)
    set_tests_properties(${name} PROPERTIES LABELS sanitized)
    add_dependencies(sanitized ${name})
  endif()
endfunction()
