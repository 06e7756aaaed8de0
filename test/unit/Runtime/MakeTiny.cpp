//===- MakeTiny.cpp - Files for the tests of forebay-run ------------------===//
//
// usage: make-tiny FOLDER. Writes the serialized programs (resident, offload, K = 2, forward), the file that holds their weights, and
// feeds: good ones, and one for each mistake that a user can make.
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "Files.h"
#include "Npy.h"

#include <cstdio>
#include <fstream>
#include <random>

using namespace forebay;
using namespace forebay::testing;

static std::string folder;

static void put(const std::string &name, const std::string &content) {
  std::ofstream out(folder + "/" + name, std::ios::binary);
  out << content;
  out.close();
  if (!out) {
    std::perror(name.c_str());
    std::exit(1);
  }
}

template <typename T>
static std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 1;
  folder = argv[1];
  std::vector<float> weights = tinyInitial();
  std::string model = "header..header.." + bytesOf(weights);
  put("tiny.onnx", model);

  auto program = [&](const std::string &name, Program p) {
    // The absolute path is one that is not there: tests move the folder.
    p.modelPath = "/nowhere/tiny.onnx";
    p.modelRelative = "tiny.onnx";
    p.modelBytes = model.size();
    p.modelHash = rt::hashBytes(model.data(), model.size());
    put(name + ".program", serialize(p));
  };
  TinyOptions tiny;
  program("resident", tinyProgram(tiny));
  tiny.offload = true;
  program("offload", tinyProgram(tiny));
  tiny.accumulate = 2;
  program("accumulate", tinyProgram(tiny));
  // Others that could be taken for `resident` when a run goes on.
  Program changed = tinyProgram({});
  for (Tensor &tensor : changed.tensors)
    tensor.trainable &= tensor.name != "embed.weight";
  program("frozen", changed);
  changed = tinyProgram({});
  changed.hasClip = true;
  changed.clipNorm = 0.5;
  program("clip", changed);
  program("forward", tinyForwardProgram());
  Program needs = tinyProgram({});
  needs.isa = "x86-64-v99";
  program("isa", needs);
  needs.isa = "";
  needs.kernelAbi = 999;
  program("abi", needs);

  std::mt19937 random(7);
  std::vector<float> x;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 40 * kRows * kWidth; ++i)
    x.push_back(float(int(random() % 200) - 100) / 64.0f);
  for (int64_t i = 0; i < 40 * kRows; ++i)
    ids.push_back(random() % 6 == 0 ? -100 : int64_t(random() % kVocab));
  put("x.npy", rt::npyHeader(DType::F32, {40, kRows, kWidth}) + bytesOf(x));
  put("ids.npy", rt::npyHeader(DType::I64, {40, 2, 2}) + bytesOf(ids));
  put("x-short.npy", rt::npyHeader(DType::F32, {3, kRows, kWidth}) + bytesOf(x).substr(0, 3 * 48));
  put("x-one.npy", rt::npyHeader(DType::F32, {1, kRows, kWidth}) + bytesOf(x).substr(0, 48));
  put("x-f64.npy", rt::npyHeader(DType::F64, {20, kRows, kWidth}) + bytesOf(x));
  put("x-cut.npy", (rt::npyHeader(DType::F32, {40, kRows, kWidth}) + bytesOf(x)).substr(0, 1000));
  put("x-22.npy", rt::npyHeader(DType::F32, {3, 2, 2}) + bytesOf(x).substr(0, 3 * 16));
  ids[9] = 5;
  put("ids-range.npy", rt::npyHeader(DType::I64, {40, 2, 2}) + bytesOf(ids));
  std::vector<uint8_t> tokens;
  for (int i = 0; i < 100; ++i)
    tokens.push_back(uint8_t(random() % kVocab));
  put("tokens.bin", bytesOf(tokens));
  return 0;
}
