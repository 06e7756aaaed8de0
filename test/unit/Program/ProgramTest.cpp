//===- ProgramTest.cpp - The program as bytes and in step.so --------------===//

#include "forebay/program.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <set>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace forebay;

/// A program in which no field has its default, so that a forgotten or swapped field shows.
static Program makeProgram() {
  Program p;
  p.kernelAbi = 7;
  p.producer = "producer";
  p.machine = "machine";
  p.policy = "policy";
  p.precision = "fp32";
  p.isa = "x86-64-v3";
  p.entry = "train";
  p.modelPath = "/a/model.onnx";
  p.modelRelative = "../model.onnx";
  p.modelBytes = 11;
  p.modelHash = ~0ull;
  p.dataFiles = {{"model.data", 12, 13, true}};
  p.spaces = {{"hbm", 14, 15}, {"host", 16, 17}};
  p.queues = {{"gpu", true}, {"h2d", false}};
  Tensor t{"w", Role::WeightCopy, DType::Bool, {2, 0, -3}, 1, 18, 19, "file", 20, true, true, 21, std::string("\0\1\2", 3), 22, true, true, -23, 24, -25};
  p.tensors = {t, t};
  p.tensors[1].name = "";
  p.kernels = {{"gemm", false}, {"update", true}};
  p.values = {{"value", Role::Workspace, 1, 26, 27, 28, 29, true}};
  Command c;
  c.kind = CommandKind::Report;
  c.predicate = Predicate::Apply;
  c.queue = 1;
  c.kernel = 30;
  c.index = 31;
  c.operands = {{1, 32, 33, Access::ReadWrite}, {0, 34, 35, Access::Read}};
  c.params = {INT64_MIN, INT64_MAX, -1};
  c.tiles = {36, 37};
  c.scratch = 38;
  c.waits = {{39, 1}, {40, 0}};
  c.signal = 41;
  c.label = "label";
  c.phase = "update";
  c.cost = {OpClass::Matmul, DType::BF16, 0.1, 77, 5};
  c.tensor = 42;
  p.step = {c, Command()};
  p.flush = {Command(), c, c};
  p.events = 43;
  p.scratchBytes = 44;
  p.workspaceBytes = 45;
  p.optimizer = "adamw";
  p.scalarResults = 46;
  p.hyper = {{"lr", 1e-3, false}, {"nesterov", 1, true}};
  p.groups = {{{0.25, -0.0}, {true, false}, 0.5}};
  p.accumulate = 47;
  p.hasClip = true;
  p.clipNorm = 1.0 / 3;
  p.bucketBytes = 48;
  p.dims = {{"batch", 49}};
  p.flopsPerToken = 1e18;
  p.tokensPerMicroStep = 50;
  p.batch = 51;
  p.sequence = 52;
  return p;
}

TEST(Program, RoundTrip) {
  std::string bytes = serialize(makeProgram()), error;
  Program read;
  ASSERT_TRUE(deserialize(bytes, read, error)) << error;
  EXPECT_EQ(serialize(read), bytes);
  // A few fields of each kind by hand: equal bytes alone would not notice a field that neither side visits.
  EXPECT_EQ(read.step[0].params, (std::vector<int64_t>{INT64_MIN, INT64_MAX, -1}));
  EXPECT_EQ(read.step[0].operands[0].access, Access::ReadWrite);
  EXPECT_EQ(read.step[0].waits[0].distance, 1u);
  EXPECT_EQ(read.step[0].tensor, 42);
  EXPECT_EQ(read.step[0].cost.flops, 0.1);
  EXPECT_EQ(read.step[0].cost.cls, OpClass::Matmul);
  EXPECT_EQ(read.step[0].cost.type, DType::BF16);
  EXPECT_EQ(read.step[0].cost.bytes, 77u);
  EXPECT_EQ(read.step[0].cost.width, 5u);
  EXPECT_EQ(read.tensors[0].ignore, -25);
  EXPECT_EQ(read.tensors[0].shape, (std::vector<int64_t>{2, 0, -3}));
  EXPECT_TRUE(read.tensors[0].noGradient);
  EXPECT_EQ(read.groups[0].fixed, (std::vector<bool>{true, false}));
  EXPECT_TRUE(std::signbit(read.groups[0].values[1]));
  EXPECT_EQ(read.dims[0].second, 49);
  EXPECT_EQ(read.sequence, 52);
  EXPECT_EQ(read.clipNorm, 1.0 / 3);
}

