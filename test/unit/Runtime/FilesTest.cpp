//===- FilesTest.cpp - Formats, schedules, feeds, drawn weights --------===//

#include "Feeds.h"
#include "Files.h"
#include "Folder.h"
#include "Npy.h"
#include "Safetensors.h"
#include "Schedule.h"
#include "Weights.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <csignal>
#include <random>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;
using forebay::testing::Folder;

namespace {

template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

Schedule schedule(const std::string &text) {
  Schedule result;
  std::string error, hint;
  EXPECT_TRUE(Schedule::parse(text, result, error, hint)) << error;
  return result;
}

TEST(Schedule, ClosedForms) {
  EXPECT_EQ(schedule("constant").factor(1), 1.0);
  EXPECT_EQ(schedule("constant").factor(1000000), 1.0);
  Schedule warm = schedule("constant:warmup=4");
  const double wanted[] = {0.25, 0.5, 0.75, 1, 1, 1};
  for (int t = 1; t <= 6; ++t)
    EXPECT_EQ(warm.factor(t), wanted[t - 1]);

  Schedule linear = schedule("linear:warmup=2,total=12,min_ratio=0.2");
  EXPECT_EQ(linear.factor(1), 0.5);
  EXPECT_EQ(linear.factor(2), 1.0);
  EXPECT_DOUBLE_EQ(linear.factor(7), 0.6);
  EXPECT_DOUBLE_EQ(linear.factor(12), 0.2);
  EXPECT_DOUBLE_EQ(linear.factor(100), 0.2);

  Schedule cosine = schedule("cosine:warmup=5,total=40,min_ratio=0.1");
  EXPECT_EQ(cosine.factor(5), 1.0);
  EXPECT_DOUBLE_EQ(cosine.factor(40), 0.1);
  EXPECT_DOUBLE_EQ(cosine.factor(41), 0.1);
  for (int t = 6; t < 40; ++t) {
    double x = (t - 5) / 35.0;
    EXPECT_DOUBLE_EQ(cosine.factor(t), 0.1 + 0.9 * (1 + std::cos(M_PI * x)) / 2);
    EXPECT_LT(cosine.factor(t), cosine.factor(t - 1));
  }
  // Without warm-up the first step is already behind the top.
  EXPECT_DOUBLE_EQ(schedule("linear:total=4").factor(1), 0.75);
  EXPECT_DOUBLE_EQ(schedule("linear:total=4").factor(4), 0.0);
  // total = warmup: at the end at once.
  EXPECT_EQ(schedule("linear:warmup=3,total=3,min_ratio=0.5").factor(3), 1.0);
  EXPECT_EQ(schedule("linear:warmup=3,total=3,min_ratio=0.5").factor(4), 0.5);
  EXPECT_EQ(schedule("cosine:warmup=0,total=0").factor(1), 0.0);
}

TEST(Schedule, Malformed) {
  auto error = [](const std::string &text) {
    Schedule result;
    std::string why, hint;
    return Schedule::parse(text, result, why, hint) ? "fine" : why;
  };
  EXPECT_EQ(error("poly"), "unknown schedule 'poly'");
  EXPECT_EQ(error("cosine:"), "nothing after ':'");
  EXPECT_EQ(error("cosine:warmup=1,"), "nothing after ','");
  EXPECT_EQ(error("cosine:warm=1"), "unknown key 'warm'; known: warmup, total, min_ratio");
  EXPECT_EQ(error("cosine:warmup=1,warmup=2"), "'warmup' is given twice");
  EXPECT_EQ(error("cosine:warmup=-1"), "'-1' is no value for warmup (a whole number of steps)");
  EXPECT_EQ(error("cosine:warmup=1.5"), "'1.5' is no value for warmup (a whole number of steps)");
  EXPECT_EQ(error("cosine:warmup"), "'' is no value for warmup (a whole number of steps)");
  EXPECT_EQ(error("cosine:min_ratio=2"), "'2' is no value for min_ratio (0 to 1)");
  EXPECT_EQ(error("cosine:min_ratio=nan"), "'nan' is no value for min_ratio (0 to 1)");
  EXPECT_EQ(error("linear:warmup=5,total=4"), "total is smaller than warmup");
  EXPECT_EQ(error("linear:warmup=5,total=6,min_ratio=1e-3"), "fine");
}

//===----------------------------------------------------------------------===//
// npy
//===----------------------------------------------------------------------===//

std::string npy(const std::string &dict, const std::string &data, char major = 1) {
  std::string header = dict + "\n";
  std::string result("\x93NUMPY", 6);
  result += major;
  result += '\0';
  for (unsigned i = 0; i < (major == 1 ? 2u : 4u); ++i)
    result += char(header.size() >> (8 * i) & 0xff);
  return result + header + data;
}

std::string npyError(const std::string &file) {
  NpyArray array;
  std::string error;
  return parseNpy(file, array, error) ? "fine" : error;
}

TEST(Npy, Reads) {
  std::vector<int64_t> values = {1, 2, 3, 4, 5, 6};
  for (char version : {1, 2, 3}) {
    std::string file = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }", bytesOf(values), version);
    NpyArray array;
    std::string error;
    ASSERT_TRUE(parseNpy(file, array, error)) << error;
    EXPECT_EQ(array.type, DType::I64);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(std::memcmp(array.data, values.data(), 48), 0);
  }
  EXPECT_EQ(npyError(npy("{\"shape\": (4,), \"descr\": \"|b1\", \"fortran_order\": True}", "abcd")), "fine") << "one axis has no order";
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd")), "fine");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7)}", "")), "fine");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, )}", "abcd")), "fine");
}

