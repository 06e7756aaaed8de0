//===- Precompiled.cpp - Owner of the precompiled header ------------------===//
//
// Nothing but the header: the other libraries take their precompiled header from this one.
//
//===----------------------------------------------------------------------===//
