//===- ProgramArchive.h - One description of the program's bytes -*- C++ -*-===//
///
/// \file
/// `visit` lists the fields of every structure once, for writing and for reading, so that the two cannot differ.
/// Numbers are little-endian, whatever the machine. Lists have a u32 count in front.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_RUNTIME_CORE_PROGRAMARCHIVE_H
#define FOREBAY_RUNTIME_CORE_PROGRAMARCHIVE_H

#include "forebay/program.h"

#include <cstring>
#include <type_traits>

namespace forebay::archive {

/// Bytes of a number, least significant first.
template <typename T> void putNumber(std::string &out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (unsigned i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(value >> (8 * i)));
}
template <typename T> T getNumber(const char *at) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (unsigned i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(at[i])) << (8 * i);
  return value;
}

template <typename T> struct UnsignedOf { using type = std::make_unsigned_t<T>; };
template <> struct UnsignedOf<double> { using type = uint64_t; };
template <> struct UnsignedOf<bool> { using type = uint8_t; };

class Writer {
public:
  static constexpr bool reading = false;
  std::string bytes;

  template <typename T> void number(T &value) {
    typename UnsignedOf<T>::type bits{};
    std::memcpy(&bits, &value, sizeof bits);
    putNumber(bytes, bits);
  }
  template <typename E> void enumeration(E &value, E) {
    auto raw = static_cast<uint8_t>(value);
    number(raw);
  }
  void text(std::string &value) {
    count(value.size(), 1);
    bytes += value;
  }
  template <typename List> void size(List &list, size_t) { count(list.size(), 1); }

private:
  void count(size_t size, size_t) {
    auto n = static_cast<uint32_t>(size);
    number(n);
  }
};

/// Stops at the first error: later reads do nothing and give zeros.
class Reader {
public:
  static constexpr bool reading = true;
  explicit Reader(std::string_view bytes) : rest(bytes) {}
  std::string error;
  std::string_view rest;

  template <typename T> void number(T &value) {
    using Bits = typename UnsignedOf<T>::type;
    value = T{};
    if (!need(sizeof(Bits)))
      return;
    auto bits = getNumber<Bits>(rest.data());
    if constexpr (std::is_same_v<T, bool>) {
      if (bits > 1)
        return fail("a truth value is neither 0 nor 1");
      value = bits != 0;
    } else {
      std::memcpy(&value, &bits, sizeof bits);
    }
    rest.remove_prefix(sizeof(Bits));
  }
  template <typename E> void enumeration(E &value, E last) {
    uint8_t raw = 0;
    number(raw);
    if (raw > static_cast<uint8_t>(last))
      return fail("unknown enumerator");
    value = static_cast<E>(raw);
  }
  void text(std::string &value) {
    uint32_t n = 0;
    number(n);
    if (!need(n))
      return;
    value.assign(rest.data(), n);
    rest.remove_prefix(n);
  }
  /// `least`: bytes that one element takes at least, so that a wrong count cannot ask for much memory.
  template <typename List> void size(List &list, size_t least) {
    uint32_t n = 0;
    number(n);
    list.clear();
    if (static_cast<uint64_t>(n) * least > rest.size())
      return fail("a list is longer than the program");
    if (error.empty())
      list.resize(n);
  }
  void fail(const char *why) {
    if (error.empty())
      error = why;
    rest = {};
  }

private:
  bool need(size_t n) {
    if (!error.empty())
      return false;
    if (rest.size() >= n)
      return true;
    fail("it ends too early");
    return false;
  }
};

template <typename A> void visit(A &a, std::string &value) { a.text(value); }
template <typename A> void visit(A &a, uint32_t &value) { a.number(value); }
template <typename A> void visit(A &a, int64_t &value) { a.number(value); }
template <typename A> void visit(A &a, double &value) { a.number(value); }