TEST(Npy, RoundTrip) {
  for (DType type : {DType::F32, DType::F64, DType::F16, DType::I64, DType::I32, DType::I16, DType::I8, DType::U8, DType::Bool, DType::BF16}) {
    std::string header = npyHeader(type, {3, 5});
    EXPECT_EQ(header.size(), 192u);
    NpyArray array;
    std::string error;
    std::string file = header + std::string(15 * byteSize(type), 'x');
    ASSERT_TRUE(parseNpy(file, array, error)) << error;
    EXPECT_EQ(array.type, type);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{3, 5}));
  }
}

TEST(Npy, Malformed) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  EXPECT_EQ(npyError(""), "is not a .npy file");
  EXPECT_EQ(npyError("PK\3\4 something else"), "is not a .npy file");
  EXPECT_EQ(npyError(npy(good, "abcd")), "is cut off: its shape needs 8 bytes, 4 are there");
  EXPECT_EQ(npyError(npy(good, "abcdefghi")), "has 1 byte after its data");
  EXPECT_EQ(npyError(npy(good, "abcdefgh", 9)), "has version 9 of the .npy format; known are 1 to 3");
  EXPECT_EQ(npyError(npy(good, "").substr(0, 30)), "ends inside its header");
  EXPECT_EQ(npyError(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", "abcdefgh")).substr(0, 30), "has elements of type '>f4'; kn");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", "abcdefgh")).substr(0, 27), "is stored in Fortran order;");
  for (const char *dict : {"", "{", "{}", "{'descr': '<f4', 'shape': (2,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
                           "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
                           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"})
    EXPECT_EQ(npyError(npy(dict, "abcdefgh")), "has a header that is not a .npy header") << dict;
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}", "")),
            "has a shape that is too large");
}

TEST(Npy, EveryCutAndEveryFlippedByteIsHandled) {
  std::string file = npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2)}", std::string(16, 'x'));
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(npyError(file.substr(0, length)), "fine") << length;
  std::mt19937 random(1);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string other = file;
    other[i] = char(random());
    npyError(other); // must not crash; some still are valid
  }
}

//===----------------------------------------------------------------------===//
// safetensors
//===----------------------------------------------------------------------===//

std::string safetensors(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<char *>(&length), 8) + header + data;
}

std::string safetensorsError(const std::string &file) {
  TensorFile content;
  std::string error;
  return parseSafetensors(file, content, error) ? "fine" : error;
}

TEST(Safetensors, Reads) {
  std::string file = safetensors(R"({"__metadata__": {"k": "v"}, "b": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]}, )"
                                 R"("a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}, "z": {"dtype": "U8", "shape": [0], "data_offsets": [16, 16]}}  )",
                                 std::string(16, 'x'));
  TensorFile content;
  std::string error;
  ASSERT_TRUE(parseSafetensors(file, content, error)) << error;
  EXPECT_EQ(content.metadata["k"], "v");
  ASSERT_EQ(content.tensors.size(), 3u);
  EXPECT_EQ(content.tensors["a"].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(content.tensors["b"].type, DType::I64);
  EXPECT_EQ(content.tensors["b"].data - content.tensors["a"].data, 8);
}

