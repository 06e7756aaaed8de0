# Helpers shared by every folder of the compiler.

# All compiler object libraries, in the order in which they were declared; lib/Compiler makes one
# shared library, libForebayCompiler, out of them.
define_property(GLOBAL PROPERTY FOREBAY_COMPILER_LIBS
  BRIEF_DOCS "Object libraries of libForebayCompiler" FULL_DOCS "See lib/Compiler")
define_property(GLOBAL PROPERTY FOREBAY_COMPILER_MLIR_LIBS
  BRIEF_DOCS "MLIR libraries they need" FULL_DOCS "Names for mlir_target_link_libraries")

# forebay_add_library(Name sources... [DEPENDS targets...] [MLIR_LIBS libs...] [EXCEPTIONS])
#
# One library of the compiler. It is compiled with the project's precompiled header (about ten
# times faster than without) unless NO_PCH is given. EXCEPTIONS is for code that calls libraries
# which throw (ONNX); everything else is compiled without.
function(forebay_add_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS;NO_PCH" "" "DEPENDS;MLIR_LIBS" ${ARGN})
  if(ARG_EXCEPTIONS)
    set(LLVM_ENABLE_EH ON)
    set(ARG_NO_PCH ON)
  endif()
  add_mlir_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS} DEPENDS ForebayHeadersIncGen ${ARG_DEPENDS}
    DISABLE_INSTALL EXCLUDE_FROM_LIBMLIR)
  set(object obj.${name})
  if(NOT TARGET ${object})
    set(object ${name})
  endif()
  if(NOT ARG_NO_PCH)
    if(name STREQUAL "ForebayPrecompiled")
      target_precompile_headers(${object} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/Precompiled.h)
    else()
      target_precompile_headers(${object} REUSE_FROM obj.ForebayPrecompiled)
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY FOREBAY_COMPILER_LIBS ${name})
  set_property(GLOBAL APPEND PROPERTY FOREBAY_COMPILER_MLIR_LIBS ${ARG_MLIR_LIBS})
endfunction()

# forebay_add_tool(name sources... [MLIR_LIBS libs...])
#
# A tool that links libForebayCompiler. SUPPORT_PLUGINS lets it load pass plug-ins.
function(forebay_add_tool name)
  cmake_parse_arguments(ARG "" "" "MLIR_LIBS" ${ARGN})
  add_llvm_executable(${name} ${ARG_UNPARSED_ARGUMENTS} DEPENDS ForebayHeadersIncGen SUPPORT_PLUGINS)
  target_link_libraries(${name} PRIVATE ForebayCompiler)
  mlir_target_link_libraries(${name} PRIVATE MLIRIR MLIRPass MLIRSupport ${ARG_MLIR_LIBS})
endfunction()
