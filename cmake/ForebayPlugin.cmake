# forebay_add_pass_plugin(NAME SOURCES... [PASSES TD PREFIX])
#
# A pass plug-in: the shared library NAME.so, for forebay-opt, forebay-compile and mlir-opt. PASSES TD PREFIX generates TD's
# declarations as Passes.h.inc (registration functions are called register<PREFIX>Passes).
function(forebay_add_pass_plugin name)
  cmake_parse_arguments(ARG "" "" "PASSES" ${ARGN})
  add_library(${name} MODULE ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  # As LLVM was built; the one copy of MLIR is the shared library that the tools link, too.
  target_compile_options(${name} PRIVATE -fno-exceptions -funwind-tables $<$<NOT:$<BOOL:${LLVM_ENABLE_RTTI}>>:-fno-rtti>)
  target_link_libraries(${name} PRIVATE Forebay::ForebayCompiler MLIR)
  if(ARG_PASSES)
    list(GET ARG_PASSES 0 td)
    list(GET ARG_PASSES 1 prefix)
    get_filename_component(td ${td} ABSOLUTE)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/Passes.h.inc)
    add_custom_command(OUTPUT ${out} COMMAND ${FOREBAY_MLIR_TBLGEN} -gen-pass-decls -name ${prefix} -I ${MLIR_INCLUDE_DIRS} ${td} -o ${out}
      DEPENDS ${td} VERBATIM)
    target_sources(${name} PRIVATE ${out})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  endif()
endfunction()
find_program(FOREBAY_MLIR_TBLGEN NAMES mlir-tblgen mlir-tblgen-22 HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED)