TEST(Safetensors, RoundTripIsWholeOrNothing) {
  Folder folder;
  std::string path = folder.path + "/w.safetensors", error;
  std::vector<float> values = {1, -2, NAN, 4};
  std::vector<TensorToWrite> tensors = {
      {"a \"quoted\" \\ name/\xc3\xa4", DType::F32, {2, 2}, 16, [&](const auto &sink) { return sink(values.data(), 8) && sink(values.data() + 2, 8); }},
      {"empty", DType::F32, {0, 3}, 0, [](const auto &) { return true; }}};
  ASSERT_TRUE(writeSafetensors(path, tensors, {{"x", "1"}}, error)) << error;
  MappedFile file;
  TensorFile content;
  ASSERT_TRUE(file.open(path, error) && parseSafetensors(file.view(), content, error)) << error;
  EXPECT_EQ(std::memcmp(content.tensors[tensors[0].name].data, values.data(), 16), 0);
  EXPECT_EQ(content.tensors["empty"].shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(content.tensors[tensors[0].name].data) % 8, 0u);

  // A disk that is full in the middle leaves the old file and nothing else.
  std::vector<char> large(1 << 20, 'y');
  tensors[0] = {"large", DType::U8, {1 << 20}, 1 << 20, [&](const auto &sink) { return sink(large.data(), large.size()); }};
  rlimit before, small = {100000, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(writeSafetensors(path, tensors, {}, error));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, "File too large");
  MappedFile again;
  ASSERT_TRUE(again.open(path, error) && parseSafetensors(again.view(), content, error)) << error;
  EXPECT_EQ(content.tensors.count("empty"), 1u);
  EXPECT_EQ(std::system(("test $(ls " + folder.path + " | wc -l) = 1").c_str()), 0) << "a temporary file was left";

  EXPECT_FALSE(writeSafetensors("/dev/full", tensors, {}, error));
  EXPECT_EQ(error, "No space left on device");
  struct stat info;
  ASSERT_EQ(stat("/dev/full", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode)) << "a device was replaced";
  EXPECT_FALSE(writeSafetensors(folder.path, tensors, {}, error));
  EXPECT_EQ(error, "is a folder");
  EXPECT_FALSE(writeSafetensors(folder.path + "/none/w", tensors, {}, error));
  EXPECT_EQ(error, "No such file or directory");
}

TEST(Safetensors, Malformed) {
  EXPECT_EQ(safetensorsError("abc"), "is too short for a safetensors file");
  EXPECT_EQ(safetensorsError(std::string(8, '\xff') + "{}"), "is not a safetensors file");
  EXPECT_EQ(safetensorsError(safetensors("{}", "").substr(0, 9)), "ends inside its header");
  EXPECT_EQ(safetensorsError(safetensors("{", "")), "has a header that is not JSON");
  EXPECT_EQ(safetensorsError(safetensors("[]", "")), "has a header that is not JSON");
  EXPECT_EQ(safetensorsError(safetensors(R"({"__metadata__": 3})", "")), "has metadata that is not an object");
  EXPECT_EQ(safetensorsError(safetensors(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", "x")),
            "holds 'a' twice");
  auto one = [](const std::string &entry, const std::string &data) { return safetensorsError(safetensors("{\"a\": " + entry + "}", data)); };
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})", "x"), "fine");
  for (const char *entry : {"1", "{}", R"({"dtype": 1, "shape": [1], "data_offsets": [0, 1]})", R"({"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]})",
                            R"({"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]})", R"({"dtype": "U8", "shape": [1], "data_offsets": [0]})",
                            R"({"dtype": "U8", "shape": 1, "data_offsets": [0, 1]})", R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 18446744073709551616]})"})
    EXPECT_EQ(one(entry, "x"), "tensor 'a' has no proper dtype, shape and data_offsets") << entry;
  EXPECT_EQ(one(R"({"dtype": "F4", "shape": [1], "data_offsets": [0, 1]})", "x"), "tensor 'a' has elements of type F4, which is not known");
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [2], "data_offsets": [0, 1]})", "x"), "tensor 'a' has 1 bytes, its shape needs 2");
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [1], "data_offsets": [1, 2]})", "x"), "tensor 'a' lies outside the file");
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [1], "data_offsets": [1, 0]})", "x"), "tensor 'a' lies outside the file");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]})", ""), "tensor 'a' has a shape that is too large");
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [1], "data_offsets": [1, 2]})", "xy"), "has bytes that belong to no tensor");
  EXPECT_EQ(one(R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})", "xy"), "has 1 bytes after its tensors");
  EXPECT_EQ(safetensorsError(safetensors(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})", "xyz")),
            "has tensors that overlap");
  std::string deep(100000, '[');
  EXPECT_EQ(safetensorsError(safetensors(deep, "")), "has a header that is not JSON");
}

