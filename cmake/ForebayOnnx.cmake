# The ONNX C++ library built by tools/setup, and the protobuf it uses.
#
#   Forebay::OnnxHeaders  what compiling against ONNX needs; for everyone
#   Forebay::Onnx         headers and the whole archive; for ONE module only
#   FOREBAY_ONNX_PROTO    onnx-ml.proto, for protoc --encode=onnx.ModelProto
#
# protobuf keeps one table of all messages per process and aborts when a second
# copy of onnx.proto is added. So only the shared library links Forebay::Onnx.
# Whoever links that library takes ONNX's symbols from it and the headers from
# Forebay::OnnxHeaders; that is why the archive goes in whole.
#
# ONNX reports errors as exceptions. Sources that include more than onnx_pb.h
# need them enabled, and cannot share a precompiled header with those that don't.

set(FOREBAY_DEPS "${PROJECT_SOURCE_DIR}/build/deps" CACHE PATH "Prefix made by tools/setup")

# tools/setup writes the stamp last, when the prefix is complete.
set(_prefix "${FOREBAY_DEPS}/onnx")
if(NOT EXISTS "${_prefix}/.stamp")
  message(FATAL_ERROR "No ONNX C++ library in FOREBAY_DEPS=${FOREBAY_DEPS}: run tools/setup first")
endif()

find_package(Protobuf 3.21 MODULE)
if(NOT Protobuf_FOUND)
  message(FATAL_ERROR "No protobuf 3.21: run tools/setup first")
endif()

add_library(Forebay::OnnxHeaders INTERFACE IMPORTED)
target_include_directories(Forebay::OnnxHeaders SYSTEM INTERFACE "${_prefix}/include")
target_compile_definitions(Forebay::OnnxHeaders INTERFACE ONNX_NAMESPACE=onnx ONNX_ML=1)
target_link_libraries(Forebay::OnnxHeaders INTERFACE protobuf::libprotobuf)

add_library(Forebay::OnnxArchive STATIC IMPORTED)
set_target_properties(Forebay::OnnxArchive PROPERTIES IMPORTED_LOCATION "${_prefix}/lib/libonnx.a")

add_library(Forebay::Onnx INTERFACE IMPORTED)
target_link_libraries(Forebay::Onnx INTERFACE
  "$<LINK_LIBRARY:WHOLE_ARCHIVE,Forebay::OnnxArchive>" Forebay::OnnxHeaders)
set(FOREBAY_ONNX_PROTO "${_prefix}/include/onnx/onnx-ml.proto")
unset(_prefix)