/// Every field counts: changing any one of them changes the bytes.
TEST(Program, EveryFieldIsWritten) {
  std::string bytes = serialize(makeProgram());
  auto changed = [&](auto change) {
    Program p = makeProgram();
    change(p);
    return serialize(p) != bytes;
  };
  EXPECT_TRUE(changed([](Program &p) { p.precision += "x"; }));
  EXPECT_TRUE(changed([](Program &p) { p.modelRelative += "x"; }));
  EXPECT_TRUE(changed([](Program &p) { p.dataFiles[0].hashed = false; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.spaces[1].capacity; }));
  EXPECT_TRUE(changed([](Program &p) { p.queues[1].compute = true; }));
  EXPECT_TRUE(changed([](Program &p) { p.tensors[0].hasIgnore = false; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.tensors[0].fileOffset; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.tensors[0].copyOf; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.tensors[0].group; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.values[0].last; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.step[0].index; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.step[0].scratch; }));
  EXPECT_TRUE(changed([](Program &p) { p.step[0].phase += "x"; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.scalarResults; }));
  EXPECT_TRUE(changed([](Program &p) { p.hyper[1].isBool = false; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.workspaceBytes; }));
  EXPECT_TRUE(changed([](Program &p) { ++p.batch; }));
}

TEST(Program, LivesForSums) {
  Program p;
  p.values = {{"w", Role::Parameter, 0, 0, 64, 0, 9, true},
              {"a", Role::Activation, 0, 64, 100, 0, 3, false},
              {"b", Role::Activation, 0, 64, 100, 3, 5, false},  // in place over a
              {"c", Role::Gradient, 0, 64, 100, 5, 5, false},    // over b, and nobody reads it
              {"d", Role::Activation, 1, 64, 100, 1, 3, false},  // of another memory
              {"e", Role::Activation, 0, 256, 32, 2, 3, false},
              {"f", Role::Activation, 0, 256, 100, 3, 4, false}}; // of another size: both are there at command 3
  auto lives = livesForSums(p);
  std::vector<uint32_t> last;
  for (const Value &v : lives)
    last.push_back(v.last);
  EXPECT_EQ(last, (std::vector<uint32_t>{9, 2, 4, 5, 3, 3, 4}));
}

TEST(Program, EveryCutIsRefused) {
  std::string bytes = serialize(makeProgram()), error;
  for (size_t n = 0; n < bytes.size(); ++n) {
    // A copy of exactly n bytes, so that a sanitizer sees every read behind its end.
    std::vector<char> cut(bytes.begin(), bytes.begin() + n);
    Program p;
    error.clear();
    EXPECT_FALSE(deserialize({cut.data(), n}, p, error)) << n;
    EXPECT_FALSE(error.empty());
  }
}

TEST(Program, EveryFlippedBitIsRefused) {
  std::string bytes = serialize(makeProgram()), error;
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= 1 << i % 8;
    Program p;
    EXPECT_FALSE(deserialize(bytes, p, error)) << i;
    bytes[i / 8] ^= 1 << i % 8;
  }
}

TEST(Program, DamageIsNamed) {
  std::string bytes = serialize(makeProgram());
  std::string content = bytes.substr(20, bytes.size() - 28);
  // A whole program around `changed`: header and checksum fit.
  auto reason = [&](const std::string &changed) {
    std::string whole = bytes.substr(0, 12);
    uint64_t length = changed.size();
    whole.append(reinterpret_cast<char *>(&length), 8);
    whole += changed;
    uint64_t hash = XXH3_64bits(whole.data(), whole.size());
    whole.append(reinterpret_cast<char *>(&hash), 8);
    Program p;
    std::string error;
    return deserialize(whole, p, error) ? "fine" : error;
  };
  EXPECT_EQ(reason(content), "fine");
  EXPECT_EQ(reason(content + "xyz"), "the program is damaged: 3 bytes too many");
  EXPECT_EQ(reason(content.substr(0, content.size() - 1)), "the program is damaged: it ends too early");
  std::string other = content;
  other[0] ^= 2;
  EXPECT_EQ(reason(other), "the program is damaged: its two version numbers differ");
  // Any byte made large: whatever is read there is refused in words or taken as another value.
  std::set<std::string> reasons;
  for (size_t i = 8; i < content.size(); ++i) {
    other = content;
    other[i] = '\xff';
    reasons.insert(reason(other));
  }
  for (const char *text : {"a truth value is neither 0 nor 1", "unknown enumerator", "a list is longer than the program"})
    EXPECT_TRUE(reasons.count(std::string("the program is damaged: ") + text)) << text;
  Program p;
  std::string error;
  EXPECT_FALSE(deserialize(bytes.substr(0, 9), p, error));
  EXPECT_EQ(error, "the program is cut: 9 bytes");
  EXPECT_FALSE(deserialize(bytes.substr(0, bytes.size() - 1), p, error));
  EXPECT_EQ(error, "the program is cut: its header says " + std::to_string(content.size()) + " bytes of content, there are " + std::to_string(content.size() - 1));
  bytes[30] ^= 1;
  EXPECT_FALSE(deserialize(bytes, p, error));
  EXPECT_EQ(error, "the program is damaged: its checksum does not match");
}

