//===- Weights.cpp - Where parameters and buffers come from ---------------===//

#include "Weights.h"
#include "Files.h"
#include "Safetensors.h"
#include "Session.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <dirent.h>
#include <map>
#include <thread>

using namespace forebay;
using namespace forebay::rt;

namespace {

/// Bytes of a tensor somewhere in a mapped file.
struct Origin {
  const char *data = nullptr;
  DType type = DType::F32;
};

std::string baseName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

bool endsWith(const std::string &text, const char *end) {
  size_t n = std::strlen(end);
  return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

std::vector<std::string> tensorFilesIn(const std::string &source) {
  std::vector<std::string> paths;
  if (DIR *folder = opendir(source.c_str())) {
    while (dirent *entry = readdir(folder))
      if (endsWith(entry->d_name, ".safetensors"))
        paths.push_back(source + "/" + entry->d_name);
    closedir(folder);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Where the program says that its model is: absolute, and relative to itself, also when it is reached through a link.
std::vector<std::string> modelCandidates(const Program &program, const std::string &programPath) {
  std::vector<std::string> result = {program.modelPath};
  if (program.modelRelative.empty() || programPath.empty())
    return result;
  for (const std::string &path : {programPath, canonicalPath(programPath)}) {
    std::string model = under(folderOf(path), program.modelRelative);
    if (canonicalPath(model) != canonicalPath(result.back()))
      result.push_back(model);
  }
  return result;
}

class Loading {
public:
  Loading(Session &session, const std::string &programPath, const WeightOptions &options, Problems &problems)
      : session(session), program(session.program()), programPath(programPath), options(options), problems(problems),
        origins(program.tensors.size()) {}

  bool run() {
    unsigned before = problems.errors();
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      Role role = program.tensors[i].role;
      if (role == Role::Buffer || (role == Role::Parameter && !options.skipParameters))
        wanted.push_back(i);
    }
    bool tensorFiles = false;
    if (!options.source.empty() && !openSource(tensorFiles))
      return false;
    // What safetensors files lack (buffers, at most) is in the model.
    bool modelNeeded = !tensorFiles;
    for (size_t i : wanted)
      modelNeeded |= tensorFiles && !origins[i].data && program.tensors[i].bytes != 0 && program.tensors[i].role == Role::Buffer;
    if (problems.errors() == before && modelNeeded && !wanted.empty())
      readModel(tensorFiles);
    if (problems.errors() == before)
      reportMissing(tensorFiles);
    if (options.verify && !modelRead && !options.skipParameters && problems.errors() == before)
      problems.error("--verify", "nothing is read from the model's data files", "leave it out");
    if (problems.errors() != before)
      return false;
    copyAll();
    session.refreshCopies();
    return true;
  }

private:
  std::string where() const { return options.source.empty() ? "weights" : "--weights=" + options.source; }

  //===--------------------------------------------------------------------===//
  // safetensors
  //===--------------------------------------------------------------------===//

  bool openSource(bool &tensorFiles) {
    const std::string &source = options.source;
    if (!exists(source)) {
      problems.error(where(), "no such file or folder", "it takes a .safetensors file, the .onnx model, or a folder that holds either");
      return false;
    }
    std::vector<std::string> paths;
    if (isFolder(source)) {
      paths = tensorFilesIn(source);
      if (paths.empty())
        modelFolder = source;
    } else if (endsWith(source, ".onnx")) {
      modelFile = source;
      modelFolder = folderOf(source);
    } else {
      paths.push_back(source);
    }
    tensorFiles = !paths.empty();
    unsigned before = problems.errors();
    std::map<std::string, TensorView> tensors;
    for (const std::string &path : paths) {
      MappedFile file;
      TensorFile content;
      std::string error;
      if (!file.open(path, error) || !parseSafetensors(file.view(), content, error)) {
        problems.error(where(), (paths.size() > 1 || isFolder(source) ? path + " " : "") + error, "it takes .safetensors files, the .onnx model, or a folder that holds either");
        continue;
      }
      for (auto &[name, view] : content.tensors)
        if (!tensors.emplace(name, view).second)
          problems.error(where(), "tensor '" + name + "' is in more than one file", "name one file, or a folder where each tensor is once");
      files.push_back(std::move(file));
    }
    if (tensorFiles && problems.errors() == before)
      match(tensors);
    return true;
  }

  void match(const std::map<std::string, TensorView> &tensors) {
    // With --init everything would be drawn, and the file be ignored.
    bool any = std::any_of(wanted.begin(), wanted.end(), [&](size_t i) { return tensors.count(program.tensors[i].name) != 0; });
    if (!any && !wanted.empty() && !options.skipParameters) {
      std::vector<std::string> theirs, ours;
      for (const auto &[name, view] : tensors)
        if (theirs.size() < 3)
          theirs.push_back(name);
      for (size_t i = 0; i < wanted.size() && i < 3; ++i)
        ours.push_back(program.tensors[wanted[i]].name);
      problems.error(where(), "holds no tensor of the model, but " + joined(theirs) + (tensors.size() > 3 ? ", ..." : ""),
                     "the model has " + joined(ours) + (wanted.size() > 3 ? ", ..." : ""));
      return;
    }
    for (size_t i : wanted) {
      const Tensor &tensor = program.tensors[i];
      auto it = tensors.find(tensor.name);
      if (it == tensors.end())
        continue;
      const TensorView &view = it->second;
      bool widens = tensor.type == DType::F32 && (view.type == DType::BF16 || view.type == DType::F16);
      if (view.shape != tensor.shape)
        problems.error(where(), "'" + tensor.name + "' has shape " + shapeText(view.shape) + ", the model's is " + shapeText(tensor.shape),
                       "these weights are of another model");
      else if (view.type != tensor.type && !widens)
        problems.error(where(), "'" + tensor.name + "' has elements of type " + name(view.type) + ", the model's are " + name(tensor.type),
                       "f32 parameters take F32, BF16 and F16; others their own type");
      else
        origins[i] = {view.data, view.type};
    }
  }

  //===--------------------------------------------------------------------===//
  // The model and its data files
  //===--------------------------------------------------------------------===//

  /// Finds the .onnx. Its place is recorded twice, so that a folder with step.so and model may move.
  bool findModel() {
    std::string recorded = baseName(program.modelPath);
    if (!modelFile.empty())
      return true;
    if (!modelFolder.empty()) {
      modelFile = modelFolder + "/" + recorded;
      return exists(modelFile);
    }
    std::vector<std::string> candidates = modelCandidates(program, programPath);
    for (const std::string &path : candidates)
      if (!path.empty() && exists(path)) {
        modelFile = path;
        modelFolder = folderOf(path);
        return true;
      }
    tried = joined(candidates);
    return false;
  }

  void readModel(bool buffersOnly) {
    bool fromFiles = false;
    for (size_t i : wanted)
      fromFiles |= !program.tensors[i].file.empty() && !origins[i].data;
    if (!fromFiles)
      return;
    if (!findModel()) {
      if (!options.hasInit || buffersOnly)
        problems.error(where(), "the model is not there: " + (tried.empty() ? modelFile : tried),
                       "give --weights=FILE|DIR with the weights, or --init=SEED to start from drawn ones");
      return;
    }
    MappedFile model;
    std::string error;
    if (!model.open(modelFile, error)) {
      problems.error(modelFile, error, "give --weights=FILE|DIR with the weights");
      return;
    }
    if (model.bytes() != program.modelBytes || hashBytes(model.data(), model.bytes()) != program.modelHash) {
      problems
          .error(modelFile, model.bytes() != program.modelBytes ? "has " + std::to_string(model.bytes()) + " bytes, the model that was compiled has " +
                                                                    std::to_string(program.modelBytes)
                                                              : std::string("is not the model that was compiled: its content differs"),
                 "compile it again, or give --weights=FILE|DIR");
      return;
    }
    modelRead = true;
    std::map<std::string, MappedFile> store;
    store[baseName(program.modelPath)] = std::move(model);
    for (size_t i : wanted) {
      const Tensor &tensor = program.tensors[i];
      if (origins[i].data || tensor.file.empty() || (buffersOnly && tensor.role != Role::Buffer))
        continue;
      if (!store.count(tensor.file))
        openData(tensor.file, store);
      const MappedFile &file = store[tensor.file];
      if (!file.data())
        continue;
      if (tensor.fileOffset > file.bytes() || tensor.bytes > file.bytes() - tensor.fileOffset) {
        problems.error(tensor.file, "is too short: '" + tensor.name + "' ends at byte " + std::to_string(tensor.fileOffset + tensor.bytes) +
                                        " of " + std::to_string(file.bytes()),
                       "restore the file that the model was compiled with, or give --weights=FILE|DIR");
        continue;
      }
      origins[i] = {file.data() + tensor.fileOffset, tensor.type};
    }
    for (auto &[name, file] : store)
      files.push_back(std::move(file));
  }

  void openData(const std::string &name, std::map<std::string, MappedFile> &store) {
    MappedFile &file = store[name];
    std::string path = under(modelFolder, name), error;
    if (!file.open(path, error)) {
      if (!options.hasInit || exists(path))
        problems.error(path, error, "external data of the model; give --weights=FILE|DIR with the weights, or --init=SEED");
      return;
    }
    const char *changedHint = "compile the model again, or give --weights=FILE|DIR";
    for (const Program::DataFile &known : program.dataFiles) {
      if (known.name != name)
        continue;
      if (known.bytes != file.bytes()) {
        problems.error(path, "has " + std::to_string(file.bytes()) + " bytes, it had " + std::to_string(known.bytes) + " when the model was compiled",
                       changedHint);
      } else if (options.verify && !known.hashed) {
        problems.error(path, "cannot be verified: the program holds no hash of it", "leave --verify out");
      } else if (options.verify && hashBytes(file.data(), file.bytes()) != known.hash) {
        problems.error(path, "has changed since the model was compiled", changedHint);
      } else {
        return;
      }
      file = MappedFile();
      return;
    }
  }

  //===--------------------------------------------------------------------===//
  // All of them
  //===--------------------------------------------------------------------===//

  void reportMissing(bool tensorFiles) {
    std::vector<std::string> missing;
    for (size_t i : wanted) {
      const Tensor &tensor = program.tensors[i];
      bool drawn = options.hasInit && tensor.role == Role::Parameter && tensor.type == DType::F32;
      if (!origins[i].data && tensor.bytes != 0 && !drawn)
        missing.push_back(tensor.name + " " + shapeText(tensor.shape));
    }
    if (missing.empty())
      return;
    problems.error(where(), std::to_string(missing.size()) + (missing.size() == 1 ? " tensor has" : " tensors have") + " no data",
                   tensorFiles ? "--init=SEED draws absent parameters" : "give --weights=FILE|DIR with them; --init=SEED draws absent parameters");
    size_t shown = std::min<size_t>(missing.size(), 100);
    for (size_t i = 0; i < shown; ++i)
      problems.note("missing: " + missing[i]);
    if (shown < missing.size())
      problems.note("and " + std::to_string(missing.size() - shown) + " more");
  }

  void copyOne(size_t index) {
    const Tensor &tensor = program.tensors[index];
    const Origin &origin = origins[index];
    if (origin.data && origin.type == tensor.type) {
      session.write(index, origin.data);
      return;
    }
    std::vector<float> values(tensor.bytes / sizeof(float));
    if (!origin.data) {
      initialWeights(tensor.name, tensor.shape, options.initSeed, values.data(), values.size());
    } else {
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t half;
        std::memcpy(&half, origin.data + 2 * i, 2);
        values[i] = origin.type == DType::BF16 ? widenBf16(half) : widenF16(half);
      }
    }
    session.write(index, values.data());
  }

  static float fromBits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  static float widenBf16(uint16_t half) { return fromBits(uint32_t(half) << 16); }
  static float widenF16(uint16_t half) {
    uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    if (exponent == 0x1f)
      return fromBits(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0)
      return fromBits(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }

  void copyAll() {
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i = next++; i < wanted.size(); i = next++)
        copyOne(wanted[i]);
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < session.threads() && i < wanted.size(); ++i)
      helpers.emplace_back(work);
    work();
    for (std::thread &helper : helpers)
      helper.join();
  }

  Session &session;
  const Program &program;
  const std::string &programPath;
  const WeightOptions &options;
  Problems &problems;
  std::vector<Origin> origins;
  std::vector<size_t> wanted;
  std::vector<MappedFile> files;
  std::string modelFile, modelFolder, tried;
  bool modelRead = false;
};

} // namespace

std::vector<std::pair<std::string, std::string>> forebay::rt::weightFiles(const Program &program, const std::string &programPath,
                                                                          const WeightOptions &options) {
  std::vector<std::pair<std::string, std::string>> result;
  std::vector<std::string> models = modelCandidates(program, programPath);
  const std::string &source = options.source;
  if (isFolder(source)) {
    for (const std::string &path : tensorFilesIn(source))
      result.push_back({"the weights that the run reads", path});
    models.push_back(source + "/" + baseName(program.modelPath));
  } else if (endsWith(source, ".onnx")) {
    models.push_back(source);
  } else if (!source.empty()) {
    result.push_back({"the weights that the run reads", source});
  }
  for (const std::string &model : models) {
    result.push_back({"the model", model});
    for (const Program::DataFile &file : program.dataFiles)
      result.push_back({"external data of the model", under(folderOf(model), file.name)});
  }
  return result;
}

bool forebay::rt::loadWeights(Session &session, const std::string &programPath, const WeightOptions &options, Problems &problems) {
  return Loading(session, programPath, options, problems).run();
}