template <typename A, typename T> void visit(A &a, std::vector<T> &list);
template <typename A> void visit(A &a, std::vector<bool> &list) {
  a.size(list, 1);
  for (size_t i = 0; i < list.size(); ++i) {
    bool bit = list[i];
    a.number(bit);
    list[i] = bit;
  }
}
template <typename A> void visit(A &a, std::pair<std::string, int64_t> &pair) {
  a.text(pair.first);
  a.number(pair.second);
}
template <typename A> void visit(A &a, Space &s) {
  a.text(s.name);
  a.number(s.arenaBytes);
  a.number(s.capacity);
}
template <typename A> void visit(A &a, Queue &q) {
  a.text(q.name);
  a.number(q.compute);
}
template <typename A> void visit(A &a, Range &r) {
  a.number(r.space);
  a.number(r.offset);
  a.number(r.bytes);
  a.enumeration(r.access, Access::ReadWrite);
}
template <typename A> void visit(A &a, Tensor &t) {
  a.text(t.name);
  a.enumeration(t.role, Role::Shadow);
  a.enumeration(t.type, DType::Bool);
  visit(a, t.shape);
  a.number(t.space);
  a.number(t.offset);
  a.number(t.bytes);
  a.text(t.file);
  a.number(t.fileOffset);
  a.number(t.trainable);
  a.number(t.noGradient);
  a.number(t.copyOf);
  a.text(t.initial);
  a.number(t.group);
  a.number(t.hasRange);
  a.number(t.hasIgnore);
  a.number(t.lo);
  a.number(t.hi);
  a.number(t.ignore);
}
template <typename A> void visit(A &a, Wait &w) {
  a.number(w.event);
  a.number(w.distance);
}
template <typename A> void visit(A &a, Command &c) {
  a.enumeration(c.kind, CommandKind::Report);
  a.enumeration(c.predicate, Predicate::Restore);
  a.number(c.queue);
  a.number(c.kernel);
  a.number(c.index);
  visit(a, c.operands);
  visit(a, c.params);
  visit(a, c.tiles);
  a.number(c.scratch);
  visit(a, c.waits);
  a.number(c.signal);
  a.text(c.label);
  a.text(c.phase);
  a.enumeration(c.cost.cls, OpClass::Cast);
  a.enumeration(c.cost.type, DType::Bool);
  a.number(c.cost.flops);
  a.number(c.cost.bytes);
  a.number(c.cost.width);
  a.number(c.tensor);
}
template <typename A> void visit(A &a, Kernel &k) {
  a.text(k.name);
  a.number(k.compiled);
}
template <typename A> void visit(A &a, Value &v) {
  a.text(v.label);
  a.enumeration(v.role, Role::Shadow);
  a.number(v.space);
  a.number(v.offset);
  a.number(v.bytes);
  a.number(v.first);
  a.number(v.last);
  a.number(v.persistent);
}
template <typename A> void visit(A &a, HyperDefault &h) {
  a.text(h.name);
  a.number(h.value);
  a.number(h.isBool);
}
template <typename A> void visit(A &a, Group &g) {
  visit(a, g.values);
  visit(a, g.fixed);
  a.number(g.lrScale);
}
template <typename A> void visit(A &a, Program::DataFile &f) {
  a.text(f.name);
  a.number(f.bytes);
  a.number(f.hash);
  a.number(f.hashed);
}
template <typename A, typename T> void visit(A &a, std::vector<T> &list) {
  // Every element of every list takes at least one byte; the elements of most take far more.
  a.size(list, std::is_arithmetic_v<T> ? sizeof(T) : 4);
  for (T &element : list)
    visit(a, element);
}

template <typename A> void visit(A &a, Program &p) {
  a.number(p.abi);
  a.number(p.kernelAbi);
  for (std::string *text : {&p.producer, &p.machine, &p.policy, &p.precision, &p.machineModel, &p.isa, &p.entry, &p.modelPath, &p.modelRelative})
    a.text(*text);
  a.number(p.modelBytes);
  a.number(p.modelHash);
  visit(a, p.dataFiles);
  visit(a, p.spaces);
  visit(a, p.queues);
  visit(a, p.tensors);
  visit(a, p.kernels);
  visit(a, p.values);
  visit(a, p.step);
  visit(a, p.flush);
  a.number(p.events);
  a.number(p.scratchBytes);
  a.number(p.workspaceBytes);
  a.text(p.optimizer);
  a.number(p.scalarResults);
  visit(a, p.hyper);
  visit(a, p.groups);
  a.number(p.accumulate);
  a.number(p.hasClip);
  a.number(p.clipNorm);
  a.number(p.bucketBytes);
  a.text(p.placement);
  a.number(p.boundSeconds);
  a.text(p.binding);
  a.number(p.rejectLimit);
  a.number(p.copyPace);
  visit(a, p.dims);
  a.number(p.flopsPerToken);
  a.number(p.tokensPerMicroStep);
  a.number(p.batch);
  a.number(p.sequence);
}

} // namespace forebay::archive

#endif // FOREBAY_RUNTIME_CORE_PROGRAMARCHIVE_H