TEST(Program, OtherVersion) {
  Program p = makeProgram();
  p.abi = 999;
  std::string error;
  EXPECT_FALSE(deserialize(serialize(p), p, error));
  EXPECT_EQ(error, "the program has version 999, this runtime reads version " + std::to_string(kProgramAbi));
  EXPECT_FALSE(deserialize(std::string(100, 'x'), p, error));
  EXPECT_EQ(error, "not a Forebay program");
}

namespace {
struct File {
  std::string path;
  File() {
    char name[] = "/tmp/forebay-program-XXXXXX";
    int fd = mkstemp(name);
    EXPECT_GE(fd, 0);
    close(fd);
    path = name;
  }
  ~File() { std::remove(path.c_str()); }
  void write(const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }
};
} // namespace

/// A shared object made by the system's tools, with the program in its section; empty if there is no compiler.
static std::string makeSharedObject(const std::string &program) {
  File data, source, object;
  data.write(program);
  source.write(".section .forebay.program,\"a\"\n.incbin \"" + data.path + "\"\n.section .note.GNU-stack,\"\",@progbits\n");
  std::string command = "clang-22 -shared -nostdlib -x assembler " + source.path + " -o " + object.path + " 2>&1";
  if (std::system(command.c_str()) != 0)
    return {};
  std::ifstream in(object.path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ProgramFile, SharedObject) {
  std::string program = serialize(makeProgram());
  std::string elf = makeSharedObject(program);
  ASSERT_FALSE(elf.empty()) << "clang-22 made no shared object";
  File file;
  file.write(elf);
  Program read;
  std::string error;
  ASSERT_TRUE(readProgramFile(file.path, read, error)) << error;
  EXPECT_EQ(serialize(read), program);

  for (size_t n = 0; n < elf.size(); n += n < 1024 ? 13 : 97) {
    file.write(elf.substr(0, n));
    EXPECT_FALSE(readProgramFile(file.path, read, error)) << n;
  }
  // Any damage to the headers is an error or leaves the program whole; never a crash.
  for (size_t i = 0; i < elf.size(); ++i) {
    if (i >= 64 && i + 64 * 12 < elf.size())
      continue;
    for (int value : {0, 0x7f, 0xff}) {
      std::string damaged = elf;
      damaged[i] = static_cast<char>(value);
      file.write(damaged);
      if (readProgramFile(file.path, read, error)) {
        EXPECT_EQ(serialize(read), program) << i;
      }
    }
  }
}

TEST(ProgramFile, Errors) {
  Program p;
  std::string error;
  EXPECT_FALSE(readProgramFile("/nonexistent/step.so", p, error));
  EXPECT_EQ(error, "No such file or directory");
  EXPECT_FALSE(readProgramFile("/tmp", p, error));
  EXPECT_EQ(error, "is a folder");
  File file;
  EXPECT_FALSE(readProgramFile(file.path, p, error));
  EXPECT_EQ(error, "not an ELF shared object");

  std::string elf = makeSharedObject(serialize(makeProgram()));
  ASSERT_FALSE(elf.empty());
  auto patched = [&](size_t at, const std::string &bytes) {
    std::string changed = elf;
    changed.replace(at, bytes.size(), bytes);
    file.write(changed);
    error.clear();
    EXPECT_FALSE(readProgramFile(file.path, p, error));
    return error;
  };
  EXPECT_EQ(patched(4, "\x01"), "not a 64-bit little-endian ELF file");
  EXPECT_EQ(patched(40, std::string(8, '\x7f')), "the file is cut: its section table lies outside");
  EXPECT_EQ(patched(62, "\x7f\x7f"), "the file is cut or damaged");
  // The second section (the first is empty) begins behind the end.
  uint64_t table;
  memcpy(&table, elf.data() + 40, 8);
  EXPECT_EQ(patched(table + 64 + 24, std::string(7, '\x7f')), "the file is cut: a section lies outside");
  size_t name = elf.rfind(".forebay.program");
  EXPECT_EQ(patched(name, ".forebay.picture"), "no Forebay program in it (section .forebay.program)");
}
