//===- Compiler.cpp - libForebayCompiler ----------------------------------===//
//
// The library is made of the object files of lib/; this file gives it a source of its own.
//
//===----------------------------------------------------------------------===//