//===----------------------------------------------------------------------===//
// Feeds
//===----------------------------------------------------------------------===//

Program languageModel() {
  Program program;
  program.spaces = {{"host", 1 << 16, 1 << 16}};
  program.queues = {{"cpu", true}};
  program.accumulate = 2;
  program.sequence = 3;
  uint64_t offset = 0;
  auto input = [&](const char *name, DType type, std::vector<int64_t> shape) {
    Tensor t;
    t.name = name;
    t.role = Role::Input;
    t.type = type;
    t.shape = shape;
    t.space = 0;
    t.offset = offset;
    t.bytes = byteSize(type);
    for (int64_t dim : shape)
      t.bytes *= uint64_t(dim);
    offset += 256;
    program.tensors.push_back(t);
  };
  input("input_ids", DType::I64, {2, 3});
  input("labels", DType::I32, {2, 3});
  input("attention_mask", DType::Bool, {2, 3});
  input("position_ids", DType::I64, {1, 3});
  for (int i : {0, 1}) {
    program.tensors[i].hasRange = true;
    program.tensors[i].lo = 0;
    program.tensors[i].hi = 100;
  }
  program.tensors[1].hasIgnore = true;
  program.tensors[1].ignore = -100;
  return program;
}

template <typename T>
std::vector<T> row(const Feeds &feeds, const Program &program, uint32_t tensor, uint64_t micro) {
  std::vector<T> result(program.tensors[tensor].bytes / sizeof(T));
  feeds.fill(tensor, micro, result.data());
  return result;
}

