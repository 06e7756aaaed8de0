//===- Outputs.cpp - Outputs of a forward program, as files ---------------===//

#include "Outputs.h"
#include "Npy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sys/stat.h>

using namespace forebay;
using namespace forebay::rt;

std::string Outputs::pathOf(const std::string &folder, std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return folder + "/" + name + ".npy";
}

bool Outputs::open(const Program &program, const std::string &folder, Problems &problems) {
  unsigned before = problems.errors();
  bool made = mkdir(folder.c_str(), 0777) == 0;
  if (!made && !isFolder(folder)) {
    problems.error("--save-outputs=" + folder, errno == EEXIST ? "is not a folder" : std::strerror(errno), "name a folder that is there, or that can be made");
    return false;
  }
  files.resize(program.tensors.size());
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor &tensor = program.tensors[i];
    if (tensor.role != Role::Output && tensor.role != Role::Loss)
      continue;
    std::string path = pathOf(folder, tensor.name), error;
    auto [it, fresh] = names.emplace(path, tensor.name);
    if (!fresh) {
      problems.error("--save-outputs=" + folder, "outputs '" + it->second + "' and '" + tensor.name + "' would both be " + path,
                     "rename an output in the model");
      continue;
    }
    files[i] = {path, &tensor, std::make_unique<AtomicFile>()};
    std::string header = npyHeader(tensor.type, tensor.shape);
    if (!files[i].file->open(files[i].path, error) || !files[i].file->writeAt(0, header.data(), header.size(), error))
      problems.error(files[i].path, error, "choose another folder");
  }
  return problems.errors() == before;
}

void Outputs::write(uint32_t tensor, uint64_t row, const void *source, uint64_t bytes) {
  if (tensor >= files.size() || !files[tensor].file || !failure.empty())
    return;
  // The header has a fixed length for every shape that a row and one more axis can have here.
  std::string error;
  if (!files[tensor].file->writeAt(192 + row * bytes, source, bytes, error))
    failure = files[tensor].path + ": " + error;
}

bool Outputs::commit(uint64_t rows, std::string &error) {
  if (!failure.empty()) {
    error = failure;
    return false;
  }
  for (File &file : files) {
    if (!file.file)
      continue;
    std::vector<int64_t> shape = file.tensor->shape;
    shape.insert(shape.begin(), int64_t(rows));
    std::string header = npyHeader(file.tensor->type, shape), why;
    if (!file.file->writeAt(0, header.data(), header.size(), why) || !file.file->commit(why)) {
      error = file.path + ": " + why;
      return false;
    }
  }
  return true;
}
