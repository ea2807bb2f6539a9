# Finds Debian's MLIR/LLVM 19 and declares the functions for MLIR libraries.
#
# 19.1.7's version file refuses find_package(MLIR 19), so ask without a version
# and check LLVM's own major number.
find_package(MLIR CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
if(NOT MLIR_FOUND OR NOT LLVM_VERSION_MAJOR EQUAL 19)
  message(FATAL_ERROR
    "diffc needs MLIR/LLVM 19 (found: '${LLVM_VERSION_MAJOR}' in '${MLIR_DIR}'). "
    "On Debian 12: apt-get install llvm-19-dev libmlir-19-dev mlir-19-tools "
    "llvm-19-tools lld-19 liblld-19-dev, or configure with -DDIFFC_COMPILER=OFF "
    "to build diffrun alone.")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# TableGen.cmake writes its depfiles as Ninja reads them; CMake must not put them
# into a folder again, or every build generates every header again.
cmake_policy(SET CMP0116 OLD)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# maybe-uninitialized: g++ 12 is wrong about the inline storage of SmallVector
# and SmallDenseMap.
# -O1: the compiler's own code is not the hot path; it halves the build.
# Debian's LLVM has RTTI and is built without exceptions in its own code.
set(DIFFC_MLIR_OPTIONS -Wall -Wno-unused-parameter -Wno-comment -Wno-maybe-uninitialized)
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})

add_library(diffc_mlir_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_include_directories(diffc_mlir_pch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_definitions(diffc_mlir_pch PUBLIC ${LLVM_DEFINITIONS_LIST})
target_compile_options(diffc_mlir_pch PRIVATE ${DIFFC_MLIR_OPTIONS})
target_precompile_headers(diffc_mlir_pch PRIVATE
  <map> <memory> <optional> <string> <vector> <functional>
  <mlir/IR/Builders.h> <mlir/IR/BuiltinAttributes.h> <mlir/IR/BuiltinOps.h>
  <mlir/IR/BuiltinTypes.h> <mlir/IR/Dialect.h> <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpDefinition.h> <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h>
  <mlir/IR/IRMapping.h> <mlir/IR/SymbolTable.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h>
  <llvm/ADT/StringExtras.h> <llvm/ADT/TypeSwitch.h>)

function(diffc_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(${name} PUBLIC ${LLVM_DEFINITIONS_LIST})
  target_compile_options(${name} PRIVATE ${DIFFC_MLIR_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM diffc_mlir_pch)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} diffc_tablegen ${ARG_DEPENDS})
endfunction()

# All generated headers hang on this one target.
add_custom_target(diffc_tablegen)

# diffc_tablegen_file(IN.td OUT GENERATOR-FLAGS...): OUT lies in the build tree
# at the same relative place as IN.td in the source tree.
function(diffc_tablegen_file td out)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${out} ${ARGN} EXTRA_INCLUDES ${CMAKE_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  string(MAKE_C_IDENTIFIER "gen_${CMAKE_CURRENT_SOURCE_DIR}_${out}" target)
  add_custom_target(${target} DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${out})
  add_dependencies(diffc_tablegen ${target})
endfunction()