TEST(Feeds, TokenWindows) {
  Folder folder;
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 16; ++i)
    tokens.push_back(uint16_t(10 + i));
  Program program = languageModel();
  FeedOptions options;
  options.tokens = folder.file("t.bin", bytesOf(tokens));
  options.tokensShift = 1;
  Feeds feeds;
  Problems problems;
  feeds.bind(program, options, problems);
  ASSERT_FALSE(problems.any()) << problems.text();
  // 5 windows of 3 (the last needs one token more for its labels): 2 rows of 2, one step of 2 micro-steps.
  EXPECT_EQ(feeds.stepsAvailable(), 1u);
  EXPECT_EQ(row<int64_t>(feeds, program, 0, 0), (std::vector<int64_t>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(row<int32_t>(feeds, program, 1, 0), (std::vector<int32_t>{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(row<uint8_t>(feeds, program, 2, 0), (std::vector<uint8_t>(6, 1)));
  EXPECT_EQ(row<int64_t>(feeds, program, 3, 7), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(row<int64_t>(feeds, program, 0, 1), (std::vector<int64_t>{16, 17, 18, 19, 20, 21}));
  EXPECT_EQ(row<int64_t>(feeds, program, 0, 2), (std::vector<int64_t>{22, 23, 24, 10, 11, 12})) << "wraps at the fifth window";
  EXPECT_EQ(row<int32_t>(feeds, program, 1, 2), (std::vector<int32_t>{23, 24, 25, 11, 12, 13}));
  EXPECT_TRUE(feeds.notices(0, 1).empty());
  EXPECT_EQ(feeds.notices(0, 2).size(), 1u);
  feeds.check(0, 5, problems);
  EXPECT_FALSE(problems.any()) << problems.text();
}

TEST(Feeds, EveryTokenType) {
  Folder folder;
  Program program = languageModel();
  for (auto [type, file] : {std::pair(std::string("u8"), bytesOf(std::vector<uint8_t>{1, 2, 3, 4, 5, 6})),
                            std::pair(std::string("u16"), bytesOf(std::vector<uint16_t>{1, 2, 3, 4, 5, 6})),
                            std::pair(std::string("i32"), bytesOf(std::vector<int32_t>{1, 2, 3, 4, 5, 6})),
                            std::pair(std::string("i64"), bytesOf(std::vector<int64_t>{1, 2, 3, 4, 5, 6}))}) {
    FeedOptions options;
    options.tokens = folder.file("t.bin", file);
    options.tokensType = type;
    Feeds feeds;
    Problems problems;
    feeds.bind(program, options, problems);
    ASSERT_FALSE(problems.any()) << problems.text();
    EXPECT_EQ(row<int64_t>(feeds, program, 0, 0), (std::vector<int64_t>{1, 2, 3, 4, 5, 6})) << type;
    EXPECT_EQ(row<int32_t>(feeds, program, 1, 0), (std::vector<int32_t>{1, 2, 3, 4, 5, 6})) << "labels are not shifted by default";
  }
}

TEST(Feeds, RandomWindowsDependOnSeedAndPlaceAlone) {
  Folder folder;
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 90; ++i)
    tokens.push_back(uint16_t(i));
  Program program = languageModel();
  FeedOptions options;
  options.tokens = folder.file("t.bin", bytesOf(tokens));
  options.randomBatches = true;
  options.seed = 7;
  Problems problems;
  Feeds one, two, other;
  one.bind(program, options, problems);
  two.bind(program, options, problems);
  options.seed = 8;
  other.bind(program, options, problems);
  ASSERT_FALSE(problems.any()) << problems.text();
  std::set<int64_t> starts;
  unsigned different = 0;
  for (uint64_t micro = 0; micro < 400; ++micro) {
    auto values = row<int64_t>(one, program, 0, micro);
    for (int r : {0, 3}) {
      starts.insert(values[r]);
      EXPECT_EQ(values[r + 1], values[r] + 1);
      EXPECT_EQ(values[r + 2], values[r] + 2);
    }
    auto labels = row<int32_t>(one, program, 1, micro);
    EXPECT_EQ(labels[0], values[0]) << "labels come from the same window";
    different += values != row<int64_t>(other, program, 0, micro);
  }
  for (uint64_t micro = 400; micro-- > 0;)
    EXPECT_EQ(row<int64_t>(one, program, 0, micro), row<int64_t>(two, program, 0, micro));
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 87) << "the last window is drawn, too";
  EXPECT_GT(starts.size(), 80u);
  EXPECT_GT(different, 380u);
}

std::string feedErrors(const Program &program, const FeedOptions &options, uint64_t steps = 1) {
  Feeds feeds;
  Problems problems;
  feeds.bind(program, options, problems);
  if (!problems.any())
    feeds.check(0, steps, problems);
  return problems.text();
}

TEST(Feeds, ArraysAndTheirErrors) {
  Folder folder;
  Program program = languageModel();
  auto array = [&](const char *name, const char *descr, const std::string &shape, const std::string &data) {
    return folder.file(name, npy(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape + "}", data));
  };
  std::vector<int64_t> ids(24, 5);
  std::vector<int32_t> labels(24, -100);
  std::string good = array("ids.npy", "<i8", "(4, 2, 3)", bytesOf(ids)), goodLabels = array("labels.npy", "<i4", "(4, 2, 3)", bytesOf(labels));
  std::string mask = array("mask.npy", "|b1", "(4, 2, 3)", std::string(24, 1));
  std::string positions = array("positions.npy", "<i8", "(4, 1, 3)", bytesOf(std::vector<int64_t>(12, 0)));
  FeedOptions options;
  options.arrays = {{"input_ids", good}, {"labels", goodLabels}, {"attention_mask", mask}, {"position_ids", positions}};
  EXPECT_EQ(feedErrors(program, options, 2), "");
  {
    Feeds feeds;
    Problems problems;
    feeds.bind(program, options, problems);
    EXPECT_EQ(feeds.stepsAvailable(), 2u);
  }
  EXPECT_EQ(feedErrors(program, options, 3), "error: --feed=input_ids=" + good + ": has 4 rows, 3 steps of 2 micro-steps read 6\n"
            "note: give --repeat to start over at its end, or --steps=2\n"
            "error: --feed=labels=" + goodLabels + ": has 4 rows, 3 steps of 2 micro-steps read 6\n"
            "note: give --repeat to start over at its end, or --steps=2\n"
            "error: --feed=attention_mask=" + mask + ": has 4 rows, 3 steps of 2 micro-steps read 6\n"
            "note: give --repeat to start over at its end, or --steps=2\n"
            "error: --feed=position_ids=" + positions + ": has 4 rows, 3 steps of 2 micro-steps read 6\n"
            "note: give --repeat to start over at its end, or --steps=2\n") << "all that are too short";
  options.repeat = true;
  EXPECT_EQ(feedErrors(program, options, 3), "");
  options.repeat = false;

  // Everything at once: unknown, wrong type, wrong shape, twice, not there.
  options.arrays = {{"ids", good}, {"labels", good}, {"attention_mask", positions}, {"input_ids", good}, {"input_ids", good}, {"position_ids", folder.path + "/none.npy"}};
  std::string text = feedErrors(program, options);
  for (const char *part : {"the program has no input 'ids'", "note: its inputs are input_ids, labels, attention_mask, position_ids",
                           "has elements of type i64, the input has i32", "has elements of type i64, the input has bool",
                           "has shape [4, 1, 3], a row must have shape [2, 3]", "note: the leading axis is the micro-step: [micro-steps, 2, 3]",
                           "input 'input_ids' is fed twice\nnote: give one --feed for each input\n", "none.npy: No such file or directory"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;

  options.arrays = {{"input_ids", good}};
  EXPECT_EQ(feedErrors(program, options), "error: inputs labels, attention_mask, position_ids: no data\nnote: give --feed=labels=FILE.npy, or --tokens=FILE for a language model\n");

  // Out of range, only in what the run reads.
  ids[6 * 1 + 4] = 100;
  ids[6 * 1 + 5] = -1;
  ids[6 * 3] = 1000;
  labels[2] = 100;
  options.arrays = {{"input_ids", array("ids2.npy", "<i8", "(4, 2, 3)", bytesOf(ids))}, {"labels", array("labels2.npy", "<i4", "(4, 2, 3)", bytesOf(labels))},
                    {"attention_mask", mask}, {"position_ids", positions}};
  text = feedErrors(program, options, 1);
  EXPECT_NE(text.find("row 1, position [1, 1]: 100 is out of range (and 1 more such values)\nnote: legal are 0 to 99\n"), std::string::npos) << text;
  EXPECT_NE(text.find("row 0, position [0, 2]: 100 is out of range\nnote: legal are 0 to 99 and -100\n"), std::string::npos) << text;
  // The compiler's way to say that no label is ignored.
  for (Tensor &tensor : program.tensors)
    tensor.ignore = tensor.hasIgnore ? INT64_MIN : 0;
  text = feedErrors(program, options, 1);
  EXPECT_NE(text.find("row 0, position [0, 0]: -100 is out of range (and 11 more such values)\nnote: legal are 0 to 99\n"), std::string::npos) << text;
}

TEST(Feeds, NoStepsToRun) {
  Folder folder;
  Program program = languageModel();
  FeedOptions options;
  auto reasons = [&] {
    Feeds feeds;
    Problems problems;
    feeds.bind(program, options, problems);
    EXPECT_FALSE(problems.any()) << problems.text();
    EXPECT_EQ(feeds.stepsAvailable(), 0u);
    feeds.reportNoSteps(problems);
    return problems.text();
  };
  // One row of 2 windows of 3 tokens, 2 micro-steps.
  options.tokens = folder.file("short.bin", std::string(12, 1));
  EXPECT_EQ(reasons(), "error: --tokens=" + options.tokens + ": has 1 row, 1 step of 2 micro-steps reads 2\nnote: give --steps=N: the file starts over at its end\n");
  options.tokens = "";
  program.tensors.clear();
  EXPECT_EQ(reasons(), "error: --steps: the data does not say how many steps to run\nnote: give --steps=N\n");
}

TEST(Feeds, TokenErrors) {
  Folder folder;
  Program program = languageModel();
  FeedOptions options;
  options.tokens = folder.file("odd.bin", "abc");
  EXPECT_NE(feedErrors(program, options).find("has 3 bytes, not a multiple of 2"), std::string::npos);
  options.tokens = folder.file("short.bin", "abcd");
  EXPECT_NE(feedErrors(program, options).find("has 2 tokens, one window needs 3"), std::string::npos);
  options.tokens = folder.file("bad.bin", bytesOf(std::vector<uint16_t>{1, 2, 3, 4, 5, 100, 7, 300, 9, 10, 11, 12}));
  std::string text = feedErrors(program, options);
  EXPECT_NE(text.find("token 5 is 100, out of range for input 'input_ids' (and 1 more such tokens)"), std::string::npos) << text;
  EXPECT_NE(text.find("the file was read as u16"), std::string::npos) << text;
  options.tokens = folder.path + "/none.bin";
  EXPECT_NE(feedErrors(program, options).find("No such file or directory"), std::string::npos);
  options.tokens = folder.file("good.bin", std::string(48, 1));
  options.tokensInput = "ids";
  EXPECT_NE(feedErrors(program, options).find("has no input 'ids'\nnote: name it with --tokens-input=NAME; its inputs are input_ids, labels, attention_mask, position_ids\n"), std::string::npos);
  options.tokensType = "f32";
  EXPECT_EQ(feedErrors(program, options).find("error: --tokens-type: unknown type 'f32'\nnote: known types: u8, u16, i32, i64\n"), 0u);
  options.tokensType = "u16";
  options.tokensInput = "";
  options.tokensLabels = "targets";
  EXPECT_NE(feedErrors(program, options).find("has no input 'targets'"), std::string::npos);
  options.tokensLabels = "";
  program.tensors[1].shape = {2, 4};
  program.tensors[1].bytes = 32;
  EXPECT_NE(feedErrors(program, options).find("input 'labels' has shape [2, 4] of i32, not that of 'input_ids'"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Drawn weights
//===----------------------------------------------------------------------===//

TEST(Initial, RuleByRankAndName) {
  float values[3];
  initialWeights("norm.weight", {3}, 1, values, 3);
  EXPECT_EQ(values[2], 1.0f);
  initialWeights("proj.bias", {3}, 1, values, 3);
  EXPECT_EQ(values[2], 0.0f);
  initialWeights("weight", {}, 1, values, 1);
  EXPECT_EQ(values[0], 1.0f);
}

TEST(Initial, NormalWithTheRightMoments) {
  constexpr size_t n = 1000000;
  std::vector<float> values(n), again(n), other(n);
  initialWeights("a.weight", {1000, 1000}, 42, values.data(), n);
  initialWeights("a.weight", {1000, 1000}, 42, again.data(), n);
  initialWeights("b.weight", {1000, 1000}, 42, other.data(), n);
  EXPECT_EQ(std::memcmp(values.data(), again.data(), n * 4), 0);
  EXPECT_NE(std::memcmp(values.data(), other.data(), n * 4), 0);
  double mean = 0, square = 0, fourth = 0, cross = 0;
  size_t beyond2 = 0;
  for (size_t i = 0; i < n; ++i) {
    double z = values[i] / 0.02;
    mean += z / n;
    square += z * z / n;
    fourth += z * z * z * z / n;
    cross += z * (other[i] / 0.02) / n;
    beyond2 += std::fabs(z) > 2;
  }
  EXPECT_NEAR(mean, 0, 0.005);
  EXPECT_NEAR(square, 1, 0.01);
  EXPECT_NEAR(fourth, 3, 0.05);
  EXPECT_NEAR(cross, 0, 0.005);
  EXPECT_NEAR(double(beyond2) / n, 0.0455, 0.001);
}

TEST(Initial, SameBitsOnEveryMachine) {
  // Written down once (the test above says that they are right); a change would make runs with --init irreproducible.
  float values[4];
  initialWeights("a.weight", {2, 2}, 1, values, 4);
  uint32_t bits[4];
  std::memcpy(bits, values, 16);
  const uint32_t wanted[4] = {0xbd16cad5, 0xbd0fc51f, 0x3c0e83c5, 0x3b2dd7cb};
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(bits[i], wanted[i]) << std::hex << bits[i];
}

} // namespace
